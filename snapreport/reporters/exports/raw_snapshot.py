"""Writes a raw snapshot, plain dicts and lists, as JSON (for Mosaic, MemoryViz) or a pickle."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, cast

import orjson

from snapreport.ground.errors import ExportError
from snapreport.ground.safe_text import plain_json
from snapreport.ground.units import format_bytes
from snapreport.model.snapshot import most_exported


def _too_large(name: str, length: int) -> ExportError:
    """Return the error for an export of a source with this name and length in bytes."""
    return ExportError(
        f"{name} has {format_bytes(length)}, and would have over"
        f" {format_bytes(most_exported(length))} in this format, which repeats its texts for each"
        " event; export a pickle instead."
    )


def limited(out: BinaryIO, name: str, length: int) -> BinaryIO:
    """Return a file that passes on what is written, up to the largest export allowed.

    Args:
        out: the file to pass it on to.
        name: of the source, for the message.
        length: bytes of the source, unpacked.
    """
    return cast("BinaryIO", _Limited(out, name, length))


class _Limited(io.RawIOBase):
    def __init__(self, out: BinaryIO, name: str, length: int) -> None:
        self._out, self._name, self._length = out, name, length
        self._left = most_exported(length)

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._left -= len(data)
        if self._left < 0:
            raise _too_large(self._name, self._length)
        return self._out.write(data)


_PROTOCOL = 4
"""What PyTorch wrote until 2026, and the newest that older viewers read."""

_DEEPEST = 50
_AT_ONCE = 1 << 20
"""Characters that are turned into JSON at once."""

_OPTIONS = orjson.OPT_NON_STR_KEYS


def write_pickle(top: Any, out: BinaryIO) -> None:
    """Write a snapshot as a pickle of protocol 4; shared objects stay shared."""
    pickle.Pickler(out, _PROTOCOL).dump(top)


def write_json(top: Any, out: BinaryIO, name: str, length: int) -> None:
    """Write a snapshot as JSON: tuples become arrays, and every frame is written out.

    Args:
        top: the snapshot.
        out: where to write.
        name: of its source, for messages.
        length: bytes of its source, unpacked.

    Raises:
        ExportError: it cannot be written: it would be far too long, or is nested too deeply.
    """
    weights: dict[int, int] = {}
    if _weigh(top, weights, 0) > most_exported(length):
        raise _too_large(name, length)
    within = limited(out, name, length)
    for part in _json(top, weights):
        within.write(part)


def _json(value: Any, weights: dict[int, int]) -> Iterator[bytes]:
    """Yield JSON piece by piece, so that a large trace is never in memory twice."""
    if weights.get(id(value), 0) <= _AT_ONCE:
        yield _dump(value)
    elif isinstance(value, dict):
        for i, (key, item) in enumerate(value.items()):
            yield (b"," if i else b"{") + _dump(str(key)) + b":"
            yield from _json(item, weights)
        yield b"}"
    else:
        yield b"["
        for i, some in enumerate(_parts(value, weights)):
            yield b"," if i else b""
            if len(some) == 1:
                yield from _json(some[0], weights)
            else:
                yield _dump(some)[1:-1]
        yield b"]"


def _parts(values: Sequence[Any], weights: dict[int, int]) -> Iterator[list[Any]]:
    """Cut a list into parts that are small, or one value."""
    part: list[Any] = []
    weight = 0
    for value in values:
        own = weights.get(id(value), 1)
        if part and weight + own > _AT_ONCE:
            yield part
            part, weight = [], 0
        part.append(value)
        weight += own
    yield part


def _dump(value: Any) -> bytes:
    try:
        return plain_json(orjson.dumps(value, option=_OPTIONS))
    except TypeError as error:
        try:
            return plain_json(orjson.dumps(_cleaned(value), option=_OPTIONS))
        except TypeError:
            raise ExportError(f"JSON cannot hold the snapshot: {error}.") from error


def _cleaned(value: Any) -> Any:
    """Return a value whose texts are all valid Unicode: a pickle can hold lone surrogates."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(item) for item in value]
    return value


def _weigh(value: Any, known: dict[int, int], depth: int) -> int:
    """Return the least length of a value's JSON; ``known`` gets that of each list and dict.

    A small pickle may have very many, or refer to itself.
    """
    if isinstance(value, str):
        return len(value) + 2
    if isinstance(value, dict):
        children: Any = value.values()
    elif isinstance(value, (list, tuple)):
        children = value
    else:
        return 1
    weight = known.get(id(value))
    if weight is None:
        if depth > _DEEPEST:
            raise ExportError("JSON cannot hold the snapshot: it is nested too deeply.")
        weight = 1 + sum(_weigh(child, known, depth + 1) for child in children)
        if isinstance(value, dict):
            weight += sum(len(key) + 3 for key in value if isinstance(key, str))
        known[id(value)] = weight
    return weight

"""A raw snapshot, plain dicts and lists, as JSON (Mosaic's, MemoryViz's) or a pickle."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any, BinaryIO

import orjson

from snapreport.errors import ExportError
from snapreport.safe_text import plain_json

PROTOCOL = 4
"""What PyTorch wrote until 2026, and the last that older viewers take."""

_MOST_VALUES = 2_000_000_000
_DEEPEST = 50
_AT_ONCE = 512
_OPTIONS = orjson.OPT_NON_STR_KEYS


def write_pickle(top: Any, out: BinaryIO) -> None:
    """Write a snapshot as a pickle of protocol 4; what is shared in it stays so."""
    pickle.Pickler(out, PROTOCOL).dump(top)


def write_json(top: Any, out: BinaryIO) -> None:
    """Write a snapshot as JSON: tuples become arrays, and every frame is written out.

    Raises:
        ExportError: it cannot be: written out it would have no end, or a number has over 64 bits.
    """
    _weigh(top, {}, 0)
    for part in _json(top, 0):
        out.write(part)


def _json(value: Any, depth: int) -> Iterator[bytes]:
    """Yield JSON piece by piece, so that a large trace is never there twice."""
    if depth < 3 and isinstance(value, dict) and value:
        for i, (key, item) in enumerate(value.items()):
            yield (b"," if i else b"{") + _dump(str(key)) + b":"
            yield from _json(item, depth + 1)
        yield b"}"
    elif (
        depth < 3
        and isinstance(value, (list, tuple))
        and any(isinstance(item, (list, tuple)) for item in value)
    ):
        for i, item in enumerate(value):
            yield b"," if i else b"["
            yield from _json(item, depth + 1)
        yield b"]"
    elif isinstance(value, list) and len(value) > _AT_ONCE:
        for i in range(0, len(value), _AT_ONCE):
            yield (b"," if i else b"[") + _dump(value[i : i + _AT_ONCE])[1:-1]
        yield b"]"
    else:
        yield _dump(value)


def _dump(value: Any) -> bytes:
    try:
        return plain_json(orjson.dumps(value, option=_OPTIONS))
    except TypeError as error:
        try:
            return plain_json(orjson.dumps(_cleaned(value), option=_OPTIONS))
        except TypeError:
            raise ExportError(f"JSON cannot hold what is in the snapshot: {error}.") from error


def _cleaned(value: Any) -> Any:
    """Return a value whose texts are all valid Unicode: a pickle can hold half a character."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(item) for item in value]
    return value


def _weigh(value: Any, known: dict[int, int], depth: int) -> int:
    """Count the values that JSON would have: a small pickle may refer to itself without end."""
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
        if weight > _MOST_VALUES:
            raise ExportError(
                f"JSON of the snapshot would have over {_MOST_VALUES:,} values; export a pickle."
            )
        known[id(value)] = weight
    return weight

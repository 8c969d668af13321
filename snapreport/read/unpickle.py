"""Loads pickles of plain data only: no class, no call, nothing that runs.

A pickle's opcodes are checked against the few that a snapshot needs, before anything is loaded.
"""

from __future__ import annotations

import io
import mmap
import pickle
import re
from typing import Any, NoReturn

from snapreport.ground.errors import NotASnapshotError, UnsafePickleError
from snapreport.ground.later import expression
from snapreport.ground.native.library import scan
from snapreport.read.parsed import (
    ALWAYS_PARSED,
    parse,
    parsed_memory,
    require_memory,
    unpickled_memory,
)

# The unpickler makes a table as long as the highest memo index. A pickler counts indices from 0 and
# writes an opcode for each, so none may exceed the file's length, in these units.
_MEMO_UNIT = 1 << 16
_MOST_MEMO_UNITS = 0x3FF

# Opcodes of long texts, and how many bytes the length of the text takes.
_PREFIXED = {b"X": 4, b"\x8d": 8}  # BINUNICODE BINUNICODE8
_TUPLES = b"t\x85\x86\x87"


def check_opcodes(data: bytes | mmap.mmap) -> None:
    """Read a pickle's opcodes up to STOP without running any.

    What follows STOP is ignored: files cut out of MemoryViz pages have a few zero bytes there.

    Args:
        data: the pickle, uncompressed.

    Raises:
        UnsafePickleError: it has an opcode that no snapshot has, such as a class lookup or a call.
        NotASnapshotError: the pickle is cut off, or of protocol 0 or 1.
    """
    if data[:1] != b"\x80":
        raise NotASnapshotError("is not a pickle of protocol 2 or later.")
    position = scan(data)
    if data[position : position + 1] != b".":  # STOP
        raise _refusal(data, position)


def _cut_off(length: int) -> NotASnapshotError:
    return NotASnapshotError(
        f"is a pickle that is cut off after {length:,} bytes; copy or record it again."
    )


def _refusal(data: bytes | mmap.mmap, position: int) -> NotASnapshotError | UnsafePickleError:
    """Say why the opcode at this position is refused."""
    opcode = data[position : position + 1]
    import pickletools  # only a refused file needs it

    known = {each.code: each for each in pickletools.opcodes}.get(opcode.decode("latin-1"))
    left = len(data) - position
    if opcode == b"r" and left >= 5:
        most = (min(len(data) // _MEMO_UNIT, _MOST_MEMO_UNITS) + 1) * _MEMO_UNIT - 1
        return _not_needed(f"a memo index over {most:,}", position)
    if opcode == b"G" and left >= 9:
        return _not_needed("a float that is neither 0 nor between 2**-63 and 2**64", position)
    if opcode in _PREFIXED or opcode in b"\x8a\x8b":
        width = _PREFIXED.get(opcode, 1 if opcode == b"\x8a" else 4)
        count = int.from_bytes(data[position + 1 : position + 1 + width], "little")
        if left < 1 + width + count:
            return _cut_off(len(data))
        text = opcode in _PREFIXED
        return _not_needed(
            f"a text of {count:,} bytes" if text else "an integer beyond 64 bits", position
        )
    if opcode in _TUPLES:
        return _not_needed("a tuple of anything but two small integers", position)
    if opcode == b"\x80" and left >= 2:
        protocol = data[position + 1]
        return NotASnapshotError(
            f"is a pickle of protocol {protocol}; snapshots have protocol 2 to 5."
        )
    if not opcode or (_is_allowed(opcode) and left < 300):
        return _cut_off(len(data))
    name = known.name if known is not None else f"0x{opcode[0]:02x}"
    wanted = _wanted_name(data, position)
    asks = f"asks for {wanted} and " if wanted else ""
    return UnsafePickleError(
        f"{asks}has the pickle opcode {name} at byte {position:,}, which no snapshot needs and"
        " which could run code; nothing in it was run. Do not load this file with pickle."
    )


def _not_needed(what: str, position: int) -> UnsafePickleError:
    return UnsafePickleError(
        f"has {what} at byte {position:,}, which no snapshot needs; nothing was loaded."
    )


_LONGEST_NAME = 120
# SHORT_BINUNICODE twice, each with or without MEMOIZE, at the end.
_TWO_STRINGS = expression(rb"(?=\x8c(.)([^\x8c\x94]*)\x94?\x8c(.)([^\x8c\x94]*)\x94?\Z)", re.DOTALL)


def _wanted_name(data: bytes | mmap.mmap, position: int) -> str:
    """Name the class or function that the opcode at this position looks up, if that is clear."""
    opcode = data[position : position + 1]
    parts: list[bytes] = []
    if opcode in (b"c", b"i"):  # GLOBAL, INST: two lines
        parts = data[position + 1 : position + 1 + 2 * _LONGEST_NAME].split(b"\n")[:2]
    elif opcode == b"\x93":  # STACK_GLOBAL: usually the two short strings just before
        before = data[max(0, position - 2 * _LONGEST_NAME) : position]
        found = _TWO_STRINGS.finditer(before)
        fits = (m for m in found if len(m[2]) == m[1][0] and len(m[4]) == m[3][0])
        parts = next(([m[2], m[4]] for m in fits), [])
    name = b".".join(parts).decode("utf-8", "replace")
    plain = len(parts) == 2 and len(name) <= _LONGEST_NAME and name.isprintable()
    return name if plain else ""


def _is_allowed(opcode: bytes) -> bool:
    return opcode in b"hjeu}](sN)aKMJGqr" or opcode[0] in b"\x94\x88\x89\x95\x80\x8c"


class _PlainUnpickler(pickle.Unpickler):
    """An unpickler that refuses every class and every persistent object.

    ``check_opcodes`` has already refused them all; this is a second line of defence.
    """

    def find_class(self, module: str, name: str) -> NoReturn:
        raise UnsafePickleError(
            f"asks for {module}.{name}, and a snapshot has no classes; nothing in it was run."
        )

    def persistent_load(self, pid: Any) -> NoReturn:  # noqa: ARG002
        raise UnsafePickleError("asks for a persistent object; nothing in it was run.")


def load_plain_pickle(data: bytes | mmap.mmap) -> Any:
    """Load a pickle of dicts, lists, tuples, strings and numbers.

    Args:
        data: the pickle, uncompressed.

    Raises:
        UnsafePickleError: it holds anything that could run code; nothing in it was run.
        NotASnapshotError: it is damaged.
        NotEnoughMemoryError: it is too large for this machine.
    """
    check_opcodes(data)
    require_memory(unpickled_memory(data))
    return _load(data)


def load_snapshot_pickle(data: bytes | mmap.mmap) -> Any:
    """Load a pickle like ``load_plain_pickle()``, but its device traces as columns where possible.

    Returns:
        the object; if it is a snapshot of the usual form, its ``device_traces`` are
        a list of ``ParsedTrace``.

    Raises:
        UnsafePickleError, NotASnapshotError, NotEnoughMemoryError: as ``load_plain_pickle()``.
    """
    if len(data) > ALWAYS_PARSED:
        require_memory(parsed_memory(data))
    top = parse(data, _load)
    return load_plain_pickle(data) if top is None else top


def _load(data: bytes | mmap.mmap) -> Any:
    stream = io.BytesIO(data) if isinstance(data, bytes) else data
    try:
        return _PlainUnpickler(stream).load()
    except UnsafePickleError:
        raise
    except Exception as error:
        # The C unpickler raises nearly any class on damaged input (KeyError, EOFError, ...).
        reason = str(error) or type(error).__name__
        raise NotASnapshotError(
            f"is a damaged pickle ({reason}); copy or record it again."
        ) from error

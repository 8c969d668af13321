"""Check a pickle's opcodes against the few that a snapshot needs, before anything is loaded."""

from __future__ import annotations

import functools
import mmap
import re

from snapreport.errors import NotASnapshotError, UnsafePickleError
from snapreport.read import compiled

# A memo index may not exceed this: the unpickler makes a table of that length at once.
_MEMO_LIMIT = 2**26


def _counted(opcode: bytes, lengths: range) -> bytes:
    """Give a pattern for an opcode that is followed by a byte n and n bytes."""
    return opcode + b"(?:" + b"|".join(re.escape(bytes([n])) + b".{%d}" % n for n in lengths) + b")"


@functools.cache
def _harmless() -> re.Pattern[bytes]:
    """Give the pattern of what may stand in a pickle; made when it is needed, as it takes 3 ms.

    The alternatives are tried in order: memo references come first, they are 9 of 10 opcodes.
    One match takes up to 60,000 opcodes or groups; only what has a long length ends it.
    """
    return re.compile(
        b"(?:"
        + b"|".join(
            (
                rb"(?:h.){1,200}",  # BINGET
                rb"(?:j....){1,200}",  # LONG_BINGET
                # MEMOIZE APPENDS SETITEMS EMPTY_DICT EMPTY_LIST MARK SETITEM NONE TUPLE TUPLE1-3
                # NEWTRUE NEWFALSE EMPTY_TUPLE APPEND
                rb"[\x94eu}\](sNt\x85\x86\x87\x88\x89)a]+",
                rb"K.",  # BININT1
                rb"M..",  # BININT2
                rb"J....",  # BININT
                rb"G.{8}",  # BINFLOAT
                rb"q.",  # BINPUT
                rb"r..[\x00-\x03]\x00",  # LONG_BINPUT, up to the memo limit
                rb"\x95.{8}",  # FRAME
                rb"\x80[\x02-\x05]",  # PROTO
                _counted(rb"\x8a", range(16)),  # LONG1
                _counted(rb"\x8c", range(256)),  # SHORT_BINUNICODE
            )
        )
        + b"){1,60000}",
        re.DOTALL,
    )


# Length-prefixed opcodes that the pattern leaves to us: how many bytes their length takes.
_PREFIXED = {b"X": 4, b"\x8d": 8, b"\x8b": 4, b"\x8a": 1}  # BINUNICODE BINUNICODE8 LONG4 LONG1
_STOP = b"."
_LONGEST_NAME = 120
# SHORT_BINUNICODE twice, each with or without MEMOIZE, at the end.
_TWO_STRINGS = re.compile(rb"(?=\x8c(.)([^\x8c\x94]*)\x94?\x8c(.)([^\x8c\x94]*)\x94?\Z)", re.DOTALL)


def check_opcodes(data: bytes | mmap.mmap) -> None:
    """Read a pickle's opcodes to its STOP without running one of them.

    What follows STOP is ignored: files cut out of MemoryViz pages have a few zero bytes there.

    Args:
        data: the pickle, uncompressed.

    Raises:
        UnsafePickleError: an opcode that no snapshot has, such as a class lookup or a call.
        NotASnapshotError: the pickle is cut off, or of protocol 0 or 1.
    """
    if data[:1] != b"\x80":
        raise NotASnapshotError("is no pickle of protocol 2 or later.")
    position = compiled.scan(data)
    if position is None:
        position = scan(data)
    opcode = data[position : position + 1]
    if opcode in _PREFIXED:  # whatever its length, it ends beyond the file
        raise _cut_off(len(data))
    if opcode != _STOP:
        raise _refusal(data, position)


def scan(data: bytes | mmap.mmap) -> int:
    """Return where the first opcode stands that is not allowed or not complete, STOP included.

    ``opcodes.c`` does the same in a twentieth of the time.
    """
    harmless = _harmless()
    position, length = 0, len(data)
    while True:
        run = harmless.match(data, position)
        if run is not None:
            position = run.end()
            continue
        width = _PREFIXED.get(data[position : position + 1])
        if width is None:
            return position
        start = position + 1 + width
        end = start + int.from_bytes(data[position + 1 : start], "little")
        if end > length:
            return position
        position = end


def _cut_off(length: int) -> NotASnapshotError:
    return NotASnapshotError(
        f"is a pickle that is cut off after {length:,} bytes; copy or record it again."
    )


def _refusal(data: bytes | mmap.mmap, position: int) -> NotASnapshotError | UnsafePickleError:
    """Say why the opcode at this position is not passed."""
    opcode = data[position : position + 1]
    import pickletools  # only a refused file needs it

    known = {each.code: each for each in pickletools.opcodes}.get(opcode.decode("latin-1"))
    left = len(data) - position
    if opcode == b"r" and left >= 5:
        return UnsafePickleError(
            f"has a memo index over {_MEMO_LIMIT:,} at byte {position:,}, which no snapshot needs; "
            "nothing of it was loaded."
        )
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
        " which could run code; nothing of it was run. Do not load this file with pickle."
    )


def _wanted_name(data: bytes | mmap.mmap, position: int) -> str:
    """Name the class or function that the opcode at this position looks up, where that is plain."""
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
    return (
        opcode in b"hjeu}](sNt)aKMJGqr" or opcode[0] in b"\x94\x85\x86\x87\x88\x89\x95\x80\x8a\x8c"
    )

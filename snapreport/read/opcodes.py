"""Check a pickle's opcodes against the few that a snapshot needs, before anything is loaded."""

from __future__ import annotations

import functools
import mmap
import re

from snapreport.ground.errors import NotASnapshotError, UnsafePickleError
from snapreport.read import compiled
from snapreport.read.limits import MOST_INTEGER, MOST_TEXT

# The unpickler makes a table as long as the highest memo index. A pickler counts them from 0, so
# there is an opcode of the file for each: one may not exceed the file's length, in these units.
_MEMO_UNIT = 1 << 16
_MOST_MEMO_UNITS = 0x3FF


def _counted(opcode: bytes, lengths: range, more: bytes = b"") -> bytes:
    """Give a pattern for an opcode that is followed by a byte n, more bytes and n bytes."""
    each = (re.escape(bytes([n])) + more + b".{%d}" % n for n in lengths)
    return opcode + b"(?:" + b"|".join(each) + b")"


def _memo_units(length: int) -> int:
    """Return what the upper two bytes of a memo index may be in a file of this length."""
    return min(length // _MEMO_UNIT, _MOST_MEMO_UNITS)


@functools.lru_cache(4)
def _harmless(memo_units: int) -> re.Pattern[bytes]:
    """Give the pattern of what may stand in a pickle; made when it is needed, as it takes 6 ms.

    The alternatives are tried in order: memo references come first, they are 9 of 10 opcodes.
    One match takes up to 60,000 opcodes or groups; only what has a long length ends it.

    No two values of many have the same hash in Python, whatever the file: a dict that has them as
    keys would take longer than the file is old. Hashes of texts cannot be foreseen; those of
    numbers can, and repeat every 2**61 - 1, so numbers have 64 bits. A tuple's follows from its
    parts', so it is taken with its parts: those of a snapshot are two small integers, as of pools.
    """
    high, low = divmod(memo_units, 256)
    upper = rb"[\x00-%s]%s" % (re.escape(bytes([low])), re.escape(bytes([high])))
    if high:
        upper += rb"|.[\x00-%s]" % re.escape(bytes([high - 1]))
    put = rb"\x94|q.|r..(?:" + upper + b")"  # MEMOIZE BINPUT LONG_BINPUT
    small = rb"K.|M..|J...."  # BININT1 BININT2 BININT
    scalar = b"|".join(
        (
            small,
            rb"[N\x88\x89)]",  # NONE NEWTRUE NEWFALSE EMPTY_TUPLE
            _counted(rb"\x8a", range(MOST_INTEGER)),  # LONG1
            rb"\x8a%c.{%d}\x00" % (MOST_INTEGER, MOST_INTEGER - 1),  # LONG1 without a sign
            rb"G(?:[\x3c-\x43\xbc-\xc3].{7}|[\x00\x80]\x00{7})",  # BINFLOAT
            _counted(rb"\x8c", range(256)),  # SHORT_BINUNICODE
            _counted(rb"X", range(256), rb"\x00\x00\x00"),  # BINUNICODE
        )
    )
    part = b"(?:" + small + rb")(?:" + put + rb"|\x95.{8}){0,3}"
    return re.compile(
        b"(?:"
        + b"|".join(
            (
                rb"(?:h.){1,200}",  # BINGET
                rb"(?:j....){1,200}",  # LONG_BINGET
                rb"[\x94eu}\]sa]+",  # MEMOIZE APPENDS SETITEMS EMPTY_DICT EMPTY_LIST SETITEM APPEND
                part + rb"(?:\x85|" + part + rb"\x86)",  # TUPLE1 TUPLE2
                scalar,
                rb"\(",  # MARK
                put,
                rb"\x95.{8}",  # FRAME
                rb"\x80[\x02-\x05]",  # PROTO
            )
        )
        + b"){1,60000}",
        re.DOTALL,
    )


# Length-prefixed opcodes that the pattern leaves to us: how many bytes their length takes.
_PREFIXED = {b"X": 4, b"\x8d": 8}  # BINUNICODE BINUNICODE8
_TUPLES = b"t\x85\x86\x87"
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
    if opcode != _STOP:
        raise _refusal(data, position)


def scan(data: bytes | mmap.mmap) -> int:
    """Return where the first opcode stands that is not allowed or not complete, STOP included.

    ``opcodes.c`` does the same in a twentieth of the time.
    """
    position, length = 0, len(data)
    harmless = _harmless(_memo_units(length))
    while True:
        run = harmless.match(data, position)
        if run is not None:
            position = run.end()
            continue
        width = _PREFIXED.get(data[position : position + 1])
        if width is None:
            return position
        start = position + 1 + width
        count = int.from_bytes(data[position + 1 : start], "little")
        if start > length or count > min(MOST_TEXT, length - start):
            return position
        position = start + count


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
        most = (_memo_units(len(data)) + 1) * _MEMO_UNIT - 1
        return _too_much(f"a memo index over {most:,}", position)
    if opcode == b"G" and left >= 9:
        return _too_much("a float that is neither 0 nor of 2**-63 to 2**64", position)
    if opcode in _PREFIXED or opcode in b"\x8a\x8b":
        width = _PREFIXED.get(opcode, 1 if opcode == b"\x8a" else 4)
        count = int.from_bytes(data[position + 1 : position + 1 + width], "little")
        if left < 1 + width + count:
            return _cut_off(len(data))
        text = opcode in _PREFIXED
        return _too_much(
            f"a text of {count:,} bytes" if text else "an integer beyond 64 bits", position
        )
    if opcode in _TUPLES:
        return _too_much("a tuple of anything but two small integers", position)
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


def _too_much(what: str, position: int) -> UnsafePickleError:
    return UnsafePickleError(
        f"has {what} at byte {position:,}, which no snapshot needs; nothing of it was loaded."
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
    return opcode in b"hjeu}](sN)aKMJGqr" or opcode[0] in b"\x94\x88\x89\x95\x80\x8c"

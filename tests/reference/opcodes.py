"""Pass over the opcodes of a pickle, one after the other: what ``native.pickles.scan`` returns.

No two values of many have the same hash in Python, whatever the file: a dict that has them as keys
would take longer than the file is old. Hashes of texts cannot be foreseen; those of numbers can,
and repeat every 2**61 - 1, so numbers have 64 bits. A tuple's follows from its parts', so it is
taken with its parts: those of a snapshot are two small integers, as of pools.
"""

from __future__ import annotations

from snapreport.read.parsed import MOST_INTEGER, MOST_TEXT

# How many bytes follow each opcode.
_FIXED = {
    **dict.fromkeys("()]}Naesu\x85\x86\x88\x89\x94", 0),
    **dict.fromkeys("hqK\x80", 1),
    "M": 2,
    **dict.fromkeys("jrJ", 4),
    **dict.fromkeys("G\x95", 8),
}
# Or how many a length has, which says how many follow it.
_COUNTED = {"\x8a": 1, "\x8c": 1, "X": 4, "\x8d": 8}
_MOST_BETWEEN = 3


def scan(data: bytes) -> int:
    """Return where the first opcode stands that is not allowed or not complete, STOP included."""
    position, before = 0, ""
    while position < len(data):
        length = _length(data, position, before)
        if length is None:
            break
        before += chr(data[position])
        before = before[-2 * (_MOST_BETWEEN + 1) - 1 :]
        position += length
    return position


def _length(data: bytes, position: int, before: str) -> int | None:
    """Return the length of an opcode with what belongs to it; None where it is not passed."""
    opcode = chr(data[position])
    if opcode in _FIXED:
        argument = data[position + 1 : position + 1 + _FIXED[opcode]]
        fits = len(argument) == _FIXED[opcode] and _is_fine(opcode, argument, before, len(data))
        return 1 + len(argument) if fits else None
    width = _COUNTED.get(opcode)
    if width is None or len(data) < position + 1 + width:
        return None
    count = int.from_bytes(data[position + 1 : position + 1 + width], "little")
    content = data[position + 1 + width : position + 1 + width + min(count, MOST_TEXT + 1)]
    if len(content) < count or count > (MOST_INTEGER if opcode == "\x8a" else MOST_TEXT):
        return None
    if opcode == "\x8a" and count == MOST_INTEGER and content[-1]:
        return None  # an integer beyond 64 bits
    return 1 + width + count


def _is_fine(opcode: str, argument: bytes, before: str, length: int) -> bool:
    number = int.from_bytes(argument, "little")
    if opcode == "\x80":
        return 2 <= number <= 5
    if opcode == "r":  # a memo as long as the file at most, in units of 64 KiB
        return number >> 16 <= min(length >> 16, 0x3FF)
    if opcode == "G":
        exponent = argument[0] & 0x7F  # of 11 bits the upper 7
        return 0x3C <= exponent <= 0x43 or not any((exponent, *argument[1:]))
    if opcode in "\x85\x86":
        return _small_integers(before) >= ord(opcode) - 0x84
    return True


def _small_integers(before: str) -> int:
    """Count the small integers on top of the stack, two at the most, after these opcodes."""
    found, between = 0, 0
    for opcode in reversed(before):
        if opcode in "KMJ":
            found, between = found + 1, 0
        elif opcode in "qr\x94\x95" and between < _MOST_BETWEEN:
            between += 1
        else:
            break
    return min(found, 2)

"""The few kinds of protobuf fields that pprof and Perfetto need, written and read.

Source: protobuf.dev, "Encoding". A library would need compiled schemas, for these few lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from snapreport.ground.errors import InputError
from snapreport.ground.safe_text import visible

_TWO_TO_64 = 1 << 64
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_LONGEST_VARINT = 10


def varint(value: int) -> bytes:
    """Encode an integer; a negative one as its 64-bit complement, as int64 fields have it."""
    if 0 <= value < 128:
        return _SMALL[value]
    value %= _TWO_TO_64
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


_SMALL = [bytes([value]) for value in range(128)]


def number(field: int, value: int) -> bytes:
    """An integer, bool or enum field."""
    return varint(field << 3) + varint(value)


def data(field: int, content: bytes) -> bytes:
    """A field of bytes, or a message within a message."""
    return varint(field << 3 | 2) + varint(len(content)) + content


def text(field: int, value: str) -> bytes:
    """A field of text, escaped so that it cannot control the terminal of whoever reads it."""
    return data(field, visible(value, "\n").encode())


def packed(field: int, values: Iterable[int]) -> bytes:
    """A repeated integer field."""
    return data(field, b"".join(map(varint, values)))


def contents(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield the number and bytes of each field that has bytes; those of numbers are left out.

    Raises:
        InputError: the bytes are not a message.
    """
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            _, at = _read_varint(data, at)
            continue
        if kind == _BYTES:
            length, at = _read_varint(data, at)
        elif kind in (_EIGHT, _FOUR):
            length = 8 if kind == _EIGHT else 4
        else:
            raise InputError("is damaged: a field of it has no known type; export it again.")
        if length > len(data) - at:
            raise InputError("is cut off; export it again.")
        if kind == _BYTES:
            yield tag >> 3, data[at : at + length]
        at += length


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for place in range(_LONGEST_VARINT):
        if at + place >= len(data):
            raise InputError("is cut off; export it again.")
        byte = data[at + place]
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return value, at + place + 1
    raise InputError("is damaged: a number in it has no end; export it again.")

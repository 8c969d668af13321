"""The few kinds of protobuf fields that pprof and Perfetto need.

Source: protobuf.dev, "Encoding". A library would need compiled schemas, for these few lines.
"""

from __future__ import annotations

from collections.abc import Iterable

from snapreport.safe_text import visible

_TWO_TO_64 = 1 << 64


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
    """A field of text, in which nothing drives the terminal of who reads it."""
    return data(field, visible(value, "\n").encode())


def packed(field: int, values: Iterable[int]) -> bytes:
    """A repeated integer field."""
    return data(field, b"".join(map(varint, values)))

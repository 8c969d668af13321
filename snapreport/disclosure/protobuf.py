"""Every string in a profile of pprof's or a trace of Perfetto's, as our exporters write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from snapreport.disclosure.tally import Tally
from snapreport.errors import InputError

_NUMBERS = ""
"""A field of packed numbers."""

# Fields by their numbers: a message, the kind of a text, or numbers. Whatever is not here is no
# field of ours, and listed as it stands.
_Message = Mapping[int, Any]
_PAIR: _Message = {}
PPROF: _Message = {
    1: _PAIR,
    2: {1: _NUMBERS, 2: _NUMBERS},
    3: _PAIR,
    4: {4: _PAIR},
    5: _PAIR,
    6: "text",
    11: _PAIR,
    13: _NUMBERS,
}
PERFETTO: _Message = {
    1: {
        6: {1: _PAIR},
        11: {4: _PAIR},
        12: {2: {2: "name"}, 3: {2: "key"}, 29: {2: "text"}},
        60: {2: "track", 8: {7: "text"}},
    }
}
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_LONGEST_VARINT = 10


def message_strings(data: bytes, message: _Message, tally: Tally) -> None:
    """Count every string of a message, and of those within it.

    Args:
        data: the encoded message.
        message: ``PPROF`` or ``PERFETTO``.
        tally: gets them.

    Raises:
        InputError: it is no message.
    """
    for field, content in _fields(memoryview(data)):
        within = message.get(field)
        if isinstance(within, str):
            if within != _NUMBERS:
                tally.add(within, bytes(content).decode("utf-8", "replace"))
        elif within is None:
            tally.add(f"unknown field {field}", bytes(content).decode("utf-8", "replace"))
        else:
            message_strings(bytes(content), within, tally)


def _fields(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield the fields that have bytes; numbers say nothing."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            _, at = _varint(data, at)
            continue
        if kind == _BYTES:
            length, at = _varint(data, at)
        elif kind in (_EIGHT, _FOUR):
            length = 8 if kind == _EIGHT else 4
        else:
            raise InputError("is damaged: a field of it has no known type; export it again.")
        if length > len(data) - at:
            raise InputError("is cut off; export it again.")
        if kind == _BYTES:
            yield tag >> 3, data[at : at + length]
        at += length


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for place in range(_LONGEST_VARINT):
        if at + place >= len(data):
            raise InputError("is cut off; export it again.")
        byte = data[at + place]
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return value, at + place + 1
    raise InputError("is damaged: a number in it has no end; export it again.")

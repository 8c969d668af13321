"""List every string in a pprof profile or Perfetto trace, as our exporters write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from snapreport.ground.protobuf import contents
from snapreport.names.tally import Tally

_NUMBERS = ""
"""A field of packed numbers."""

# Fields by their numbers: a message, the kind of a text, or numbers. We write no other fields, so
# any other is listed as it is.
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


def message_strings(data: bytes, message: _Message, tally: Tally) -> None:
    """Count every string of a message, and of those within it.

    Args:
        data: the encoded message.
        message: ``PPROF`` or ``PERFETTO``.
        tally: counts the strings.

    Raises:
        InputError: it is not a message.
    """
    for field, content in contents(memoryview(data)):
        within = message.get(field)
        if isinstance(within, str):
            if within != _NUMBERS:
                tally.add(within, bytes(content).decode("utf-8", "replace"))
        elif within is None:
            tally.add(f"unknown field {field}", bytes(content).decode("utf-8", "replace"))
        else:
            message_strings(bytes(content), within, tally)

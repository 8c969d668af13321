"""Estimates how much memory reading a file takes, and refuses before the machine swaps."""

from __future__ import annotations

import mmap
import os
import re
from pathlib import Path

import numpy as np

from snapreport.ground.errors import NotEnoughMemoryError
from snapreport.ground.processes.machine import available_memory
from snapreport.ground.processes.unpacking_limit import NO_MEMORY_CHECK
from snapreport.ground.units import format_bytes

# Measured as the peak private memory of `convert`, less that of an idle program, for events of 30,
# 87 and 158 bytes in the file: the first have neither stacks nor times. PyTorch's own events have
# 90 to 375 bytes, call stacks included.
OBJECTS = 4.8
"""Bytes for each byte of JSON."""

_UNPICKLED, _UNPICKLED_DICT = 4.5, 250
"""Bytes for each byte, and for each dict, of a pickle that is loaded as objects: an event took 319,
653 and 758 bytes; these estimate 385, 641 and 961."""

_PARSED, _PARSED_DICT = 1.0, 220
"""The same while the native library reads it, and as columns after that: 174, 219 and 205."""

PARSED_EVENT = 165
"""Bytes for each event besides its row of columns, once all are read: 118, 163 and 149."""

_LIST, _DICT_AT_MOST = 120, 240
"""Bytes at most for a list, and for a dict with one item; each takes one byte in a pickle."""

REST = 12
"""Bytes at most for each byte that the native library leaves to the unpickler."""

_WINDOWS, _WINDOW = 64, 1 << 14
# How every pickler begins a dict: memoized or not, by protocol 4 or an older one.
_DICT = re.compile(rb"\}(?:\x94|q.|r....)?\(", re.DOTALL)

_ALWAYS_TRIED = 1 << 28


def require_memory(needed: float, root: Path = Path("/")) -> None:
    """Check that enough memory is free, if that is known; small amounts always pass.

    Args:
        needed: bytes that will be allocated from now on.
        root: where the folders ``proc`` and ``sys`` are.

    Raises:
        NotEnoughMemoryError: less is free.
    """
    if needed <= _ALWAYS_TRIED or os.environ.get(NO_MEMORY_CHECK):
        return
    available = available_memory(root)
    if available is not None and needed > available:
        raise NotEnoughMemoryError(
            f"needs about {format_bytes(int(needed))} of memory, and {format_bytes(available)} is"
            " free; close other programs, use a machine with more, or set"
            f" {NO_MEMORY_CHECK}=1 to try anyway."
        )


def unpickled_memory(data: bytes | mmap.mmap) -> float:
    """Return about how many bytes it takes to load a pickle as objects and process them.

    It is never less than what the lists and dicts take in a pickle made to hold little else.
    """
    usual = _UNPICKLED * len(data) + _UNPICKLED_DICT * count_dicts(data)
    view = np.frombuffer(data, np.uint8)
    lists, dicts = (int(np.count_nonzero(view == ord(opcode))) for opcode in "]}")
    return max(usual, _LIST * lists + _DICT_AT_MOST * dicts)


def parsed_memory(data: bytes | mmap.mmap) -> float:
    """Return about how many bytes it takes to read a pickle into columns and process them."""
    return max(_PARSED * len(data), _PARSED_DICT * count_dicts(data))


def count_dicts(data: bytes | mmap.mmap) -> int:
    """Estimate how many dicts a pickle has, which are little more than its events.

    They are counted in evenly spaced parts of it; a small pickle is counted whole.
    """
    length = len(data)
    if length <= _WINDOWS * _WINDOW:
        return len(_DICT.findall(data))
    gap = (length - _WINDOW) / (_WINDOWS - 1)
    starts = (int(number * gap) for number in range(_WINDOWS))
    found = sum(len(_DICT.findall(data[start : start + _WINDOW])) for start in starts)
    return found * length // (_WINDOWS * _WINDOW)

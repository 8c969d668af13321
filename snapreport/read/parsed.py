"""Limits on what a file may hold, the memory that reading it takes, and its events as columns.

The limits bound the time and memory of reading a file. No real snapshot comes near any of them;
``docs/safety.md`` has a table of them. The native library reads the trace events of a pickle
without a Python object per event. It reads only pickles of the usual form; others are left to the
unpickler, which gives the same results and has all error messages.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.errors import NotASnapshotError, NotEnoughMemoryError
from snapreport.ground.later import expression
from snapreport.ground.native import library
from snapreport.ground.native.columns import appear
from snapreport.ground.processes import NO_MEMORY_CHECK, available_memory
from snapreport.ground.records import dataclass
from snapreport.ground.units import format_bytes

UNPACKED_ALWAYS = 1 << 26
"""Bytes that any packed snapshot may unpack to, however small it is."""

MOST_INTEGER = 9
"""Bytes of an integer in a pickle: 64 bits and a sign; integers of 65 bits are refused too.

Longer integers can be chosen so that their hashes collide, and hashing them takes long each time.
"""

MOST_TEXT = 1 << 18
"""Bytes of a text in a pickle: texts that are keys are compared again and again."""

MOST_DEVICES = 256
"""Devices of a file, those without events included."""

MOST_POOLS = 10_000
"""Different memory pools of a file."""

MOST_RULES = 1 << 18
"""Bytes of a file of rules or budgets."""


class Allowance:
    """How many more rows or fields a file may have: at most one for each of its bytes.

    In a pickle many places can refer to one list, so a small file can stand for any number of
    events. PyTorch's own files share only call stacks, each of which is read once.
    """

    def __init__(self, length: int) -> None:
        """Allow as many as a file of this many bytes can have without sharing."""
        self._left = self._length = length

    def take(self, count: int, what: str) -> None:
        """Use up some of the allowance.

        Args:
            count: how many rows or fields are read now.
            what: what they are, for messages.

        Raises:
            NotASnapshotError: there are more than the file has bytes.
        """
        self._left -= count
        if self._left < 0:
            raise NotASnapshotError(
                f"is damaged: it has more {what} than fit in its {format_bytes(self._length)}:"
                " it repeats the same ones many times."
            )


# How much memory reading a file takes: what is too much is refused before the machine swaps.

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

_PARSED_EVENT = 165
"""Bytes for each event besides its row of columns, once all are read: 118, 163 and 149."""

_LIST, _DICT_AT_MOST = 120, 240
"""Bytes at most for a list, and for a dict with one item; each takes one byte in a pickle."""

_REST = 12
"""Bytes at most for each byte that the native library leaves to the unpickler."""

_WINDOWS, _WINDOW = 64, 1 << 14
# How every pickler begins a dict: memoized or not, by protocol 4 or an older one.
_DICT = expression(rb"\}(?:\x94|q.|r....)?\(", re.DOTALL)

_ALWAYS_TRIED = 1 << 28

ALWAYS_PARSED = _ALWAYS_TRIED * 2 // _PARSED_DICT
"""A pickle of at most so many bytes needs no more than is always tried: a dict has two of them."""


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


# Events as columns.

_NONE = -1
"""In a column of ids: the event lacks the field, or has None there."""
_KEY_BITS = {"time_us": 5, "category": 10}
"""Bits of the keys of a trace's first event, as in events.c."""


@dataclass(frozen=True, eq=False)
class ParsedFile:
    """The texts, pairs, frames and stacks that the events of a file refer to."""

    texts: list[str]
    pairs: list[tuple[int, int]]
    frames: list[Any]
    """The frame dicts; segments and blocks share these objects where the file does. Also the texts
    of ``forward_frames``."""
    stack_start: NDArray[np.int64]
    """int64, shape (n_stacks + 1,): where each stack begins in ``stack_frames``."""
    stack_frames: NDArray[np.int32]
    """int32: positions in ``frames``, innermost first."""

    def places_of(self, stacks: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the frames of some stacks, one after the other, and how many each has.

        Args:
            stacks: int32, shape (n,).

        Returns:
            int32, positions in ``frames``, each stack innermost first; and int64, shape (n,).
        """
        begin = self.stack_start[stacks]
        length = self.stack_start[stacks + 1] - begin
        first = np.cumsum(length) - length
        total = int(length.sum())
        return self.stack_frames[np.arange(total) + np.repeat(begin - first, length)], length


@dataclass(frozen=True, eq=False)
class ParsedTrace:
    """The events of one trace; every array has shape (n_events,), and the types are checked.

    The integers are int64: 0 where the file has none, or -1 for a time. The others are int32
    positions in the file's texts, stacks and pairs; -1 where an event has none.
    """

    file: ParsedFile
    first_keys: frozenset[str]
    """Which of ``time_us`` and ``category`` the first event has."""
    unknown_keys: list[tuple[int, int]]
    """Keys that we do not know, as positions in the texts, and how many events have each."""
    addr: NDArray[np.int64]
    """``device_free`` for events that have it."""
    size: NDArray[np.int64]
    stream: NDArray[np.int64]
    time_us: NDArray[np.int64]
    action: NDArray[np.int32]
    stack: NDArray[np.int32]
    compile_context: NDArray[np.int32]
    metadata: NDArray[np.int32]
    category: NDArray[np.int32]
    pool: NDArray[np.int32]
    forward: NDArray[np.int32]
    internal: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.action)


def parse(data: bytes | mmap.mmap, load: Callable[[bytes], Any]) -> Any:
    """Load a pickle with its device traces as columns.

    Args:
        data: the pickle, uncompressed.
        load: loads a pickle of plain data.

    Returns:
        the object in the pickle, in which ``device_traces`` is a list of ParsedTrace. None if it
        does not have the usual form: it may then be anything, a snapshot or not, safe or not.

    Raises:
        NotEnoughMemoryError: it has more events than this machine has memory for.
    """
    with library.events(data) as found:
        if found is None or found.n_traces > MOST_DEVICES:  # the unpickler's path refuses those
            return None
        require_memory(_PARSED_EVENT * found.n_rows)
        columns = library.columns_of(found)
    require_memory(_REST * len(columns.rest))
    top, frames, texts, pairs = load(columns.rest)
    unknowns, by_name = columns.unknowns, columns.by_name
    start = np.append(columns.stack_start, len(columns.stack_frames)).astype(np.int64)
    file = ParsedFile(texts, pairs, frames, start, columns.stack_frames)
    top["device_traces"] = [
        ParsedTrace(
            file,
            frozenset(key for key, bit in _KEY_BITS.items() if first_keys >> bit & 1),
            [(int(row["text"]), int(row["count"])) for row in unknowns[unknowns["trace"] == k]],
            **{name: column[begin:end] for name, column in by_name.items()},
        )
        for k, (begin, end, first_keys) in enumerate(columns.traces.tolist())
    ]
    return top


def compress(column: NDArray[np.int32]) -> tuple[list[int], NDArray[np.int32]]:
    """Number the values of a column in order of first appearance.

    Args:
        column: int32, shape (n,), none below -1.

    Returns:
        the values except -1, and int32: the column with each value replaced by its position.
    """
    most = int(column.max(initial=_NONE)) + 1
    if not most:
        return [], column
    values, position = appear(column, most)
    return values.tolist(), position


def renumber(column: NDArray[np.int32], number: Callable[[int], int]) -> NDArray[np.int32]:
    """Replace each value except -1 by its number.

    Args:
        column: int32, shape (n,), none below -1.
        number: returns a value's number; called once for each, in order of first appearance.
    """
    if len(column) and column[0] != _NONE and (column == column[0]).all():  # as most columns are
        return np.full(len(column), number(int(column[0])), np.int32)
    values, position = compress(column)
    return replaced(position, list(map(number, values)))


def replaced(position: NDArray[np.int32], numbers: list[int]) -> NDArray[np.int32]:
    """Replace each position in a list by what is there; -1 stays."""
    if numbers == list(range(len(numbers))):
        return position
    return np.array([*numbers, _NONE], np.int32).take(position)

"""Reads the trace events of a pickle straight into columns, and the rest of it as objects.

The native library does this without a Python object per event. It reads only pickles of the usual
form; others are left to the unpickler, which gives the same results and has all error messages.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.native import pickles
from snapreport.read.limits import MOST_DEVICES
from snapreport.read.memory_need import PARSED_EVENT, REST, require_memory

_NONE = -1
"""In a column of ids: the event lacks the field, or has None there."""

# Bits of the keys of a trace's first event, as in events.c.
_KEY_BITS = {"time_us": 5, "category": 10}


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
    with pickles.events(data) as found:
        if found is None or found.n_traces > MOST_DEVICES:  # the unpickler's path refuses those
            return None
        # The copies replace the library's arrays, which are freed on leaving this block.
        require_memory(PARSED_EVENT * found.n_rows)
        columns = pickles.columns_of(found)
    require_memory(REST * len(columns.rest))
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
    n = len(column)
    first = np.full(int(column.max(initial=0)) + 2, n, np.int64)  # the last is for index -1
    first[column[::-1]] = np.arange(n - 1, -1, -1)  # the first row of equal values wins
    values = np.flatnonzero(first[:-1] < n)
    values = values[np.argsort(first[values])]
    position = np.full(len(first), _NONE, np.int32)
    position[values] = np.arange(len(values))
    return values.tolist(), position[column]


def renumber(column: NDArray[np.int32], number: Callable[[int], int]) -> NDArray[np.int32]:
    """Replace each value except -1 by its number.

    Args:
        column: int32, shape (n,), none below -1.
        number: returns a value's number; called once for each, in order of first appearance.
    """
    values, position = compress(column)
    numbers = np.array([*map(number, values), _NONE], np.int32)  # the last is for index -1
    return numbers[position]

"""The peak at a batch size that nobody ran, from recordings at other sizes.

Where the recordings make the same allocations in the same order, each allocation has a known size
at each recorded batch, and its law gives the size at any other. The curve is added up again from
these sizes, so the peak may move to another moment. The results are estimates, not bounds: a
program that pads to a multiple, or splits large work, behaves differently between recorded sizes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.block_room import rounded
from snapreport.ground.memoize import once_for_each
from snapreport.ground.native.columns import stable_order, sum_live, unique
from snapreport.ground.records import dataclass
from snapreport.model.answers import LARGEST_BATCH, BatchGrowth, BatchPeak, RoleGrowth
from snapreport.model.history import START, DeviceHistory, History
from snapreport.model.roles import (
    BUFFER,
    COMMUNICATION,
    GRADIENT,
    OPTIMIZER_TEMPORARY,
    PARAMETER,
    ROLES,
    STATE,
    WEIGHT_COPY,
    WORKSPACE,
)
from snapreport.model.snapshot import FrameTable, StackTable
from snapreport.roles.lifetimes import find_roles
from snapreport.roles.passes import BACKWARD, FORWARD, OPTIMIZER, find_passes

# How sizes depend on the batch: fixed, linear or quadratic.


@dataclass(frozen=True, eq=False)
class SizeLaws:
    """The requested sizes of allocations at several batch sizes; shape (n,) unless stated."""

    batches: NDArray[np.int64]
    """Ascending, at least two; shape (k,)."""
    sizes: NDArray[np.int64]
    """In bytes; shape (k, n)."""
    regular: NDArray[np.bool_]
    """Which follow a law; the others are interpolated linearly between recorded batch sizes."""
    law: NDArray[np.int64]
    """Bytes that are fixed, per sample, and per its square, of those that follow one; (3, n)."""

    def expected(self, batch: int, most: int = 1 << 62) -> NDArray[np.int64]:
        """Return the sizes at a batch size, in bytes, none above ``most``."""
        low = self._piece(batch)
        rise, run = (np.diff(each[low : low + 2], axis=0)[0] for each in (self.sizes, self.batches))
        line = self.sizes[low] + rise * ((batch - self.batches[low]) / run)
        fixed, each, squared = self.law
        law = fixed + each * float(batch) + squared * float(batch) ** 2
        found = np.rint(np.where(self.regular, law, line))
        sizes: NDArray[np.int64] = np.clip(found, 0, most).astype(np.int64)
        return sizes

    def coefficients(self, batch: int) -> NDArray[np.float64]:
        """Return the constant, linear and quadratic coefficients near a batch size; (3, n)."""
        low = self._piece(batch)
        slope = np.diff(self.sizes[low : low + 2], axis=0)[0] / np.diff(self.batches[low : low + 2])
        begin = self.sizes[low] - slope * self.batches[low]
        found: NDArray[np.float64]
        found = np.where(self.regular, self.law, [begin, slope, np.zeros_like(slope)])
        return found

    def _piece(self, batch: int) -> int:
        place = int(np.searchsorted(self.batches, batch)) - 1
        return min(max(place, 0), len(self.batches) - 2)


def find_laws(batches: NDArray[np.int64], sizes: NDArray[np.int64]) -> SizeLaws:
    """Find which law each allocation follows.

    A line whose constant is negative is not linear growth with a fixed part: the size grows faster
    than the batch, or, where the last token of sequences is cut off, by one sample less. With three
    or more sizes a quadratic law may have a constant too, as for tokens put before each sequence;
    with two, that cannot be distinguished from a line.

    Args:
        batches: int64, shape (k,), ascending, k at least 2.
        sizes: int64, shape (k, n), in bytes.
    """
    points = batches[:, None]
    known = batches.tolist()
    slope = (sizes[-1] - sizes[0]) // (known[-1] - known[0])
    begin = sizes[0] - slope * known[0]
    even = (slope >= 0) & (begin >= -slope) & (sizes == begin + slope * points).all(axis=0)
    zero = np.zeros_like(sizes[0])
    curves = [_curve((0, known[0], known[-1]), (zero, sizes[0], sizes[-1]))]
    if len(known) > 2:
        middle = len(known) // 2
        curves.append(
            _curve((known[0], known[middle], known[-1]), (sizes[0], sizes[middle], sizes[-1]))
        )
    square, law = np.zeros_like(even), np.where(even, [begin, slope, zero], 0)
    for fixed, each, squared in curves:
        # It must grow from the first sample on: flat first and rising later is a threshold.
        curved = (squared > 0) & (each >= np.where(fixed == 0, 0, -2 * squared))
        curved &= fixed + each + squared >= 0
        curved &= (sizes == fixed + (each + squared * points) * points).all(axis=0)
        curved &= ~square & (~even | (each == 0))
        law[:, curved] = np.stack([fixed, each, squared])[:, curved]
        square |= curved
    return SizeLaws(batches, sizes, even | square, law)


def _curve(x: Sequence[int], y: Sequence[NDArray[np.int64]]) -> tuple[NDArray[np.int64], ...]:
    """Return constant, linear and quadratic coefficients of the curve through three points.

    They are exact only if they are whole numbers.
    """
    first, second = (y[1] - y[0]) // (x[1] - x[0]), (y[2] - y[1]) // (x[2] - x[1])
    squared = (second - first) // (x[2] - x[0])
    each = first - squared * (x[0] + x[1])
    return y[0] - (each + squared * x[0]) * x[0], each, squared


# Why sizes at another batch may not follow their law, as far as a recording shows it.


_CONVOLVES = re.compile(r"conv(olution)?_?(transpose)?([123]d|_|backward|$)|cudnn|miopen", re.I)
_LONG = 200


def doubt_of(file: History, device: DeviceHistory) -> str:
    """Return why the program may behave differently at another batch, ``""`` for no reason.

    Returns:
        ``convolutions``: they choose an algorithm, and so its temporary memory, by the sizes.
        ``data``: sizes differ from step to step, so they depend on more than the batch size.
        ``one step``: there are not two steps to compare.
    """
    if _convolves(file.stacks.frames):
        return "convolutions"
    starts = find_passes(device, file).of(FORWARD)[0]
    if len(starts) < 2:
        return "one step"
    return "data" if _differ(device, starts) else ""


@once_for_each
def _convolves(frames: FrameTable) -> bool:
    return any(_CONVOLVES.search(name[:_LONG]) for name in frames.names)


def _differ(device: DeviceHistory, starts: NDArray[np.int64]) -> bool:
    """Say whether the n-th allocation of a call stack has another size in another pass."""
    rows = device.allocations
    turn = np.searchsorted(starts, rows.alloc_event, side="right")
    # Some memory is made in the first pass only, and stays for the others, such as gradients.
    chosen = np.flatnonzero((turn > (1 if len(starts) > 2 else 0)) & (rows.stack >= 0))
    pair = rows.stack[chosen].astype(np.int64) * (len(starts) + 1) + turn[chosen]
    order = stable_order(pair)
    first = np.flatnonzero(np.diff(pair[order], prepend=-1))
    place = np.arange(len(order)) - np.repeat(first, np.diff(first, append=len(order)))
    chosen = chosen[order]
    nth, size = rows.stack[chosen].astype(np.int64) * len(rows) + place, rows.size[chosen]
    order = np.lexsort((size, nth))
    return bool(((np.diff(nth[order]) == 0) & (np.diff(size[order]) != 0)).any())


# Match the allocations of several recordings of one program.


NONE = -1
"""No matching allocation is known in the other recording."""

_SCRIPT = "<module>"
"""The name of a module's top-level frame; the outermost such frame is the script's."""

_Nodes = dict[tuple[int, str, str, int], int]


@dataclass(frozen=True, eq=False)
class SameRows:
    """The allocations of several recordings, matched to those of the last one."""

    rows: NDArray[np.int64]
    """int64, shape (n_recordings, n_allocations of the last); NONE where nothing matches."""
    exact: bool
    """Whether all recordings make the same allocations and frees, in the same order."""


def match_recordings(recordings: Sequence[tuple[History, DeviceHistory]]) -> SameRows:
    """Match the allocations of recordings to those of the last one.

    If all have the same events with the same call stacks, the n-th allocations match. Otherwise
    allocations are matched per call stack: in order if both have equally many, and else by size,
    in ascending order, if both have equally many distinct sizes.

    Args:
        recordings: of each the file and one of its devices.
    """
    nodes: _Nodes = {}
    keyed = [(device, _stack_keys(file.stacks, nodes)) for file, device in recordings]
    orders = [_in_order(device) for device, _ in keyed]
    last, keys = keyed[-1]
    number = len(last.allocations)
    rows = np.full((len(keyed), number), NONE, np.int64)
    tokens = _tokens(last, orders[-1])
    stacks = keys[last.allocations.stack[orders[-1]]]
    exact = True
    for place, ((device, own_keys), order) in enumerate(zip(keyed, orders, strict=True)):
        own = own_keys[device.allocations.stack[order]]
        if np.array_equal(own, stacks) and np.array_equal(_tokens(device, order), tokens):
            rows[place, orders[-1]] = order
        else:
            exact = False
            _match_by_stack(device, own_keys, last, keys, rows[place])
    return SameRows(rows, exact)


def _stack_keys(stacks: StackTable, nodes: _Nodes) -> NDArray[np.int64]:
    """Number call stacks so that equal ones have one number in all files; -2 for no stack.

    The script and its lines are left out: each batch size may have a script of its own.
    """
    frames = stacks.frames
    lines = frames.lines.tolist()
    keys: list[int] = []
    started: list[str] = []
    for parent, frame in zip(stacks.node_parent.tolist(), stacks.node_frame.tolist(), strict=True):
        above, script = (keys[parent], started[parent]) if parent >= 0 else (-1, "")
        name, file = frames.names[frame], frames.filenames[frame]
        if name == _SCRIPT and not script:
            key, script = above, file
        else:
            same = (above, name, "" if file == script else file, lines[frame])
            key = nodes.setdefault(same, len(nodes))
        keys.append(key)
        started.append(script)
    of_node = np.array([*keys, -1], np.int64)  # the empty stack has node -1
    return np.append(of_node[stacks.stack_node], -2)


def _in_order(device: DeviceHistory) -> NDArray[np.int64]:
    """Return the rows in order, but those that the trace never touches by size."""
    rows = device.allocations
    order = np.arange(len(rows))
    untouched = np.flatnonzero(
        (rows.alloc_event == START) & (rows.free_requested_event >= device.events)
    )
    order[untouched] = untouched[stable_order(rows.size[untouched])]
    return order


def _tokens(device: DeviceHistory, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return each event's allocation, inverted for a free; frees between two allocs are sorted."""
    rows = device.allocations
    born, gone = rows.alloc_event[order], rows.free_requested_event[order]
    made, freed = np.flatnonzero(born >= 0), np.flatnonzero((gone >= 0) & (gone < device.events))
    which = np.concatenate([made, freed])
    frees = np.repeat([False, True], [len(made), len(freed)])
    when = stable_order(np.concatenate([born[made], gone[freed]]))
    which, frees = which[when], frees[when]
    sorted_frees = np.lexsort((which, frees, np.cumsum(~frees)))
    tokens: NDArray[np.int64] = np.where(frees, ~which, which)[sorted_frees]
    return tokens


def _match_by_stack(
    device: DeviceHistory,
    keys: NDArray[np.int64],
    last: DeviceHistory,
    last_keys: NDArray[np.int64],
    found: NDArray[np.int64],
) -> None:
    own = _by_stack(keys[device.allocations.stack])
    sizes, wanted = device.allocations.size, last.allocations.size
    for key, there in _by_stack(last_keys[last.allocations.stack]).items():
        here = own.get(key)
        if here is None:
            continue
        if key == -2:  # without a stack the order tells less than the size
            here = here[stable_order(sizes[here])]
            there = there[stable_order(wanted[there])]
        if len(here) == len(there):
            found[there] = here
            continue
        values, first = np.unique(sizes[here], return_index=True)
        others, place = np.unique(wanted[there], return_inverse=True)
        if len(values) == len(others):
            found[there] = here[first][place]


def _by_stack(keys: NDArray[np.int64]) -> dict[int, NDArray[np.int64]]:
    order = stable_order(keys)
    values, first = np.unique(keys[order], return_index=True)
    return dict(zip(values.tolist(), np.split(order, first[1:]), strict=True))


# The program at several sizes.

_FIXED = (
    PARAMETER, BUFFER, GRADIENT, STATE, WEIGHT_COPY, OPTIMIZER_TEMPORARY, COMMUNICATION, WORKSPACE,
)  # fmt: skip
"""Roles whose size is assumed constant where no other recording shows it."""
_PHASES = {FORWARD: "forward", BACKWARD: "backward", OPTIMIZER: "optimizer"}
_MOST_BYTES = 1 << 62
"""No block is assumed larger than its share of this, so that their sum fits in an int64."""


@dataclass(frozen=True, eq=False)
class SeveralSizes:
    """One program at several batch sizes; arrays have shape (n_allocations,) of the last."""

    file: History
    device: DeviceHistory
    """The recording at the largest size."""
    laws: SizeLaws
    same: bool
    spare: NDArray[np.int64]
    """Bytes of each block beyond its rounded request."""
    peaks: tuple[int, ...]
    """The recorded allocated peaks, in bytes."""
    requested: tuple[int, ...]
    """The recorded requested peaks, which do not depend on how the allocator splits blocks."""

    def doubt(self, smallest: int, largest: int) -> str:
        """Return why estimates from the smallest to the largest batch may be off."""
        if not self.same:
            return "other work"
        if not self.laws.regular.all():
            return "no law"
        beyond = smallest < self.laws.batches[0] or largest > self.laws.batches[-1]
        return doubt_of(self.file, self.device) or ("extrapolated" if beyond else "")

    def expected(self, batch: int) -> NDArray[np.int64]:
        """Return the expected block sizes at a batch size."""
        most = _MOST_BYTES // max(len(self.spare), 1)
        return rounded(self.file, self.device, self.laws.expected(batch, most)) + self.spare

    def peak(self, batch: int) -> tuple[int, int]:
        """Return the expected peak at a batch size, and its first event."""
        rows = self.device.allocations
        lives = (rows.alloc_event, rows.free_requested_event, self.device.events)
        curve = sum_live(self.expected(batch), *lives)
        place = int(curve.argmax())
        return int(curve[place]), place - 1

    def largest(self, target: int) -> int | None:
        """Return the largest batch expected to fit: 0 if none fits, None if all do."""
        if self.peak(1)[0] > target:
            return 0
        low, high = 1, 2
        while self.peak(high)[0] <= target:
            low, high = high, high * 2
            if high > LARGEST_BATCH:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            if self.peak(middle)[0] <= target:
                low = middle
            else:
                high = middle
        return low

    def at(self, batch: int) -> BatchPeak:
        """Return the peak at a batch size."""
        expected, event = self.peak(batch)
        recorded = dict(zip(self.laws.batches.tolist(), self.peaks, strict=True)).get(batch)
        passes, here = find_passes(self.device, self.file), np.array([event])
        phase = (name for pass_, name in _PHASES.items() if passes.covers(pass_, here)[0])
        return BatchPeak(batch, expected, recorded, next(phase, ""))

    def roles(self, batch: int) -> tuple[RoleGrowth, ...]:
        """Return how each role grows, at the expected peak of a batch size, most bytes first."""
        live = self.device.allocations.live_at(self.peak(batch)[1])
        fixed, each, squared = self.laws.coefficients(batch)
        blocks = self.expected(batch)
        # What rounding adds counts as fixed.
        over = blocks - (fixed + each * batch + squared * batch**2)
        role = find_roles(self.device, self.file).role[live]
        columns = [
            np.bincount(role, weights=column[live], minlength=len(ROLES))
            for column in (fixed + over, each, squared, blocks)
        ]
        found = [
            RoleGrowth(ROLES[i], *(round(column[i]) for column in columns))
            for i in unique(role).tolist()
        ]
        return tuple(sorted(found, key=lambda growth: -growth.bytes))


def put_together(recordings: Sequence[tuple[int, History, DeviceHistory]]) -> SeveralSizes:
    """Match recordings of one program, and find the law of each allocation.

    Args:
        recordings: batch size, file and device of each; at least two, by ascending batch size.
    """
    batches = np.array([batch for batch, _, _ in recordings], np.int64)
    matched = match_recordings([(file, device) for _, file, device in recordings])
    _, file, last = recordings[-1]
    role = find_roles(last, file).role
    grows = ~np.isin(role, _FIXED)
    sizes, spare, peaks, requested = [], [], [], []
    for (batch, one, device), rows in zip(recordings, matched.rows, strict=True):
        own = device.allocations
        known = rows != NONE
        there = rows[known]
        # Without a counterpart: as allocations of its role usually behave.
        share = np.where(grows, batch / batches[-1], 1.0)
        size = np.rint(last.allocations.size * share).astype(np.int64)
        size[known] = own.size[there]
        extra = np.zeros(len(rows))
        extra[known] = (own.block_size - rounded(one, device, own.size))[there]
        sizes.append(size)
        spare.append(extra)
        lives = (own.alloc_event, own.free_requested_event, device.events)
        peaks.append(int(sum_live(own.block_size, *lives).max()))
        requested.append(int(sum_live(own.size, *lives).max()))
    extra = np.maximum(np.rint(np.mean(spare, axis=0)), 0).astype(np.int64)
    laws = find_laws(batches, np.stack(sizes))
    return SeveralSizes(file, last, laws, matched.exact, extra, tuple(peaks), tuple(requested))


def find_growth(several: SeveralSizes, target: int | None, wanted: Sequence[int]) -> BatchGrowth:
    """Return how the peak grows, and the largest batch that fits into a target.

    Args:
        several: the recordings.
        target: in bytes, or None.
        wanted: batch sizes to estimate the peak for, besides the recorded ones.
    """
    recorded = several.laws.batches.tolist()
    fits = None if target is None else several.largest(target)
    shown = {*recorded, *wanted, *((fits, fits + 1) if fits is not None else ())} - {0}
    at_batch = fits or recorded[-1]
    largest = LARGEST_BATCH if fits is None and target is not None else max(shown)
    return BatchGrowth(
        tuple(several.at(batch) for batch in sorted(shown)),
        several.roles(at_batch),
        at_batch,
        several.doubt(min(shown), largest),
        target,
        fits,
    )

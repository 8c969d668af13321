"""Find the program's repeating step: from its stages, else from the rhythm of its allocations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.memoize import once_for_both
from snapreport.model.history import DeviceHistory, History, Stages
from snapreport.model.iterations import Iterations, Source
from snapreport.model.snapshot import NO_TIME
from snapreport.native.sorting import median, unique
from snapreport.native.sweeps import sum_live
from snapreport.roles.loop_period import Period, find_period
from snapreport.roles.passes import BACKWARD, BUILD, FORWARD, OPTIMIZER, Passes, find_passes

_PROFILER_STEP = re.compile(r"^ProfilerStep#\d+$")
OPTIMIZER_STEP = re.compile(r"^Optimizer\.step#")
"""The name of an optimizer step's stage, as PyTorch annotates it."""
_LOOP_MARKERS = (
    re.compile(r"^Optimizer\.zero_grad#"),
    re.compile(r"^enumerate\(DataLoader\)#.*__next__$"),
)
"""Stages that PyTorch itself sets once a step, at or near its beginning."""
_NUMBER = re.compile(r"\d+")

_FEWEST = 2
"""A single turn is not a repetition."""
_FEWEST_OF_A_NAME = 3
"""A stage name of the user's own counts as a step's if it occurs this often."""
_COVERS = 0.5
"""The stages of that name must fill at least this part of the recording from the first one on."""
_TOGETHER = 0.25
"""Ends of optimizer steps closer than this part of the usual distance belong to one step of the
program: one that has several optimizers."""
_LONGEST = 64
"""A turn is not taken to have more optimizer steps than this."""
_LIMIT = 1 + _TOGETHER
"""Building a model that ends within this many usual turns before the first mark precedes turn 1."""
_SHORT = 0.5
"""What makes fewer allocations than this part of the usual turn is none."""
_LONGEST_FIRST = 4
"""The first turn may make this many times the allocations of the next: states, workspaces."""
_CYCLES = 3
"""Optimizers that alternate must do so this often, as each makes its state the first time."""
_AFTER_STEP, _AFTER_BACKWARD, _ELSEWHERE, _INSIDE = range(4)
"""Where a turn may end, the likeliest first; it cannot inside a backward pass or optimizer step."""
_BY_OPTIMIZER, _BY_MARKER, _BY_NAME = 0.95, 0.9, 0.8
"""Confidences: an optimizer may step twice per turn (GANs); zero_grad and data loaders are also
used outside of the loop; a name that repeats may be a part of a step."""


@once_for_both
def find_iterations(history: DeviceHistory, tables: History) -> Iterations | None:
    """Find the turns of the program's outer loop, or None if nothing shows one.

    ``ProfilerStep#N`` stages are trusted. Else a turn ends with each ``Optimizer.step`` stage (so
    gradient accumulation is inside), or begins where the gradients are cleared, a batch is loaded,
    or an outermost stage of the user's repeats. Without stages, a turn is the period of the
    allocations, with the share of allocations that follow it as the confidence.
    """
    if history.events <= 1:
        return None
    stages, rows = history.stages, history.allocations
    allocated = sum_live(
        rows.block_size, rows.alloc_event, rows.free_requested_event, history.events
    )
    passes = find_passes(history, tables)
    found = (
        _from_profiler(stages, history.events)
        or _from_optimizer(history, passes, allocated)
        or _from_markers(history, passes, allocated)
        or _from_names(stages, history.events)
    )
    if found is not None:
        return found
    period = find_period(tables, history)
    return None if period is None else _from_period(period, passes, allocated)


def _from_profiler(stages: Stages, events: int) -> Iterations | None:
    rows = [i for i, name in enumerate(stages.name) if _PROFILER_STEP.match(name)]
    return _spans(stages, rows, events, "profiler", 1.0, "by the stages ProfilerStep#N")


def _from_names(stages: Stages, events: int) -> Iterations | None:
    """Use the outermost stages whose name, without numbers, occurs most often."""
    rows: dict[str, list[int]] = {}
    for i in np.flatnonzero(stages.depth == 0).tolist():
        rows.setdefault(_NUMBER.sub("#", stages.name[i]), []).append(i)
    for name, same in sorted(rows.items(), key=lambda item: -len(item[1])):
        start, end = stages.start_event[same], np.minimum(stages.end_event[same], events)
        first = max(int(start.min()), 0)
        filled = int(np.maximum(end - np.maximum(start, 0), 0).sum())
        if len(same) >= _FEWEST_OF_A_NAME and filled >= _COVERS * (events - first):
            how = f"by the stages {name}"
            return _spans(stages, same, events, "stages", _BY_NAME, how)
    return None


def _spans(
    stages: Stages, rows: list[int], events: int, source: Source, sure: float, how: str
) -> Iterations | None:
    """Return stages as turns: each lasts to the next, the last to its own end."""
    kept = [i for i in rows if stages.end_event[i] > max(int(stages.start_event[i]), 0)]
    if not kept:
        return None
    starts = np.maximum(stages.start_event[kept], 0)
    # If one ends at the very time at which the next begins, events of that time are the former's.
    starts[1:] = np.where(
        stages.end_event[kept[:-1]] < stages.end_event[kept[1:]],
        np.maximum(starts[1:], stages.end_event[kept[:-1]]),
        starts[1:],
    )
    starts, first = np.unique(starts, return_index=True)
    names = [stages.name[kept[i]] for i in first.tolist()]
    last = kept[int(first[-1])]
    end = int(stages.end_event[last])
    if end >= events and int(stages.end_time_us[last]) == NO_TIME:  # it was still running
        starts, names, end = starts[:-1], names[:-1], int(starts[-1])
    return _iterations(source, sure, np.append(starts, end), how, names)


def _from_optimizer(
    history: DeviceHistory, passes: Passes, allocated: NDArray[np.int64]
) -> Iterations | None:
    stages, events = history.stages, history.events
    rows = {
        min(int(stages.end_event[i]), events): i  # of stages that end together, the inner one
        for i, name in enumerate(stages.name)
        if OPTIMIZER_STEP.match(name)
        and int(stages.end_time_us[i]) != NO_TIME
        and stages.end_event[i] > 0
    }
    if not rows:
        return None
    ends = np.array(sorted(rows), np.int64)
    steps = [rows[end] for end in ends.tolist()]
    names = [stages.name[i] for i in steps]
    starts = stages.start_event[steps]
    cycle = _cycle(history, steps)
    if cycle > 1:
        first = cycle - 1
        if not (passes.of(BUILD)[0] < ends[0]).any():
            # The recording began mid-turn: a turn ends before the longest pause between steps.
            pauses = starts[1:] - ends[:-1]
            first = int(np.argmax([pauses[i::cycle].mean() for i in range(cycle)]))
        last = names[first]
        alone = names[:cycle].count(last) == 1
        chosen = np.arange(len(ends)) % cycle == first
    else:
        counts = Counter(names)  # in the order in which they first come
        # If several occur equally often, the one that comes last in a turn.
        last = max(reversed(counts), key=counts.__getitem__)
        chosen, alone = np.array([name == last for name in names]), True
    bounds = _settle(_apart(ends[chosen]), history, passes, allocated)
    # What precedes the first bound is a turn, too: it makes the optimizer's state. But the rest of
    # a step that began before the recording is not.
    if starts[0] >= 0 or ends[0] != ends[chosen][0]:
        bounds = np.append(np.int64(0), bounds)
    how = f"by the stage {last}, which ends each"
    if not alone:
        how = f"by the stages Optimizer.step, of which {cycle} make one"
    return _iterations("optimizer", _BY_OPTIMIZER, bounds, how)


def _cycle(history: DeviceHistory, rows: list[int]) -> int:
    """Return after how many optimizer steps the same optimizer steps again.

    Optimizers are recognized by their stages' names, and by how many allocations a step makes.
    """
    stages, made = history.stages, history.allocations.alloc_event
    made = np.sort(made)
    begin, end = (
        np.searchsorted(made, edge[rows]) for edge in (stages.start_event, stages.end_event)
    )
    steps = [(stages.name[i], n) for i, n in zip(rows, (end - begin).tolist(), strict=True)]
    for cycle in range(1, min(len(steps) // _CYCLES, _LONGEST) + 1):
        if steps[cycle:-cycle] == steps[2 * cycle :]:
            return cycle
    return 1


def _apart(ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Keep the last of each group of ends that are close together."""
    if len(ends) < 2:
        return ends
    gaps = np.diff(ends)
    usual = median(gaps[gaps >= gaps.mean()])
    kept: NDArray[np.int64] = ends[np.append(gaps >= _TOGETHER * usual, True)]
    return kept


def _from_markers(
    history: DeviceHistory, passes: Passes, allocated: NDArray[np.int64]
) -> Iterations | None:
    stages = history.stages
    for pattern in _LOOP_MARKERS:
        rows = [
            i
            for i, name in enumerate(stages.name)
            if pattern.match(name) and 0 <= stages.start_event[i] < history.events
        ]
        if len(rows) > _FEWEST:
            bounds = _settle(unique(stages.start_event[rows]), history, passes, allocated)
            how = f"by the stage {stages.name[rows[0]]}, which begins each"
            found = _iterations("stages", _BY_MARKER, bounds, how)
            if found is not None:
                return found
    return None


def _from_period(period: Period, passes: Passes, allocated: NDArray[np.int64]) -> Iterations | None:
    """Put the bounds where the least is allocated in each period: between two turns.

    What comes before the first bound, or after the last, is a turn too if it makes what the turn
    beside it does.
    """
    marks, events = period.events, len(allocated) - 1
    usual = median(np.diff(marks))
    places = _places(passes, events)
    if period.order is not None:
        bounds = period.made[
            period.order[:, _lowest_in_turn(period, period.order, allocated, places)]
        ]
    else:
        # Each span begins with its mark: of equally low places, where the loop was entered.
        bounds = unique(_at_lowest(allocated, marks[:-1] - 1, marks[1:] - 1, places))
    count = np.diff(np.searchsorted(period.made, bounds))
    if len(count):
        bounds = bounds[np.append(True, count >= _SHORT * median(count))]
    if len(bounds) < _FEWEST:
        return None
    bounds = _with_turns_after(period, _with_turns_before(period, bounds), allocated, places)
    # If the model was built just before, the first turn is complete, however much it differs.
    built = passes.of(BUILD)[1] + 1
    built = built[(built < bounds[0]) & (built >= marks[0] - _LIMIT * usual)][-1:]
    if len(built):
        first, second, third = np.searchsorted(period.made, [*built, *bounds[:2]])
        if second - first >= _SHORT * (third - second):
            bounds = np.append(built, bounds)
    return _iterations("pattern", period.confidence, bounds, period.how)


def _lowest_in_turn(
    period: Period, order: NDArray[np.int64], allocated: NDArray[np.int64], places: NDArray[np.int8]
) -> int:
    """Return before which allocation of its turns the least is allocated, as if memory never grew.

    Where memory grows from turn to turn, the first place in a turn would else be the lowest.
    """
    at = period.made[order]
    live = allocated[at]
    grown = np.median(np.diff(live, axis=0), axis=0).min()
    level = np.median(live, axis=0) - grown * np.arange(order.shape[1]) / order.shape[1]
    kinds = np.sort(places[at], axis=0)[len(order) // 2]
    return int(np.where(kinds == kinds.min(), level, np.inf).argmin())


def _with_turns_before(period: Period, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Add the events with which complete turns begin before the first bound."""
    first, second = np.searchsorted(period.made, bounds[:2]).tolist()
    before: list[int] = []
    while True:
        turn = period.mark[first:second]
        found = _reach(turn[::-1], period.mark[:first][::-1], until=turn[:1])
        if found is None:
            return np.append(np.array(before[::-1], np.int64), bounds)
        first, second = first - found, first
        before.append(int(period.made[first]))


def _with_turns_after(
    period: Period,
    bounds: NDArray[np.int64],
    allocated: NDArray[np.int64],
    places: NDArray[np.int8],
) -> NDArray[np.int64]:
    """Add the events before which complete turns end that begin at the last bound."""
    made, mark = period.made, period.mark
    low = np.searchsorted(made, bounds)
    # After the last turn the program cleans up; to leave that out, the turn ends as others do.
    rest = int((bounds[1:] - made[np.maximum(low[1:] - 1, 0)]).max())
    first, second = low[-2:].tolist()
    after: list[int] = []
    while True:
        turn = mark[first:second]
        found = _reach(turn, mark[second:])
        if found is None:
            break
        last = int(made[second + found - 1])
        ends = min(last + rest, len(allocated) - 1)
        following = slice(second + found, int(np.searchsorted(made, ends)))
        again = np.flatnonzero(mark[following] == turn[0])[:1] + following.start
        ends = int(made[again[0]]) if len(again) else ends
        at = _at_lowest(allocated, np.array([last]), np.array([ends]), places)
        if not len(at):
            break
        after.append(int(at[0]))
        first, second = second, int(np.searchsorted(made, at[0]))
        rest = max(rest, after[-1] - int(made[max(second - 1, 0)]))
    return np.append(bounds, np.array(after, np.int64))


def _reach(
    turn: NDArray[np.int64], beside: NDArray[np.int64], until: NDArray[np.int64] | None = None
) -> int | None:
    """Return how many allocations beside a turn make most of what it makes; None if too few do.

    Args:
        turn: the marks of its allocations.
        beside: those that follow, the nearest first.
        until: where given, the last must be this.
    """
    n = len(turn)
    if not n:
        return None
    if len(beside) >= n and np.array_equal(beside[:n], turn):
        return n
    wanted, left = Counter(turn.tolist()), n
    for count, mark in enumerate(beside[: _LONGEST_FIRST * n].tolist(), 1):
        if wanted[mark] > 0:
            wanted[mark] -= 1
            left -= 1
        if left <= _TOGETHER * n and (until is None or mark == until[0]):
            return count
    return None


def _places(passes: Passes, events: int) -> NDArray[np.int8]:
    """Return the kind of place before each event, as a turn's end; int8, shape (events + 1,)."""
    found = np.full(events + 1, _ELSEWHERE, np.int8)
    following = np.append(passes.start, np.int64(events))[1:]
    after = {OPTIMIZER: _AFTER_STEP, BACKWARD: _AFTER_BACKWARD, BUILD: _ELSEWHERE}
    for phase, first, last, following_one in zip(
        *(column.tolist() for column in (passes.phase, passes.start, passes.end, following)),
        strict=True,
    ):
        if phase in after:
            found[first + 1 : last + 1] = _INSIDE
            found[last + 1 : following_one + 1] = after[phase]
    return found


def _settle(
    bounds: NDArray[np.int64],
    history: DeviceHistory,
    passes: Passes,
    allocated: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Move bounds forward to where the least is allocated, but not into the next turn's work.

    Gradients, the loss and the batch are mostly freed just after the optimizer step.
    """
    if len(bounds) < 2:
        return bounds
    stages = history.stages
    steps = [i for i, name in enumerate(stages.name) if OPTIMIZER_STEP.match(name)]
    begun = np.concatenate(
        [stages.start_event[steps], passes.of(FORWARD)[0], passes.of(BACKWARD)[0]]
    )
    begun = np.append(np.sort(begun), history.events)
    following = begun[np.minimum(np.searchsorted(begun, bounds), len(begun) - 1)]
    reach = int(_TOGETHER * median(np.diff(bounds)))
    last = np.maximum(np.minimum(bounds + reach, following), bounds)
    settled = _at_lowest(allocated, bounds[:-1] - 1, last[:-1])
    # After the last turn the program cleans up; to leave that out, the turn ends as the others do.
    moved = int((settled - bounds[:-1]).max())
    end = _at_lowest(allocated, bounds[-1:] - 1, np.minimum(last[-1:], bounds[-1:] + moved))
    return unique(np.append(settled, end))


def _at_lowest(
    allocated: NDArray[np.int64],
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    places: NDArray[np.int8] | None = None,
) -> NDArray[np.int64]:
    """Return, for each span of events, the first event before which the least is allocated.

    Args:
        allocated: int64, shape (n_events + 1,); index 0 is the start.
        first, last: int64, shape (n,); the bounds found are in ``first < bound <= last``.
        places: kinds of places; only the likeliest kind in a span counts, and a span entirely
            inside passes has no bound.
    """
    bounds: list[int] = []
    for low, high in zip(first.tolist(), last.tolist(), strict=True):
        # Index s is what is allocated just before event s.
        inside = allocated[low + 1 : high + 1]
        if places is not None:
            kinds = places[low + 1 : high + 1]
            best = kinds.min()
            if best == _INSIDE:
                continue
            inside = np.where(kinds == best, inside, np.iinfo(np.int64).max)
        start = int(inside.argmin())
        # Following events that change nothing, such as a completed free, belong to the turn.
        higher = inside[start:] != inside[start]
        bounds.append(low + start + (int(higher.argmax()) if higher.any() else len(higher)))
    return np.array(bounds, np.int64)


def _iterations(
    source: Source,
    confidence: float,
    bounds: NDArray[np.int64],
    how: str,
    names: Sequence[str] | None = None,
) -> Iterations | None:
    """Return the turns between some bounds, None if there are too few of them."""
    starts, end = bounds[:-1].astype(np.int64), int(bounds[-1])
    if len(starts) < _FEWEST:
        return None
    names = names or [f"step {i + 1}" for i in range(len(starts))]
    return Iterations(source, confidence, starts, end, tuple(names), how)

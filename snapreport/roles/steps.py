"""Find the turns of a program's outer loop, its steps: from stages, else from its allocations.

Without stages, a turn is the period of the allocations. Where the same allocations come again and
again in the same order, that order is the period. Else a mark is looked for, a call stack (or a
size, if there is no stack) that comes once in every turn. It marks the program's outer loop if its
distances are alike, counted in allocations, and fill the recording from its first occurrence on. A
loop over the layers of a model is just as regular. It is recognized by its stacks, which all pass
through one line inside a module, an optimizer, the backward pass, or the building of a model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.later import expression
from snapreport.ground.memoize import once_for_both, once_for_each, shared
from snapreport.ground.native.columns import (
    Outline,
    distinct,
    median,
    medians,
    stable_order,
    sum_live,
    unique,
)
from snapreport.ground.records import dataclass
from snapreport.ground.units import format_count, rounded_share
from snapreport.model.findings import LIBRARY, OUTSIDE
from snapreport.model.history import DeviceHistory, History, Stages
from snapreport.model.roles import Iterations, Source
from snapreport.model.snapshot import GRADIENT_OF, NO_TIME, StackTable
from snapreport.roles.frames import classify_frames
from snapreport.roles.passes import (
    BACKWARD,
    BUILD,
    FORWARD,
    IN_BACKWARD,
    IN_OPTIMIZER,
    OPTIMIZER,
    Passes,
    find_passes,
    stack_marks,
)

_PROFILER_STEP = expression(r"^ProfilerStep#\d+$")
OPTIMIZER_STEP = expression(r"^Optimizer\.step#")
"""The name of an optimizer step's stage, as PyTorch annotates it."""

_FEWEST = 2
"""A single turn is not a repetition."""
_TOGETHER = 0.25
"""Ends of optimizer steps closer than this part of the usual distance belong to one step of the
program: one that has several optimizers."""
_AFTER_STEP, _AFTER_BACKWARD, _ELSEWHERE, _INSIDE = range(4)
"""Where a turn may end, the likeliest first; it cannot inside a backward pass or optimizer step."""
_BY_OPTIMIZER, _BY_MARKER, _BY_NAME = 0.95, 0.9, 0.8
"""Confidences: an optimizer may step twice per turn (GANs); zero_grad and data loaders are also
used outside of the loop; a name that repeats may be a part of a step."""


@once_for_each
def allocated_curve(history: DeviceHistory) -> NDArray[np.int64]:
    """Return the allocated bytes after each event; int64, shape (n_events + 1,)."""
    rows = history.allocations
    lives = rows.alloc_event, rows.free_requested_event
    return shared(sum_live(rows.block_size, *lives, history.events))


@once_for_each
def allocated_outline(history: DeviceHistory) -> Outline:
    """Return the allocated curve with its tops."""
    return Outline(allocated_curve(history))


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
    stages, allocated = history.stages, allocated_curve(history)
    passes = find_passes(history, tables)
    profiled = [i for i, name in enumerate(stages.name) if _PROFILER_STEP.match(name)]
    how = "by the stages ProfilerStep#N"
    found = (
        _spans(stages, profiled, history.events, "profiler", 1.0, how)
        or _from_optimizer(history, passes, allocated)
        or _from_markers(history, passes, allocated)
        or _from_names(stages, history.events)
    )
    if found is not None:
        return found
    period = _find_period(tables, history)
    return None if period is None else _from_period(period, passes, allocated)


_NUMBER = expression(r"\d+")
_FEWEST_OF_A_NAME = 3
"""A stage name of the user's own counts as a step's if it occurs this often."""
_COVERS = 0.5
"""The stages of that name must fill at least this part of the recording from the first one on."""


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


_LONGEST = 64
"""A turn is not taken to have more optimizer steps than this."""
_CYCLES = 3
"""Optimizers that alternate must do so this often, as each makes its state the first time."""


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


_LOOP_MARKERS = (
    expression(r"^Optimizer\.zero_grad#"),
    expression(r"^enumerate\(DataLoader\)#.*__next__$"),
)
"""Stages that PyTorch itself sets once a step, at or near its beginning."""


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


_LIMIT = 1 + _TOGETHER
"""Building a model that ends within this many usual turns before the first mark precedes turn 1."""
_SHORT = 0.5
"""What makes fewer allocations than this part of the usual turn is none."""


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


_LONGEST_FIRST = 4
"""The first turn may make this many times the allocations of the next: states, workspaces."""


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


# The period of the allocations: what comes once in every turn.

FEWEST = 5
"""A mark must occur this often: fewer equal distances are chance, or the parts of one step."""
_BODY = 2
"""A turn with fewer allocations than this is not a step."""
_KEPT = 0.5
"""A loop that keeps more than this part of the bytes it allocates loads or builds something, or
iterates over layers and keeps activations for the backward pass. Steps keep little."""
_FRAMED, _UNFRAMED = 0.9, 0.6
"""The highest confidence: a period is inferred, and without stacks inner loops are not excluded."""


@dataclass(frozen=True, eq=False)
class Period:
    """Places of one kind in the turns of a loop, one in each."""

    events: NDArray[np.int64]
    """The event of each; int64, shape (n,), ascending."""
    confidence: float
    how: str
    made: NDArray[np.int64]
    """The events of all allocations; int64, shape (n_made,), ascending."""
    mark: NDArray[np.int64]
    """The mark of each: equal ones are of one call stack, or, without one, of one size."""
    order: NDArray[np.int64] | None
    """If the same allocations come in the same order in each turn: which they are, by their places
    in ``made``; int64, shape (n, allocations in a turn)."""


_FILLS_UNFRAMED = 0.9
"""``_FILLS`` if marks are sizes, as many different tensors have one size."""


def _find_period(tables: History, history: DeviceHistory) -> Period | None:
    """Find the mark that best separates the turns of the outer loop, or None."""
    rows = history.allocations
    made = np.flatnonzero(rows.alloc_event >= 0)
    made = made[stable_order(rows.alloc_event[made])]
    if len(made) < FEWEST * _BODY:
        return None
    # One more than there are, for NO_STACK and for the empty stack.
    node = np.append(tables.stacks.stack_node, -1)[rows.stack[made]]
    framed = node >= 0
    # Sizes are numbered after the stacks, so that no mark means both.
    mark = np.where(framed, rows.stack[made], len(tables.stacks) + rows.size[made])
    inside = parts_of_steps(tables.stacks)[node]
    events = rows.alloc_event[made].astype(np.int64)

    def judged(
        places: NDArray[np.int64], share: float, how: str, order: NDArray[np.int64] | None = None
    ) -> Period | None:
        """Return the period that begins at some places, None if it is not the outer loop's."""
        if _is_inner(inside, framed, places) or _kept(history, made, places) > _KEPT:
            return None
        sure = _FRAMED if framed[places[0]] else _UNFRAMED
        how = f"by the pattern of the allocations: {how}"
        return Period(events[places], share * sure, how, events, mark.astype(np.int64), order)

    in_order = None
    for order in _in_order(mark, rows.size[made]):
        times, length = map(format_count, order.shape)
        how = f"the same {length} come {times} times in a row"
        in_order = judged(order[:, 0], 1.0, how, order)
        if in_order is not None:
            break
    trains = _trains(tables.stacks, rows.stack[made])
    if in_order is not None and trains is None:
        return in_order
    for places, share in _even_marks(mark):
        if not framed[places[0]] and share < _FILLS_UNFRAMED:
            continue
        how = (
            f"one comes {format_count(len(places))} times, at even distances"
            f" that cover {rounded_share(share)} of the allocations after it first comes"
        )
        found = judged(places, share, how)
        if found is not None:
            break
    else:
        return in_order
    if in_order is None or trains is None or 3 * len(in_order.events) >= 2 * len(places):
        return in_order or found
    # What a program does every tenth step makes a longer period of ten steps, each of which trains.
    each = np.diff(np.searchsorted(trains, places)) > 0
    return found if 2 * each.sum() > len(each) else in_order


def _trains(stacks: StackTable, stack: NDArray[np.int32]) -> NDArray[np.int64] | None:
    """Return which allocations optimizer steps made, or else backward passes; None for none."""
    marks = stack_marks(stacks)[stack]
    for wanted in (IN_OPTIMIZER, IN_BACKWARD):
        found = np.flatnonzero(marks & wanted)
        if len(found):
            return found
    return None


def _in_order(mark: NDArray[Any], size: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield the turns in which the same allocations come in the same order, as ``Period.order``.

    A line that makes tensors of several sizes in each turn is told by the sizes, too. Where these
    change from turn to turn, the call stacks alone may repeat.
    """
    alone = distinct(mark)[1]
    sizes, place = distinct(size)
    for ids in (distinct(alone * len(sizes) + place)[1], alone):
        found = _repeated(ids)
        if found is not None:
            yield found


_FILLS_IN_ORDER = 0.9
"""``_FILLS`` if all allocations come in the same order: less is a part of the program."""
_SEARCHED = 1 << 16
"""A period is looked for among so many allocations, and then held against all."""


def _repeated(ids: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return the turns of a sequence, if from one place on nearly all of it repeats exactly.

    Args:
        ids: int64, shape (n,), from 0 on.

    Returns:
        The places of each complete turn, shape (turns, length), at least FEWEST; else None.
    """
    n, width, tried = len(ids), 1, set[int]()
    # Any part of a loop shows its period; near its end it has begun, and the program still runs.
    skip = max(n - _SEARCHED, 0)
    words = distinct(ids[skip - skip // 4 : n - skip // 4])[1]
    n_words = len(words)
    # The usual distance of equal words is the period, unless they come more than once in a turn.
    # Longer words do so more rarely.
    while 2 * width <= n_words:
        order = stable_order(words)
        same = words[order[1:]] == words[order[:-1]]
        gaps = np.diff(order)[same]
        # What comes before the first that comes again is no part of the loop.
        if not len(gaps) or len(gaps) < _FILLS_IN_ORDER / 2 * (n_words - order[:-1][same].min()):
            return None
        period = int((np.bincount(gaps) * np.arange(gaps.max() + 1)).argmax())
        if period >= _BODY and period not in tried and period * FEWEST <= n:
            tried.add(period)
            unlike = np.flatnonzero(np.append(ids[period:] != ids[:-period], True))
            lengths = np.diff(unlike, prepend=-1) - 1
            run = int(lengths.argmax())
            start, covered = int(unlike[run] - lengths[run]), int(lengths[run]) + period
            if covered >= max(FEWEST * period, _FILLS_IN_ORDER * (n - start)):
                turns = covered // period
                return np.arange(start, start + turns * period).reshape(turns, period)
        words = distinct(words[:-width] * n_words + words[width:])[1]
        width *= 2
    return None


_TOLERANCE = 0.25
"""Distances are alike if they are this near to the median: programs branch, and log at times."""
_FILLS = 0.6
"""The part of the recording after the first mark that alike distances must fill. Evaluation, saving
and cleaning up may take the rest; the layers of one part of a step fill less."""
_AGREE, _SAME = 2, 0.1
"""How many marks must agree, within this part of their distances: in a program without a loop, one
of many marks may occur at even distances by chance."""
_TRIED = 200
"""At most this many marks are examined; those of one loop are all alike."""


def _even_marks(mark: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], float]]:
    """Yield where each mark that comes at even distances occurs, and what part of all it fills.

    The fullest come first, and of those the most frequent. Places are in the order of the
    allocations, and the part is of those from the first place on.
    """
    order = stable_order(mark)
    ordered = mark[order]
    begin = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    count = np.diff(np.append(begin, len(mark)))
    group = np.repeat(np.arange(len(count)), count)
    gap = np.diff(order)
    inner = group[1:] == group[:-1]
    gap, group = gap[inner], group[1:][inner]
    usual = medians(gap, group, len(count))
    even = np.abs(gap - usual[group]) <= _TOLERANCE * usual[group]
    regular = np.bincount(group, weights=gap * even, minlength=len(count))
    filled = np.minimum((regular + usual) / np.maximum(len(mark) - order[begin], 1), 1.0)
    fits = np.flatnonzero((count >= FEWEST) & (usual >= _BODY) & (filled >= _FILLS))
    best = np.lexsort((order[begin[fits]], 1 / count[fits] - filled[fits]))[:_TRIED]
    for one in fits[best].tolist():
        often = np.abs(count[fits] - count[one]) <= 1
        alike = np.abs(usual[fits] - usual[one]) <= _SAME * usual[one]
        if (often & alike).sum() >= _AGREE:
            yield order[begin[one] : begin[one] + count[one]], float(filled[one])


_MODULE_CALL = expression(r"^_(wrapped_)?call_impl$")
_WITHIN = expression(
    r"torch::autograd::(python::Python)?Engine|^_engine_run_backward$"
    r"|^(forward|_apply|__init__|deepcopy|load_state_dict|_load_from_state_dict|from_pretrained)$"
)
_WITHIN_FILE = expression(r"torch[/\\]optim[/\\]|torch[/\\]_(inductor|dynamo)[/\\]")


def parts_of_steps(stacks: StackTable) -> NDArray[np.int64]:
    """Number the part of a step that each node's path is within, -1 for none; the last is no node.

    A part is a path down to its outermost frame inside a step. The call of a module is not a part
    (the loop may do nothing else), but a line in the module is. C++ frames between Python frames do
    not count, as the interpreter may use more or fewer of them for the same call.
    """
    frames = stacks.frames
    kinds = classify_frames(frames).tolist()
    calls = [bool(_MODULE_CALL.match(name)) for name in frames.names]
    within = {file: bool(_WITHIN_FILE.search(file)) for file in set(frames.filenames)}
    part = [
        name.startswith(GRADIENT_OF) or within[filename] or bool(_WITHIN.search(name))
        for name, filename in zip(frames.names, frames.filenames, strict=True)
    ]
    counts = [kind in (OUTSIDE, LIBRARY) or p for kind, p in zip(kinds, part, strict=True)]
    n = len(stacks.node_parent)
    found = [-1] * (n + 1)
    called = [False] * (n + 1)
    python = [-1] * (n + 1)
    paths: dict[tuple[int, int], int] = {}
    for node, (parent, frame) in enumerate(  # parents come first
        zip(stacks.node_parent.tolist(), stacks.node_frame.tolist(), strict=True)
    ):
        called[node] = called[parent] or calls[frame]
        python[node] = python[parent]
        if counts[frame]:
            python[node] = paths.setdefault((python[parent], frame), len(paths))
        if found[parent] >= 0:
            found[node] = found[parent]
        elif part[frame] or (called[parent] and kinds[frame] == OUTSIDE):
            found[node] = python[node]
    return np.array(found, np.int64)


_SAMPLED = 16
"""How many turns of each mark are examined."""


def _is_inner(inside: NDArray[Any], framed: NDArray[np.bool_], places: NDArray[np.int64]) -> bool:
    """Say whether most turns are entirely within one part of a step."""
    chosen = unique(np.linspace(0, len(places) - 2, _SAMPLED).astype(np.int64))
    inner = 0
    for i in chosen.tolist():
        turn = slice(int(places[i]), int(places[i + 1]))
        parts = inside[turn][framed[turn]]
        inner += bool(len(parts) and parts[0] >= 0 and (parts == parts[0]).all())
    return 2 * inner > len(chosen)


def _kept(history: DeviceHistory, made: NDArray[np.int64], places: NDArray[np.int64]) -> float:
    """Return the share of bytes allocated from first to last mark that are live at the last."""
    rows = history.allocations
    turns = made[places[0] : places[-1]]
    size = rows.size[turns]
    last = int(rows.alloc_event[made[places[-1]]])
    return float(size[rows.free_event[turns] > last].sum() / max(int(size.sum()), 1))

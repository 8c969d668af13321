"""Memory that stays after its last use: what a program has let go of, or means to have.

An object that refers to itself, by whatever way, is not freed when it is dropped, but when Python's
garbage collector next looks: a saw-tooth over steps. What an exception's traceback or a forgotten
variable refers to is still there when the same lines make it again. A variable keeps the results of
one step until the next has made its own. And a result that needs gradients holds all that its
backward pass would need, for as long as somebody adds it up or collects it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.advice.changes import inference
from snapreport.diagnosis.advice.planning import as_suggestion, situation_of
from snapreport.diagnosis.advice.situation import Calls, Situation, graph_calls
from snapreport.diagnosis.block_room import freed_by
from snapreport.diagnosis.finding_tables import site_table
from snapreport.figures.callsites import name_sites, name_stacks, short_site, site_text
from snapreport.ground.later import expression
from snapreport.ground.native.columns import (
    count_until,
    distinct,
    is_among,
    median,
    stable_order,
    sum_live,
    unique,
)
from snapreport.ground.records import dataclass
from snapreport.ground.units import format_bytes, format_count, times
from snapreport.model.diagnoses import Figure, Finding, Frees, Suggestion, View
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import START, History
from snapreport.model.roles import Iterations
from snapreport.model.snapshot import StackTable
from snapreport.roles.frames import is_native_file
from snapreport.roles.passes import BUILD, OF_MODULES, find_passes, stack_marks
from snapreport.roles.stack_kinds import HAS_FRAMES

MIB = 1 << 20
VISIBLE, _COSTS = 0.01, 0.1
"""Worth a note from this part of the peak on, and a warning if the peak falls by the second, or
would without what calls of a model keep."""


def find_unreleased(
    tables: History, device: DeviceFigures, turns: Iterations | None
) -> Iterator[Finding]:
    """Yield the findings about reference cycles and earlier attempts."""
    if turns is not None:
        yield from _cycles(tables, device, turns)
    yield from _earlier(tables, device)


# What the garbage collector frees.


_TURNS = 4
"""One line drops what it holds of a turn or two; the collector, what so many turns have left."""
_TIMES = 2
"""The collector must have run this often: something is dropped once in any program."""
_LINES = 3
"""At so many different lines memory is freed by what may run anywhere."""
_APART = 3
"""Frees follow one another if they are at most this many events apart."""
_COLLECTS = expression(r"gc_collect|_Py_?RunGC|_?PyGC_|PyObject_GC_Del$|delete_garbage")
"""C functions of the collector. In a Python without symbols the nearest known name is shown."""
_HOLDS_NOTHING = expression(
    r"(^|[/\\])torch[/\\](nn[/\\](functional\.py|modules[/\\])|_tensor\.py|functional\.py|autograd[/\\])"
)
"""Files of PyTorch whose functions keep nothing from one call to the next."""


@dataclass(frozen=True, eq=False)
class _Collected:
    """Memory that was freed by the garbage collector."""

    rows: NDArray[np.int64]
    """The allocations; int64."""
    times: int
    """How often the collector freed such memory."""
    most: int
    """The most bytes that it freed at once."""
    turns: int
    """The most turns whose memory it freed at once."""
    event: int
    """The first event of that."""
    stack: int
    """The call stack of that."""
    frees: Frees
    """How far the allocated peak would fall without the cycles."""


def _find_collected(tables: History, device: DeviceFigures, turns: Iterations) -> _Collected | None:
    """Find memory of many turns that is freed at once, where nothing but the collector frees it."""
    history, rows, bounds = device.history, device.history.allocations, turns.bounds
    until = count_until(bounds, history.events)
    made = rows.alloc_event > START
    freed = np.flatnonzero(made & (rows.free_requested_event < history.events))
    freed = freed[rows.free_stack[freed] >= 0]
    freed = freed[stable_order(rows.free_requested_event[freed])]
    if not len(freed):
        return None
    at = rows.free_requested_event[freed]
    turn = until[rows.alloc_event[freed] - START]
    # Few frees that follow one another are of many turns: only those are looked at in detail.
    edges = np.flatnonzero(np.concatenate([[True], np.diff(at) > _APART, [True]]))
    spread = np.maximum.reduceat(turn, edges[:-1]) - np.minimum.reduceat(turn, edges[:-1])
    wide = np.flatnonzero(spread >= _TURNS - 1)
    if not len(wide):
        return None
    stacks, place = distinct(rows.free_stack[freed])
    python = _python_paths(tables.stacks, stacks)
    bursts = []
    for low, high in zip(edges[wide].tolist(), edges[wide + 1].tolist(), strict=True):
        other = np.flatnonzero(np.diff(python[place[low:high]])) + 1
        parts = np.split(np.arange(low, high), other)
        bursts += [part for part in parts if len(unique(turn[part])) >= _TURNS]
    sure = [burst for burst in bursts if _collects(tables.stacks, int(stacks[place[burst[0]]]))]
    lines = {int(python[place[burst[0]]]) for burst in bursts}
    if len(bursts) < _TIMES or not (sure or len(lines) >= max(_LINES, len(bursts) // 2)):
        return None
    # What the collector frees once, it frees again: other bursts of the same lines count.
    told = rows.stack.astype(np.int64)
    of_cycles = unique(told[freed[np.concatenate(sure or bursts)]])
    kept = [burst[is_among(told[freed[burst]], of_cycles)] for burst in bursts]
    kept = [burst for burst in kept if len(unique(turn[burst])) >= _TURNS]
    sums = [int(rows.block_size[freed[burst]].sum()) for burst in kept]
    if len(kept) < _TIMES or max(sums) < max(VISIBLE * device.peak.allocated, MIB):
        return None
    largest = kept[int(np.argmax(sums))]
    # The recording ends before all of it is collected.
    same = np.flatnonzero(made & is_among(told, of_cycles))
    ends = np.append(bounds, history.events)[until[rows.alloc_event[same] - START]]
    return _Collected(
        rows=freed[np.concatenate(kept)],
        times=len(kept),
        most=max(sums),
        turns=len(unique(turn[largest])),
        event=int(at[largest[0]]),
        stack=int(rows.free_stack[freed[largest[0]]]),
        frees=_without_cycles(tables, device, same, ends),
    )


def _python_paths(stacks: StackTable, chosen: NDArray[np.int32]) -> NDArray[np.int64]:
    """Number the Python frames of some call stacks: alike where only C++ frames differ."""
    found: dict[tuple[int, ...], int] = {}
    native = [is_native_file(filename) for filename in stacks.frames.filenames]
    paths = (
        tuple(frame for frame in stacks.path(stack) if not native[frame])
        for stack in chosen.tolist()
    )
    return np.array([found.setdefault(path, len(found)) for path in paths], np.int64)


def _collects(stacks: StackTable, stack: int) -> bool:
    """Whether a call stack shows the collector, or a place that cannot have held what it frees."""
    frames = stacks.frames
    for frame in stacks.path(int(stack)):
        if not is_native_file(frames.filenames[frame]):
            return bool(_HOLDS_NOTHING.search(frames.filenames[frame]))
        if _COLLECTS.search(frames.names[frame]):
            return True
    return False


def _without_cycles(
    tables: History, device: DeviceFigures, chosen: NDArray[np.int64], ends: NDArray[np.int64]
) -> Frees:
    """Return how far the peak falls if memory is freed when it is dropped, not when collected.

    Args:
        chosen: the allocations of the lines that made it.
        ends: the first event after the turn of each.
    """
    history, rows = device.history, device.history.allocations
    most = freed_by(tables, history, chosen, rows.alloc_event[chosen]).most
    late = rows.free_requested_event[chosen] > ends
    chosen, ends = chosen[late], ends[late]
    begin, end = rows.alloc_event[chosen], rows.free_requested_event[chosen]
    place = distinct(rows.stack[chosen])[1]
    youngest = np.full(int(place.max()) + 1, history.events)
    np.minimum.at(youngest, place, end - begin)
    expected = freed_by(tables, history, chosen, ends).expected
    return Frees(
        min(expected, freed_by(tables, history, chosen, begin + youngest[place]).least),
        expected,
        max(expected, most),
        "all was dropped at the age at which the youngest of its line was freed, and other blocks"
        " may then be up to 1 MiB larger than their requests",
        "what a step makes is dropped as it ends",
        "none of it was needed, and blocks then hold no more than was asked for",
    )


def _cycles(tables: History, device: DeviceFigures, turns: Iterations) -> Iterator[Finding]:
    found = _find_collected(tables, device, turns)
    if found is None:
        return
    peak, history = device.peak.allocated, device.history
    largest = found.rows[int(history.allocations.block_size[found.rows].argmax())]
    who = short_site(name_sites(history, tables.stacks, np.array([largest]))[0])
    where = short_site(name_stacks(tables.stacks, [found.stack])[0])
    costs = found.frees.expected >= max(_COSTS * peak, MIB)
    yield Finding(
        "reference-cycles",
        "warning" if costs else "note",
        f"{format_bytes(found.most)} from {format_count(found.turns)} steps was freed at once by"
        f" Python's garbage collector, most of it made by {who}",
        "Memory that each step made there stayed after the step, and was freed together with that"
        f" of other steps, {times(found.times)}, in code that does not hold it: once"
        f" in {where}. So the program had dropped it, but objects that refer to each other in a"
        " circle kept it until the collector ran.",
        subject=who,
        evidence=(
            Figure("freed at once", found.most, meaning="the most at any time"),
            Figure("made in steps", found.turns, "count"),
            Figure("at event", found.event, "event"),
            Figure("times", found.times, "count"),
            Figure("allocations", len(found.rows), "count"),
            Figure("peak falls by", found.frees.expected, meaning="dropped as their steps end"),
        ),
        tables=(
            site_table(tables, history, found.rows, "What the collector freed", heading="in all"),
        ),
        suggestions=(
            Suggestion(
                "break-cycle",
                "Break the circle: make one of the references weak (weakref.ref), or set it to None"
                " before the object is dropped. Typical circles are an object stored on itself, a"
                " parent and a child that refer to each other, a closure kept by the object that it"
                " uses, and a caught exception kept in a variable. PyTorch can draw those that hold"
                " GPU memory (below). gc.collect() in each step frees the memory too, but takes"
                " time; with gc.freeze() or rarer collections it stays longer.",
                "from torch.utils.viz._cycles import warn_tensor_cycles; warn_tensor_cycles()",
                frees=found.frees,
                sites=(who,),
            ),
        ),
        view=View("stacks", event=found.event - 1, curve="allocated"),
        bytes=found.most,
    )


# An earlier attempt.


_SAME = 0.8
"""Models are alike, and live, if this part of their bytes is."""


@dataclass(frozen=True, eq=False)
class _Attempt:
    """Memory of an earlier attempt that is live when the same lines have built a model again."""

    rows: NDArray[np.int64]
    event: int
    """The last event of building again."""
    failed: int | None
    """The event of the request that failed between the two; None if none did."""
    held: int
    """Bytes of it that are live at ``event``."""
    held_at_failure: int
    """Bytes of it that were live when a later request failed; 0 if none did."""
    dropped: bool
    """Whether most of it was freed later in the recording, so that it was not needed."""
    frees: Frees
    """How far the allocated peak would fall had it been freed before building again."""


def _find_attempt(tables: History, device: DeviceFigures) -> _Attempt | None:
    """Find the model that was still live when the same lines had built it again, the largest."""
    history, rows = device.history, device.history.allocations
    passes = find_passes(history, tables)
    built = (passes.made == BUILD) & (stack_marks(tables.stacks)[rows.stack] & OF_MODULES != 0)
    built &= rows.alloc_event > START
    least = max(VISIBLE * device.peak.allocated, MIB)
    models: list[tuple[int, int, NDArray[np.int64], Counter[tuple[int, int]]]] = []
    found: list[_Attempt] = []
    for start, end in zip(*(each.tolist() for each in passes.of(BUILD)), strict=True):
        made = np.flatnonzero(built & (rows.alloc_event >= start) & (rows.alloc_event <= end))
        if int(rows.block_size[made].sum()) < least:
            continue
        told = Counter(zip(rows.stack[made].tolist(), rows.size[made].tolist(), strict=True))
        before = [
            (first, last)
            for first, last, others, model in models
            if _alike(model, told)
            and _live(device, others, end) >= _SAME * int(rows.block_size[others].sum())
        ]
        if before:
            found.append(_attempt(tables, device, before[0][0], before[-1][1], start, end))
        models.append((start, end, made, told))
    return max(found, key=lambda each: (each.held_at_failure, each.held), default=None)


def _alike(one: Counter[tuple[int, int]], other: Counter[tuple[int, int]]) -> bool:
    def weight(counts: Counter[tuple[int, int]]) -> int:
        return sum(size * count for (_, size), count in counts.items())

    return weight(one & other) >= _SAME * max(weight(one), weight(other))


def _live(device: DeviceFigures, chosen: NDArray[np.int64], event: int) -> int:
    rows = device.history.allocations
    there = (rows.alloc_event[chosen] <= event) & (rows.free_requested_event[chosen] > event)
    return int(rows.block_size[chosen[there]].sum())


def _attempt(
    tables: History, device: DeviceFigures, first: int, last: int, start: int, end: int
) -> _Attempt:
    """Measure what was made from one event on and is live after another, which begins again.

    Args:
        first, last: the events from which the earliest and to which the latest model was built.
        start, end: the first and last event of building again.
    """
    rows = device.history.allocations
    # What was made once only, such as a library's workspace, is not the attempt's own.
    again = unique(rows.stack[rows.alloc_event >= start])
    chosen = np.flatnonzero(
        (rows.alloc_event >= first)
        & (rows.alloc_event < start)
        & (rows.free_requested_event > end)
        & (rows.stack >= 0)
        & is_among(rows.stack, again)
    )
    before = np.flatnonzero(
        (rows.alloc_event >= first)
        & (rows.alloc_event < start)
        & (rows.free_requested_event > start)
    )
    size, until = rows.block_size[chosen], rows.free_requested_event[chosen]
    expected = freed_by(tables, device.history, chosen, np.full(len(chosen), start))
    everything = freed_by(tables, device.history, before, np.full(len(before), start))
    failures = [oom.event for oom in device.ooms]
    between = [event for event in failures if last < event < start]
    dropped = int(size[until < device.history.events].sum())
    return _Attempt(
        rows=chosen,
        event=end,
        failed=between[-1] if between else None,
        held=int(size.sum()),
        held_at_failure=max(
            (_live(device, chosen, event) for event in failures if event > end), default=0
        ),
        dropped=2 * dropped > int(size.sum()),
        frees=Frees(
            expected.least,
            expected.expected,
            max(expected.most, everything.most),
            "all that the same lines make again is dropped, and blocks that are made later may be"
            " up to 1 MiB larger than their requests",
            "all that the same lines make again is dropped, and nothing else",
            "all that was made before is dropped, and blocks then hold no more than was asked for",
        ),
    )


def _earlier(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    found = _find_attempt(tables, device)
    if found is None:
        return
    history, held = device.history, format_bytes(found.held)
    largest = found.rows[int(history.allocations.block_size[found.rows].argmax())]
    subject = short_site(name_sites(history, tables.stacks, np.array([largest]))[0])
    what, why, text, change = _KEPT_BY[found.failed is not None]
    costs = found.frees.expected >= max(_COSTS * device.peak.allocated, MIB)
    effect = (
        f" When a later request failed, {format_bytes(found.held_at_failure)} of it was still live."
        if found.held_at_failure
        else ""
    )
    effect += (
        f" Had it been freed first, the peak would be {format_bytes(found.frees.expected)} lower."
        if found.frees.expected
        else " It does not raise the peak."
    )
    wasted = found.failed is not None or found.dropped
    frees = None
    if device.ooms and found.held_at_failure:
        frees = Frees.exactly(found.held_at_failure)
    elif not device.ooms and found.frees.expected:
        frees = found.frees
    yield Finding(
        "earlier-attempt",
        "warning" if wasted and (costs or found.held_at_failure) else "note",
        what.format(held),
        why + effect,
        subject=subject,
        evidence=(
            Figure("of the earlier one", found.held),
            Figure("built again by event", found.event, "event"),
            *(
                ()
                if found.failed is None
                else (Figure("failed request between them, at event", found.failed, "event"),)
            ),
            Figure("live at a later failure", found.held_at_failure),
            Figure("peak falls by", found.frees.expected, meaning="freed before building again"),
            Figure("allocations", len(found.rows), "count"),
        ),
        tables=(site_table(tables, history, found.rows, "What was still live"),),
        suggestions=(
            Suggestion(
                "drop-attempt",
                text,
                change,
                frees=frees,
                unless="Both are needed at once, as in an ensemble.",
            ),
        ),
        view=View("live", event=found.event),
        bytes=found.held,
    )


_KEPT_BY = {
    True: (
        "{} of an attempt that failed is still live in the next one",
        (
            "A request failed, and the same lines began anew, while what they had made before was"
            " still live. An exception that is referred to keeps its traceback, and with it the"
            " local variables of every function that it came through."
        ),
        (
            "Try again only after the except block has ended, and keep no reference to the"
            " exception: note str(error) if you need it. Then delete the model, the optimizer and"
            " the batch."
        ),
        "except torch.cuda.OutOfMemoryError as error: failed = str(error)",
    ),
    False: (
        "{} of an earlier model is still live when the same lines have built another",
        (
            "The same lines built a model of the same size again, with other work between, while"
            " the first was still live."
        ),
        (
            "Delete all that refers to the earlier model before you build the next: besides its"
            " variable its optimizer, its outputs and losses, hooks and closures, and in a notebook"
            " Out and _. Assigning the new model to the old name frees the old one only once the"
            " new one is there."
        ),
        "del model, optimizer, outputs, loss",
    ),
}
"""What is said if a request failed between the two, and if none did."""


# The results of one step that are still live in the next.
SOON = 2
"""Memory freed within this many turns after its own is held over, not kept; what grew in one of so
many last turns still grows."""
_AGAIN = 0.5
"""A call site counts if its memory is held over in at least this part of the turns."""
_OWN = ("parameter", "optimizer state", "optimizer", "gradient")
"""Categories that are meant to outlive a step."""
_GRADIENTS = ("backward",)
"""Categories that may hide gradients: the engine's own threads make them without Python frames."""


def is_own(
    device: DeviceFigures, rows: NDArray[np.int64], names: tuple[str, ...] = _OWN
) -> NDArray[np.bool_]:
    """Say for some allocations whether they are meant to outlive a step; shape (n,)."""
    own = [i for i, category in enumerate(device.categories) if category.name in names]
    return is_among(device.category[rows], own)


_TRAINS = ("backward", "gradient", "optimizer", "optimizer state")


def step_figures(turns: Iterations) -> tuple[Figure, ...]:
    """Return the figures that say which steps the others are about."""
    return (
        Figure("steps of the program", len(turns), "count", turns.how),
        Figure(
            "confidence in the steps",
            round(turns.confidence, 2),
            "share",
            "100% where the file names the steps; less where they are inferred",
        ),
    )


def trains(device: DeviceFigures) -> bool:
    """Whether any memory is for training."""
    return any(category.name in _TRAINS for category in device.categories)


def find_held_over(
    tables: History,
    device: DeviceFigures,
    turns: Iterations,
    number: NDArray[np.int64],
    growing: NDArray[np.int64],
) -> Iterator[Finding]:
    """Yield the finding about what was made in one turn and is freed soon after it.

    Args:
        turns: of the program.
        number: each allocation's call site.
        growing: the call sites that grow, which have findings of their own.
    """
    bounds, peak = turns.bounds, device.peak.allocated
    history = device.history
    rows = history.allocations
    until = count_until(bounds, history.events)
    enter, leave = until[rows.alloc_event - START], until[rows.free_requested_event - START]
    soon = (leave > enter) & (leave - enter <= SOON) & (rows.alloc_event > START)
    # What is still live at the last bound may live on: its end is not known.
    soon &= rows.free_requested_event < history.events
    soon &= device.missing == HAS_FRAMES  # without frames it may be a gradient
    chosen = np.flatnonzero(soon)
    chosen = chosen[~is_own(device, chosen, _OWN + _GRADIENTS)]
    # The last items of a growing list are also freed soon after their turns.
    chosen = chosen[~is_among(number[chosen], growing)]
    sites = number[chosen]
    pairs = unique(sites * (len(bounds) + 1) + enter[chosen]) // (len(bounds) + 1)
    often = np.bincount(pairs) >= _AGAIN * (len(bounds) - 1) if len(chosen) else sites
    chosen = chosen[often[sites]] if len(chosen) else chosen
    if not len(chosen):
        return
    first, last = enter[chosen].astype(np.int64), leave[chosen].astype(np.int64)
    held = sum_live(rows.block_size[chosen], first - 1, last - 1, len(bounds) - 1)
    typical = int(median(held[2:])) if len(held) > 2 else 0  # the median over the steps
    if typical < max(VISIBLE * peak, MIB):
        return
    # Without the first turn: nothing is held over into it.
    later = slice(int(bounds[1]), int(bounds[-1]) + 1)
    frees = freed_by(tables, history, chosen, bounds[first] - 1, within=later)
    # Without training it may be input of the next step.
    costs = frees.expected >= _COSTS * peak and trains(device)
    effect = (
        f" Freed in time, the peak of these steps would be {format_bytes(frees.expected)} lower."
        if frees.expected
        else " It does not raise the peak of these steps."
    )
    suggestion = Suggestion(
        "free-earlier",
        "Delete the variables that hold results of the last step (outputs, loss, the"
        " batch) before the next one begins, or make them in a function: a variable in a loop"
        " keeps its tensor until another is assigned. The peak of these steps would be"
        f" {format_bytes(frees.expected)} lower, added up again without them.",
        "del outputs, loss",
        frees=frees,
    )
    middle = len(turns) // 2
    start, end = (int(bounds[k]) - 1 for k in (max(middle - 1, 0), middle))
    yield Finding(
        "outlives-step",
        "warning" if costs else "note",
        f"{format_bytes(typical)} made in one step is still live in the next",
        "This memory is live between two steps: made in the first, and freed only in a later"
        f" one.{effect} The steps are known {turns.how}.",
        evidence=(
            Figure("live between steps", typical, meaning="the median over them"),
            Figure("peak falls by", frees.expected),
            Figure("allocations", len(chosen), "count"),
            *step_figures(turns),
        ),
        tables=(
            site_table(
                tables,
                history,
                chosen,
                "What outlived its step, over all of them",
            ),
        ),
        suggestions=(suggestion,) if frees.expected >= VISIBLE * peak else (),
        view=View("live", event=end, between=(start, end)),
        bytes=max(frees.expected, typical),
    )


# The graphs of calls of a model that no backward pass followed.


_NEARLY_ALL = 0.8
"""Memory grows with calls if at least this part of them keep it, not only the last few."""


def kept_by_calls(tables: History, device: DeviceFigures) -> tuple[Situation, Calls] | None:
    """Return the calls of a model that keep their graphs, where memory grows with each.

    Where no backward pass was recorded, results that are added up (``total += loss``) or collected
    (``outputs.append(...)``) keep all that it would need. The rhythm of allocations does not tell
    such calls from the layers of a single one, which keep theirs in the same way.

    Returns:
        None where there is a backward pass, or only the last few calls keep theirs, or little.
    """
    if find_passes(device.history, tables).train:
        return None
    situation = situation_of(tables, device)
    if situation is None:
        return None
    calls = graph_calls(situation)
    much = _held(device, calls) >= max(VISIBLE * situation.peak, MIB)
    grows = calls.kept and calls.held >= _NEARLY_ALL * len(calls.starts)
    return (situation, calls) if grows and much else None


def _held(device: DeviceFigures, calls: Calls) -> int:
    return int(device.history.allocations.block_size[calls.rows].sum())


def kept_graphs(
    tables: History, device: DeviceFigures, situation: Situation, calls: Calls
) -> Finding:
    """Report calls that keep their graphs."""
    peak = device.peak.allocated
    grown = _held(device, calls)
    caller = site_text(tables.stacks, calls.caller) if calls.caller >= 0 else ""
    place = f", made from {short_site(caller)}" if caller else ""
    code = tables.stacks.frames.code(calls.caller) if caller else ""
    line = f" The line reads “{code}”." if code else ""
    failed = bool(device.ooms)
    return Finding(
        "kept-graphs",
        "critical" if failed and grown >= _COSTS * peak else
        "warning" if grown >= _COSTS * peak else "note",
        f"{format_bytes(calls.kept)} more stays live with each of {format_count(calls.held)} calls"
        f" of a model{place}",
        "Each call keeps what its backward pass would need, and no backward pass was recorded. The"
        " program holds what the calls returned, in a list or a sum of losses for example, and with"
        f" it all that led to it: {format_bytes(grown)} at the peak.{line} Call the model under"
        " torch.no_grad() or torch.inference_mode(), or keep only numbers (.item()) and copies"
        " without the graph (.detach()).",
        subject=caller,
        evidence=(
            Figure("kept by each call", calls.kept, meaning="the mean at the peak"),
            Figure("calls", len(calls.starts), "count"),
            Figure("calls that keep it at the peak", calls.held, "count"),
            Figure("kept at the peak", grown),
        ),
        tables=(site_table(tables, device.history, calls.rows, "What the calls kept"),),
        suggestions=tuple(as_suggestion(situation, change) for change in inference(situation)),
        view=View("stacks", event=device.peak.event, curve="allocated"),
        bytes=grown,
        per_step=calls.kept,
    )  # fmt: skip

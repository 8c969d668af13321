"""Mistakes in how a recording was made, and how to record again so that it shows more.

No history, memory from before it, events that a full ring lost, call stacks left out, and a file
written too early or too late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.figures.curves import event_times
from snapreport.ground.later import expression
from snapreport.ground.native.columns import median, unique
from snapreport.ground.units import format_bytes, format_count, list_of, plural, rounded_share
from snapreport.history.segments import actions_of
from snapreport.model.diagnoses import (
    CurvePeak,
    Figure,
    Finding,
    Loss,
    OomEvent,
    StackKind,
    Suggestion,
    View,
)
from snapreport.model.findings import MISSING_REASONS, Curves
from snapreport.model.history import START, DeviceHistory, History
from snapreport.model.roles import ROLES, Roles
from snapreport.model.snapshot import NO_TIME
from snapreport.roles.stack_kinds import (
    EMPTY,
    HAS_FRAMES,
    NOT_RECORDED,
)

_STEPS = 10


def record_again(text: str, change: str = "") -> Suggestion:
    """Return a suggestion about the recording itself, which frees no memory."""
    return Suggestion("record-again", text, change)


RECORD = record_again(
    "Start recording before the model is built. Write the file after the work, or in the except"
    " block of an out-of-memory error.",
    "torch.cuda.memory._record_memory_history()  # before the model is built\n"
    'torch.cuda.memory._dump_snapshot("snap.pickle")  # after the work',
)
RECORD_WITH_US = record_again(
    "Start recording before the model is built.",
    'with snapreport.record("out/"):  # before the model is built\n    ...',
)
"""The same for recordings made with snapreport, which may have no CUDA."""
FORECAST_ALL = record_again(
    "Take what snapreport forecast itself writes, which begins with the program: this file begins"
    " where the program's own recording does."
)
AT_FAILURE = record_again(
    "Let PyTorch write the file at the moment of the failure, before anything is freed.",
    'save = lambda *_: torch.cuda.memory._dump_snapshot("oom.pickle")\n'
    "torch._C._cuda_attach_out_of_memory_observer(save)  # beside _record_memory_history()",
)


def how_to_record(tables: History) -> Suggestion:
    """Return how to record again, with the recorder that was used."""
    if tables.forecast is not None:
        return FORECAST_ALL
    return RECORD if tables.recorder is None else RECORD_WITH_US


def record_stacks(text: str) -> Suggestion:
    """Return how to record all call stacks; ``text`` says which are missing."""
    return record_again(
        text,
        'torch.cuda.memory._record_memory_history(context="all", stacks="all")  # the defaults\n'
        'torch.cuda.memory._dump_snapshot("snap.pickle")  # after the work',
    )


# No history.


_RECORDING = View(tab="recording")


def recorded(history: DeviceHistory, tables: History) -> bool:
    """Say whether the recording has a history; ``enabled="state"`` leaves a ring of one event.

    A recording that snapreport itself started has one, however short: its ring keeps more events.
    """
    if history.events > 1:
        return True
    note = tables.recorder
    # A recording that snapreport only joined may be of any kind.
    return note is not None and not (note.joined and note.recorder == "cuda")


def history_faults(
    history: DeviceHistory, tables: History, reason: NDArray[np.int8]
) -> Iterator[Finding]:
    """Yield the finding that no history was recorded."""
    if not len(history.segments) and not history.events:
        yield _nothing_allocated(tables)
        return
    if recorded(history, tables):
        return
    live = history.allocations.live_at(history.events - 1)  # the only event may be a free
    held, count = int(history.allocations.block_size[live].sum()), int(live.sum())
    stacks = int((reason[live] == HAS_FRAMES).sum())
    others = any(recorded(other, tables) for other in tables.devices)
    if others:
        title = f"{plural(history.events, 'event')} here while other devices have many"
        text = (
            "History was recorded, as other devices show. On this one next to nothing was allocated"
            " or freed in that time."
        )
    else:
        title = (
            f"No history was recorded: {plural(history.events, 'event')} beside"
            f" {format_count(count)} live allocations"
        )
        text = (
            f"{_why_no_history(history, tables, stacks)} The file shows what was live when it was"
            " written, to the byte, but not what came before: the peak is not known."
        )
    yield Finding(
        "no-history",
        "note" if others else "warning",
        title,
        text,
        evidence=(
            Figure("allocated when it was written", held),
            Figure("live allocations", count, "count"),
            Figure("of those with a call stack", stacks, "count"),
            Figure("events", history.events, "count"),
        ),
        suggestions=() if others else (RECORD,),
        view=_RECORDING,
        bytes=held,
    )


def _why_no_history(history: DeviceHistory, tables: History, stacks: int) -> str:
    pools = {tables.pools[pool] for pool in unique(history.segments.pool).tolist() if pool >= 0}
    if not history.events and len(pools) == 1 and (0, 0) not in pools:
        ((first, second),) = pools
        return (
            f"The file has only the segments of private pool {first},{second}, as"
            " MemPool.snapshot() returns them: what else the device held is not known."
        )
    if tables.layout == "segments":
        return "The file is what torch.cuda.memory_snapshot() returns: segments, without events."
    if history.skipped:
        return f"The recording left out every {list_of(history.skipped)} event."
    if not history.events:
        return (
            "Recording was on at some time, as call stacks show, but its events are not there, as"
            " with include_traces=False."
            if stacks
            else "Recording was off."
        )
    if stacks:
        return "Only the last event was kept, as with enabled='state'."
    return "There is a single event, as when recording is switched on at the very end."


def _nothing_allocated(tables: History) -> Finding:
    """Report that nothing was allocated, and how to record the processes that train instead."""
    recorder = tables.recorder
    nothing = Finding(
        "nothing-allocated",
        "note",
        "Nothing was allocated: 0 segments and 0 events",
        "The file holds no memory of this device.",
    )
    if recorder is None or any(len(each.segments) or each.events for each in tables.devices):
        return nothing
    suggestions = (
        record_again(
            "Record in the processes that train: all that such a command starts are recorded.",
            "snapreport record torchrun ... train.py  # or accelerate, deepspeed, bash job.sh\n"
            "SNAPREPORT=out mpirun ... python train.py  # where another program starts them\n"
            'with snapreport.record("out"): ...  # in the function that a worker of Ray runs',
        ),
    )
    if not recorder.children_s:
        said = f"{nothing.explanation} If other processes train, record in those."
        return replace(nothing, explanation=said, suggestions=suggestions)
    return Finding(
        "nothing-allocated",
        "warning",
        "Nothing was allocated in this process; child processes did the work",
        f"They took {format_count(recorder.children_s)} s of processor time, and a recording sees"
        " only its own process.",
        suggestions=suggestions,
    )


# Memory from before the first event.


LATE = 0.1
"""Memory from before the recording is worth a note from this part of the peak on, and a warning if
that part has neither a call stack nor a role. The parameters of a model are a quarter to a fifth of
the peak where AdamW trains them, less with activations."""
_NO_ROLE = ROLES.index("unknown")


def baseline_faults(
    history: DeviceHistory,
    tables: History,
    curves: Curves,
    peak: CurvePeak,
    reason: NDArray[np.int8],
    loss: Loss,
    roles: Callable[[], Roles],
) -> Iterator[Finding]:
    """Yield the findings about memory from before the first event."""
    if history.events < 2:
        return
    rows = history.allocations
    start, most = int(curves["allocated"][0]), peak.bytes
    first = rows.baseline
    without = rows.live_at(peak.event)[first] & (reason[first] != HAS_FRAMES)
    unknown = int(rows.block_size[first][without].sum())
    if most and start > LATE * most:
        nameless = 0
        if unknown:  # else no role is asked for
            without &= roles().role[first] == _NO_ROLE
            nameless = int(rows.block_size[first][without].sum())
        figures = [
            Figure("allocated before the first event", start),
            Figure("part of the peak", start / most, "share"),
            Figure("live at the peak without a call stack, from before", unknown),
        ]
        reserved = curves.reserved_at(START)
        if reserved is not None:
            figures.append(Figure("reserved before the first event", reserved))
        # With lost events the recording may have begun in time: then the loss is what to fix.
        lost = loss.state == "lost"
        amount = f"{format_bytes(start)}, {rounded_share(start, most)} of the peak,"
        yield Finding(
            "started-late",
            "warning" if nameless > LATE * most and not lost else "note",
            f"{amount} was allocated before the oldest event that is left"
            if lost
            else f"Recording started late: {amount} was already allocated",
            "That memory is counted, but the events that allocated it are not in the file."
            + (
                f" At the peak {format_bytes(unknown)} of it was live without a call stack;"
                + (
                    f" what {format_bytes(nameless)} of that is for is not known either."
                    if nameless
                    else " what it is for is known all the same, from its role."
                )
                if unknown
                else " None of it was live without a call stack at the peak."
            ),
            evidence=tuple(figures),
            suggestions=() if lost else (how_to_record(tables),),
            view=View(tab="live", event=START),
            bytes=start,
        )
    freed = rows.free_event[first] < history.events
    if freed.any():
        count, size = int(freed.sum()), int(rows.size[first][freed].sum())
        yield Finding(
            "unmatched-frees",
            "note",
            f"{plural(count, 'free')} of memory from before the recording: {format_bytes(size)}",
            "The recording lacks the allocations of this memory: they came before it began, or are"
            " lost. The memory is counted as live from the start; its call stacks are not known.",
            evidence=(Figure("frees", count, "count"), Figure("requested bytes freed", size)),
            view=View(tab="live", event=START),
            bytes=size,
        )


# Lost events: a recording is a ring of the newest ones.


GONE = MappingProxyType(
    {
        "lost": "Older events are lost",
        "missing": "Older events are missing",
        "suspected": "Older events may be lost",
    }
)
"""How each ``Loss.state`` of lost events is worded."""


def ring_faults(history: DeviceHistory, loss: Loss) -> Iterator[Finding]:
    """Yield the finding that events were lost, or may have been."""
    if history.events < 2 or loss.state not in GONE:
        return
    explained = (
        "Recording was stopped and started again, or newer events took their place in the ring. "
        if loss.state == "missing"
        else "PyTorch keeps only the newest events, as many as max_entries says. "
    )
    _, *more = loss.signs
    also = f" More signs of that: {list_of(more, ', and ')}." if more else ""
    yield Finding(
        "ring-overflowed",
        "warning" if loss.full else "note",
        f"{GONE[loss.state]}: {loss.signs[0]}",
        f"{explained}The figures hold from the first remaining event on; the program's peak may"
        f" have been earlier.{also}",
        evidence=tuple(
            Figure(label, value, "count")
            for label, value in (
                ("events", history.events),
                ("size of the ring (max_entries)", loss.max_entries),
                ("events per step", loss.events_per_step),
            )
            if value is not None
        ),
        suggestions=(larger_ring(loss),),
        view=_RECORDING,
    )


def larger_ring(loss: Loss) -> Suggestion:
    """Return how to keep every event, or at least enough steps."""
    text = "Leave max_entries out: PyTorch then keeps every event."
    if not loss.full:
        text = (
            "Leave max_entries out, and do not stop recording in between: PyTorch then keeps every"
            " event."
        )
    if loss.events_per_step is None:
        return record_again(text, RECORD.change)
    entries = _round_up(loss.events_per_step * _STEPS)
    text += (
        f" Or make the ring larger: a step ({loss.step_name}) has about"
        f" {format_count(loss.events_per_step)} events here, so {_STEPS} of them need"
        f" max_entries={entries:_}."
    )
    code = RECORD.change.replace("history()", f"history(max_entries={entries:_})")
    return record_again(text, code)


def _round_up(count: int) -> int:
    """Round up to one or two digits and zeros: a number that one would type."""
    unit = int(10 ** max(len(str(count)) - 2, 0))
    return -(-count // unit) * unit


# A smaller round number of events is too likely by chance, and nobody asks for so small a ring.
_SMALLEST_RING = 500
# People type 100000 or 1 << 16; a recording rarely stops at such a number by chance.
_ROUND_TO = 50_000
# If at most this share of events leave nothing live that is freed later, a full ring would hardly
# begin just behind one of them.
_RARE = 0.1


def find_loss(
    history: DeviceHistory, tables: History, reason: np.ndarray[Any, Any], start_reserved: int
) -> Loss:
    """Judge whether events from before the first one are missing.

    ``lost`` means proven: the file says so, or the ring looks full and there are blocks allocated
    while recording was on whose events are not in the file. If the ring is not full, those events
    may have been dropped when recording was stopped (``missing``).

    Args:
        reason: int8, shape (n_allocations,), as from ``missing_reason``.
        start_reserved: bytes reserved before the first event.
    """
    rows, events = history.allocations, history.events
    first = rows.baseline
    made = int(((rows.free_event[first] == events) & (reason[first] == HAS_FRAMES)).sum())
    unmatched = int((rows.free_event[first] < events).sum())
    entries = _of_device(history, tables.settings.get("trace_alloc_max_entries"))
    most = int(entries) if isinstance(entries, (int, float)) and 0 < entries < 2**62 else None
    said = _said(history, tables)
    if tables.forecast is not None:
        return Loss("none", ("a forecast keeps every event",), most, False)
    if said is False:
        # Blocks from before with a call stack are then of an earlier recording that was dropped.
        return Loss("none", ("the file says that the ring did not overflow",), most, False)
    if said is None and start_reserved == 0 and not first.stop:
        # Whatever the length: all that could be missing was freed and given back.
        nothing = "nothing was allocated or reserved before the first event"
        return Loss("none", (nothing,), most, False)
    proofs, signs = [], []
    if said:
        proofs.append("the file says that the ring overflowed")
    if made:
        proofs.append(
            f"{plural(made, 'block has', 'blocks have')} a call stack from an event that is not in"
            " the file"
        )
    if most is not None and events >= most:
        signs.append(f"there are {format_count(events)} events, as many as the ring holds")
    elif most is None and _is_round(events) and not _begins_at_rest(history):
        signs.append(
            f"there are {format_count(events)} events, a round number, as when the ring is full"
        )
    full = bool(said or signs)
    if unmatched and _is_shared(history, tables) and (made or events >= _SMALLEST_RING):
        signs.append(f"another device has exactly {format_count(events)} events too")
        full = full or bool(made)
    if not proofs and not signs:
        return Loss("not known", (), most, False)
    return Loss(
        ("lost" if full else "missing") if proofs else "suspected",
        (*proofs, *signs, *_supporting(history, unmatched)),
        most,
        full,
        *events_per_step(history),
    )


def _said(history: DeviceHistory, tables: History) -> bool | None:
    """Return whether the device's ring overflowed by the file; None if the file does not say."""
    value = tables.settings.get("trace_alloc_overflowed")
    if value is None or not history.device.on_card:
        return None
    if isinstance(value, list):
        found = _of_device(history, value)
        return None if found is None else bool(found)
    # One flag for all devices: rings have one size, so a ring with fewer events is not full.
    return bool(value) and history.events == max(each.events for each in tables.devices)


def _of_device(history: DeviceHistory, value: Any) -> Any:
    """Return a setting's value for the device: its own out of a list, or the one for all."""
    if not isinstance(value, list):
        return value
    ordinal = history.device.ordinal
    return value[ordinal] if history.device.on_card and ordinal < len(value) else None


def _is_round(events: int) -> bool:
    """Whether somebody might choose this number: 5000, 100000, 65536."""
    if events < _SMALLEST_RING:
        return False
    digits = str(events).rstrip("0")
    power_of_two = events >= 1024 and events & (events - 1) == 0
    return len(digits) == 1 or power_of_two or events % _ROUND_TO == 0


def _begins_at_rest(history: DeviceHistory) -> bool:
    """Whether nothing that lives briefly was live before the first event, where that is rare later.

    A ring that overflows begins at any event, in the middle of a step as a rule: then memory is
    freed that was allocated before it. So this tells more than a round number of events does.
    """
    rows, events = history.allocations, history.events
    brief = rows.free_event < events
    if (rows.alloc_event[brief] == START).any():
        return False
    born = np.bincount(rows.alloc_event[brief], minlength=events)
    freed = np.bincount(rows.free_event[brief], minlength=events)
    return int((np.cumsum(born - freed) == 0).sum()) <= _RARE * events


def _is_shared(history: DeviceHistory, tables: History) -> bool:
    return sum(each.events == history.events for each in tables.devices) > 1


def _supporting(history: DeviceHistory, unmatched: int) -> list[str]:
    """Return signs that fit lost events, but also a late start."""
    stages = history.stages
    ended = int(((stages.end_event == START) & (stages.start_time_us != NO_TIME)).sum())
    headless = int((stages.start_time_us == NO_TIME).sum())
    signs = []
    if unmatched:
        signs.append(
            f"{plural(unmatched, 'free is', 'frees are')} of memory that was not allocated in the"
            " recording"
        )
    if headless:
        signs.append(f"{plural(headless, 'stage has', 'stages have')} an end but no start")
    if ended:
        signs.append(f"{plural(ended, 'stage')} ended before the first event")
    return signs


# Annotations that mark a step of the program, the best first.
_STEP_NAMES = ("ProfilerStep", "Optimizer.step")
_NUMBER = expression(r"#\d+$")


def events_per_step(history: DeviceHistory) -> tuple[int | None, str]:
    """Return the events per step of the program, and the name of the stage that marks steps.

    It is the median over complete steps, and None if no annotation marks steps.
    """
    starts: dict[str, list[int]] = {}
    for name, event in zip(history.stages.name, history.stages.start_event.tolist(), strict=True):
        if event >= 0 and name.startswith(_STEP_NAMES):
            starts.setdefault(_NUMBER.sub("", name), []).append(event)
    for wanted in _STEP_NAMES:
        for name, found in starts.items():
            lengths = np.diff(found)
            lengths = lengths[lengths > 0]
            if name.startswith(wanted) and len(lengths):
                return int(median(lengths)), name
    return None, ""


# Missing call stacks.


_MISSING = 0.05
"""Missing call stacks are worth a finding from this part of all bytes on."""


def stack_faults(
    history: DeviceHistory, kind: StackKind, reason: NDArray[np.int8]
) -> Iterator[Finding]:
    """Yield the findings about call stacks that are missing, or lack Python or C++ frames."""
    weight = history.allocations.block_size
    total = int(weight.sum())
    missing, empty = (int(weight[reason == which].sum()) for which in (NOT_RECORDED, EMPTY))
    if total and missing > _MISSING * total:
        count = int((reason == NOT_RECORDED).sum())
        yield Finding(
            "missing-stacks",
            "warning",
            f"Call stacks are missing for {rounded_share(missing, total)} of all bytes ever"
            " allocated",
            "What allocated that memory is not known:"
            f" {plural(count, 'allocation has', 'allocations have')} no call stack. Recording was"
            " set up to keep none, or not for all events.",
            evidence=(
                Figure("allocations without a call stack", count, "count"),
                Figure("their bytes", missing),
            ),
            suggestions=(record_stacks("Record call stacks for all events."),),
            view=_RECORDING,
            bytes=missing,
        )
    if kind == "native" and total and (reason == HAS_FRAMES).any():
        yield Finding(
            "native-stacks-only",
            "warning",
            "Call stacks hold 0 Python frames, only C++",
            "No call stack names a line of Python, only C++ functions. That is normal for a C++"
            " program. For a Python program, the Python frames were not recorded.",
            suggestions=(record_stacks("Record from the Python program, with stacks='all'."),),
            view=_RECORDING,
        )
    if kind == "python" and total and empty > _MISSING * total:
        count = int((reason == EMPTY).sum())
        yield Finding(
            "python-stacks-only",
            "note",
            f"Call stacks hold only Python frames: {rounded_share(empty, total)} of all bytes"
            " have none",
            "Where C++ frames are not recorded, threads that run no Python, such as the backward"
            f" pass's, leave an empty call stack: {format_count(count)} allocations have one.",
            evidence=(
                Figure("allocations with an empty call stack", count, "count"),
                Figure("their bytes", empty, meaning=MISSING_REASONS[EMPTY]),
            ),
            suggestions=(record_stacks("Record C++ frames, too: stacks='all'."),),
            view=_RECORDING,
            bytes=empty,
        )


# A file written too early, or too late.


_LAST = 0.02
"""The peak is at the end if it is within this last part of the events."""
_GROWN = 0.95
"""Memory still grew if a quarter of the events earlier it was below this part of the peak."""
_FREED = 0.5
"""The final state differs from that of the failure if this part of it was freed in between."""


def end_faults(
    history: DeviceHistory, tables: History, curves: Curves, ooms: tuple[OomEvent, ...]
) -> Iterator[Finding]:
    """Yield the findings about the moment at which the file was written."""
    if tables.forecast is not None:
        if is_early(history, tables, curves):
            yield _ended_early(curves)
        return
    if is_early(history, tables, curves):
        peak, end = int(curves["allocated"].max()), int(curves["allocated"][-1])
        earlier = int(curves["allocated"][_three_quarters(history.events)])
        open_stages = int((history.stages.end_time_us == NO_TIME).sum())
        yield Finding(
            "dumped-early",
            "note",
            f"Memory was still growing when the file was written: {format_bytes(end)} at the end",
            "The peak is at the very end of the recording, and memory was growing towards it. If"
            " the program went on, its peak may be higher than the one shown.",
            evidence=(
                Figure("peak", peak),
                Figure("allocated at the end", end),
                Figure("a quarter of the events earlier", earlier),
                Figure("stages that were still open", open_stages, "count"),
            ),
            suggestions=(
                record_again(
                    "Write the file after the work, such as two whole steps.",
                    RECORD.change,
                ),
            ),
            view=View(event=history.events - 1),
            bytes=end,
        )
    if ooms and history.events > 1:
        yield from _late(history, curves, ooms[-1])


def _ended_early(curves: Curves) -> Finding:
    end = int(curves["allocated"][-1])
    return Finding(
        "dumped-early",
        "note",
        f"Memory was still growing when the forecast ended: {format_bytes(end)} at the end",
        "The peak is at the very end of the forecast, and memory was growing towards it. If the"
        " program goes on, its peak may be higher than the one shown.",
        suggestions=(
            record_again("Let the program make more steps.", "snapreport forecast --steps 10 ..."),
        ),
        view=_RECORDING,
        bytes=end,
    )


def is_early(history: DeviceHistory, tables: History, curves: Curves) -> bool:
    """Say whether memory was still growing towards its peak when the file was written.

    Not after a failed request on any device: that ends a program, often while memory grows.
    """
    if tables.recorder is not None and tables.recorder.failure is not None:
        return False
    if tables.forecast is not None and tables.forecast.repeats:
        return False  # what comes next is known: the same step again
    if history.events < 2 or any("oom" in actions_of(each.other) for each in tables.devices):
        return False
    event = int(curves["allocated"].argmax()) - 1
    peak = int(curves["allocated"][event + 1])
    if event < history.events * (1 - _LAST) - 1 or curves["allocated"][-1] < _GROWN * peak:
        return False
    return bool(curves["allocated"][_three_quarters(history.events)] < _GROWN * peak)


def _three_quarters(events: int) -> int:
    return events - events // 4


def _late(history: DeviceHistory, curves: Curves, oom: OomEvent) -> Iterator[Finding]:
    end = int(curves["allocated"][-1])
    freed, after = oom.allocated - end, history.events - 1 - oom.event
    if freed < _FREED * oom.allocated or not freed:
        return
    times = event_times(history)
    known = oom.time_us is not None and int(times[-1]) != NO_TIME
    yield Finding(
        "dumped-late",
        "note",
        f"The file was written {format_count(after)} events after the failure, when"
        f" {format_bytes(freed)} had been freed",
        "The final state in the file is not the state at the failure. But what was live at the"
        f" failure is in the recording, at event {format_count(oom.event)}.",
        evidence=(
            Figure("allocated at the failure", oom.allocated),
            Figure("allocated at the end", end),
            Figure("events after the failure", after, "count"),
            Figure(
                "time after the failure",
                int(times[-1]) - (oom.time_us or 0) if known else None,
                "time_us",
            ),
        ),
        suggestions=(AT_FAILURE,),
        view=View(event=oom.event),
        bytes=freed,
    )

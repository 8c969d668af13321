"""What roles, stages and steps use, and a device's curves and allocations summed up."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.native.columns import sum_groups, unique, weigh, whole_median
from snapreport.model.answers import AllocationStatistics, CurveStatistics
from snapreport.model.findings import Curves, StageUse
from snapreport.model.history import START, DeviceHistory, History
from snapreport.model.roles import (
    ROLES,
    EvidenceUse,
    Iterations,
    Kind,
    Roles,
    RoleUse,
    Steps,
    StepUse,
)
from snapreport.model.snapshot import NO_STACK, NO_TIME
from snapreport.roles.steps import find_iterations


def find_role_use(history: DeviceHistory, roles: Roles, event: int) -> tuple[RoleUse, ...]:
    """Return the roles of what is allocated after an event, most bytes first.

    Their bytes add up to the allocated curve there.

    Args:
        history: the device.
        roles: of its allocations.
        event: -1 for the start.
    """
    live = np.flatnonzero(history.allocations.live_at(event))
    role, size = roles.role[live], history.allocations.block_size[live]
    found = []
    for k in unique(role).tolist():
        of, seen = size[role == k], roles.evidence[live][role == k]
        held = sum_groups(seen, of, len(roles.seen))
        count = np.bincount(seen, minlength=len(held))
        evidence = [
            EvidenceUse(roles.seen[i].text, roles.seen[i].confidence, int(held[i]), int(count[i]))
            for i in np.argsort(-held, kind="stable").tolist()
            if count[i]
        ]
        found.append(RoleUse(ROLES[k], int(of.sum()), len(of), tuple(evidence)))
    return tuple(sorted(found, key=lambda each: (-each.bytes, -each.count)))


def evidence_texts(roles: Roles) -> list[str]:
    """Return by what evidence each role is known, that of most allocations first.

    Returns:
        A text for each of ``ROLES``; an empty one where nothing has it.
    """
    count = np.zeros((len(ROLES), len(roles.seen)), np.int64)
    np.add.at(count, (roles.role, roles.evidence), 1)
    return [
        "; ".join(roles.seen[i].text for i in np.argsort(-row, kind="stable").tolist() if row[i])
        for row in count
    ]


def find_stage_use(
    history: DeviceHistory, curves: Curves, times: NDArray[np.int64]
) -> tuple[StageUse, ...]:
    """Measure every stage of one device, in allocated bytes.

    A stage's peak is over the state it began with and every event inside. One that began before
    the first event is cut: its figures are those of the recorded part, and None where events of
    it are known to be missing, or all of it lies before the recording.

    Args:
        history: the device.
        curves: its curves.
        times: int64, shape (n_events,), as from ``event_times``.
    """
    stages, rows = history.stages, history.allocations
    made_bytes = np.concatenate([[0], np.cumsum(rows.block_size)])  # before each, in birth order
    lost = _may_have_lost_events(history)
    # In a forecast the times of stages only keep them in order.
    timed = not history.events or bool((times != NO_TIME).any())
    uses = []
    moments = zip(stages.start_time_us.tolist(), stages.end_time_us.tolist(), strict=True)
    spans = zip(stages.start_event.tolist(), stages.end_event.tolist(), strict=True)
    places = zip(stages.parent.tolist(), stages.depth.tolist(), strict=True)
    for name, (start, end), (start_us, end_us), (parent, depth) in zip(
        stages.name, spans, moments, places, strict=True
    ):
        before = max(start - 1, START)  # the event whose amounts it began with
        # Index s + 1 holds event s: from the state before the first event to that after the last.
        inside = curves["allocated"][before + 1 : max(end, before + 1) + 1]
        peak = int(inside.argmax())
        events = (max(start, 0), max(end, 0))
        first, last = np.searchsorted(rows.alloc_event, events).tolist()
        start_bytes, end_bytes = int(inside[0]), int(inside[-1])
        # A stage that is on at the first event may have begun before it.
        cut = start <= 0
        unknown = cut and (lost or start_us == NO_TIME)
        gone = end == START or not history.events  # over before the first event
        unstarted = unknown or gone
        uses.append(
            StageUse(
                name=name,
                parent=None if parent < 0 else parent,
                depth=depth,
                start_event=start,
                end_event=end,
                start_time_us=start_us if timed and start_us != NO_TIME else None,
                end_time_us=end_us if timed and end_us != NO_TIME else None,
                cut=("", "end", "start", "both")[2 * cut + (end_us == NO_TIME)],
                start_bytes=None if unstarted else start_bytes,
                end_bytes=None if gone else end_bytes,
                peak_bytes=None if gone else int(inside[peak]),
                peak_event=None if gone else before + peak,
                change=None if unstarted else end_bytes - start_bytes,
                allocations=None if unstarted else last - first,
                allocated_bytes=None if unstarted else int(made_bytes[last] - made_bytes[first]),
            )
        )
    return tuple(uses)


def _may_have_lost_events(history: DeviceHistory) -> bool:
    """Say whether events before the first may have been overwritten in the ring.

    A baseline block with a stack was allocated while recording was on, and one that is freed in
    the window may have been. Without either nothing shows that events were lost.
    """
    rows, first = history.allocations, history.allocations.baseline
    freed = rows.free_event[first] < history.events
    return bool(((rows.stack[first] != NO_STACK) | freed).any())


ALIKE = 0.01
"""Steps are alike if the bytes they allocate, and how far memory rises above their start, differ by
at most this part; what stays may differ by this part of the rise."""
_FEWEST = 2
_OF_THE_LATER = 0.5
"""So many of the steps after the first must be alike, or none is called steady."""


def find_steps(
    history: DeviceHistory, tables: History, allocated: NDArray[np.int64]
) -> Steps | None:
    """Measure each complete step, or return None if the recording shows no repeating step.

    Args:
        history: the device.
        tables: the file that it is from.
        allocated: int64, shape (n_events + 1,): its allocated curve, index 0 is the start.
    """
    turns = find_iterations(history, tables)
    return None if turns is None else measure_steps(history, turns, allocated)


def measure_steps(history: DeviceHistory, turns: Iterations, allocated: NDArray[np.int64]) -> Steps:
    """Measure steps that are known.

    A step's peak is over the state it began with and every event inside.

    Args:
        history: the device.
        turns: where the steps are.
        allocated: as for ``find_steps``.
    """
    rows, bounds, n = history.allocations, turns.bounds, len(turns)
    # Index s + 1 of the curve holds event s, so index s is what is allocated just before it.
    start, end = allocated[bounds[:-1]], allocated[bounds[1:]]
    # The first highest place before the steps, in each but its bound, and behind: one look at each.
    parts = pairwise(unique(np.concatenate([[-1], bounds, [len(allocated) - 1]])).tolist())
    high = np.array([a + 1 + int(allocated[a + 1 : b + 1].argmax()) for a, b in parts])
    top, inside = int(high[allocated[high].argmax()]), high[1 : n + 1]
    place = np.where(start >= allocated[inside], bounds[:-1], inside)
    as_high = np.flatnonzero(allocated[inside] == allocated[top])
    edges = np.searchsorted(rows.alloc_event, bounds)  # allocations are in birth order
    made_then, count = slice(int(edges[0]), int(edges[-1])), np.diff(edges)
    size = rows.block_size[made_then]
    still = rows.free_requested_event[made_then] >= np.repeat(bounds[1:], count)
    made, kept = (
        np.diff(np.append(0, np.cumsum(each))[edges - edges[0]]) for each in (size, size * still)
    )
    kinds = _kinds(_steady(allocated[place] - start, made, end - start))
    columns = (bounds[:-1], bounds[1:], start, allocated[place], place - 1, end, kept, count, made)
    found = zip(turns.names, kinds, *(column.tolist() for column in columns), strict=True)
    number = int(np.searchsorted(bounds, top - 1, side="right"))
    return Steps(
        source=turns.source,
        confidence=turns.confidence,
        how=turns.how,
        peak=number if 0 < number <= n else None,
        peak_before=number == 0,
        as_high=int(as_high[0]) + 1 if len(as_high) else None,
        steps=tuple(
            StepUse(i, "" if name == f"step {i}" else name, *figures)
            for i, (name, *figures) in enumerate(found, 1)
        ),
    )


def _steady(
    rise: NDArray[np.int64], made: NDArray[np.int64], change: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Say which steps are alike, the most that are; none where those are too few.

    Args:
        rise: int64, shape (n,): how far each peaks above its start.
        made: int64, shape (n,): bytes that it allocates.
        change: int64, shape (n,): what stays.
    """
    chosen = np.arange(len(rise))
    for values in (rise, made):
        low = values[chosen]
        chosen = chosen[_densest(low, low + (ALIKE * low).astype(np.int64))]
    # What the last step keeps is mostly what the next step would have freed first.
    ended, last = chosen[chosen < len(rise) - 1], chosen[chosen == len(rise) - 1]
    if len(ended):
        within = int(ALIKE * rise[chosen].min())
        ended = ended[_densest(change[ended], change[ended] + within)]
    chosen = np.append(ended, last)
    alike = np.zeros(len(rise), np.bool_)
    alike[chosen] = len(chosen) >= max(_FEWEST, _OF_THE_LATER * (len(rise) - 1))
    return alike


def _densest(values: NDArray[np.int64], to: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say which values lie between one of them and its upper bound, for the one with the most."""
    ordered = np.sort(values)
    # The bounds grow with the values, so sorted they are those of the sorted values.
    bounds = np.sort(to)
    held = np.searchsorted(ordered, bounds, side="right") - np.searchsorted(ordered, ordered)
    best = int(held.argmax())
    inside: NDArray[np.bool_] = (values >= ordered[best]) & (values <= bounds[best])
    return inside


def _kinds(steady: NDArray[np.bool_]) -> list[Kind]:
    """Return the kind of each step."""
    if not steady.any():
        return ["unknown"] * len(steady)
    first = int(steady.argmax())
    return [
        "steady" if alike else "warm-up" if i < first else "other"
        for i, alike in enumerate(steady.tolist())
    ]


def curves_statistics(
    curves: Mapping[str, NDArray[np.int64]], times: NDArray[np.int64]
) -> dict[str, CurveStatistics]:
    """Summarize curves, by name.

    The value after an event lasts until the next event, so the last value and the start have no
    duration. Without times, or if no time passes, every event counts equally.

    Args:
        curves: int64, shape (n_events + 1,) each; index 0 is the start.
        times: int64 microseconds, shape (n_events,), NO_TIME where unknown.
    """
    known = len(times) > 1 and bool((times != NO_TIME).all())
    whole = int(times.max()) - int(times[0]) if known else 0
    return {name: _sum_up(curve, times, whole) for name, curve in curves.items()}


def _sum_up(curve: NDArray[np.int64], times: NDArray[np.int64], whole: int) -> CurveStatistics:
    """Sum one curve up; ``whole``: microseconds that passed, 0 where not known."""
    by_time = whole > 0
    if by_time:
        least, most, weighted = weigh(curve, times)
        average = weighted // whole
    else:
        least, most = int(curve.min()), int(curve.max())
        fits = max(most, -least) * len(curve) <= np.iinfo(np.int64).max
        average = int(curve.sum(dtype=np.int64 if fits else object)) // len(curve)
    return CurveStatistics(
        minimum=least,
        average=average,
        peak=most,
        start=int(curve[0]),
        end=int(curve[-1]),
        by_time=by_time,
    )


def allocation_statistics(history: DeviceHistory) -> AllocationStatistics:
    """Count the allocations of a device and sum up their requested sizes."""
    rows = history.allocations
    sizes = rows.size[rows.made]
    return AllocationStatistics(
        baseline=len(rows) - len(sizes),
        made=len(sizes),
        freed=int((rows.free_requested_event[rows.made] < history.events).sum()),
        requested=int(sizes.sum()),
        smallest=int(sizes.min()) if len(sizes) else None,
        median=whole_median(sizes) if len(sizes) else None,
        largest=int(sizes.max()) if len(sizes) else None,
    )

"""How much memory each stage began with, ended with, peaked at and allocated."""

from __future__ import annotations

import numpy as np

from snapreport.figures.curves import Curves
from snapreport.model.findings import StageUse
from snapreport.model.history import START, DeviceHistory
from snapreport.model.snapshot import NO_TIME
from snapreport.model.stacks import NO_STACK


def find_stage_use(history: DeviceHistory, curves: Curves) -> tuple[StageUse, ...]:
    """Measure every stage of one device, in allocated bytes.

    A stage's peak is over the state it began with and every event inside. One that began before
    the first event is cut: its figures are those of the recorded part, and None where events of
    it are known to be missing, or all of it lies before the recording.
    """
    stages, rows = history.stages, history.allocations
    made_bytes = np.concatenate([[0], np.cumsum(rows.block_size)])  # before each, in birth order
    lost = _may_have_lost_events(history)
    uses = []
    times = zip(stages.start_time_us.tolist(), stages.end_time_us.tolist(), strict=True)
    spans = zip(stages.start_event.tolist(), stages.end_event.tolist(), strict=True)
    places = zip(stages.parent.tolist(), stages.depth.tolist(), strict=True)
    for name, (start, end), (start_us, end_us), (parent, depth) in zip(
        stages.name, spans, times, places, strict=True
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
                start_time_us=_time(start_us),
                end_time_us=_time(end_us),
                cut=_cut(cut, end_us == NO_TIME),
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
    rows = history.allocations
    baseline = rows.alloc_event == START
    return bool((baseline & ((rows.stack != NO_STACK) | (rows.free_event < history.events))).any())


def _time(time_us: int) -> int | None:
    return None if time_us == NO_TIME else time_us


def _cut(start: bool, end: bool) -> str:
    return {(True, True): "both", (True, False): "start", (False, True): "end"}.get(
        (start, end), ""
    )

"""What was noted while recording, as names and values for the reports."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from snapreport.ground.units import format_bytes, format_count, format_duration
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History
from snapreport.model.recorder_notes import RecorderInfo
from snapreport.reporters.words.summary_rows import utc_text

_MARKS = 20


def recording_rows(history: History, devices: Sequence[DeviceFigures]) -> list[tuple[str, str]]:
    """Return names and values; none unless snapreport itself made the recording."""
    noted = history.recorder
    if noted is None:
        return []
    rows = [
        ("Recorded by", " ".join(filter(None, ("snapreport", noted.made_by)))),
        ("Command", shlex.join(noted.command)),
        ("From", _time(noted.started_us)),
        ("To", _time(noted.ended_us)),
        ("Rank", f"{noted.rank} of {noted.world_size}" if noted.world_size > 1 else ""),
        ("PyTorch", noted.torch or ""),
        ("CUDA", noted.cuda or ""),
        ("Driver", noted.driver or ""),
        ("Python", noted.python or ""),
    ]
    if noted.failure is not None:
        failure = noted.failure
        place = f" in {failure.place}" if failure.place else ""
        at = "" if failure.step is None else f", in step {format_count(failure.step)}"
        words = ": ".join(filter(None, (failure.type, failure.message.strip().partition("\n")[0])))
        rows.append(("Ended by", words + place + at))
    if noted.joined:
        rows.append(("Begins", "inside a recording that was already running"))
    rows.append(("Marks", _marks(noted)))
    for device in devices:
        about = history.noted(device.device)
        if about is not None and (about.name or about.capacity):
            size = "" if about.capacity is None else format_bytes(about.capacity)
            rows.append((str(device.device), ", ".join(filter(None, (about.name, size)))))
        rows += own_counter_rows(device)
    return [(name, value) for name, value in rows if value]


def own_counter_rows(device: DeviceFigures) -> list[tuple[str, str]]:
    """Return PyTorch's own peak beside ours, and the device memory that is not PyTorch's."""
    own = device.own_counters
    if own is None:
        return []
    name, ours = str(device.device), device.peaks["allocated"].bytes
    verdict = {
        "inside": "the same as ours, to the byte",
        "before": f"from before the recording; ours during it is {format_bytes(ours)}",
        "reset": f"since a reset during the recording; ours for all of it is {format_bytes(ours)}",
    }[own.when]
    if not own.agrees:
        apart = format_count(abs(own.allocated_peak - ours))
        verdict = (
            f"{apart} bytes more than ours; that is right only if the oldest events were lost"
            if own.allocated_peak > ours
            else f"{apart} bytes less than ours; that is right only if the program reset its"
            " counters during the recording"
        )
    rows = [(f"{name}, PyTorch's own peak", f"{format_bytes(own.allocated_peak)}, {verdict}")]
    for when, foreign in (("start", own.foreign_before), ("end", own.foreign_after)):
        if foreign is not None:
            rows.append((f"{name}, not PyTorch's at the {when}", format_bytes(foreign)))
    return rows


def _marks(noted: RecorderInfo) -> str:
    """Return the first moments that the program marked, and their time since the beginning."""
    first = [
        f"{mark.name} after {format_duration(mark.time_us - (noted.started_us or mark.time_us))}"
        for mark in noted.marks[:_MARKS]
    ]
    more = len(noted.marks) - len(first)
    return ", ".join([*first, f"{format_count(more)} more"] if more else first)


def _time(time_us: int | None) -> str:
    try:
        return "" if time_us is None else utc_text(time_us)
    except OverflowError:
        return ""

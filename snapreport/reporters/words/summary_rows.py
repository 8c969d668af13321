"""The rows of the summary table, the same in text, Markdown and notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone

from snapreport.ground.units import (
    format_bytes,
    format_count,
    format_duration,
    format_signed_bytes,
    plural,
)
from snapreport.model.findings import AMOUNTS, CurvePeak, DeviceFigures, StageUse
from snapreport.model.history import History
from snapreport.model.snapshot import DeviceId

AMOUNT_HEADINGS = ("memory", "start", "at the peak", "end", "own peak")
"""The columns of ``amount_rows``; "the peak" is the peak of the allocated curve."""


def amount_rows(device: DeviceFigures) -> list[tuple[str, str, str, str, str]]:
    """Return the rows under AMOUNT_HEADINGS, as texts; ``-`` where unknown.

    Without an allocator only tensor sizes are known: then curves with equal values share a row.
    """
    start, peak, end = device.start, device.peak, device.end
    if not device.recorded:  # only one state is known
        start = end
    rows = []
    for name in AMOUNTS:
        own = device.peaks.get(name)
        rows.append(
            (
                name,
                amount(getattr(start, name)),
                amount(getattr(peak, name)),
                amount(getattr(end, name)),
                ""
                if own is None or not device.recorded
                else f"{format_bytes(own.bytes)} @ {event_name(own.event)}",
            )
        )
    if "reserved" not in device.curves:
        # Rows with equal cells become one row, with all their names.
        merged: dict[tuple[str, ...], list[str]] = {}
        for name, *cells in rows[:3]:
            merged.setdefault(tuple(cells), []).append(name)
        rows = [(", ".join(names), *cells) for cells, names in merged.items()]  # type: ignore[misc]
    live = (format_count(start.live), format_count(peak.live), format_count(end.live))
    return [*rows, ("allocations", *live, "")]


def memory_name(devices: Iterable[DeviceId | str]) -> str:
    """Name the memory of some devices in a heading: ``GPU memory``, ``CPU memory``, ``Memory``."""
    on_cpu = {str(device).partition(":")[0] == "cpu" for device in devices}
    return {(True,): "CPU memory", (False, True): "Memory"}.get(tuple(sorted(on_cpu)), "GPU memory")


def amount(value: int | None) -> str:
    """Write a number of bytes, or ``-`` where it is not known."""
    return "-" if value is None else format_bytes(value)


def signed(change: int | None) -> str:
    """Write a change in bytes with its sign, ``-`` where it is not known."""
    return "-" if change is None else format_signed_bytes(change)


def event_name(event: int) -> str:
    """Return an event's number as text; ``start`` for -1."""
    return "start" if event < 0 else format_count(event)


def moment(device: DeviceFigures) -> str:
    """Say what the peak column shows: a peak at an event and time, or the state at the end."""
    if not device.recorded:
        return "No history was recorded: all columns are the state when the snapshot was written"
    peak = device.peak
    where = "before the first event" if peak.event < 0 else f"event {format_count(peak.event)}"
    when = "" if peak.time_us is None else f", {utc_text(peak.time_us)}"
    return f"Peak of allocated bytes: {where}{when}"


def moment_text(device: str, event: int, time_us: int | None, curve: str, held: int) -> str:
    """Announce a moment: ``cuda:0 at event 793, 2025-10-09 08:55:44.307512 UTC: 4.45 GiB active``.

    Args:
        device: its name.
        event: -1 is the start.
        time_us: None where it is not known.
        curve: whose bytes are given.
        held: its bytes at that moment.
    """
    where = "at the start" if event < 0 else f"at event {event_name(event)}"
    when = "" if time_us is None else f", {utc_text(time_us, 'microseconds')}"
    return f"{device} {where}{when}: {format_bytes(held)} {curve}"


def utc_text(time_us: int, to: str = "seconds") -> str:
    """Write microseconds since 1970 as a date and a time; ``to``: ``seconds``, ``microseconds``."""
    moment = datetime.fromtimestamp(0, timezone.utc) + timedelta(microseconds=time_us)
    return f"{moment.replace(tzinfo=None).isoformat(' ', to)} UTC"


def sizes_text(device: DeviceFigures) -> str:
    """Say how many allocations there were, and how large, in one line."""
    sizes = device.sizes
    text = f"{plural(sizes.made, 'allocation')} made, {format_count(sizes.freed)} of them freed"
    if sizes.smallest is None or sizes.median is None or sizes.largest is None:
        return text
    text += f"; {format_bytes(sizes.requested)} requested in all"
    least, most = format_bytes(sizes.smallest), format_bytes(sizes.largest)
    if sizes.made <= 2:
        return f"{text}, {least} and {most}" if least != most else text
    return f"{text}, {least} to {most} each, median {format_bytes(sizes.median)}"


def average_text(device: DeviceFigures) -> str:
    """Say the least and the average of the allocated curve, in one line."""
    over = device.statistics["allocated"]
    how = "over time" if over.by_time else "over the events"
    return (
        f"allocated at least {format_bytes(over.minimum)}, {format_bytes(over.average)} on"
        f" average {how}"
    )


def facts(device: DeviceFigures) -> str:
    """Return the numbers of events and allocations and the duration, in one line."""
    text = (
        f"{plural(device.history.events, 'event')},"
        f" {plural(len(device.history.allocations), 'allocation')}"
    )
    first, last = device.first_time_us, device.last_time_us
    if first is not None and last is not None and last > first:
        text += f", {format_duration(last - first)}"
    return text


def lines_note(history: History) -> str:
    """Say what its line numbers stand for, if not for the lines that ran; else ``""``."""
    if any("line_is" in extra for extra in history.stacks.frames.extra.values()):
        return "An operator such as a @ b has the line of the def that it is in."
    if history.layout == "profiler":
        return (
            "A profile records where functions begin: each line is that of a def, not the one that"
            " ran."
        )
    return ""


CUT_WORDS = {
    "start": "began before the first event",
    "end": "still open at the end",
    "both": "longer than the recording",
}
"""Describes a stage that the recording holds only in part, by ``StageUse.cut``."""


def stage_name(stage: StageUse) -> str:
    """Return a stage's name, with the end at which the recording cuts it off."""
    over = stage.end_event < 0  # the event range already says so
    return f"{stage.name} ({CUT_WORDS[stage.cut]})" if stage.cut and not over else stage.name


def closing_text(device: DeviceFigures) -> str:
    """Say whether the replay's end equals the final state."""
    closing = device.closing
    if closing is None:
        return "the file lists none to compare with"
    if closing.closes:
        return "the events add up to it, to the byte"
    return (
        f"the events differ from it by {closing.requested:+,} requested,"
        f" {closing.allocated:+,} allocated and {closing.active:+,} active bytes"
    )


def width_text(peak: CurvePeak) -> str:
    """Say between which bounds the allocated peak is, to the byte."""
    return f"The allocated peak is between {peak.bytes:,} and {peak.bytes + peak.width:,} bytes."


def event_range(start: int, end: int) -> str:
    """Write a stage's range of events; ``end`` is exclusive, and the range may be empty."""
    if end < 0:
        return "before event 0"
    first = max(start, 0)
    if end <= first:
        return f"none at {format_count(first)}"
    return f"{format_count(first)} to {format_count(end - 1)}"

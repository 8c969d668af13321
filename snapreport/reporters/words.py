"""Words that several answers share: amounts, moments, what was recorded, the values of findings.

Builders of documents, the page's templates, the explorer and the answers for agents say them alike.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta, timezone

from snapreport.ground.records import dataclass
from snapreport.ground.units import (
    format_bytes,
    format_count,
    format_duration,
    format_number,
    format_share,
    plural,
    share_in_words,
)
from snapreport.model.diagnoses import (
    SEVERITIES,
    CurvePeak,
    Figure,
    Finding,
    Frees,
    ReservedParts,
    Suggestion,
    Trust,
    Unit,
    Value,
)
from snapreport.model.findings import (
    AMOUNTS,
    CallSite,
    DeviceFigures,
    DeviceFindings,
    Findings,
    StageUse,
)
from snapreport.model.forecasts import caveats, headline, how_far, peak_range, range_text
from snapreport.model.history import History
from snapreport.model.roles import Evidence, EvidenceUse, Steps
from snapreport.model.snapshot import DeviceId, RecorderInfo
from snapreport.reporters.document import Paragraph, Site
from snapreport.reporters.plain_text import location

# Amounts and moments.

AMOUNT_HEADINGS = ("memory", "start", "at the peak", "end", "own peak")
"""The columns of ``amount_rows``; "the peak" is the peak of the allocated curve."""


def amount_rows(device: DeviceFigures) -> list[tuple[str, ...]]:
    """Return the rows under AMOUNT_HEADINGS, as texts; ``-`` where unknown.

    Without an allocator only tensor sizes are known: then curves with equal values share a row.
    """
    states = (device.start if device.recorded else device.end, device.peak, device.end)
    rows: list[tuple[str, ...]] = []
    for name in AMOUNTS:
        own = device.peaks.get(name) if device.recorded else None
        most = "" if own is None else f"{format_bytes(own.bytes)} @ {event_name(own.event)}"
        rows.append((name, *(amount(getattr(state, name)) for state in states), most))
    if "reserved" not in device.curves:
        # Rows with equal cells become one row, with all their names.
        merged: dict[tuple[str, ...], list[str]] = {}
        for name, *cells in rows[:3]:
            merged.setdefault(tuple(cells), []).append(name)
        rows = [(", ".join(names), *cells) for cells, names in merged.items()]
    return [*rows, ("allocations", *(format_count(state.live) for state in states), "")]


def amount(value: int | None) -> str:
    """Write a number of bytes, or ``-`` where it is not known."""
    return "-" if value is None else format_bytes(value)


def memory_name(devices: Iterable[DeviceId | str]) -> str:
    """Name the memory of some devices in a heading: ``GPU memory``, ``CPU memory``, ``Memory``."""
    on_cpu = {str(device).partition(":")[0] == "cpu" for device in devices}
    return {(True,): "CPU memory", (False, True): "Memory"}.get(tuple(sorted(on_cpu)), "GPU memory")


def moment(device: DeviceFigures) -> str:
    """Say what the peak column shows: a peak at an event and time, or the state at the end."""
    if not device.recorded:
        return "No history was recorded: all columns are the state when the snapshot was written"
    peak = device.peak
    where = "before the first event" if peak.event < 0 else f"event {format_count(peak.event)}"
    when = "" if peak.time_us is None else f", {utc_text(peak.time_us)}"
    return f"Peak of allocated bytes: {where}{when}"


def when_text(device: str, event: int, time_us: int | None) -> str:
    """Name a moment of a device: ``cuda:0 at event 793, 2025-10-09 08:55:44.307512 UTC``."""
    where = "at the start" if event < 0 else f"at event {event_name(event)}"
    when = "" if time_us is None else f", {utc_text(time_us, 'microseconds')}"
    return f"{device} {where}{when}"


def utc_text(time_us: int, to: str = "seconds") -> str:
    """Write microseconds since 1970 as a date and a time; ``to``: ``seconds``, ``microseconds``."""
    moment = datetime.fromtimestamp(0, timezone.utc) + timedelta(microseconds=time_us)
    return f"{moment.replace(tzinfo=None).isoformat(' ', to)} UTC"


def event_name(event: int) -> str:
    """Return an event's number as text; ``start`` for -1."""
    return "start" if event < 0 else format_count(event)


def event_range(start: int, end: int) -> str:
    """Write a stage's range of events; ``end`` is exclusive, and the range may be empty."""
    if end < 0:
        return "before event 0"
    first = max(start, 0)
    if end <= first:
        return f"none at {format_count(first)}"
    return f"{format_count(first)} to {format_count(end - 1)}"


# A device, its call sites, stages and steps.


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


def forecast_note(history: History, *, in_full: bool = False) -> Iterator[Paragraph]:
    """Yield that an answer is about a run that has not happened, if it is.

    Args:
        history: the file.
        in_full: also what was assumed, and what else limits it.
    """
    if history.forecast is not None:
        yield Paragraph(headline(history.forecast), "warning", is_note=True)
        for said in caveats(history.forecast) if in_full else ():
            yield Paragraph(said)


def expected_peak(history: History, device: DeviceFigures) -> str:
    """Say how sure a forecast's peak is; ``""`` for a recording."""
    if history.forecast is None or not len(device.history.allocations):
        return ""
    ranged = peak_range(history.forecast, str(device.device), device.peaks["allocated"].bytes)
    return range_text(ranged, fails=bool(device.ooms))


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
    over = device.over_time
    how = "over time" if over.by_time else "over the events"
    return (
        f"allocated at least {format_bytes(over.minimum)}, {format_bytes(over.average)} on"
        f" average {how}"
    )


def width_text(peak: CurvePeak) -> str:
    """Say between which bounds the allocated peak is, to the byte."""
    return f"The allocated peak is between {peak.bytes:,} and {peak.bytes + peak.width:,} bytes."


def site_of(site: CallSite) -> Site:
    """Return a call site as it is shown."""
    place = location(site.filename, site.line)
    return Site(site.name, place, is_code=site.frame is not None)


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


def identified_text(steps: Steps) -> str:
    """Say how the steps were identified, and how sure that is."""
    sure = f" ({steps.confidence:.0%} sure)" if steps.confidence < 1 else ""
    return f"Identified {steps.how}{sure}."


def evidence_text(evidence: Evidence | EvidenceUse) -> str:
    """Return what was seen and how sure it is, such as ``made in backward (90% sure)``."""
    sure = f" ({evidence.confidence:.0%} sure)" if 0 < evidence.confidence < 1 else ""
    return f"{evidence.text}{sure}"


# What a report says about the allocations that it does not draw one by one.


@dataclass(frozen=True)
class CutText:
    """What is not drawn of one device, in plain text."""

    line: str
    """A short version, shown near the headline."""
    plain: str
    """For a report without drawings."""
    facts: tuple[tuple[str, str], ...]
    """The details, as labels and values."""


def cut_text(findings: Findings, device: DeviceFindings) -> CutText | None:
    """Return the texts for a device; None where every allocation is drawn."""
    picture = findings.picture
    if picture is None:
        return None
    drawn = picture.devices[findings.devices.index(device)]
    if not drawn.left_out and drawn.times is None and drawn.window is None:
        return None
    share = share_in_words(drawn.left_out_bytes, drawn.all_bytes)
    made = plural(len(device.history.allocations), "allocation")
    which = f"{format_count(drawn.left_out)} of {made}"
    cut = picture.cut
    options = {
        "--from": cut.first,
        "--to": cut.last,
        "--min-size": cut.min_size,
        "--fit": picture.fit is not None,
    }
    how = f"without {' and '.join(name for name, given in options.items() if given)}"
    line = (
        f"Not drawn one by one: {which}, {share} of all bytes allocated; their sum is one band."
        if drawn.left_out
        else "Every allocation is drawn."
    )
    if drawn.error:
        line += (
            " Between the exact events its height may be up to"
            f" {format_bytes(drawn.error)} too low."
        )
    if drawn.times is not None:
        line += f" Times are within {format_duration(drawn.time_error_us)}."
    what = "Peaks, failed requests, stages and call sites" if drawn.error else "All figures"
    line += f" {what} are exact. To see everything, render {how}."
    plain = (
        f"Every figure counts all allocations. A page with the same cuts draws all but {which}"
        f" ({share} of all bytes allocated) one by one."
    )
    window, fit, least = drawn.window, picture.fit, cut.min_size
    together = (
        f"at most {format_count(drawn.error)} bytes below the curve at some events; equal to it at"
        " the start, the end, every peak, failed request and edge of a stage"
        if drawn.error
        else "equal to the curve at every event, to the byte"
    )
    facts = [
        ("Events drawn", " to ".join(map(event_name, window or ()))),
        ("Sizes drawn", f"{format_bytes(least)} requested, or more" if least else ""),
        ("Made to fit", "" if fit is None else f"{format_count(fit)} bytes"),
        ("Thinned, in this order", "" if fit is None else _ORDER),
        ("Not drawn one by one", f"{which}, {format_count(drawn.left_out_bytes)} bytes"),
        ("Share of all bytes allocated", share),
        ("Live at the peak, of those", f"{format_count(drawn.left_out_at_peak)} bytes"),
        ("Strips and band together", together),
        (
            "Times",
            "as recorded"
            if drawn.times is None
            else f"within {format_count(drawn.time_error_us)} µs of those recorded",
        ),
        ("To see everything", f"render {how}"),
    ]
    return CutText(line, plain, tuple((label, text) for label, text in facts if text))


_ORDER = (
    "times between sampled events; allocations, smallest bytes times events first, except those"
    " live at a peak, a failed request or a stage's peak; the height of the band between columns"
    " of events"
)


# What was noted while recording.


def recording_rows(history: History, devices: Sequence[DeviceFigures]) -> list[tuple[str, str]]:
    """Return names and values; none unless snapreport itself made the recording."""
    noted = history.recorder
    if noted is None:
        return []
    by = " ".join(filter(None, ("snapreport", noted.made_by)))
    if noted.forecast is not None:
        rows = [
            ("Forecast by", by),
            ("Command", shlex.join(noted.command)),
            ("Made", _time(noted.started_us)),
            ("How far", how_far(noted.forecast.steps, repeats=noted.forecast.repeats)),
        ]
    else:
        rows = [
            ("Recorded by", by),
            ("Command", shlex.join(noted.command)),
            ("From", _time(noted.started_us)),
            ("To", _time(noted.ended_us)),
        ]
    rows += [
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
    first = [mark.name for mark in noted.marks[:_MARKS]]
    if noted.forecast is None:  # whose times are none of the program's
        after = (mark.time_us - (noted.started_us or mark.time_us) for mark in noted.marks)
        timed = zip(first, after, strict=False)
        first = [f"{name} after {format_duration(us)}" for name, us in timed]
    more = len(noted.marks) - len(first)
    return ", ".join([*first, f"{format_count(more)} more"] if more else first)


_MARKS = 20


def _time(time_us: int | None) -> str:
    try:
        return "" if time_us is None else utc_text(time_us)
    except OverflowError:
        return ""


# How far a recording can be trusted.

PARTS = (
    ("requested", "requested"),
    ("slack", "slack"),
    ("awaiting_free", "awaiting free"),
    ("fragmented", "inactive, fragmented"),
    ("returnable", "inactive, returnable"),
)
"""The parts of reserved memory: their names in ``ReservedParts``, and in words."""


def reserved_moments(trust: Trust) -> list[tuple[str, ReservedParts]]:
    """Return the moments at which the parts of reserved memory are known, and those parts."""
    moments = (("at the peak", trust.facts.at_peak), ("at the end", trust.facts.at_end))
    return [(name, parts) for name, parts in moments if parts and parts.reserved]


def difference_text(parts: ReservedParts) -> str:
    """Say by how much the sum of the parts differs from reserved; ``""`` where it is equal."""
    return f"{parts.difference:+,} bytes off" if parts.difference else ""


def trust_in_short(trust: Trust) -> tuple[str, str]:
    """Say in a mark and a few words whether the figures of a device can be trusted."""
    if trust.verdict in _DOUBTS:
        return _DOUBTS[trust.verdict]
    closing = trust.facts.closing
    return "✓", "adds up" if closing is not None and closing.closes else "no contradiction"


_DOUBTS = {
    "doubtful": ("✗", "does not add up"),
    "earlier": ("?", "the peak may be earlier"),
    "later": ("?", "the peak may be later"),
    "no history": ("?", "no history"),
    "nothing": ("?", "nothing to judge"),
}


def exactness(peak: CurvePeak) -> str:
    """Say whether a peak is exact, or by how much it may be higher."""
    if peak.bound:
        return f"at {peak.bound} this much"
    return f"up to {format_bytes(peak.width)} higher" if peak.width else "exact"


# The values of findings.


def value_text(value: Value, unit: Unit) -> str:
    """Write a value in its unit; ``-`` where it is not known."""
    if value is None:
        return "-"
    if unit == "text" or isinstance(value, str):
        return str(value)
    if unit == "share":
        return format_share(value)
    number = round(value)
    if unit == "bytes":
        return format_bytes(number)
    if unit == "event":
        return event_name(number)
    if unit == "time_us":
        return format_duration(number)
    return format_number(value)


def figure_text(figure: Figure) -> str:
    """Write a figure's value, with its upper bound where it is a range."""
    text = value_text(figure.value, figure.unit)
    if figure.most is None or figure.most == figure.value:
        return text
    most = value_text(figure.most, figure.unit)
    if most == text and isinstance(figure.value, int | float):
        return f"{text} (up to {value_text(figure.most - figure.value, figure.unit)} more)"
    return f"{text} to {most}"


def exact_text(value: Value, unit: Unit) -> str:
    """Write bytes to the byte, for a tooltip; ``""`` where the short form is exact."""
    if unit != "bytes" or value is None or isinstance(value, str):
        return ""
    return f"{format_count(round(value))} bytes"


def frees_text(frees: Frees | None) -> str:
    """Say how much a suggestion would free; ``""`` where that is not known."""
    if frees is None:
        return ""
    if not frees.most:
        return "frees no memory"
    least, about, most = map(format_bytes, (frees.least, frees.expected, frees.most))
    if frees.least == frees.most:
        return f"frees {about}"
    if not frees.least:
        return f"frees up to {most}" + (f", about {about}" if about != most else "")
    between = f"{least} to {most}" if about != most else f"at least {least}"
    return f"frees {between}, about {about}"


def saving_text(suggestions: Sequence[Suggestion]) -> str:
    """Say how much the best suggestion is expected to free; ``""`` if none frees any."""
    best = max(suggestions, key=lambda each: each.expected, default=None)
    if best is None or best.frees is None or not best.expected:
        return ""
    about = "" if best.frees.least == best.frees.most else "about "
    return f"{about}{format_bytes(best.expected)}"


def reasons(frees: Frees | None) -> list[str]:
    """Return what the bounds and the estimate rest on, a sentence each."""
    if frees is None:
        return []
    said = [
        ("At least", frees.least, frees.why_least),
        ("About", frees.expected, frees.why_expected),
        ("At most", frees.most, frees.why_most),
    ]
    return [f"{which} {format_bytes(size)}: {why}." for which, size, why in said if why and size]


def conditions(suggestion: Suggestion) -> str:
    """Say what a suggestion costs, and when it does not apply; ``""`` where nothing is known."""
    return " ".join(filter(None, (suggestion.costs, suggestion.unless)))


def tally(findings: tuple[Finding, ...]) -> str:
    """Count findings by severity: ``1 critical, 2 warnings, 4 notes``."""
    counts = dict.fromkeys(SEVERITIES, 0)
    for each in findings:
        counts[each.severity] += 1
    words = [
        f"{count} critical" if severity == "critical" else plural(count, severity)
        for severity, count in counts.items()
        if count
    ]
    return ", ".join(words) or "nothing found"

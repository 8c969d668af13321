"""What a report says about the allocations that it does not draw one by one."""

from __future__ import annotations

from dataclasses import dataclass

from snapreport.ground.units import (
    format_bytes,
    format_count,
    format_duration,
    plural,
    share_in_words,
)
from snapreport.model.cut import Drawn, Picture
from snapreport.model.findings import Findings
from snapreport.reporters.words.summary_rows import event_name


@dataclass(frozen=True)
class CutText:
    """What is not drawn of one device, in plain text."""

    line: str
    """A short version, shown near the headline."""
    plain: str
    """For a report without drawings."""
    facts: tuple[tuple[str, str], ...]
    """The details, as labels and values."""


def cut_texts(findings: Findings) -> list[CutText | None]:
    """Return the texts for each device; None where every allocation is drawn."""
    picture = findings.picture
    if picture is None:
        return [None] * len(findings.devices)
    made = [len(device.history.allocations) for device in findings.devices]
    return [_about(*each, picture) for each in zip(picture.devices, made, strict=True)]


def _about(drawn: Drawn, made: int, picture: Picture) -> CutText | None:
    if not drawn.left_out and drawn.times is None and drawn.window is None:
        return None
    share = share_in_words(drawn.left_out_bytes, drawn.all_bytes)
    which = f"{format_count(drawn.left_out)} of {plural(made, 'allocation')}"
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
    line += f" {what} are exact. To see everything, render {_how(picture)}."
    plain = (
        f"Every figure counts all allocations. A page with the same cuts draws all but {which}"
        f" ({share} of all bytes allocated) one by one."
    )
    return CutText(line, plain, tuple(_facts(drawn, which, share, picture)))


def _facts(drawn: Drawn, which: str, share: str, picture: Picture) -> list[tuple[str, str]]:
    facts = []
    if drawn.window is not None:
        first, last = drawn.window
        facts.append(("Events drawn", f"{event_name(first)} to {event_name(last)}"))
    if picture.cut.min_size:
        facts.append(("Sizes drawn", f"{format_bytes(picture.cut.min_size)} requested, or more"))
    if picture.fit is not None:
        facts.append(("Made to fit", f"{format_count(picture.fit)} bytes"))
        facts.append(("Thinned, in this order", _ORDER))
    facts.append(("Not drawn one by one", f"{which}, {format_count(drawn.left_out_bytes)} bytes"))
    facts.append(("Share of all bytes allocated", share))
    facts.append(("Live at the peak, of those", f"{format_count(drawn.left_out_at_peak)} bytes"))
    facts.append(
        (
            "Strips and band together",
            f"at most {format_count(drawn.error)} bytes below the curve at some events; equal to it"
            " at the start, the end, every peak, failed request and edge of a stage"
            if drawn.error
            else "equal to the curve at every event, to the byte",
        )
    )
    facts.append(
        (
            "Times",
            "as recorded"
            if drawn.times is None
            else f"within {format_count(drawn.time_error_us)} µs of those recorded",
        )
    )
    facts.append(("To see everything", f"render {_how(picture)}"))
    return facts


_ORDER = (
    "times between sampled events; allocations, smallest bytes times events first, except those"
    " live at a peak, a failed request or a stage's peak; the height of the band between columns"
    " of events"
)


def _how(picture: Picture) -> str:
    cut = picture.cut
    options = [
        name
        for name, given in (
            ("--from", cut.first),
            ("--to", cut.last),
            ("--min-size", cut.min_size),
            ("--fit", picture.fit is not None),
        )
        if given
    ]
    return f"without {' and '.join(options)}"

"""The report as one HTML file that opens offline, with its styles, script and data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO
from urllib.parse import quote

import orjson

from snapreport.ground.glossary import GLOSSARY
from snapreport.ground.units import format_bytes, format_count, format_duration
from snapreport.model.diagnoses import (
    SEVERITIES,
    Finding,
    OomEvent,
    ReservedParts,
    Suggestion,
    View,
)
from snapreport.model.findings import DeviceFindings, Findings
from snapreport.reporters import settings, words
from snapreport.reporters.document import plain
from snapreport.reporters.json_report import findings_as_json, with_format
from snapreport.reporters.notes import notes_as_html
from snapreport.reporters.payload import FORMAT, pack
from snapreport.reporters.svg import HEIGHT, WIDTH, CurvePicture, draw_curves
from snapreport.reporters.whole_page import (
    Definitions,
    data_for_script,
    json_for_script,
    write_page,
)
from snapreport.reporters.words import (
    CUT_WORDS,
    PARTS,
    CutText,
    cut_text,
    event_range,
    lines_note,
    recording_rows,
    saving_text,
    utc_text,
)


@dataclass(frozen=True)
class Part:
    """One part of reserved memory; all of them sum to it, to the byte."""

    kind: str
    """``requested``, ``slack``, ``pending``, ``fragmentation`` or ``returnable``."""
    label: str
    bytes: int
    percent: float
    """Its percentage of reserved memory."""

    @property
    def text(self) -> str:
        """The label and the size."""
        return f"{self.label} {format_bytes(self.bytes)}"


def reserved_parts(device: DeviceFindings) -> tuple[Part, ...]:
    """Split reserved memory at the peak; empty if no allocator reserved any.

    Blocks awaiting free, if any, are a part of their own; requested and slack then count only the
    allocated blocks, which the call sites hold.
    """
    peak = device.peak
    if not peak.reserved or peak.inactive is None or peak.fragmentation is None:
        return ()
    requested = sum(site.requested for site in device.sites)
    sizes = {
        "requested": requested,
        "slack": peak.allocated - requested,
        "awaiting_free": peak.active - peak.allocated,
        "fragmented": peak.fragmentation,
        "returnable": peak.inactive - peak.fragmentation,
    }
    live = ", live" if sizes["awaiting_free"] else ""
    if not live:
        del sizes["awaiting_free"]
    return tuple(
        _part(name, f"{title}{live if name in _LIVE else ''}", sizes[name], peak.reserved)
        for name, title in PARTS
        if name in sizes
    )


def parts_of(found: ReservedParts) -> tuple[Part, ...]:
    """Return the parts at a moment when memory was reserved."""
    return tuple(_part(name, title, getattr(found, name), found.reserved) for name, title in PARTS)


def _part(name: str, title: str, size: int, reserved: int) -> Part:
    return Part(_CLASSES.get(name, name), title, size, 100 * max(size, 0) / reserved)


_LIVE = ("requested", "slack")
_CLASSES = {"awaiting_free": "pending", "fragmented": "fragmentation"}
"""CSS classes of parts, where they differ from the names in ``PARTS``."""


# How the page shows findings: their order, which one is open, and links to their views.


@dataclass(frozen=True)
class FindingCard:
    """One finding."""

    finding: Finding
    lead: Suggestion | None
    """What to do first: the first change whose effect in bytes is known; None if there is none."""
    plan: Suggestion | None
    """Which changes make room together, beside the lead."""
    others: tuple[Suggestion, ...]
    """The other suggestions."""
    link: str
    """Fragment of the view that shows it, without ``#``; ``""`` if there is none."""
    shows: str
    """What stands on the link: the tab that it opens."""
    oom: int | None
    """The index of the failed request that it is about; None if it is about none."""
    hint: str
    """The biggest saving that it offers, readable while the finding is closed."""
    opens: bool
    """Whether it is open at first."""


def lay_out(
    findings: Sequence[Finding], device: int = 0, ooms: Sequence[OomEvent] = ()
) -> tuple[FindingCard, ...]:
    """Lay out findings for the page, the worst first; the most useful one is open.

    Args:
        findings: about one device.
        device: the device's index in the page.
        ooms: the device's failed requests.
    """
    events = [oom.event for oom in ooms]
    listed = sorted(findings, key=lambda each: SEVERITIES.index(each.severity))
    opened = _to_act_on(listed)
    return tuple(_card(each, device, events, each is opened) for each in listed)


def lay_out_of_file(findings: Sequence[Finding]) -> tuple[FindingCard, ...]:
    """Lay out the findings about the file; only critical ones are open."""
    return tuple(
        replace(each, opens=each.finding.severity == "critical") for each in lay_out(findings)
    )


def _to_act_on(findings: Sequence[Finding]) -> Finding | None:
    """Return a critical finding, else the one that frees the most, else the first warning."""

    def frees(finding: Finding) -> int:
        return max((each.expected for each in finding.suggestions), default=0)

    first = next(iter(findings), None)
    if first is None or first.severity == "critical":
        return first
    best = max((each for each in findings if each.leads), key=frees, default=None)
    if best is not None and frees(best):
        return best
    return None if first.severity == "note" else first


def _card(finding: Finding, device: int, oom_events: list[int], opens: bool) -> FindingCard:
    view = finding.view
    oom = None
    if view is not None and view.oom and view.event in oom_events:
        oom = oom_events.index(view.event)
    link = "" if view is None else _fragment(view, device, oom)
    shows = "" if view is None else _SHOWS["then" if view.oom else view.tab]
    lead = next((each for each in finding.suggestions if each.expected), None)
    plan = next((each for each in finding.suggestions if lead and each.code == "plan"), None)
    others = tuple(each for each in finding.suggestions if each is not lead and each is not plan)
    hint = ""
    if finding.suggestions:
        saving = saving_text(finding.suggestions)
        hint = f"biggest saving: {saving}" if saving else "with advice"
    return FindingCard(finding, lead, plan, others, link, shows, oom, hint, opens)


_SHOWS = {
    "then": "Show what was live then",
    "stacks": "Show the call stacks",
    "lines": "Show the lines",
    "live": "Show the allocations",
    "stages": "Show the stages",
    "steps": "Show the steps",
    "allocator": "Show the allocator",
    "events": "Show the events",
    "recording": "Show the recording",
}
"""The words of a link, by the tab that it opens; ``then`` where a request failed."""


def _fragment(view: View, device: int, oom: int | None) -> str:
    """Write the view as ``lib/text/link.ts`` reads it."""
    parts = {
        "device": str(device),
        "curve": view.curve or "",
        "event": "" if view.event is None else str(view.event),
        "oom": "" if oom is None else str(oom),
        "tab": view.tab,
        "search": view.search,
    }
    return "&".join(f"{key}={quote(value, safe='')}" for key, value in parts.items() if value)


ROWS_WITHOUT_SCRIPT = 25
"""Rows of each table in the HTML itself; with JavaScript the page lists them all."""


@dataclass(frozen=True)
class Figure:
    """One headline number."""

    label: str
    value: str
    exact: str
    meaning: str


@dataclass(frozen=True)
class DevicePage:
    """What the template says about one device."""

    findings: DeviceFindings
    place: int
    """Among the devices of the page, as links to it count."""
    figures: tuple[Figure, ...]
    """The headline first."""
    bar: tuple[Part, ...]
    """Parts of reserved memory at the peak."""
    expected: str
    """How sure a forecast's peak is; ``""`` for a recording."""
    span: str
    """How long it took and when; ``""`` for a forecast, which has no times."""
    picture: CurvePicture
    moment: str
    """When the figures hold."""
    findings_cards: tuple[FindingCard, ...]
    curves: tuple[str, ...]
    """The curves whose peaks are listed; without an allocator they are equal, so only one."""
    cut: CutText | None
    """What is not drawn one by one."""

    @property
    def unused(self) -> bool:
        """Whether nothing was ever allocated, reserved or asked for in vain on this device."""
        found = self.findings
        nothing = not len(found.history.allocations) and not found.ooms
        return nothing and not found.peak.reserved


def write_report(findings: Findings, out: BinaryIO) -> None:
    """Write the page as UTF-8."""
    summary = with_format("summary", findings_as_json(findings))
    packed = pack(findings, summary)
    pages = [_device_page(findings, *each) for each in enumerate(findings.devices)]
    write_page(
        out,
        "report.html.j2",
        script="app.js",
        format=FORMAT,
        workers=True,
        findings=findings,
        forecast=[
            plain(each.words) for each in words.forecast_note(findings.history, in_full=True)
        ],
        file_findings=lay_out_of_file(findings.warnings),
        source=findings.history.source,
        pages=pages,
        # The one that failed or used the most comes first: so it is read, and printed.
        articles=sorted(pages, key=lambda each: each.place != findings.default),
        notes=notes_as_html(findings.notes, findings.notes_of_file),
        lines_note=lines_note(findings.history),
        settings=[
            *recording_rows(findings.history, findings.devices),
            *(
                (key, value if isinstance(value, str) else orjson.dumps(value).decode())
                for key, value in findings.settings.items()
            ),
        ],
        payload={name: data_for_script(block) for name, block in packed._asdict().items()},
        summary=json_for_script(_short(summary)),
        width=WIDTH,
        height=HEIGHT,
        rows=ROWS_WITHOUT_SCRIPT,
        events=event_range,
        definitions=Definitions,
        finding_words=words,
        trust_words=words,
        parts_of=parts_of,
        setting_words=settings,
        cut_words=CUT_WORDS,
        place=_place,
    )


def _short(summary: dict[str, Any]) -> dict[str, Any]:
    """Return the summary with its long lists cut; the payload holds all of them."""
    devices = [
        device
        | {name: device[name][:ROWS_WITHOUT_SCRIPT] for name in ("sites", "stages", "ooms")}
        | {
            "steps": device["steps"]
            and device["steps"] | {"steps": device["steps"]["steps"][:ROWS_WITHOUT_SCRIPT]}
        }
        for device in summary["devices"]
    ]
    noted = summary["recording"]
    if noted is not None:  # without hundreds of counters that the page does not show
        names = ("device", "name", "capacity")
        noted |= {"devices": [{name: row[name] for name in names} for row in noted["devices"]]}
    return summary | {"devices": devices, "recording": noted}


def _device_page(findings: Findings, place: int, device: DeviceFindings) -> DevicePage:
    moment = "at the peak" if device.recorded else "when the snapshot was written"
    return DevicePage(
        findings=device,
        place=place,
        figures=_figures(device, moment),
        bar=reserved_parts(device),
        expected=words.expected_peak(findings.history, device),
        span=_span(device) if findings.history.forecast is None else "",
        picture=draw_curves(device),
        moment=moment,
        curves=tuple(
            name
            for name in ("allocated", "requested", "active", "reserved")
            if name in device.peaks and (name == "allocated" or "reserved" in device.curves)
        ),
        cut=cut_text(findings, device),
        findings_cards=lay_out(
            # The answer above the findings has already said it.
            [each for each in device.diagnosis.findings if each.explanation != device.answer],
            place,
            device.ooms,
        ),
    )


def _figures(device: DeviceFindings, moment: str) -> tuple[Figure, ...]:
    peak, recorded = device.peak, device.recorded
    exact = f"{format_count(peak.allocated)} bytes"
    if width := device.peaks["allocated"].width:
        exact = f"at least {exact}, at most {format_count(width)} more"
    # Without an allocator nothing is reserved, and blocks are as large as requested.
    reserves = "reserved" in device.curves
    meaning = GLOSSARY["allocated"] if reserves else "Bytes that live tensors asked for."
    most = "The most at any event of this recording." if recorded else f"What is live {moment}."
    name = "Peak allocated" if recorded else "Allocated at the end"
    headline = Figure(name, format_bytes(peak.allocated), exact, f"{meaning} {most}")
    if not reserves:
        return (headline,)
    inactive = GLOSSARY["inactive"]
    if peak.fragmentation is not None:
        inactive += (
            f" {format_bytes(peak.fragmentation)} of it is fragmentation."
            f" {GLOSSARY['fragmentation']}"
        )
    others: list[tuple[str, int | None, str]] = [
        ("Requested", peak.requested, GLOSSARY["requested"]),
        ("Reserved", peak.reserved, GLOSSARY["reserved"]),
        ("Slack", peak.slack, GLOSSARY["slack"]),
        ("Inactive", peak.inactive, inactive),
    ]
    if pending := max(peak.active - peak.allocated, 0):
        counted = " Requested and slack count it, allocated does not."
        others.append(("Awaiting free", pending, GLOSSARY["awaiting free"] + counted))
    unknown = "not known: segment events are missing from the recording"
    return (
        headline,
        *(
            Figure(label, "not known", unknown, meaning)
            if size is None
            else Figure(label, format_bytes(size), f"{format_count(size)} bytes", meaning)
            for label, size, meaning in others
        ),
    )


def _span(device: DeviceFindings) -> str:
    first, last = device.first_time_us, device.last_time_us
    if first is None or last is None:
        return "no times recorded"
    started = utc_text(first)
    return f"at {started}" if first == last else f"{format_duration(last - first)} from {started}"


def _place(filename: str, line: int | None) -> str:
    base = filename.replace("\\", "/").rsplit("/", 1)[-1]
    if base in ("", "??", "none"):
        return ""
    return f"{base}:{line}" if line else base

"""The report as one HTML file that opens offline, with its styles, script and data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, BinaryIO
from urllib.parse import quote

import orjson
from markupsafe import Markup

from snapreport.diagnosis.compare.diff_types import Diff
from snapreport.diagnosis.compare.two_recordings import place_frames
from snapreport.ground.glossary import GLOSSARY
from snapreport.ground.records import dataclass
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
from snapreport.model.snapshot import Source
from snapreport.reporters import settings, words
from snapreport.reporters.comparison import diff_document
from snapreport.reporters.document import Drawing, plain
from snapreport.reporters.html import block_functions
from snapreport.reporters.json_report import findings_as_json, with_format
from snapreport.reporters.notes import notes_as_html
from snapreport.reporters.payload import FORMAT, Compared, Packed, pack
from snapreport.reporters.svg import (
    HEIGHT,
    SMALL_HEIGHT,
    SMALL_WIDTH,
    WIDTH,
    CurvePicture,
    draw_curves,
    draw_small_curves,
)
from snapreport.reporters.whole_page import (
    Definitions,
    Folded,
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
        "a": "" if view.between is None else str(view.between[0]),
        "b": "" if view.between is None else str(view.between[1]),
        "ask": "" if view.between is None else "stayed",
        "event": "" if view.event is None else str(view.event),
        "oom": "" if oom is None else str(oom),
        "tab": view.tab,
        "search": view.search,
    }
    return "&".join(f"{key}={quote(value, safe='')}" for key, value in parts.items() if value)


ROWS_WITHOUT_SCRIPT = 25
"""Rows of each table in the HTML itself; with JavaScript the page lists them all."""
ROWS_OF_OTHERS = 8
"""The same for call sites of devices other than the first."""


@dataclass(frozen=True)
class Figure:
    """One headline number."""

    label: str
    value: str
    exact: str
    meaning: str


@dataclass(frozen=True)
class Brief:
    """A device in a few words, for the head of a page that is one screen."""

    figure: str
    label: str
    """What the figure counts."""
    failed: bool
    """Whether the figure is of a request that failed, and the program with it."""
    sentence: str
    card: FindingCard | None
    """The finding to act on."""
    action: str
    """What would help; the title of the finding where nothing would."""
    frees: str
    """How much its lead frees; ``""`` if it has none."""
    oom: int | None
    """The index of a failed request; None if none failed."""
    when: str
    """When that was, and what was missing."""
    trust: tuple[str, str]
    """A mark, and whether the figures can be trusted."""


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
    brief: Brief
    curves: tuple[str, ...]
    """The curves whose peaks are listed; without an allocator they are equal, so only one."""
    cut: CutText | None
    """What is not drawn one by one."""
    lines_note: str
    """What the lines of call sites stand for, if not for the lines that ran."""

    @property
    def unused(self) -> bool:
        """Whether nothing was ever allocated, reserved or asked for in vain on this device."""
        found = self.findings
        nothing = not len(found.history.allocations) and not found.ooms
        return nothing and not found.peak.reserved


@dataclass(frozen=True)
class FilePage:
    """What the template says about one file."""

    source: Source
    layout: str
    forecast: tuple[str, ...]
    """What a forecast says of itself, the first sentence first; empty for a recording."""
    file_findings: tuple[FindingCard, ...]
    notes: Markup
    settings: tuple[tuple[str, str], ...]


def write_report(findings: Findings, out: BinaryIO) -> None:
    """Write the page of a recording as UTF-8."""
    summary = with_format("summary", findings_as_json(findings))
    pages = [_device_page(findings, *each) for each in enumerate(findings.devices)]
    _write(
        out,
        "report.html.j2",
        pack(findings, summary),
        pages,
        summary=json_for_script(_short(summary)),
        title=findings.title,
        default=findings.default,
        # The one that failed or used the most comes first: so it is read, and printed.
        articles=sorted(pages, key=lambda each: each.place != findings.default),
        **vars(_file_page(findings)),
    )


DIFF_PAGE_ROWS = 200
"""The most rows of each table in the page of a comparison."""


def write_diff_page(diff: Diff, base: Findings, new: Findings, out: BinaryIO) -> None:
    """Write the page of a comparison as UTF-8: what differs, and the full reports of both devices.

    Args:
        diff: what differs.
        base: what was found on its device of BASE, and only on that.
        new: the same for NEW.
    """
    both = (base, new)
    title = f"{new.title} against {base.title}"
    devices = [each for found in both for each in findings_as_json(found)["devices"]]
    summary = {"title": title, "default": len(devices), "devices": devices}
    compared = Compared(new, place_frames(diff), (diff.base.event, diff.new.event), diff.curve)
    pages = [_device_page(found, place, found.devices[0]) for place, found in enumerate(both)]
    conclusion, *changes = diff_document(diff, DIFF_PAGE_ROWS).blocks
    picture = next(block for block in changes if isinstance(block, Drawing))
    _write(
        out,
        "diff.html.j2",
        pack(base, summary, compared),
        pages,
        style="diff.css",
        summary="",
        title=title,
        default=len(pages),
        articles=pages,
        files=[_file_page(found) for found in both],
        diff=diff,
        conclusion=conclusion,
        picture=picture,
        changes=[block for block in changes if block is not picture],
        **block_functions(),
    )


def _file_page(findings: Findings) -> FilePage:
    history = findings.history
    said = words.forecast_note(history, in_full=True)
    return FilePage(
        source=history.source,
        layout=history.layout,
        forecast=tuple(plain(each.words) for each in said),
        file_findings=lay_out_of_file(findings.warnings),
        notes=notes_as_html(findings.notes, findings.notes_of_file),
        settings=(
            *recording_rows(history, findings.devices),
            *(
                (key, value if isinstance(value, str) else orjson.dumps(value).decode())
                for key, value in findings.settings.items()
            ),
        ),
    )


def _write(
    out: BinaryIO, template: str, packed: Packed, pages: Sequence[DevicePage], **values: Any
) -> None:
    """Write a page with a payload."""
    write_page(
        out,
        template,
        script="compare.js" if template == "diff.html.j2" else "app.js",
        format=FORMAT,
        workers=True,
        payload={name: data_for_script(block) for name, block in packed._asdict().items()},
        width=WIDTH,
        height=HEIGHT,
        pages=pages,
        small=draw_small_curves([page.findings for page in pages]),
        small_box=f"0 0 {SMALL_WIDTH} {SMALL_HEIGHT}",
        rows=ROWS_WITHOUT_SCRIPT,
        rows_of_others=ROWS_OF_OTHERS,
        fold=Folded(),
        events=event_range,
        definitions=Definitions,
        finding_words=words,
        trust_words=words,
        parts_of=parts_of,
        setting_words=settings,
        cut_words=CUT_WORDS,
        place=_place,
        **values,
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
    figures = _figures(device, moment)
    cards = lay_out(
        # The answer above the findings has already said it.
        [each for each in device.diagnosis.findings if each.explanation != device.answer],
        place,
        device.ooms,
    )
    return DevicePage(
        findings=device,
        place=place,
        figures=figures,
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
        lines_note=lines_note(findings.history),
        findings_cards=cards,
        brief=_brief(device, figures[0], cards),
    )


def _brief(device: DeviceFindings, peak: Figure, cards: tuple[FindingCard, ...]) -> Brief:
    failure = next((each for each in cards if each.oom is not None), None)
    oom = len(device.ooms) - 1 if failure is None else failure.oom
    opened = next((each for each in cards if each.opens), None)
    act_on = (
        opened if opened and opened.lead else next((each for each in cards if each.lead), opened)
    )
    lead = act_on and act_on.lead
    brief = Brief(
        figure=peak.value,
        label=peak.label.lower(),
        failed=False,
        sentence=device.card.text if device.card else _first_sentence(device.answer),
        card=act_on,
        action=lead.text if lead else act_on.finding.title if act_on else "",
        frees=saving_text([lead]) if lead else "",
        oom=None,
        when="",
        trust=words.trust_in_short(device.trust),
    )
    if oom is None or oom < 0:
        return brief
    request = device.ooms[oom]
    evidence = failure.finding.evidence if failure else ()
    missing = next((each for each in evidence if each.label == "missing"), None)
    when = f"Failed at event {format_count(request.event)}"
    if request.time_us is not None and device.first_time_us is not None:
        when += f", after {format_duration(request.time_us - device.first_time_us)}"
    when += "" if missing is None else f": {words.figure_text(missing)} missing"
    brief = replace(brief, oom=oom, when=when)
    if failure is None or failure.finding.severity != "critical":
        return brief  # the program went on
    return replace(brief, figure=format_bytes(request.size), label="failed request", failed=True)


def _first_sentence(text: str) -> str:
    """Return what comes before the first full stop that another sentence follows."""
    return re.split(r"(?<=\.) (?=[A-Z\d])", text, maxsplit=1)[0]


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

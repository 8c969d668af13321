"""The report as one HTML file that opens offline, with its styles, script and data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, BinaryIO

import orjson
from markupsafe import Markup

from snapreport.ground.glossary import GLOSSARY
from snapreport.ground.safe_text import replaced
from snapreport.ground.units import (
    format_bytes,
    format_count,
    format_duration,
)
from snapreport.model.findings import DeviceFindings, Findings
from snapreport.reporters.json.json_parts import with_format
from snapreport.reporters.json.json_report import findings_as_json
from snapreport.reporters.page.composition import Part, parts_of, reserved_parts
from snapreport.reporters.page.finding_cards import FindingCard, lay_out, lay_out_of_file
from snapreport.reporters.page.payload import FORMAT, pack
from snapreport.reporters.page.svg import HEIGHT, WIDTH, CurvePicture, draw_curves
from snapreport.reporters.page.terms import Definitions
from snapreport.reporters.page.whole_page import data_for_script, json_for_script, write_page
from snapreport.reporters.words import allocator_words, finding_words, trust_words
from snapreport.reporters.words.cut_words import CutText, cut_texts
from snapreport.reporters.words.plain_text import notes_parser, takes_long, too_deep
from snapreport.reporters.words.recording_words import recording_rows
from snapreport.reporters.words.summary_rows import (
    CUT_WORDS,
    event_range,
    lines_note,
    utc_text,
)

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
    span: str
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


class HtmlReporter:
    """Writes the findings as one self-contained HTML page."""

    def render(self, findings: Findings, out: BinaryIO) -> None:
        """Write the page as UTF-8."""
        summary = with_format("summary", findings_as_json(findings))
        packed = pack(findings, summary)
        pages = [
            _device_page(place, *each)
            for place, each in enumerate(zip(findings.devices, cut_texts(findings), strict=True))
        ]
        write_page(
            out,
            "report.html.j2",
            script="app.js",
            format=FORMAT,
            workers=True,
            findings=findings,
            file_findings=lay_out_of_file(findings.warnings),
            source=findings.history.source,
            pages=pages,
            # The one that failed or used the most comes first: so it is read, and printed.
            articles=sorted(pages, key=lambda each: each.place != findings.default),
            notes=_render_notes(findings.notes, findings.notes_of_file),
            lines_note=lines_note(findings.history),
            settings=[
                *recording_rows(findings.history, findings.devices),
                *_settings(findings),
            ],
            payload={name: data_for_script(block) for name, block in packed._asdict().items()},
            summary=json_for_script(_short(summary)),
            width=WIDTH,
            height=HEIGHT,
            rows=ROWS_WITHOUT_SCRIPT,
            events=event_range,
            definitions=Definitions,
            finding_words=finding_words,
            trust_words=trust_words,
            parts_of=parts_of,
            setting_words=allocator_words,
            cut_words=CUT_WORDS,
            place=_place,
        )


def _render_notes(notes: str, stranger: bool) -> Markup:
    """Render Markdown; raw HTML stays text, and so do pictures, which need a network.

    What takes long to parse, and what is nested too deep, is shown as it is.
    """
    if not notes:
        return Markup()
    if not (stranger and takes_long(notes)):
        parser = notes_parser(html=False).disable("image")
        tokens = parser.parse(notes)
        if not too_deep(tokens):
            rendered = parser.renderer.render(tokens, parser.options, {})
            return Markup(replaced(rendered, "\n"))  # noqa: S704
    return Markup("<pre><code>{}</code></pre>").format(replaced(notes, "\n\t"))


def _short(summary: dict[str, Any]) -> dict[str, Any]:
    """Return the summary with its long lists cut; the payload holds all of them."""
    devices = [
        device
        | {name: device[name][:ROWS_WITHOUT_SCRIPT] for name in ("sites", "stages", "ooms")}
        | {"steps": device["steps"] and _few(device["steps"])}
        for device in summary["devices"]
    ]
    noted = summary["recording"]
    if noted is not None:  # without hundreds of counters that the page does not show
        names = ("device", "name", "capacity")
        noted |= {"devices": [{name: row[name] for name in names} for row in noted["devices"]]}
    return summary | {"devices": devices, "recording": noted}


def _few(steps: dict[str, Any]) -> dict[str, Any]:
    return steps | {"steps": steps["steps"][:ROWS_WITHOUT_SCRIPT]}


def _device_page(place: int, device: DeviceFindings, cut: CutText | None) -> DevicePage:
    moment = "at the peak" if device.recorded else "when the snapshot was written"
    return DevicePage(
        findings=device,
        place=place,
        figures=_figures(device, moment),
        bar=reserved_parts(device),
        span=_span(device),
        picture=draw_curves(device),
        moment=moment,
        curves=tuple(
            name
            for name in ("allocated", "requested", "active", "reserved")
            if name in device.peaks and (name == "allocated" or "reserved" in device.curves)
        ),
        cut=cut,
        findings_cards=lay_out(
            # The answer above the findings has already said it.
            [each for each in device.diagnosis.findings if each.explanation != device.answer],
            place,
            device.ooms,
        ),
    )


def _figures(device: DeviceFindings, moment: str) -> tuple[Figure, ...]:
    peak, recorded = device.peak, device.recorded
    width = device.peaks["allocated"].width
    at_least = "at least " if width else ""
    exact = f"{at_least}{format_count(peak.allocated)} bytes"
    if width:
        exact += f", at most {format_count(width)} more"

    def figure(label: str, count: int | None, meaning: str) -> Figure:
        if count is None:
            why = "not known: segment events are missing from the recording"
            return Figure(label, "not known", why, meaning)
        return Figure(label, format_bytes(count), f"{format_count(count)} bytes", meaning)

    returnable = (
        ""
        if peak.fragmentation is None
        else f" {format_bytes(peak.fragmentation)} of it is fragmentation."
        f" {GLOSSARY['fragmentation']}"
    )
    name = "Peak allocated" if recorded else "Allocated at the end"
    most = "The most at any event of this recording." if recorded else f"What is live {moment}."
    if "reserved" not in device.curves:
        # No allocator: nothing is reserved, and blocks are as large as requested.
        meaning = f"Bytes that live tensors asked for. {most}"
        return (Figure(name, format_bytes(peak.allocated), exact, meaning),)
    return (
        Figure(
            name,
            format_bytes(peak.allocated),
            exact,
            f"{GLOSSARY['allocated']} {most}",
        ),
        figure("Requested", peak.requested, GLOSSARY["requested"]),
        figure("Reserved", peak.reserved, GLOSSARY["reserved"]),
        figure("Slack", peak.slack, GLOSSARY["slack"]),
        figure("Inactive", peak.inactive, GLOSSARY["inactive"] + returnable),
        *(
            (
                figure(
                    "Awaiting free",
                    peak.active - peak.allocated,
                    f"{GLOSSARY['awaiting free']} Requested and slack count it, allocated does"
                    " not.",
                ),
            )
            if peak.active > peak.allocated
            else ()
        ),
    )


def _span(device: DeviceFindings) -> str:
    first, last = device.first_time_us, device.last_time_us
    if first is None or last is None:
        return "no times recorded"
    started = utc_text(first)
    return f"at {started}" if first == last else f"{format_duration(last - first)} from {started}"


def _settings(findings: Findings) -> list[tuple[str, str]]:
    return [
        (key, value if isinstance(value, str) else orjson.dumps(value).decode())
        for key, value in findings.settings.items()
    ]


def _place(filename: str, line: int | None) -> str:
    base = filename.replace("\\", "/").rsplit("/", 1)[-1]
    if base in ("", "??", "none"):
        return ""
    return f"{base}:{line}" if line else base

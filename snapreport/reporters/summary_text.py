"""The summary of a recording as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

from snapreport.ground.units import format_bytes, format_count, format_share, list_of
from snapreport.model.findings import DeviceFindings, Findings, StageUse
from snapreport.model.roles import Steps
from snapreport.reporters.answers import stage_table
from snapreport.reporters.document import Document
from snapreport.reporters.plain_text import cut, named_place, one_line
from snapreport.reporters.text_tables import NARROWEST, Page, terminal_width
from snapreport.reporters.words import (
    AMOUNT_HEADINGS,
    STEP_HEADINGS,
    amount_rows,
    average_text,
    facts,
    identified_text,
    lines_note,
    moment,
    sizes_text,
    stage_name,
    step_rows,
    width_text,
)

_SITES, _STAGES, _STEPS = 10, 15, 8


class TextReporter:
    """Writes the findings as plain text: the peak, what held it, stages and warnings."""

    def __init__(self, width: int | None = None) -> None:
        """Lay out for a terminal ``width`` columns wide, by default this one's."""
        self._width = terminal_width() if width is None else max(width, NARROWEST)

    def render(self, findings: Findings, out: BinaryIO) -> None:
        """Write the text in UTF-8."""
        page = Page(self._width)
        write_summary(page, findings)
        out.write(page.render())


def write_summary(page: Page, findings: Findings, full: bool = False) -> None:
    """Write each device's peak, findings (a line each), trust, call sites and stages."""
    page.say(one_line(findings.title), "title")
    for warning in findings.warnings:
        page.say(f"! {one_line(warning.paragraph)}", "warning")
    shown = [
        device
        for device in findings.devices
        if len(findings.devices) == 1 or device.history.events or len(device.history.allocations)
    ]
    default = findings.devices[findings.default] if findings.devices else None
    for device in sorted(shown, key=lambda device: device is not default):
        _device(page, device, lines_note(findings.history), full)
    unused = [str(each.device) for each in findings.devices if each not in shown]
    if unused:
        page.say()
        page.say(f"{list_of(unused)}: nothing was allocated")


def _device(page: Page, device: DeviceFindings, note: str, full: bool) -> None:
    page.part(f"{device.device}  {facts(device)}")
    page.say(one_line(device.answer))
    if device.card is not None:
        page.say(one_line(device.card.text), "critical" if device.card.outcome == "cannot" else "")
    for finding in device.diagnosis.findings:
        if finding.severity != "note":
            page.say(f"! {one_line(finding.title)}  [{finding.id}]", finding.severity)
    page.part(moment(device))
    page.table(AMOUNT_HEADINGS, amount_rows(device), left=(0,))
    if device.peaks["allocated"].width:
        page.say(width_text(device.peaks["allocated"]))
    if device.recorded:
        page.say(f"Over the recording: {average_text(device)}; {sizes_text(device)}.")
    page.say(one_line(device.trust.sentence))
    _sites(page, device, note, None if full else _SITES)
    if device.steps is not None:
        page.say()
        write_steps(page, device.steps, None if full else _STEPS)
    _stages(page, device.stages, None if full else _STAGES)


def _sites(page: Page, device: DeviceFindings, note: str, most: int | None) -> None:
    if not device.sites:
        return
    page.part("Held at the peak, by call site")
    sites, peak = device.sites[:most], device.peak.allocated
    page.table(
        ("bytes", "share", "count", "call site"),
        [
            (
                format_bytes(site.bytes),
                format_share(site.bytes, peak),
                format_count(site.count),
                named_place(site.name, site.filename, site.line),
            )
            for site in sites
        ],
        shares=[site.bytes / max(peak, 1) for site in sites],
    )
    left = device.sites[len(sites) :]
    if left:
        held = format_bytes(sum(site.bytes for site in left))
        page.say(f"and {format_count(len(left))} more with {held}")
    if note:
        page.say(note)


def write_steps(page: Page, steps: Steps, most: int | None) -> None:
    """Write the memory of the program's steps."""
    page.say("Steps of the program, in allocated bytes", "title")
    rows, left = step_rows(steps, most)
    page.table(STEP_HEADINGS, [(*row[:-1], one_line(row[-1])) for row in rows], cut=cut)
    if left:
        page.say(f"and {format_count(left)} more")
    page.say(one_line(identified_text(steps)))


def _stages(page: Page, stages: Sequence[StageUse], most: int | None) -> None:
    if not stages:
        return
    left = len(stages[most:]) if most is not None else 0
    rest = f"and {format_count(left)} more" if left else ""
    named = [(stage_name(stage), stage) for stage in stages[:most]]
    page.write(Document("", [stage_table(named, "Stages, in allocated bytes", rest)]))

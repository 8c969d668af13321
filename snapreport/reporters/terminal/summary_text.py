"""The summary for a terminal."""

from __future__ import annotations

from typing import BinaryIO

from snapreport.ground.units import format_bytes, format_count, format_share, format_signed_bytes
from snapreport.model.findings import DeviceFindings, Findings
from snapreport.reporters.terminal.text_tables import NARROWEST, Page, terminal_width
from snapreport.reporters.words.plain_text import cut, cut_site, location, one_line
from snapreport.reporters.words.summary_rows import (
    AMOUNT_HEADINGS,
    amount,
    amount_rows,
    average_text,
    closing_text,
    facts,
    lines_note,
    moment,
    sizes_text,
    stage_name,
    step_range,
    width_text,
)

_SITES, _STAGES = 10, 15
_STAGE_FIGURES = 66


class TextReporter:
    """Writes the findings as plain text: peak, who held it, stages and warnings."""

    def __init__(self, width: int | None = None, *, colour: bool = False) -> None:
        """Lay out for a terminal ``width`` columns wide, by default this one's."""
        self._width = terminal_width() if width is None else max(width, NARROWEST)
        self._colour = colour

    def render(self, findings: Findings, out: BinaryIO) -> None:
        """Write the text in UTF-8."""
        page = Page(self._width, colour=self._colour)
        page.say(one_line(findings.title), "title")
        for warning in findings.warnings:
            page.say(f"! {one_line(warning.paragraph)}", "warning")
        shown = [
            device
            for device in findings.devices
            if len(findings.devices) == 1
            or device.history.events
            or len(device.history.allocations)
        ]
        default = findings.devices[findings.default] if findings.devices else None
        for device in sorted(shown, key=lambda device: device is not default):
            self._device(device, page, lines_note(findings.history))
        for device in findings.devices:
            if device not in shown:
                page.say()
                page.say(f"{device.device}: nothing was allocated")
        out.write(page.render())

    def _device(self, device: DeviceFindings, page: Page, note: str) -> None:
        page.say()
        page.say(f"{device.device}  {facts(device)}", "title")
        page.say(one_line(device.answer))
        for finding in device.diagnosis.findings:
            if finding.severity != "note":
                page.say(f"! {one_line(finding.title)}  [{finding.id}]", finding.severity)
        page.say()
        page.say(moment(device), "title")
        figures = [heading != AMOUNT_HEADINGS[0] for heading in AMOUNT_HEADINGS]
        page.table(AMOUNT_HEADINGS, amount_rows(device), figures)
        if device.peaks["allocated"].width:
            page.say(width_text(device.peaks["allocated"]))
        if device.recorded:
            page.say(f"Over the recording: {average_text(device)}; {sizes_text(device)}.")
        page.say(f"Final state: {closing_text(device)}.")
        self._sites(device, page, note)
        self._stages(device, page)

    def _sites(self, device: DeviceFindings, page: Page, note: str) -> None:
        if not device.sites:
            return
        page.say()
        page.say("Held at the peak, by call site", "title")
        room = max(self._width - 34, 20)
        sites, peak = device.sites[:_SITES], device.peak.allocated
        page.table(
            ("bytes", "share", "count", "call site"),
            [
                (
                    format_bytes(site.bytes),
                    format_share(site.bytes, peak),
                    format_count(site.count),
                    cut_site(f"{site.name}  {location(site.filename, site.line)}".rstrip(), room),
                )
                for site in sites
            ],
            shares=[site.bytes / max(peak, 1) for site in sites],
        )
        if len(device.sites) > _SITES:
            rest = sum(site.bytes for site in device.sites[_SITES:])
            page.say(f"and {len(device.sites) - _SITES} more with {format_bytes(rest)}")
        if note:
            page.say(note)

    def _stages(self, device: DeviceFindings, page: Page) -> None:
        if not device.stages:
            return
        page.say()
        page.say("Stages, in allocated bytes", "title")
        rows = []
        for stage in device.stages[:_STAGES]:
            figures = (
                step_range(stage.start_step, stage.end_step),
                amount(stage.start_bytes),
                amount(stage.peak_bytes),
                amount(stage.end_bytes),
                "-" if stage.change is None else format_signed_bytes(stage.change),
            )
            # Rich would shorten the figures to make room for a long name.
            room = max(self._width - _STAGE_FIGURES, 16)
            name = "  " * min(stage.depth, 8) + one_line(stage_name(stage))
            rows.append((*figures, cut(name, room)))
        page.table(("steps", "start", "peak", "end", "change", "stage"), rows)
        if len(device.stages) > _STAGES:
            page.say(f"and {format_count(len(device.stages) - _STAGES)} more")

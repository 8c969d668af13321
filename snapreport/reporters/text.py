"""The summary for a terminal."""

from __future__ import annotations

import io
import shutil
from typing import BinaryIO

from rich.console import Console
from rich.table import Table

from snapreport.model.findings import DeviceFindings, Findings
from snapreport.reporters.figures import (
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
from snapreport.reporters.plain_text import cut, cut_site, location, one_line
from snapreport.units import format_bytes, format_count, format_share, format_signed_bytes

_SITES, _STAGES = 10, 15
_STAGE_FIGURES = 66
_NARROWEST, _PIPE_WIDTH = 60, 100


class TextReporter:
    """Writes the findings as plain text: peak, who held it, stages and warnings."""

    def __init__(self, width: int | None = None) -> None:
        """Lay out for a terminal ``width`` columns wide; by default this one's."""
        if width is None:
            width = shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns
        self._width = max(width, _NARROWEST)

    def render(self, findings: Findings, out: BinaryIO) -> None:
        """Write the text in UTF-8."""
        text = io.StringIO()
        console = Console(
            file=text,
            width=self._width,
            color_system=None,
            markup=False,
            emoji=False,
            highlight=False,
            legacy_windows=False,
        )
        console.print(one_line(findings.title))
        for warning in findings.warnings:
            console.print(f"! {one_line(warning.paragraph)}")
        shown = [
            device
            for device in findings.devices
            if len(findings.devices) == 1
            or device.history.events
            or len(device.history.allocations)
        ]
        default = findings.devices[findings.default] if findings.devices else None
        for device in sorted(shown, key=lambda device: device is not default):
            self._device(device, console, lines_note(findings.history))
        for device in findings.devices:
            if device not in shown:
                console.print(f"\n{device.device}: nothing was allocated")
        lines = (line.rstrip() for line in text.getvalue().splitlines())
        out.write(("\n".join(lines) + "\n").encode())

    def _device(self, device: DeviceFindings, console: Console, note: str) -> None:
        console.print(f"\n{device.device}  {facts(device)}", style="bold")
        console.print(one_line(device.answer))
        for finding in device.diagnosis.findings:
            if finding.severity != "note":
                console.print(f"! {one_line(finding.title)}  [{finding.id}]")
        amounts = _table(*AMOUNT_HEADINGS)
        for row in amount_rows(device):
            amounts.add_row(*row)
        console.print(f"\n{moment(device)}")
        console.print(amounts)
        if device.peaks["allocated"].width:
            console.print(width_text(device.peaks["allocated"]))
        if device.recorded:
            console.print(f"Over the recording: {average_text(device)}; {sizes_text(device)}.")
        console.print(f"Final state: {closing_text(device)}.")
        self._sites(device, console, note)
        self._stages(device, console)

    def _sites(self, device: DeviceFindings, console: Console, note: str) -> None:
        if not device.sites:
            return
        console.print("\nHeld at the peak, by call site")
        table = _table("bytes", "share", "count", "call site", last_left=True)
        room = max(self._width - 34, 20)
        for site in device.sites[:_SITES]:
            name = f"{site.name}  {location(site.filename, site.line)}".rstrip()
            share = format_share(site.bytes, device.peak.allocated)
            table.add_row(
                format_bytes(site.bytes),
                share,
                format_count(site.count),
                cut_site(name, room),
            )
        console.print(table)
        if len(device.sites) > _SITES:
            rest = sum(site.bytes for site in device.sites[_SITES:])
            console.print(f"and {len(device.sites) - _SITES} more with {format_bytes(rest)}")
        if note:
            console.print(note)

    def _stages(self, device: DeviceFindings, console: Console) -> None:
        if not device.stages:
            return
        console.print("\nStages, in allocated bytes")
        table = _table("steps", "start", "peak", "end", "change", "stage", last_left=True)
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
            table.add_row(*figures, cut(name, room))
        console.print(table)
        if len(device.stages) > _STAGES:
            console.print(f"and {format_count(len(device.stages) - _STAGES)} more")


def _table(*headings: str, last_left: bool = False) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for i, heading in enumerate(headings):
        left = (last_left and i == len(headings) - 1) or heading == AMOUNT_HEADINGS[0]
        table.add_column(
            heading, justify="left" if left else "right", no_wrap=True, overflow="ellipsis"
        )
    return table

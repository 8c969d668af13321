"""The summary stored in a page, as text for a terminal; a stranger may have made its JSON."""

from __future__ import annotations

import textwrap
from typing import Any, TypeVar

from snapreport.ground.units import format_bytes, format_count, format_share
from snapreport.model.diagnoses import Frees
from snapreport.reporters.terminal.text_tables import Page
from snapreport.reporters.words.finding_words import frees_text
from snapreport.reporters.words.plain_text import location, one_line

Plain = dict[str, Any]
_Kind = TypeVar("_Kind")
_INDENT = "  "
_LONGEST = 2000
"""Most letters of a text that are shown; texts from snapreport are shorter."""


def write_saved(page: Page, summary: Plain) -> None:
    """Write each device's answer, findings, peaks and call sites, or a run's conclusions."""
    page.say(_text(summary, "title"), "title")
    for warning in _rows(summary, "warnings"):
        page.say(f"! {_text(warning, 'text')}", "warning")
    for device in _rows(summary, "devices"):
        _device(page, device)
    if "headline" in summary:  # a run's page
        _run(page, summary)


def _run(page: Page, summary: Plain) -> None:
    page.say(_text(summary, "headline"))
    for part in ("odd", "groups", "imbalances", "replicated"):
        for row in _rows(summary, part):
            _indented(page, _text(row, "sentence"), "- ")
    for row in _rows(summary, "broken"):
        _indented(page, f"{_text(row, 'file')}: {_text(row, 'error')}", "- ")


def _device(page: Page, device: Plain) -> None:
    page.part()
    events, made = _number(device, "events"), _number(device, "allocations")
    about = f"{format_count(events)} events, {format_count(made)} allocations"
    page.say(f"{_text(device, 'device')}  {about}", "title")
    page.say(_text(device, "answer"))
    for finding in _rows(_row(device, "diagnosis"), "findings"):
        _finding(page, finding)
    peaks = _row(device, "peaks")
    curves = [(name, peak) for name, peak in peaks.items() if isinstance(peak, dict)]
    if curves:
        page.part()
        rows = [
            (one_line(name), format_bytes(_number(peak, "bytes")), str(_number(peak, "event")))
            for name, peak in curves
        ]
        page.table(("memory", "peak", "event"), rows, left=(0,))
    _sites(page, device)


def _finding(page: Page, finding: Plain) -> None:
    page.say()
    severity = _text(finding, "severity")
    title = f"{severity.upper()}: {_text(finding, 'title')}  [{_text(finding, 'id')}]"
    page.say(title, severity if severity in ("critical", "warning", "note") else "")
    _indented(page, _text(finding, "explanation"), "")
    for each in _rows(finding, "suggestions"):
        promise = _promise(_row(each, "frees"))
        _indented(page, f"{_text(each, 'text')} {promise}".rstrip(), "- ")


def _promise(frees: Plain) -> str:
    least, about, most = (_number(frees, name) for name in ("least", "expected", "most"))
    if not frees or not 0 <= least <= about <= most:
        return ""
    return f"({frees_text(Frees(least, about, most))})"


def _sites(page: Page, device: Plain) -> None:
    sites = _rows(device, "sites")
    if not sites:
        return
    peak = max(_number(_row(device, "peak"), "allocated"), 1)
    page.part("Held at the peak, by call site")
    rows, shares = [], []
    for site in sites:
        held, line = _number(site, "bytes"), _number(site, "line")
        place = location(_text(site, "file"), line or None)
        what = f"{_text(site, 'name')}  {place}".rstrip()
        shares.append(held / peak)
        share = format_share(held, peak)
        rows.append((format_bytes(held), share, format_count(_number(site, "count")), what))
    page.table(("bytes", "share", "count", "call site"), rows, shares=shares)


def _indented(page: Page, text: str, mark: str) -> None:
    width = max(page.width - len(_INDENT), 1)
    for line in textwrap.wrap(
        text,
        width,
        initial_indent=_INDENT + mark,
        subsequent_indent=_INDENT + " " * len(mark),
        break_on_hyphens=False,
    ):
        page.say(line)


def _of(row: Plain, name: str, kind: type[_Kind], otherwise: _Kind) -> _Kind:
    value = row.get(name)
    return value if isinstance(value, kind) else otherwise


def _text(row: Plain, name: str) -> str:
    return one_line(_of(row, name, str, ""))[:_LONGEST]


def _number(row: Plain, name: str) -> int:
    value = _of(row, name, int, 0)
    return value if -(2**63) <= value < 2**63 else 0


def _row(row: Plain, name: str) -> Plain:
    return _of(row, name, dict, {})


def _rows(row: Plain, name: str) -> list[Plain]:
    return [each for each in _of(row, name, list, []) if isinstance(each, dict)]

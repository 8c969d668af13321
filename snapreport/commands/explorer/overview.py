"""The overview (what held the memory, what went wrong), and the recording (can it be trusted)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from snapreport.commands.explorer.cells import EMPTY, Line, columns, fit, heat, ink, wrap
from snapreport.commands.explorer.front_desk import Key, Table, key, page_lines
from snapreport.commands.explorer.screen import ListScreen
from snapreport.ground.safe_text import replaced
from snapreport.ground.units import format_bytes, format_count, format_share
from snapreport.model.answers import CardFit
from snapreport.model.diagnoses import Diagnosis, Finding, Trust
from snapreport.reporters.plain_text import location, named_place
from snapreport.reporters.summary import finding_blocks, trust_blocks
from snapreport.reporters.words import (
    AMOUNT_HEADINGS,
    amount_rows,
    average_text,
    facts,
    lines_note,
    moment,
    recording_rows,
    sizes_text,
    tally,
    width_text,
)

if TYPE_CHECKING:
    from snapreport.commands.explorer.front_desk import FrontDesk


_MOST_SITES = 100


@dataclass(frozen=True)
class _Row:
    """A row, and what Enter opens."""

    line: Line
    finding: Finding | None = None
    site: str = ""
    """The search in the call stacks that finds it."""


class OverviewScreen(ListScreen):
    """The first part of a report."""

    name = "overview"
    title = "Overview"
    short = "Peak"
    KEYS: ClassVar[tuple[Key, ...]] = (
        *ListScreen.MOVES,
        key("enter", "to a finding's evidence, or a call site's stacks", "open_row", "evidence"),
        key("right", "show a finding in full", "turn_finding", "in full", wanted=True),
        key("left", "show it in one line", "turn_finding", wanted=False),
        key("e", "show all findings in full", "turn_all", wanted=True),
        key("c", "show all findings in one line each", "turn_all", wanted=False),
        key("p", "go to the peak", "go_to_peak"),
        *ListScreen.SEARCH,
    )

    items: Sequence[_Row] = ()

    def __init__(self, desk: FrontDesk) -> None:
        """Make the screen; findings are computed in a thread."""
        super().__init__(desk)
        self.opened: set[str] = set()
        self._judged: dict[str, tuple[Diagnosis, Trust, CardFit | None]] = {}
        self._asked: set[str] = set()

    @property
    def diagnosis(self) -> Diagnosis | None:
        """The device's findings, None until they are computed."""
        judged = self._judged.get(self.view.device.name)
        return judged and judged[0]

    def depends_on(self) -> object:
        """The device, whether its findings are there, and which of them are shown in full."""
        name = self.view.device.name
        return name, name in self._judged, frozenset(self.opened), self.width

    def draw(self, width: int, height: int) -> list[Line]:
        """Return the lines; the first call starts the search for findings."""
        self.width = width  # findings may be laid out before the rest
        self._judge()
        return super().draw(width, height)

    def _judge(self) -> None:
        device = self.view.device
        if device.name in self._asked:
            return
        self._asked.add(device.name)

        def work() -> Callable[[], None]:
            card = self.view.card
            fit = None if card is None else device.fits_wanted(card)
            judged = device.diagnosis, device.trust, fit

            def done() -> None:
                self._judged[device.name] = judged
                if self.cursor == 0 and self.view.device is device:
                    self.sync()  # the reader's first question, one Enter away
                    found = (k for k, row in enumerate(self.items) if row.finding is not None)
                    self.cursor = next(found, 0)

            return done

        self.desk.in_background(work)

    def gather(self) -> None:
        """Lay out the rows of the device."""
        device = self.view.device
        figures = device.figures
        rows: list[_Row] = []

        def say(text: str, role: str = "") -> None:
            rows.extend(_Row(ink((line, role))) for line in wrap(text, self.width))

        say(f"{device.name}  {facts(figures)}", "title")
        say(replaced(figures.answer))
        judged = self._judged.get(device.name)
        if judged and judged[2]:
            say(replaced(judged[2].text), "title")
        rows.append(_Row(EMPTY))
        rows += self._findings()
        rows.append(_Row(EMPTY))
        say(moment(figures), "title")
        rows += self._amounts()
        if figures.peaks["allocated"].width:
            say(width_text(figures.peaks["allocated"]))
        if figures.recorded:
            say(f"Over the recording: {average_text(figures)}; {sizes_text(figures)}.")
        if judged:
            say(replaced(judged[1].sentence))
        rows += self._sites()
        if note := lines_note(device.file):
            say(note, "dim")
        self.items = rows

    def _findings(self) -> list[_Row]:
        found = self.diagnosis
        if found is None:
            return [_Row(ink(("Looking for what went wrong…", "dim")))]
        rows = [_Row(ink((f"Findings: {tally(found.findings)}", "title")))]
        for each in found.findings:
            rows += self._finding(each)
        return rows

    def _finding(self, finding: Finding) -> list[_Row]:
        mark = "▾" if finding.id in self.opened else "▸"
        word = finding.severity.capitalize()
        if finding.id in self.opened:
            shown = page_lines(
                self.width - 2, lambda page: page.blocks(finding_blocks(finding, None))
            )
            shown = [line for line in shown if line.text] and shown[1:]
            lines = [ink(f"{mark} ", *shown[0].runs)]
            lines += [ink("  ", *line.runs) for line in shown[1:]]
            return [_Row(line, finding) for line in [*lines, EMPTY]]
        head = ink((f"{mark} {word}: ", finding.severity), f"{replaced(finding.title)}")
        return [_Row(head, finding)]

    def _amounts(self) -> list[_Row]:
        found = amount_rows(self.view.device.figures)
        table = [AMOUNT_HEADINGS, *found]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        return [
            _Row(columns(row, widths, [0], "title" if row is AMOUNT_HEADINGS else ""))
            for row in table
        ]

    def _sites(self) -> list[_Row]:
        figures = self.view.device.figures
        if not figures.sites:
            return []
        when = "at the peak" if figures.recorded else "at the end"
        rows = [_Row(EMPTY), _Row(ink((f"Held {when}, by call site", "title")))]
        total = figures.peak.allocated
        for site in figures.sites[:_MOST_SITES]:
            role = heat(site.bytes / max(total, 1))
            figure = f"{format_bytes(site.bytes):>10} {format_share(site.bytes, total):>7}"
            place = location(site.filename, site.line)
            text = f"{figure} {format_count(site.count):>7}  "
            line = ink((text, role), (replaced(site.name), role), (f"  {place}", "dim"))
            rows.append(_Row(line, site=place or site.name))
        left = figures.sites[_MOST_SITES:]
        if left:
            held = format_bytes(sum(site.bytes for site in left))
            rows.append(_Row(ink((f"and {format_count(len(left))} more with {held}", "dim"))))
        return rows

    def row(self, place: int) -> Line:
        """Return a line."""
        return self.items[place].line

    # Findings and sites lead on.

    def open_row(self) -> None:
        """Go to the evidence of a finding, or to the call stacks of a site."""
        row = self.items[self.cursor]
        if row.finding is not None:
            self._show_evidence(row.finding)
        elif row.site:
            self.view.go_to(self.view.device.figures.peak.event)
            self.desk.show("stacks", search=row.site)

    def _show_evidence(self, finding: Finding) -> None:
        view = finding.view
        if view is None:
            self.turn_finding(wanted=True)
            return
        if view.curve is not None and view.curve != self.view.curve:
            self.view.count(view.curve)
        if view.event is not None:
            self.view.go_to(view.event)
        self.desk.show("timeline" if view.oom else view.tab, search=view.search)

    def turn_finding(self, *, wanted: bool) -> None:
        """Show the finding with the cursor in full, or in one line."""
        finding = self.items[self.cursor].finding if self.items else None
        if finding is None:
            return
        self.opened = self.opened | {finding.id} if wanted else self.opened - {finding.id}
        self.sync()
        self.cursor = next(k for k, row in enumerate(self.items) if row.finding is finding)

    def turn_all(self, *, wanted: bool) -> None:
        """Show every finding in full, or in one line."""
        found = self.diagnosis
        self.opened = {each.id for each in found.findings} if found and wanted else set()

    def go_to_peak(self) -> None:
        """Show the peak."""
        self.view.go_to(self.view.opening)

    def in_link(self) -> dict[str, object]:
        """The page opens with the overview, so a link needs no tab."""
        return {}

    def as_table(self) -> Table:
        """Return the call sites at the peak."""
        sites = self.view.device.figures.sites
        return ("bytes", "requested", "count", "call site"), [
            (
                site.bytes,
                site.requested,
                site.count,
                named_place(site.name, site.filename, site.line),
            )
            for site in sites
        ]


# The recording: whether it can be trusted, its file, and the allocator's settings.


class RecordingScreen(ListScreen):
    """The page's Recording tab as a list of lines."""

    name = "recording"
    title = "Recording"
    short = "Trust"
    KEYS: ClassVar[tuple[Key, ...]] = (*ListScreen.MOVES, *ListScreen.SEARCH)

    items: Sequence[Line] = ()

    def depends_on(self) -> object:
        """The device and the width."""
        return self.view.device.name, self.width

    def gather(self) -> None:
        """Write the lines."""
        device = self.view.device
        lines = page_lines(
            self.width, lambda page: page.blocks(trust_blocks(device.name, device.trust))
        )
        history = self.view.opened.snapshot.history
        source = history.source
        lines += [ink(), ink(("File", "title"))]
        lines += [ink(text) for text in wrap(str(self.view.opened.path), self.width, "  ")]
        lines.append(ink(f"  {source.name}, {format_bytes(source.size)}, SHA-256 {source.sha256}"))
        noted = recording_rows(history, [device.figures])
        settings = [(name, str(value)) for name, value in history.settings.items()]
        for title, rows in (("Recording", noted), ("Allocator settings", settings)):
            lines += [ink(), ink((title, "title"))] if rows else []
            for name, value in rows:
                texts = wrap(replaced(value), self.width - 30, "") or [""]
                for k, text in enumerate(texts):
                    label = fit(f"  {replaced(name)}" if k == 0 else "", 29)
                    lines.append(ink((label, "dim"), f" {text}"))
        self.items = lines

    def row(self, place: int) -> Line:
        """Return a line."""
        return self.items[place]

    def as_table(self) -> Table:
        """Return the checks."""
        trust = self.view.device.trust
        return ("check", "result", "text"), [
            (check.title, check.mark, check.text) for check in trust.checks
        ]

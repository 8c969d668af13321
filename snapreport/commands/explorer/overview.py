"""The overview (what held the memory, what went wrong), and the recording (can it be trusted)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar

from snapreport.commands.explorer.lines import EMPTY, Line, heat, ink, labelled, wrap
from snapreport.commands.explorer.screen import FrontDesk, Key, ListScreen, Table, key
from snapreport.ground.later import worked_out
from snapreport.ground.records import dataclass
from snapreport.ground.safe_text import replaced
from snapreport.ground.units import format_bytes, format_count, format_share
from snapreport.model.answers import CardFit
from snapreport.model.diagnoses import Diagnosis, Finding, Trust
from snapreport.reporters.document import Block, Heading, Paragraph, plain
from snapreport.reporters.plain_text import location, named_place
from snapreport.reporters.summary import amount_blocks, finding_blocks, trust_blocks
from snapreport.reporters.text import NARROWEST, STYLES, Page
from snapreport.reporters.words import (
    expected_peak,
    facts,
    forecast_note,
    lines_note,
    recording_rows,
    tally,
)

_COLOUR = re.compile(r"\x1b\[([0-9;]*)m")
_CODES = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "blue": "34"}
_ROLES = {
    ";".join(_CODES[word] for word in style.split()): name for name, style in STYLES.items() if name
}
_ROLES |= {"31": "heat4", "33": "heat3"}


def page_lines(width: int, blocks: Iterable[Block]) -> list[Line]:
    """Return what a terminal of ``width`` columns shows of blocks.

    Only our own colours become roles; other escape sequences are shown as text.
    """
    page = Page(max(width, NARROWEST), colour=True)
    page.blocks(blocks)
    lines: list[Line] = []
    for text in page.render().decode().removesuffix("\n").split("\n"):
        texts, codes = (parts := _COLOUR.split(text))[::2], parts[1::2]
        roles = ["", *(_ROLES.get(code, "") for code in codes)]
        lines.append(ink(*zip(texts, roles, strict=True)))
    return lines


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
        return self._judged.get(self.view.device.name, (None,))[0]

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
            wanted = self.view.card
            card = None if wanted is None else device.fits_wanted(wanted)
            for each in device.diagnosis.findings:
                worked_out(each)  # else the screen would wait for it at Enter
            judged = device.diagnosis, device.trust, card

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
        note, expected = lines_note(device.file), expected_peak(device.file, figures)
        diagnosis, trust, card = self._judged.get(device.name, (None, None, None))

        def say(*blocks: Block) -> Iterator[_Row]:
            """Yield rows of blocks; a pane may be too narrow for a writer's paragraphs."""
            for block in blocks:
                if isinstance(block, (Heading, Paragraph)):
                    texts = wrap(replaced(plain(block.words)), self.width)
                    yield from (_Row(ink((text, block.style))) for text in texts)
                else:
                    yield from map(_Row, page_lines(self.width, [block]))

        self.items = [
            *say(*forecast_note(device.file, in_full=True)),
            *say(Heading(f"{device.name}  {facts(figures)}"), Paragraph(figures.answer)),
            *say(*([Paragraph(expected)] if expected else [])),
            *say(*([Paragraph(card.text, "title")] if card else [])),
            _Row(EMPTY),
            *self._findings(diagnosis),
            _Row(EMPTY),
            *say(*amount_blocks(figures)),
            *say(*([Paragraph(trust.sentence)] if trust else [])),
            *self._sites(),
            *(_Row(ink((text, "dim"))) for text in (wrap(note, self.width) if note else [])),
        ]

    def _findings(self, found: Diagnosis | None) -> list[_Row]:
        if found is None:
            return [_Row(ink(("Looking for what went wrong…", "dim")))]
        rows = [_Row(ink((f"Findings: {tally(found.findings)}", "title")))]
        for each in found.findings:
            rows += self._finding(each)
        return rows

    def _finding(self, finding: Finding) -> list[_Row]:
        if finding.id in self.opened:
            first, *rest = page_lines(self.width - 2, finding_blocks(finding, None))
            lines = [ink("▾ ", *first.runs), *(ink("  ", *line.runs) for line in rest), EMPTY]
            return [_Row(line, finding) for line in lines]
        head = (f"▸ {finding.severity.capitalize()}: ", finding.severity)
        return [_Row(ink(head, replaced(finding.title)), finding)]

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
        device, opened = self.view.device, self.view.opened
        history = opened.snapshot.history
        source = history.source
        lines = page_lines(self.width, trust_blocks(device.name, device.trust))
        lines += [EMPTY, ink(("File", "title"))]
        lines += [ink(text) for text in wrap(str(opened.path), self.width, "  ")]
        lines.append(ink(f"  {source.name}, {format_bytes(source.size)}, SHA-256 {source.sha256}"))
        noted = recording_rows(history, [device.figures])
        settings = [(name, str(value)) for name, value in history.settings.items()]
        for title, rows in (("Recording", noted), ("Allocator settings", settings)):
            lines += [EMPTY, ink((title, "title"))] if rows else []
            for name, value in rows:
                lines += labelled(f"  {replaced(name)}", replaced(value), 29, self.width, "dim")
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

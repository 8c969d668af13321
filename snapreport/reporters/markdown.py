"""Parts of Markdown that several reports share: tables, folded sections, and a limit on length.

A report is made of blocks, such as paragraphs or tables, with an empty line between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, TypeVar

from snapreport.ground.glossary import FIGURES, GLOSSARY
from snapreport.ground.units import format_bytes, format_count, format_share, plural
from snapreport.ground.version import __version__
from snapreport.model.diagnoses import Diagnosis, Finding, Suggestion
from snapreport.model.diagnoses import Table as Evidence
from snapreport.model.findings import DeviceFindings, Findings
from snapreport.reporters.document import (
    Block,
    Bullets,
    Code,
    Document,
    Folded,
    Heading,
    Item,
    Listing,
    Mark,
    Pairs,
    Paragraph,
    Part,
    Site,
    Size,
    Strong,
    Table,
    Tag,
    Words,
    parts_of,
)
from snapreport.reporters.plain_text import (
    closed,
    code_span,
    cut,
    escaped,
    location,
    one_line,
    tame_notes,
)
from snapreport.reporters.settings import settings_blocks
from snapreport.reporters.svg import maxima
from snapreport.reporters.text_tables import tree_lines
from snapreport.reporters.words import (
    AMOUNT_HEADINGS,
    STEP_HEADINGS,
    amount,
    amount_rows,
    cells_of,
    closing_text,
    conditions,
    cut_texts,
    event_range,
    facts,
    figure_text,
    frees_text,
    identified_text,
    known_text,
    lines_note,
    memory_name,
    moment,
    recording_rows,
    signed,
    stage_name,
    step_rows,
    texts_of,
    width_text,
)

LIMIT = 65_536
"""The longest comment that GitHub accepts; GitHub counts characters, and we count bytes."""

_AnyRoom = TypeVar("_AnyRoom")


def first_that_fits(
    blocks: Callable[[_AnyRoom], Iterable[str]], rooms: Sequence[_AnyRoom], beside: int = 0
) -> bytes:
    """Return the longest version of a report that is shorter than LIMIT, in UTF-8.

    Args:
        blocks: returns the report's blocks for a room.
        rooms: the largest first; the last is used even if its report is too long.
        beside: bytes that have to fit in besides the report.
    """
    for room in rooms:
        text = ("\n\n".join(blocks(room)) + "\n").encode()
        if len(text) + beside < LIMIT:
            break
    return text


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[int] = ()) -> str:
    """Return a table of cells that are Markdown already, aligned right except columns ``left``."""
    rules = (" :-- " if i in left else " --: " for i in range(len(headings)))
    lines = (" | ".join(row) for row in (headings, *rows))
    first, *others = (f"| {line} |" for line in lines)
    return "\n".join([first, f"|{'|'.join(rules)}|", *others])


def bullets(lines: Iterable[str]) -> Iterator[str]:
    """Yield a list of lines as one block; no block if there are none."""
    if text := "\n".join(f"- {line}" for line in lines):
        yield text


def folded(title: str, blocks: Iterable[str]) -> str:
    """Return blocks folded under a title."""
    return "\n\n".join([f"<details><summary>{escaped(title)}</summary>", *blocks, "</details>"])


def write_markdown(
    build: Callable[[int], Document], rooms: Sequence[int], out: BinaryIO, level: int = 2
) -> None:
    """Write a document as Markdown of less than LIMIT bytes.

    Args:
        build: returns the document with at most so many rows in each table.
        rooms: rows to try in turn until it fits.
        out: the file to write to.
        level: of the heading that its title is.
    """
    out.write(first_that_fits(lambda most: document_blocks(build(most), level), rooms))


def document_blocks(document: Document, level: int = 2) -> Iterator[str]:
    """Yield the blocks of a document, its title first."""
    yield f"{'#' * level} {_inline(document.title)}"
    yield from _blocks(document.blocks)


def _blocks(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, Heading):
            yield f"{'#' * block.level} {_inline(block.words)}"
        elif isinstance(block, Paragraph):
            text = _inline(block.words)
            if block.is_note:
                text = f"> ⚠️ {text}"
            yield f"**{text}**" if block.style in _BOLD else text
        elif isinstance(block, Bullets):
            yield from bullets(map(_bullet, block.items))
        elif isinstance(block, Table):
            yield from _table_blocks(block)
        elif isinstance(block, Pairs):
            yield table(
                ("figure", "value", "meaning"),
                [[_inline(words) for words in row] for row in block.rows],
                left=(0, 2),
            )
        elif isinstance(block, Listing):
            if block.title:
                yield f"### {_inline(block.title)}"
            yield _code(block.lines)
        elif isinstance(block, Folded):
            yield folded(block.title, _blocks(block.blocks))


_BOLD = ("title", "good", "critical")


def _inline(words: Words) -> str:
    return "".join(map(_part, parts_of(words)))


def _part(part: Part) -> str:
    if isinstance(part, Code):
        return code_span(part.text, part.limit)
    if isinstance(part, Tag):
        return code_span(part.text)
    if isinstance(part, Site):
        name = code_span(part.name, _NAME) if part.is_code else escaped(part.name)
        return f"{name} {code_span(part.place, _PLACE)}" if part.place else name
    if isinstance(part, Strong):
        return f"**{escaped(part.text)}**"
    if isinstance(part, Mark):
        return MARKS[part.is_good]
    if isinstance(part, Size):
        return str(part)
    # A space at an end stands between two parts.
    before = " " if part.startswith(" ") else ""
    after = " " if part.endswith(" ") and part.strip() else ""
    return f"{before}{escaped(part)}{after}"


MARKS = {True: "✅", False: "❌", None: "❔"}


def _bullet(item: Words | Item) -> str:
    if not isinstance(item, Item):
        return _inline(item)
    lines = [_inline(item.words), *(f"  - {_inline(words)}" for words in item.below)]
    if item.change:  # indented, because a line in it could end a fence
        lines += ["", *(f"      {one_line(line)}" for line in item.change.splitlines()), ""]
    return "\n".join(lines)


def _table_blocks(of: Table) -> Iterator[str]:
    if of.title:
        yield f"### {_inline(of.title)}"
    rows = [[_inline(cell) for cell in row] for row in of.rows]
    for row, depth in zip(rows, of.depths, strict=False):
        row[-1] = "&nbsp;&nbsp;" * min(depth, 8) + row[-1]
    if of.total:
        rows.append([_inline(cell) for cell in of.total])
    left = [i for i, column in enumerate(of.columns) if column.is_text]
    yield table([escaped(column.title) for column in of.columns], rows, left)
    if of.rest:
        yield escaped(of.rest)


# The allocated curve as a line of block characters.


_BLOCKS = "▁▂▃▄▅▆▇█"
_WIDE = 72


def curve_lines(device: DeviceFindings) -> tuple[str, str, str]:
    """Draw allocated memory over the events: a title, the curve, and the labels of its ends.

    A column shows the maximum over its events; the peak is a full block.
    """
    curve = device.curves["allocated"]
    columns = maxima(curve, _WIDE).tolist()
    top = max(columns)
    drawn = "".join(_BLOCKS[max(-(-8 * value // top) - 1, 0)] if top else "▁" for value in columns)
    end = f"event {format_count(len(curve) - 2)}"
    return (
        f"Allocated memory over the recording; the highest block is {format_bytes(top)}",
        drawn,
        f"start{end:>{max(len(drawn) - 5, len(end) + 1)}}",
    )


# A diagnosis as Markdown for an issue comment.


_SEVERITIES = {"critical": "🔴", "warning": "🟠", "note": "🔵"}
_CELL = 80
_ROWS = 8


def diagnosis_blocks(diagnosis: Diagnosis, most: int) -> Iterator[str]:
    """Yield the findings to act on, then the notes, folded.

    Args:
        diagnosis: the device's.
        most: the most findings to act on, and the most notes.
    """
    first = [each for each in diagnosis.findings if each.leads]
    notes = [each for each in diagnosis.findings if not each.leads]
    for each in first[:most]:
        yield from finding_blocks(each)
    if len(first) > most:
        more = format_count(len(first) - most)
        yield f"{more} more findings; `snapreport summary --findings` lists them all."
    if notes:
        blocks = [block for each in notes[:most] for block in finding_blocks(each)]
        if len(notes) > most:
            blocks.append(f"And {format_count(len(notes) - most)} more.")
        yield folded(f"Notes ({format_count(len(notes))})", blocks)
    if diagnosis.silenced:
        yield f"Silenced: {', '.join(map(code_span, diagnosis.silenced))}."


def finding_blocks(finding: Finding) -> Iterator[str]:
    """Yield a finding in full."""
    yield f"{_SEVERITIES[finding.severity]} **{escaped(finding.title)}** `{finding.id}`"
    yield escaped(finding.explanation)
    if finding.suggestions:
        yield "\n".join(map(_item, finding.suggestions)).rstrip("\n")
    evidence = [*_figures(finding), *(block for each in finding.tables for block in _table(each))]
    if evidence:
        yield folded("Evidence", evidence)


def _item(offered: Suggestion) -> str:
    frees = frees_text(offered.frees)
    parts = (escaped(offered.text), f"**{frees}**" if frees else "", escaped(conditions(offered)))
    text = f"- {' '.join(filter(None, parts))}"
    if not offered.change:
        return text
    # Indented, because a line in it could end a fence.
    return "\n".join(
        [text, "", *(f"      {one_line(line)}" for line in offered.change.splitlines()), ""]
    )


def _figures(finding: Finding) -> Iterator[str]:
    if finding.evidence:
        rows = [
            (escaped(each.label), escaped(figure_text(each)), escaped(each.meaning))
            for each in finding.evidence
        ]
        yield table(("figure", "value", "meaning"), rows, left=(0, 2))


def _table(of: Evidence) -> Iterator[str]:
    yield f"**{escaped(of.title)}**"
    left = texts_of(of)
    rows = [
        [code_span(cell, _CELL) if i in left else cell for i, cell in enumerate(row)]
        for row in cells_of(of, _ROWS)
    ]
    yield table([escaped(column.title) for column in of.columns], rows, left)
    rest = max(len(of.rows) - _ROWS, 0) + of.left_out
    if rest:
        yield f"{format_count(rest)} more."


# The report as Markdown, short enough for an issue comment.


_PLACE = 90
_NAME = 80
_VALUE = 400
_STEPS = 12
_ANYWHERE = ("requested", "allocated")  # known even without an allocator
_FENCE = 101
"""The most bytes of a line that ends a block of code."""


@dataclass(frozen=True)
class _Room:
    """How many rows each part may have."""

    sites: int
    stages: int
    nodes: int
    devices: int
    findings: int


# Tried in turn until the report fits: names can have thousands of letters.
_ROOMS = (
    _Room(25, 60, 60, 8, 12),
    _Room(15, 25, 25, 4, 8),
    _Room(10, 10, 0, 2, 4),
    _Room(5, 3, 0, 1, 2),
)


class MarkdownReporter:
    """Writes the findings as Markdown of less than LIMIT bytes."""

    def render(self, findings: Findings, out: BinaryIO) -> None:
        """Write the Markdown in UTF-8; long parts are folded."""
        notes = tame_notes(findings.notes.strip(), findings.notes_of_file)
        text = first_that_fits(partial(_report, findings), _ROOMS, len(_notes(notes, LIMIT)))
        out.write(_notes(notes, LIMIT - len(text) - 1) + text)


def _notes(notes: str, room: int) -> bytes:
    """Return the notes, cut to ``room`` bytes, with no block of code left open."""
    if not notes:
        return b""
    text = notes.encode()
    said = b"\n\n(The notes are longer than an issue comment; the rest was cut.)"
    end = b"\n\n"
    if len(text) + len(end) > room:
        left = max(room - len(said) - len(end) - _FENCE, 0)
        text = closed(text[:left].decode(errors="ignore")).encode() + said
    return text + end


def _report(findings: Findings, room: _Room) -> Iterator[str]:
    name = memory_name(each.device for each in findings.devices)
    yield f"## {name}: {escaped(findings.title)}"
    for each in findings.warnings:
        yield from finding_blocks(each)
    default = findings.devices[findings.default] if findings.devices else None
    if len(findings.devices) > 1:
        yield _devices_table(findings.devices)
    if default is not None:
        yield from _device(default, findings, room)
    others = [
        device
        for i, device in enumerate(findings.devices)
        if i != findings.default and len(device.history.allocations)
    ]
    for device in others[: room.devices]:
        yield folded(str(device.device), _device(device, findings, room))
    if len(others) > room.devices:
        yield f"{len(others) - room.devices} more devices are left out; see them with `--device`."
    yield folded("About this report", bullets(_about(findings)))


def _devices_table(devices: Sequence[DeviceFindings]) -> str:
    rows = [
        (
            code_span(str(device.device)),
            format_count(device.history.events),
            format_bytes(device.peak.allocated),
            "-" if device.peak.reserved is None else format_bytes(device.peak.reserved),
            "out of memory" if device.ooms else "",
        )
        for device in devices
    ]
    headings = ("device", "events", "allocated peak", "reserved then", "ended")
    return table(headings, rows, left=(0, 4))


def _device(device: DeviceFindings, findings: Findings, room: _Room) -> Iterator[str]:
    yield f"**{device.device}** · {facts(device)}"
    yield escaped(device.answer)
    if device.card is not None:
        yield f"**{escaped(device.card.text)}**"
    cut = cut_texts(findings)[findings.devices.index(device)]
    if cut is not None:
        yield escaped(cut.plain)
    yield from diagnosis_blocks(device.diagnosis, room.findings)
    if not len(device.history.allocations):
        return
    yield f"{moment(device)}."
    if device.recorded:
        yield _code(curve_lines(device))
    yield table(AMOUNT_HEADINGS, amount_rows(device), left=(0,))
    if device.peaks["allocated"].width:
        yield width_text(device.peaks["allocated"])
    yield from _roles(device)
    yield from _sites(device, room.sites, lines_note(findings.history))
    yield from _steps(device, room.stages)
    yield from _stages(device, room.stages)
    if room.nodes:
        lines = tree_lines(device.tree, findings.tree_frames, room.nodes)
        tree = _code(line.text for line in lines)
        yield folded("Call tree at the peak, without library-internal frames", [tree])
        if device.settings is not None and device.settings.found.outcomes:
            settings = settings_blocks(device.settings.found)
            yield folded("Other settings of the allocator", _blocks(settings))
    yield escaped(device.trust.sentence)
    for check in device.trust.checks:
        if check.code == "replay":
            yield escaped(check.text)
    if device.closing is None or not device.closing.closes:  # else the trust sentence says so
        yield f"Final state: {closing_text(device)}."


def _code(lines: Iterable[str]) -> str:
    """Return a block of code, indented so that no name in it can end it."""
    return "\n".join(f"    {line}" for line in lines)


def _roles(device: DeviceFindings) -> Iterator[str]:
    if not device.held_by_role:
        return
    yield "### By role at the peak"
    total = device.peak.allocated
    rows = [
        (
            each.role,
            format_bytes(each.bytes),
            format_share(each.bytes, total),
            escaped(known_text(each)),
        )
        for each in device.held_by_role
    ]
    yield table(("role", "bytes", "share", "how known"), rows, left=(0, 3))


def _sites(device: DeviceFindings, most: int, note: str) -> Iterator[str]:
    if not device.sites:
        return
    yield "### Held at the peak, by call site"
    total = device.peak.allocated
    rows = []
    for site in device.sites[:most]:
        name = code_span(site.name, _NAME) if site.frame is not None else escaped(site.name)
        place = location(site.filename, site.line, _PLACE)
        rows.append(
            (
                format_bytes(site.bytes),
                format_share(site.bytes, total),
                format_count(site.count),
                name,
                code_span(place) if place else "",
                code_span(site.source, _NAME) if site.source else "",
            )
        )
    rest = device.sites[most:]
    if rest:
        size = sum(site.bytes for site in rest)
        share = format_share(size, total)
        count = sum(site.count for site in rest)
        more = f"{format_count(len(rest))} more call sites"
        rows.append((format_bytes(size), share, format_count(count), more, "", ""))
    headings = ("bytes", "share", "count", "function", "location", "code")
    used = len(headings) if any(row[-1] for row in rows) else -1  # rows may have no code
    yield table(headings[:used], [row[:used] for row in rows], left=(3, 4, 5))
    if note:
        yield note


def _steps(device: DeviceFindings, most: int) -> Iterator[str]:
    if device.steps is None:
        return
    rows, left = step_rows(device.steps, min(most, _STEPS))
    cells = [(*row[:-1], escaped(cut(row[-1], _NAME))) for row in rows]
    yield "### Steps of the program"
    yield table(STEP_HEADINGS, cells, left=(len(STEP_HEADINGS) - 1,))
    more = f" {plural(left, 'more step')} {'is' if left == 1 else 'are'} left out." if left else ""
    yield f"{escaped(identified_text(device.steps))}{more}"


def _stages(device: DeviceFindings, most: int) -> Iterator[str]:
    if not device.stages:
        return
    # Of many stages, readers look for the outermost and those with the highest peaks.
    ranked = sorted(
        range(len(device.stages)),
        key=lambda i: (device.stages[i].depth > 0, -(device.stages[i].peak_bytes or 0), i),
    )
    chosen = sorted(ranked[:most])
    rows = []
    for i in chosen:
        stage = device.stages[i]
        rows.append(
            (
                "&nbsp;&nbsp;" * min(stage.depth, 8) + code_span(stage_name(stage), _NAME),
                event_range(stage.start_event, stage.end_event),
                amount(stage.start_bytes),
                amount(stage.peak_bytes),
                amount(stage.end_bytes),
                signed(stage.change),
                "-" if stage.allocations is None else format_count(stage.allocations),
            )
        )
    headings = ("stage", "events", "start", "peak", "end", "change", "allocations")
    stages = [table(headings, rows, left=(0,))]
    left_out = len(device.stages) - len(chosen)
    if left_out:
        more = format_count(left_out)
        stages.append(f"{more} more stages, with lower peaks or nested deeper.")
    if len(rows) > 8:
        yield folded(f"Stages ({format_count(len(device.stages))})", stages)
    else:
        yield "### Stages"
        yield from stages


def _about(findings: Findings) -> Iterator[str]:
    source = findings.history.source
    size = format_count(source.size)
    yield f"Source: {code_span(source.name)}, {size} bytes, SHA-256 `{source.sha256}`"
    for name, value in recording_rows(findings.history, findings.devices):
        yield f"{name}: {code_span(cut(value, _VALUE))}"
    if findings.settings:
        config = findings.settings.get("PYTORCH_CUDA_ALLOC_CONF")
        yield f"Allocator settings: {code_span(str(config)) if config else 'defaults'}"
    yield f"Made with snapreport {__version__}"
    reserves = any(device.end.reserved is not None for device in findings.devices)
    for term in FIGURES:
        if reserves or term in _ANYWHERE:
            yield f"*{term}*: {GLOSSARY[term]}"

"""The answers about one recording as documents: its summary, its findings, whether to trust it.

The terminal's summary and the Markdown report are the same document, in rooms of different size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from snapreport.ground.glossary import FIGURES, GLOSSARY
from snapreport.ground.records import dataclass
from snapreport.ground.units import (
    format_bytes,
    format_count,
    format_share,
    list_of,
    plural,
)
from snapreport.ground.version import __version__
from snapreport.model import diagnoses as model
from snapreport.model.diagnoses import Diagnosis, Finding, Frees, ReservedParts, Suggestion, Trust
from snapreport.model.findings import DeviceFigures, DeviceFindings, Findings
from snapreport.model.roles import RoleUse
from snapreport.reporters.answers import stage_table, step_blocks, tree_listing
from snapreport.reporters.document import (
    Block,
    Bullets,
    Code,
    Column,
    Document,
    Drawing,
    Folded,
    Heading,
    Item,
    Listing,
    Pairs,
    Paragraph,
    Part,
    Severity,
    Site,
    Size,
    Strong,
    Style,
    Table,
    Tag,
    Words,
    columns,
    joined,
    sentence,
)
from snapreport.reporters.plain_text import cut, location
from snapreport.reporters.settings import settings_blocks
from snapreport.reporters.svg import HEIGHT, WIDTH, draw_curves, maxima
from snapreport.reporters.words import (
    AMOUNT_HEADINGS,
    PARTS,
    amount_rows,
    average_text,
    conditions,
    cut_text,
    difference_text,
    evidence_text,
    exactness,
    expected_peak,
    facts,
    figure_text,
    forecast_note,
    frees_text,
    lines_note,
    memory_name,
    moment,
    reasons,
    recording_rows,
    reserved_moments,
    site_of,
    sizes_text,
    stage_name,
    tally,
    value_text,
    width_text,
)


@dataclass(frozen=True)
class Room:
    """How much of a recording there is room for; None for all."""

    sites: int | None
    stages: int | None
    steps: int | None
    findings: int | None = None
    """Findings in full, and notes; None for a line each."""
    nodes: int = 0
    """Of the call tree."""
    devices: int | None = None
    report: bool = False
    """With what one does not see on a terminal: roles, curve, tree, settings, source."""


TERMINAL = Room(10, 15, 8)
FULL = Room(None, None, None)
REPORT_ROOMS = (
    Room(25, 60, 12, 12, 60, 8, report=True),
    Room(15, 25, 12, 8, 25, 4, report=True),
    Room(10, 10, 10, 4, 0, 2, report=True),
    Room(5, 3, 3, 2, 0, 1, report=True),
)
"""Tried in turn until a report fits: names can have thousands of letters."""
FULL_REPORT = Room(None, None, None, 10**9, 10**9, report=True)

_VALUE = 400
_ROWS = 8
"""Rows of a finding's table, where not all are shown."""
_ANYWHERE = ("requested", "allocated")
"""What is known even without an allocator."""


def summary_document(findings: Findings, room: Room) -> Document:
    """Say what held the memory of each device at its peak, and what was found."""
    name = memory_name(each.device for each in findings.devices)
    return Document(f"{name}: {findings.title}", list(_summary(findings, room)))


def _summary(findings: Findings, room: Room) -> Iterator[Block]:
    default = findings.devices[findings.default] if findings.devices else None
    if room.report:
        yield from forecast_note(findings.history, in_full=True)
        for each in findings.warnings:
            yield from finding_blocks(each, _ROWS)
    else:
        yield Paragraph(findings.title, "title")
        yield from forecast_note(findings.history, in_full=True)
        for each in findings.warnings:
            yield Paragraph(each.paragraph, "warning", is_note=True)
    if room.report and len(findings.devices) > 1:
        yield _devices(findings.devices)
    used = [
        each
        for each in findings.devices
        if len(findings.devices) == 1
        or len(each.history.allocations)
        or (each.history.events and not room.report)
    ]
    if default is not None and (default in used or room.report):
        yield from _device(default, findings, room)
    others = [each for each in used if each is not default]
    for device in others[: room.devices]:
        blocks = list(_device(device, findings, room))
        if room.report:
            yield Folded(str(device.device), blocks)
        else:
            yield from blocks
    if room.devices is not None and len(others) > room.devices:
        left = len(others) - room.devices
        yield Paragraph(
            (f"{left} more devices are left out; see them with ", Code("--device"), ".")
        )
    if room.report:
        yield Folded("About this report", [Bullets(list(_about(findings)))])
    elif unused := [str(each.device) for each in findings.devices if each not in used]:
        yield Heading(f"{list_of(unused)}: nothing was allocated")


def _devices(devices: Sequence[DeviceFindings]) -> Table:
    return Table(
        [
            Column("device", True),
            *columns("events", "allocated peak", "reserved then", text="ended"),
        ],
        [
            (
                Code(str(each.device)),
                format_count(each.history.events),
                Size(each.peak.allocated),
                Size(each.peak.reserved),
                "out of memory" if each.ooms else "",
            )
            for each in devices
        ],
    )


def _device(device: DeviceFindings, findings: Findings, room: Room) -> Iterator[Block]:
    yield Heading(f"{device.device}: {facts(device)}")
    yield Paragraph(device.answer)
    yield Paragraph(expected_peak(findings.history, device))
    if device.card is not None:
        cannot = device.card.outcome == "cannot"
        yield Paragraph(Strong(device.card.text), "critical" if cannot else "")
    if room.report and (cut := cut_text(findings, device)):
        yield Paragraph(cut.plain)
    if room.findings is not None:
        yield from diagnosis_blocks(device.diagnosis, room.findings, _ROWS)
    else:
        for finding in device.diagnosis.findings:
            if finding.severity != "note":
                yield Paragraph((f"{finding.title}  ", Tag(finding.id)), finding.severity, True)
    if room.report and not len(device.history.allocations):
        return
    yield Paragraph(device.trust.sentence)
    yield from amount_blocks(device, _curve(device, room) if device.recorded else None)
    if room.report:
        yield from _roles(device)
    yield from _sites(device, room.sites, lines_note(findings.history))
    if device.steps is not None:
        yield from step_blocks(device.steps, room.steps)
    yield from _stages(device, room)
    if not room.report:
        return
    if room.nodes:
        tree = tree_listing(device.tree, findings.tree_frames, room.nodes)
        yield Folded("Call tree at the peak, without library-internal frames", [tree])
        if device.settings is not None and device.settings.found.outcomes:
            yield Folded(
                "Other settings of the allocator", list(settings_blocks(device.settings.found))
            )
    for check in device.trust.checks:
        if check.code == "replay":
            yield Paragraph(check.text)
    if device.closing is None or not device.closing.closes:  # else the trust sentence says so
        yield Paragraph(f"Final state: {_closing(device)}.")


def _closing(device: DeviceFindings) -> str:
    """Say whether the replay's end equals the final state."""
    closing = device.closing
    if closing is None:
        return "the file lists none to compare with"
    if closing.closes:
        return "the events add up to it, to the byte"
    return (
        f"the events differ from it by {closing.requested:+,} requested,"
        f" {closing.allocated:+,} allocated and {closing.active:+,} active bytes"
    )


def _curve(device: DeviceFindings, room: Room) -> Block:
    def picture() -> dict[str, object]:
        return {"path": draw_curves(device).allocated, "width": WIDTH, "height": HEIGHT}

    return Listing(curve_lines(device)) if room.report else Drawing("curve.html.j2", picture)


def amount_blocks(device: DeviceFigures, curve: Block | None = None) -> Iterator[Block]:
    """Yield the memory at the start, at the peak and at the end; ``curve``: what shows it."""
    yield Heading(moment(device), 4)
    if curve is not None:
        yield curve
    name, *states = AMOUNT_HEADINGS
    yield Table([Column(name, True, "end"), *map(Column, states)], amount_rows(device))
    if device.peaks["allocated"].width:
        yield Paragraph(width_text(device.peaks["allocated"]))
    if device.recorded:
        yield Paragraph(f"Over the recording: {average_text(device)}; {sizes_text(device)}.")


_BLOCKS = "▁▂▃▄▅▆▇█"
_WIDE = 72


def curve_lines(device: DeviceFigures) -> tuple[str, str, str]:
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


def _roles(device: DeviceFindings) -> Iterator[Table]:
    if device.held_by_role:
        total = device.peak.allocated
        yield Table(
            [*columns("bytes", "share", text="role"), Column("how known", True)],
            [
                (Size(each.bytes), format_share(each.bytes, total), each.role, _known(each))
                for each in device.held_by_role
            ],
            title="By role at the peak",
        )


def _known(use: RoleUse) -> str:
    """Return the two kinds of evidence for most bytes of a role, and how many more there are."""
    texts = [evidence_text(each) for each in use.evidence[:2]]
    left = len(use.evidence) - len(texts)
    return "; ".join([*texts, f"and {left} more"] if left else texts)


def _sites(device: DeviceFindings, most: int | None, note: str) -> Iterator[Block]:
    if not device.sites:
        return
    sites = device.sites[:most]
    rest = [site.bytes for site in device.sites[len(sites) :]]
    yield _held_at_peak(
        [(site.bytes, site.count, site_of(site), site.source) for site in sites],
        max(device.peak.allocated, 1),
        f"{format_count(len(rest))} more with {format_bytes(sum(rest))}." if rest else "",
    )
    if note:
        yield Paragraph(note)


def _held_at_peak(sites: Sequence[tuple[int, int, Site, str]], peak: int, rest: str = "") -> Table:
    """Return bytes, count, place and code of call sites as a table; its code only if any has."""
    code = [Column("code", True, "end")] if any(source for *_, source in sites) else []
    return Table(
        [*columns("bytes", "share", "count", text="call site"), *code],
        [
            (
                Size(held),
                format_share(held, peak),
                format_count(count),
                site,
                *(Code(source) if source else "" for _ in code),
            )
            for held, count, site, source in sites
        ],
        title="Held at the peak, by call site",
        rest=rest,
        shares=[held / peak for held, *_ in sites],
    )


def _stages(device: DeviceFindings, room: Room) -> Iterator[Block]:
    if not device.stages:
        return
    # Of many stages, readers look for the outermost and those with the highest peaks.
    ranked = sorted(
        range(len(device.stages)),
        key=lambda i: (device.stages[i].depth > 0, -(device.stages[i].peak_bytes or 0), i),
    )
    stages = [device.stages[i] for i in sorted(ranked[: room.stages])]
    left = len(device.stages) - len(stages)
    table = stage_table(
        [(stage_name(stage), stage) for stage in stages],
        "Stages, in allocated bytes",
        f"{format_count(left)} more, with lower peaks or nested deeper." if left else "",
        counts=room.report,
    )
    if room.report and len(stages) > _ROWS:
        yield Folded(f"Stages ({format_count(len(device.stages))})", [table])
    else:
        yield table


def _about(findings: Findings) -> Iterator[Words]:
    source = findings.history.source
    size = format_count(source.size)
    yield ("Source: ", Code(source.name), f", {size} bytes, SHA-256 {source.sha256}")
    for name, value in recording_rows(findings.history, findings.devices):
        yield (f"{name}: ", Code(cut(value, _VALUE), _VALUE))
    if findings.settings:
        config = findings.settings.get("PYTORCH_CUDA_ALLOC_CONF")
        yield ("Allocator settings: ", Code(str(config), _VALUE) if config else "defaults")
    yield f"Made with snapreport {__version__}"
    reserves = any(device.end.reserved is not None for device in findings.devices)
    for term in FIGURES:
        if reserves or term in _ANYWHERE:
            yield (Strong(term), f": {GLOSSARY[term]}")


# Findings: the worst first, each with what would help before its evidence.


def diagnosis_document(findings: Findings, full: bool, *, named: bool = False) -> Document:
    """Return the findings about the file, and those of each device, in full.

    Args:
        findings: of the file.
        full: whether notes are explained, and all rows and reasons shown.
        named: whether the file's name stands above already.
    """
    rows = None if full else 6
    blocks: list[Block] = [*forecast_note(findings.history)]
    if findings.warnings:
        if not named:
            blocks.append(Heading(findings.history.source.name))
        for each in findings.warnings:
            blocks += finding_blocks(each, rows)
    for device in findings.devices:
        if device.history.events or len(device.history.allocations) or len(findings.devices) == 1:
            blocks.append(Heading(f"{device.device}: {tally(device.diagnosis.findings)}"))
            blocks += diagnosis_blocks(device.diagnosis, None, rows, notes_in_full=full)
    return Document(f"Findings: {findings.title}", blocks)


def diagnosis_blocks(
    diagnosis: Diagnosis, most: int | None, rows: int | None, *, notes_in_full: bool = True
) -> Iterator[Block]:
    """Yield the findings to act on, then the notes.

    Args:
        diagnosis: the device's.
        most: the most findings to act on, and the most notes.
        rows: the most rows of their tables.
        notes_in_full: or only their titles.
    """
    first = [each for each in diagnosis.findings if each.leads]
    notes = [each for each in diagnosis.findings if not each.leads]
    for each in first[:most]:
        yield from finding_blocks(each, rows)
    if most is not None and len(first) > most:
        more = format_count(len(first) - most)
        yield Paragraph(
            (f"{more} more findings; ", Code("snapreport summary --findings"), " lists them all.")
        )
    if notes and notes_in_full:
        blocks: list[Block] = [b for each in notes[:most] for b in finding_blocks(each, rows)]
        if most is not None and len(notes) > most:
            blocks.append(Paragraph(f"And {format_count(len(notes) - most)} more."))
        yield Folded(f"Notes ({format_count(len(notes))})", blocks)
    elif notes:
        yield Heading("Notes (--full explains them)")
        yield Bullets([(f"{note.title}  ", Tag(note.id)) for note in notes])
    if diagnosis.silenced:
        yield Paragraph(("Silenced: ", *joined([Code(each) for each in diagnosis.silenced], ", ")))


def finding_blocks(finding: Finding, rows: int | None) -> Iterator[Block]:
    """Yield a finding in full, with at most so many rows in each of its tables."""
    head = (Severity(finding.severity), f" {finding.title}  ", Tag(finding.id))
    yield Heading(head, 4, finding.severity)
    yield Paragraph(finding.explanation)
    if finding.suggestions:
        yield Heading("What would help", 5, "")
        yield Bullets([suggestion(each, with_reasons=rows is None) for each in finding.suggestions])
    evidence: list[Block] = []
    if finding.evidence:
        evidence.append(
            Pairs([(each.label, figure_text(each), each.meaning) for each in finding.evidence])
        )
    evidence += [_evidence(each, rows) for each in finding.tables]
    if evidence:
        yield Folded("Evidence", evidence)


def suggestion(offered: Suggestion, *, with_reasons: bool = False) -> Item:
    """Return what would help, how much it frees, and what to write or run."""
    frees = frees_text(offered.frees)
    text: list[Part] = [offered.text]
    if frees:
        text += [" ", Strong(sentence(frees))]
    if said := conditions(offered):
        text.append(f" {said}")
    below = tuple(reasons(offered.frees)) if with_reasons else ()
    return Item(tuple(text), below, offered.change)


def _evidence(of: model.Table, most: int | None) -> Table:
    units = [column.unit for column in of.columns]
    rows = of.rows[:most]
    left = len(of.rows) - len(rows) + of.left_out
    return Table(
        [Column(column.title, column.unit == "text") for column in of.columns],
        [
            [
                Code(text) if unit == "text" else text
                for text, unit in zip(map(value_text, row, units), units, strict=True)
            ]
            for row in rows
        ],
        title=of.title,
        rest=f"{format_count(left)} more." if left else "",
    )


# Whether a recording can be trusted.


def trust_document(findings: Findings) -> Document:
    """Return what each device's recording covers and lost, and how to record better."""
    blocks: list[Block] = [*forecast_note(findings.history)]
    blocks += [b for each in findings.devices for b in trust_blocks(str(each.device), each.trust)]
    return Document(f"Trust: {findings.title}", blocks)


def trust_blocks(name: str, found: Trust) -> Iterator[Block]:
    """Yield the verdict, every check, what reserved memory consists of, and how to improve."""
    yield Heading(f"{name}: {found.sentence}")
    rows: list[tuple[Words, Words, Words]] = []
    for check in found.checks:
        text = " ".join((check.text, *(f"[{code}]" for code in check.findings)))
        rows.append((check.title, check.mark, text))
        if check.figures:
            figures = (f"{each.label} {figure_text(each)}" for each in check.figures)
            rows.append(("", "", "; ".join(figures)))
    yield Pairs(rows, ("check", "result", "what was found"))
    yield from _reserved(reserved_moments(found))
    recorded = found.verdict not in ("nothing", "no history")
    if recorded:
        yield Table(
            [Column("curve", True), Column("peak"), Column("how exact", True)],
            [(name, Size(peak.bytes), exactness(peak)) for name, peak in found.facts.peaks.items()],
            title="How exact the peaks are",
        )
    if found.facts.missing:
        at = "at the peak" if recorded else "at the end"
        yield Table(
            columns(at, "count", "in all", "count", text="reason", cut="end"),
            [
                (
                    Size(each.peak_bytes),
                    format_count(each.peak_count),
                    Size(each.bytes),
                    format_count(each.count),
                    each.reason,
                )
                for each in found.facts.missing
            ],
            title="Allocations without a call stack",
        )
    if found.fixes:
        yield Heading("To record better")
        yield Bullets([suggestion(fix) for fix in found.fixes])


def _reserved(moments: list[tuple[str, ReservedParts]]) -> Iterator[Table]:
    if not moments:
        return
    heads: list[str] = []
    total = ["reserved"]
    for when, parts in moments:
        heads += [when, "share"]
        total += [format_bytes(parts.reserved), difference_text(parts) or "to the byte"]
    rows = []
    for name, title in PARTS:
        row = [title]
        for _, parts in moments:
            size = getattr(parts, name)
            row += [format_bytes(size), format_share(size, parts.reserved)]
        rows.append(row)
    title = "What reserved memory consists of"
    yield Table([Column("part", True, "end"), *map(Column, heads)], rows, title, total)


# The summary stored in a page; a stranger may have made its JSON.


Plain = dict[str, Any]
_Kind = TypeVar("_Kind")
_LONGEST = 2000
"""Most letters of a text that are shown; texts from snapreport are shorter."""


def saved_document(summary: Plain) -> Document:
    """Return each device's answer, findings, peaks and call sites, or a run's conclusions."""
    title = _text(summary, "title")
    blocks: list[Block] = [Paragraph(title, "title")]
    note = _text(_row(summary, "forecast"), "text") or _text(summary, "forecast")  # or a run's
    blocks.append(Paragraph(note, "warning", is_note=True))
    blocks += [
        Paragraph(_text(each, "text"), "warning", is_note=True)
        for each in _rows(summary, "warnings")
    ]
    for device in _rows(summary, "devices"):
        blocks += _saved_device(device)
    if "headline" in summary:  # a run's page
        blocks.append(Paragraph(_text(summary, "headline")))
        parts = ("odd", "groups", "imbalances", "replicated")
        said = [_text(row, "sentence") for part in parts for row in _rows(summary, part)]
        said += [f"{_text(row, 'file')}: {_text(row, 'error')}" for row in _rows(summary, "broken")]
        blocks.append(Bullets(said))
    return Document(title, blocks)


def _saved_device(device: Plain) -> Iterator[Block]:
    events, made = _number(device, "events"), _number(device, "allocations")
    about = f"{plural(events, 'event')}, {plural(made, 'allocation')}"
    yield Heading(f"{_text(device, 'device')}: {about}")
    yield Paragraph(_text(device, "answer"))
    for finding in _rows(_row(device, "diagnosis"), "findings"):
        severity = _text(finding, "severity")
        known: Style = severity if severity in model.SEVERITIES else ""
        title = f" {_text(finding, 'title')}  "
        yield Heading((Severity(severity), title, Tag(_text(finding, "id"))), 4, known)
        yield Paragraph(_text(finding, "explanation"))
        offered = _rows(finding, "suggestions")
        yield Bullets(
            [f"{_text(e, 'text')} {_promise(_row(e, 'frees'))}".rstrip() for e in offered]
        )
    peaks = [(name, peak) for name, peak in _row(device, "peaks").items() if isinstance(peak, dict)]
    if peaks:
        yield Table(
            [Column("memory", True, "end"), Column("peak"), Column("event")],
            [
                (name, Size(_number(peak, "bytes")), str(_number(peak, "event")))
                for name, peak in peaks
            ],
        )
    if sites := _rows(device, "sites"):
        held = []
        for site in sites:
            place = location(_text(site, "file"), _number(site, "line") or None)
            count = _number(site, "count")
            held.append((_number(site, "bytes"), count, Site(_text(site, "name"), place), ""))
        yield _held_at_peak(held, max(_number(_row(device, "peak"), "allocated"), 1))


def _promise(frees: Plain) -> str:
    least, about, most = (_number(frees, name) for name in ("least", "expected", "most"))
    if not frees or not 0 <= least <= about <= most:
        return ""
    return sentence(frees_text(Frees(least, about, most)))


def _of(row: Plain, name: str, kind: type[_Kind], otherwise: _Kind) -> _Kind:
    value = row.get(name)
    return value if isinstance(value, kind) else otherwise


def _text(row: Plain, name: str) -> str:
    return _of(row, name, str, "")[:_LONGEST]


def _number(row: Plain, name: str) -> int:
    value = _of(row, name, int, 0)
    return value if -(2**63) <= value < 2**63 else 0


def _row(row: Plain, name: str) -> Plain:
    return _of(row, name, dict, {})


def _rows(row: Plain, name: str) -> list[Plain]:
    return [each for each in _of(row, name, list, []) if isinstance(each, dict)]

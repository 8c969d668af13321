"""The answers about a run of many ranks: which are odd and why, how two runs differ, a few files.

The page of a run (``run_page``) has a layout of its own; it takes its rows and words from here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from snapreport.diagnosis.ranks.rows import ranks_in_words
from snapreport.diagnosis.ranks.two_runs import changed_alike
from snapreport.ground.native.columns import whole_median
from snapreport.ground.records import dataclass
from snapreport.ground.units import format_bytes, format_change, format_count, plural, times
from snapreport.ground.version import __version__
from snapreport.model.diagnoses import SEVERITIES
from snapreport.model.run import (
    DeviceFacts,
    Difference,
    Holder,
    Odd,
    RankFacts,
    RankFinding,
    Run,
    RunDiff,
    RunFindings,
)
from snapreport.reporters.document import (
    Block,
    Bullets,
    Code,
    Column,
    Document,
    Folded,
    Heading,
    Item,
    Paragraph,
    Size,
    Strong,
    Style,
    Table,
    Words,
    columns,
)
from snapreport.reporters.json_report import fields_of
from snapreport.reporters.plain_text import cut_site

# Rows: each device of each rank, named and compared with the median.

_ALIKE = 0.005


@dataclass(frozen=True, slots=True)
class RunRow:
    """One device of one rank."""

    name: str
    """The rank's, with the device if more than one of the rank's devices is compared."""
    rank: RankFacts
    device: DeviceFacts
    group: int
    """The index of its group; -1 where it is in none."""
    group_name: str
    versus: str
    """How far its peak is from the median, in percent; ``""`` if that is next to nothing."""
    growth: int | None
    """Bytes that it gains per step; None where that is not known."""
    link: str
    """A link to its part of its rank's page; ``""`` where there is none."""


def rows_of(
    run: Run, findings: RunFindings, pages: Mapping[str, str] | None = None
) -> list[RunRow]:
    """Return the rows in the order of the findings.

    Args:
        run: the run's figures.
        findings: the conclusions from them.
        pages: links to pages of single files, by ``RankFacts.source``.
    """
    of_row = {row: k for k, group in enumerate(findings.groups) for row in group.rows}
    growth = findings.growth or (None,) * len(findings.rows)
    compared = Counter(at for at, _ in findings.rows)
    # Ranks without a history have a median of their own: they are compared with one another.
    peaks: dict[tuple[str, bool], list[int]] = {}
    for at, place in findings.rows:
        device = run.ranks[at].devices[place]
        peaks.setdefault((device.kind, device.recorded), []).append(device.allocated)
    medians = {key: whole_median(each) for key, each in peaks.items()}
    rows = []
    for row, (at, place) in enumerate(findings.rows):
        rank = run.ranks[at]
        device = rank.devices[place]
        group = of_row.get(row, -1)
        median = medians[device.kind, device.recorded]
        more = device.allocated - median
        link = (pages or {}).get(rank.source, "")
        rows.append(
            RunRow(
                f"{rank.label}, {device.device}" if compared[at] > 1 else rank.label,
                rank,
                device,
                group,
                findings.groups[group].name if group >= 0 else "",
                format_change(more, median) if abs(more) >= _ALIKE * median else "",
                growth[row],
                f"{link}#device={device.place}" if link and not device.opens else link,
            )
        )
    return rows


def odd_first(findings: RunFindings) -> list[int]:
    """Return the positions of rows: the odd ones, most telling first, then the others."""
    return list(dict.fromkeys((*(odd.row for odd in findings.odd), *range(len(findings.rows)))))


def of_commonest_kind(rows: Sequence[RunRow]) -> list[RunRow]:
    """Return the rows of the commonest kind of memory."""
    kinds = [row.device.kind for row in rows]
    kind = max(dict.fromkeys(kinds), key=kinds.count, default=None)
    return [row for row in rows if row.device.kind == kind]


def _used(file: RankFacts) -> Sequence[DeviceFacts]:
    """Return the devices of a file that hold memory, or one if none does; none without figures."""
    return [each for each in file.devices if each.allocated] or file.devices[:1]


def _largest(device: DeviceFacts) -> Holder | None:
    """Return the call site that holds most at the peak; None where none is known."""
    sites = [each for each in device.holders if each.kind == "site" and each.key]
    return max(sites, key=lambda each: each.bytes, default=None)


# Words, the same on the page.

ODD_WORDS = {
    "heavier": "Heavier",
    "lighter": "Lighter",
    "failed": "Out of memory",
    "growth": "Growing",
}
"""What each code of an odd rank is called."""


def style_of(odd: Odd) -> Style:
    """Return how urgent it is that a rank is odd."""
    return "critical" if odd.code == "failed" else "warning"


KIND_WORDS = {"site": "call site", "role": "role", "stage": "stage"}

_MISSING = 20
"""The most ranges of missing ranks that are listed."""


def heading(run: Run) -> str:
    """Return the run's title, or else its number of ranks."""
    return run.title or f"Run of {_ranks(run)}"


def extent(run: Run, findings: RunFindings) -> list[str]:
    """Count files, ranks, hosts and dumps, and what is missing or not readable."""
    hosts = {rank.name.host for rank in run.ranks if rank.name.host}
    dumps = {rank.name.dump for rank in run.ranks if rank.name.dump is not None}
    said = [
        plural(len(run.ranks), "file"),
        _ranks(run),
        plural(len(hosts), "host") if hosts else "",
        plural(len(dumps), "dump") if len(dumps) > 1 else "",
        " ".join(f"{name}={size}" for name, size in run.layout),
        f"{format_count(len(findings.missing))} missing" if findings.missing else "",
        f"{format_count(len(findings.broken))} not readable" if findings.broken else "",
    ]
    return [each for each in said if each]


def _ranks(run: Run) -> str:
    numbers = {rank.name.rank for rank in run.ranks if rank.name.rank is not None}
    return plural(len(numbers) or len(run.ranks), "rank")


def peak_of(device: DeviceFacts) -> Words:
    """Return an allocated peak, with ``≥`` if it is a lower bound."""
    return ("≥ " if device.allocated_width else "", Size(device.allocated))


def failed_text(device: DeviceFacts) -> str:
    """Say how many requests failed, and the size of the first; ``""`` if none did."""
    if not device.failed:
        return ""
    first = f"{format_bytes(device.failed[0].size)} refused"
    return first if len(device.failed) == 1 else f"{first}, {times(len(device.failed))}"


def parting_text(odd: Odd) -> str:
    """Say from which step and event on a rank differs from its group; ``""`` if not known."""
    said = [] if odd.parts_step is None else [f"step {format_count(odd.parts_step)}"]
    if odd.parts_event is not None:
        said.append(f"event {format_count(odd.parts_event)}")
    return f"Differs from its group from {', '.join(said)} on." if said else ""


def change_of(difference: Difference) -> Size:
    """Return by how many bytes a rank differs from what is usual."""
    return Size(difference.bytes - difference.usual, is_change=True)


def here_text(difference: Difference) -> str:
    """Write the bytes held here, and the allocations that make up most of them."""
    return _amount(difference.bytes, difference.size, difference.of_size)


def usual_text(difference: Difference) -> str:
    """Write the bytes that are usual, and the allocations that make up most of them."""
    return _amount(difference.usual, difference.usual_size, difference.usual_of_size)


def _amount(size: int, each: int, count: int) -> str:
    if not count or not each:
        return format_bytes(size)
    return f"{format_bytes(size)} ({format_count(count)} \u00d7 {format_bytes(each)})"


def difference_name(difference: Difference) -> str:
    """Return the name of what differs, or "all other" for the rest of its kind."""
    return difference.key or f"all other {KIND_WORDS[difference.kind]}s"


def missing_text(findings: RunFindings) -> str:
    """Say which ranks have no file; ``""`` if all have one."""
    if not findings.missing:
        return ""
    ranks = ranks_in_words(findings.missing, most=_MISSING)
    these = "these ranks: " if ranks.startswith("every") else ""
    return f"There is no file for {these}{ranks}. A process that is killed leaves none."


def balance(findings: RunFindings) -> list[str]:
    """Return the sentences on imbalance, on replicated memory, and the notes."""
    unlike = [each.sentence for each in findings.imbalances]
    return [*unlike, *(each.sentence for each in findings.replicated), *findings.notes]


# Documents.

_ALL = 10**9
_AnyItem = TypeVar("_AnyItem")


@dataclass(frozen=True)
class Room:
    """How much of each part of an answer is shown."""

    rows: int
    """The most ranks, groups and files."""
    odd: int
    differences: int
    """The most of each odd rank or group."""
    letters: int
    """The most letters of a name."""


ROOMS = (
    Room(10_000, 100, 6, 80),
    Room(400, 60, 5, 80),
    Room(150, 30, 4, 60),
    Room(60, 15, 3, 40),
    Room(20, 6, 2, 30),
)
"""To try in turn where the length is limited."""
SCREEN, EVERYTHING = Room(20, 12, 4, 60), Room(_ALL, _ALL, _ALL, _ALL)


def run_document(
    run: Run, findings: RunFindings, room: Room, pages: Mapping[str, str] | None = None
) -> Document:
    """Say which ranks of a run are odd and why, which behave alike, and what all of them hold.

    Args:
        run: the run's figures.
        findings: the conclusions from them.
        room: how much is shown.
        pages: links to pages of single files, by ``RankFacts.source``.
    """
    rows = rows_of(run, findings, pages)
    missing = missing_text(findings)
    broken = [run.ranks[at] for at in findings.broken]
    return Document(
        heading(run),
        [
            Paragraph(", ".join(extent(run, findings))),
            Paragraph(run.forecast, "warning", is_note=True),
            Paragraph(findings.headline, "title"),
            *_listed(
                "Unlike the others",
                [_odd(odd, rows[odd.row], room) for odd in findings.odd],
                room.odd,
                "odd rank",
            ),
            *_groups(findings, room),
            *_listed(
                "What sets the groups apart" if len(findings.groups) > 1 else _GROUPS,
                [group.sentence for group in findings.groups],
                room.rows,
                "group",
            ),
            *([Paragraph(missing, "warning")] if missing else []),
            *_listed(
                "Files without figures",
                [(Code(rank.source, room.letters), f": {rank.error}") for rank in broken],
                room.rows,
                "file",
            ),
            *_listed("Balance and notes", balance(findings)),
            *([_rank_table(rows, findings, room)] if rows else []),
            Folded("About this report", [Paragraph(f"Made with snapreport {__version__}")], True),
        ],
    )


def _listed(
    title: str, items: Sequence[Words | Item], most: int = _ALL, word: str = ""
) -> list[Block]:
    """Return a list under a heading; nothing for no items."""
    return [Heading(title), Bullets(_first(items, most, word))] if items else []


def _first(
    items: Sequence[_AnyItem], most: int, word: str, several: str = ""
) -> list[_AnyItem | str]:
    """Return the first items, and if there are more how many are left out."""
    left = _left_out(len(items) - most, word, several)
    return [*items[:most], *([left] if left else [])]


def _left_out(count: int, word: str, several: str = "") -> str:
    """Say how many are left out; ``""`` for none."""
    if count <= 0:
        return ""
    more = plural(count, f"more {word}", several and f"more {several}")
    return f"{more} {'is' if count == 1 else 'are'} left out."


_GROUPS = "Groups of ranks that behave alike"


def _groups(findings: RunFindings, room: Room) -> Iterator[Table]:
    """Yield the groups beside one another, if there are several."""
    groups = findings.groups[: room.rows]
    if len(groups) > 1:
        yield Table(
            columns("median peak", "ranks", text="group", cut="end"),
            [
                (
                    Size(each.allocated),
                    format_count(len(each.rows)),
                    cut_site(each.name, room.letters),
                )
                for each in groups
            ],
            _GROUPS,
            rest=_left_out(len(findings.groups) - len(groups), "group"),
        )


def _odd(odd: Odd, row: RunRow, room: Room) -> Item:
    said = _differences(odd.differences, room)
    if parting := parting_text(odd):
        said.append(parting)
    if row.link:
        said.append(("Its page: ", Code(row.name, room.letters, row.link)))
    words = (Strong(ODD_WORDS[odd.code]), f": {odd.sentence}")
    return Item(words, tuple(said), style=style_of(odd))


def _differences(
    found: Sequence[Difference], room: Room, how: str = "here {}, usually {}"
) -> list[Words]:
    said: list[Words] = []
    for each in found:
        name = cut_site(difference_name(each), room.letters)
        what = (f"{KIND_WORDS[each.kind]} ", Code(name)) if each.key else (name,)
        figures = f"; {how.format(here_text(each), usual_text(each))}"
        said.append((*what, ": ", change_of(each), figures))
    return _first(said, room.differences, "difference")


def _rank_table(rows: Sequence[RunRow], findings: RunFindings, room: Room) -> Folded:
    shown = [rows[at] for at in odd_first(findings)[: room.rows]]
    table = _table(
        ("peak", "vs. median", "reserved"),
        ("rank", "host", "group", "out of memory"),
        [
            (
                peak_of(row.device),
                row.versus,
                Size(row.device.reserved),
                Code(row.name, room.letters, row.link),
                Code(host, room.letters) if (host := row.rank.name.host) else "",
                cut_site(row.group_name, room.letters),
                failed_text(row.device),
            )
            for row in shown
        ],
        optional="host",
        rest=_left_out(len(rows) - len(shown), "rank"),
    )
    return Folded("All ranks, the odd ones first" if findings.odd else "All ranks", [table])


def _table(
    figures: Sequence[str],
    texts: Sequence[str],
    rows: Sequence[Sequence[Words]],
    optional: str,
    rest: str = "",
) -> Table:
    """Return a table of figures and then texts, without the column ``optional`` if it is empty."""
    columns = [*map(Column, figures), *(Column(title, is_text=True) for title in texts)]
    at = [*figures, *texts].index(optional)
    if any(row[at] for row in rows):
        return Table(columns, rows, rest=rest)
    del columns[at]
    return Table(columns, [(*row[:at], *row[at + 1 :]) for row in rows], rest=rest)


_KINDS, _NAMED = 30, 8
"""The most kinds of findings to list, and ranks to name for each."""


def run_findings_document(run: Run, full: bool) -> Document:
    """List the findings of all ranks, the worst first, then the most frequent.

    Findings with the same code are one; its title is that of the first rank that has it worst.

    Args:
        run: the run's figures.
        full: list all of them, and all their ranks.
    """
    found: dict[str, list[tuple[int, str, RankFinding]]] = {}
    for rank in run.ranks:
        seen: dict[str, RankFinding] = {}
        for each in (each for device in rank.devices for each in device.findings):
            seen.setdefault(each.code, each)
        for code, each in seen.items():
            severity = SEVERITIES.index(each.severity)
            found.setdefault(code, []).append((severity, rank.label, each))
    worst = {code: min(rows, key=lambda row: row[0]) for code, rows in found.items()}
    order = sorted(found, key=lambda code: (worst[code][0], -len(found[code])))
    most, named = (_ALL, _ALL) if full else (_KINDS, _NAMED)
    items: list[Words | Item] = []
    for code in order:
        _, label, first = worst[code]
        ranks = [name for _, name, _ in found[code]]
        more = f" and {format_count(len(ranks) - named)} more" if len(ranks) > named else ""
        where = f", in {', '.join(ranks[:named])}{more}; worded for {label}."
        items.append(
            Item(f"{first.severity}: {first.title}", ((Code(code), where),), style=first.severity)
        )
    shown = _first(items, most, "kind of finding", "kinds of findings")
    return Document(
        heading(run),
        [
            Paragraph(run.forecast, "warning", is_note=True),
            Bullets(shown) if items else Paragraph("Nothing was found in any rank."),
        ],
    )


def run_diff_document(diff: RunDiff, most: int | None) -> Document:
    """Say how the ranks of two runs differ, and which allocations make the difference.

    Args:
        diff: from ``compare_runs()``.
        most: the most groups and ranks to list; None for everything.
    """
    room = EVERYTHING if most is None else SCREEN
    most = _ALL if most is None else most
    alike = changed_alike(diff.ranks)
    changed = sorted(
        (each for each in diff.ranks if each.change),
        key=lambda each: (not each.odd, -abs(each.change)),
    )
    table = _table(
        ("change", "before", "now"),
        ("rank", ""),
        [
            (
                Size(each.change, is_change=True),
                Size(each.base),
                Size(each.new),
                Code(each.name),
                "unlike its group" if each.odd else "",
            )
            for each in changed[:most]
        ],
        optional="",
        rest=_left_out(len(changed) - most, "rank"),
    )
    return Document(
        "NEW against BASE",
        [
            Paragraph(diff.headline, "title"),
            *_listed(
                "By group",
                [
                    Item(
                        group.sentence,
                        tuple(_differences(group.differences, room, "now {}, {} before"))
                        if group.change
                        else (),
                    )
                    for group in diff.groups
                ],
                most,
                "group",
            ),
            *_listed("Ranks that changed alike", [some.sentence for some in alike], most, "change"),
            *([table] if changed else []),
            *_listed("Notes", diff.notes),
        ],
    )


def files_document(files: Sequence[RankFacts]) -> Document:
    """Give a row for each of several files, which need not be of one run, in their order.

    A file of several devices has a row for each that holds memory.
    """
    several = any(len(_used(file)) > 1 for file in files)
    table = _table(
        ("peak", "reserved"),
        ("device", "file", "out of memory", "most at the peak"),
        [
            (
                peak_of(device),
                Size(device.reserved),
                device.device if several else "",
                Code(file.source),
                failed_text(device),
                (Size(most.bytes), " ", Code(most.key)) if (most := _largest(device)) else "",
            )
            for file in files
            for device in _used(file)
        ],
        optional="device",
    )
    note = Run("", tuple(files)).forecast
    blocks: list[Block] = [Paragraph(note, "warning", is_note=True), table]
    if len({file.name.rank for file in files} - {None}) > 1:
        blocks.append(
            Paragraph(
                "To compare the ranks of a run with one another, give their folder, or --name."
            )
        )
    return Document(plural(len(files), "file"), blocks)


# Plain data for JSON.

PEAK_FIELDS = "events capacity allocated allocated_width peak_event peak_time_us reserved"
"""What a row says of the device of a rank or of a file."""


def run_as_json(run: Run, findings: RunFindings) -> dict[str, Any]:
    """Return every figure and finding of a run; bytes are integers."""
    rows = rows_of(run, findings)
    return run_summary(run, findings, rows) | {"rows": [_row(row) for row in rows]}


def run_summary(run: Run, findings: RunFindings, rows: Sequence[RunRow]) -> dict[str, Any]:
    """Return the same without the rows."""
    return {
        "title": run.title,
        "forecast": run.forecast or None,
        "headline": findings.headline,
        "layout": dict(run.layout),
        "expected": run.expected,
        "missing": list(findings.missing),
        "broken": broken_files(run, findings),
        "odd": [
            {
                "row": odd.row,
                "name": rows[odd.row].name,
                **fields_of(odd, "code group bytes sentence parts_event parts_step"),
                "differences": _differences_as_json(odd.differences),
            }
            for odd in findings.odd
        ],
        "groups": [
            {
                **fields_of(group, "name rows allocated sentence"),
                "differences": _differences_as_json(group.differences),
            }
            for group in findings.groups
        ],
        "imbalances": [asdict(each) for each in findings.imbalances],
        "replicated": [asdict(each) for each in findings.replicated],
        "first_failure": findings.first_failure,
        "notes": list(findings.notes),
    }


def broken_files(run: Run, findings: RunFindings) -> list[dict[str, str]]:
    """Return the files without figures, and why."""
    broken = (run.ranks[at] for at in findings.broken)
    return [{"file": rank.source, "error": rank.error} for rank in broken]


def files_as_json(files: Sequence[RankFacts]) -> list[dict[str, Any]]:
    """Return an object for each of several files, which need not be of one run, in their order."""
    return [
        {
            "file": file.source,
            "error": file.error or None,
            "forecast": file.forecast or None,
            "devices": [_file_row(device) for device in _used(file)],
        }
        for file in files
    ]


def _file_row(device: DeviceFacts) -> dict[str, Any]:
    largest = _largest(device)
    return {
        "device": device.device,
        "recorded": device.recorded,
        **fields_of(device, PEAK_FIELDS),
        "largest": None if largest is None else {"site": largest.key, "bytes": largest.bytes},
        "failed": [asdict(each) for each in device.failed],
        "findings": [fields_of(each, "code severity title") for each in device.findings],
    }


def _differences_as_json(found: Sequence[Difference]) -> list[dict[str, Any]]:
    return [fields_of(each, "kind key bytes usual") for each in found]


def _row(row: RunRow) -> dict[str, Any]:
    rank, device = row.rank, row.device
    return {
        "name": row.name,
        "file": rank.source,
        **fields_of(rank.name, "rank dump host"),
        "coordinates": dict(rank.name.coordinates),
        "device": device.device,
        "group": row.group,
        **fields_of(device, PEAK_FIELDS),
        "failed": [asdict(each) for each in device.failed],
        "growth": row.growth,
    }

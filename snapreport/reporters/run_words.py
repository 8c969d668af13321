"""Words of the reports of a run, the same on the page, in Markdown and in a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from snapreport.diagnosis.ranks.rows import ranks_in_words
from snapreport.ground.native.columns import whole_median
from snapreport.ground.units import (
    format_bytes,
    format_change,
    format_count,
    format_signed_bytes,
    plural,
    times,
)
from snapreport.model.run import DeviceFacts, Difference, Holder, Odd, RankFacts, Run, RunFindings
from snapreport.reporters.json_report import fields_of

# The rows of a run's reports: each device of each rank, named and compared with the median.


_ALIKE = 0.005


@dataclass(frozen=True)
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
        link = (pages or {}).get(rank.source, "")
        rows.append(
            RunRow(
                f"{rank.label}, {device.device}" if compared[at] > 1 else rank.label,
                rank,
                device,
                group,
                findings.groups[group].name if group >= 0 else "",
                _versus(device.allocated, medians[device.kind, device.recorded]),
                growth[row],
                f"{link}#device={device.place}" if link and not device.opens else link,
            )
        )
    return rows


@dataclass(frozen=True)
class FileRow:
    """One device of one of several files, which need not be of one run."""

    file: RankFacts
    device: DeviceFacts
    largest: Holder | None
    """The call site that holds most at the peak; None where none is known."""


def rows_of_file(file: RankFacts) -> list[FileRow]:
    """Return a row for each device that holds memory, or one if none does; none without figures."""
    used = [each for each in file.devices if each.allocated] or file.devices[:1]
    rows = []
    for device in used:
        sites = [each for each in device.holders if each.kind == "site" and each.key]
        largest = max(sites, key=lambda each: each.bytes, default=None)
        rows.append(FileRow(file, device, largest))
    return rows


def of_commonest_kind(rows: Sequence[RunRow]) -> list[RunRow]:
    """Return the rows of the commonest kind of memory."""
    kinds = [row.device.kind for row in rows]
    kind = max(dict.fromkeys(kinds), key=kinds.count, default=None)
    return [row for row in rows if row.device.kind == kind]


def _versus(peak: int, median: int) -> str:
    return format_change(peak - median, median) if abs(peak - median) >= _ALIKE * median else ""


ODD_WORDS = {
    "heavier": "Heavier",
    "lighter": "Lighter",
    "failed": "Out of memory",
    "growth": "Growing",
}
"""What each code of an odd rank is called."""

_MISSING = 20
"""The most ranges of missing ranks that are listed."""

KIND_WORDS = {"site": "call site", "role": "role", "stage": "stage"}


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


def peak_text(device: DeviceFacts) -> str:
    """Write an allocated peak, with ``≥`` if it is a lower bound."""
    return f"{'≥ ' if device.allocated_width else ''}{format_bytes(device.allocated)}"


def peak_title(device: DeviceFacts) -> str:
    """Write an allocated peak to the byte, with its bounds, and whether there is a history."""
    text = f"{format_count(device.allocated)} bytes"
    if device.allocated_width:
        text = f"at least {text}, at most {format_count(device.allocated_width)} more"
    return text if device.recorded else f"{text} when the snapshot was written; no history"


def failed_text(device: DeviceFacts) -> str:
    """Say how many requests failed, and the size of the first; ``""`` if none did."""
    if not device.failed:
        return ""
    first = f"{format_bytes(device.failed[0].size)} refused"
    return first if len(device.failed) == 1 else f"{first}, {times(len(device.failed))}"


def parting_text(odd: Odd) -> str:
    """Say from which step and event on a rank differs from its group; ``""`` if not known."""
    if odd.parts_event is None and odd.parts_step is None:
        return ""
    said = [] if odd.parts_step is None else [f"step {format_count(odd.parts_step)}"]
    if odd.parts_event is not None:
        said.append(f"event {format_count(odd.parts_event)}")
    return f"Differs from its group from {', '.join(said)} on."


def change_text(difference: Difference) -> str:
    """Write by how many bytes a rank differs from what is usual."""
    return format_signed_bytes(difference.bytes - difference.usual)


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


def difference_text(difference: Difference) -> str:
    """Say in a line what differs."""
    here, usual = here_text(difference), usual_text(difference)
    return f"{change_text(difference)}  {difference_name(difference)}: {here}, usually {usual}"


def missing_text(findings: RunFindings) -> str:
    """Say which ranks have no file; ``""`` if all have one."""
    if not findings.missing:
        return ""
    ranks = ranks_in_words(findings.missing, most=_MISSING)
    these = "these ranks: " if ranks.startswith("every") else ""
    return f"There is no file for {these}{ranks}."


def balance(findings: RunFindings) -> list[str]:
    """Return the sentences on imbalance, on replicated memory, and the notes."""
    unlike = [each.sentence for each in findings.imbalances]
    return [*unlike, *(each.sentence for each in findings.replicated), *findings.notes]


# A run's figures and findings as plain data for JSON.


_PEAK = "events capacity allocated allocated_width peak_event peak_time_us reserved"
"""What a row says of the device of a rank or of a file."""


def run_as_json(run: Run, findings: RunFindings) -> dict[str, Any]:
    """Return every figure and finding of a run; bytes are integers."""
    rows = rows_of(run, findings)
    return run_summary(run, findings, rows) | {"rows": [_row(row) for row in rows]}


def run_summary(run: Run, findings: RunFindings, rows: Sequence[RunRow]) -> dict[str, Any]:
    """Return the same without the rows."""
    return {
        "title": run.title,
        "headline": findings.headline,
        "layout": dict(run.layout),
        "expected": run.expected,
        "missing": list(findings.missing),
        "broken": [
            {"file": run.ranks[at].source, "error": run.ranks[at].error} for at in findings.broken
        ],
        "odd": [
            {
                "row": odd.row,
                "name": rows[odd.row].name,
                **fields_of(odd, "code group bytes sentence parts_event parts_step"),
                "differences": _differences(odd.differences),
            }
            for odd in findings.odd
        ],
        "groups": [
            {
                **fields_of(group, "name rows allocated sentence"),
                "differences": _differences(group.differences),
            }
            for group in findings.groups
        ],
        "imbalances": [asdict(each) for each in findings.imbalances],
        "replicated": [asdict(each) for each in findings.replicated],
        "first_failure": findings.first_failure,
        "notes": list(findings.notes),
    }


def files_as_json(files: Sequence[RankFacts]) -> list[dict[str, Any]]:
    """Return an object for each of several files, which need not be of one run, in their order."""
    return [
        {
            "file": file.source,
            "error": file.error or None,
            "devices": [_file_row(row) for row in rows_of_file(file)],
        }
        for file in files
    ]


def _file_row(row: FileRow) -> dict[str, Any]:
    device, largest = row.device, row.largest
    return {
        "device": device.device,
        "recorded": device.recorded,
        **fields_of(device, _PEAK),
        "largest": None if largest is None else {"site": largest.key, "bytes": largest.bytes},
        "failed": [asdict(each) for each in device.failed],
        "findings": [fields_of(each, "code severity title") for each in device.findings],
    }


def _differences(found: Sequence[Difference]) -> list[dict[str, Any]]:
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
        **fields_of(device, _PEAK),
        "failed": [asdict(each) for each in device.failed],
        "growth": row.growth,
    }

"""The rows of a run's reports: each device of each rank, named and compared with the median."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from snapreport.ground.units import format_change
from snapreport.model.run.rank_facts import DeviceFacts, Holder, RankFacts, Run
from snapreport.model.run.run_findings import RunFindings
from snapreport.native.sorting import whole_median

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

"""Say which ranks of a run are missing, and what limits the comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from snapreport.compare.among_ranks.compared_rows import Row, name_rows
from snapreport.compare.among_ranks.odd_words import sentence
from snapreport.compare.among_ranks.one_kind import OneKind
from snapreport.compare.among_ranks.rank_words import ranks_in_words
from snapreport.ground.units import format_bytes, format_count
from snapreport.model.run.rank_facts import Run

_HOSTS = 3
"""With fewer hosts none is called slow."""
_SLOW = 1.3
"""Each rank of a slow host must take this many times as long: steps vary by a tenth or two."""


def missing_ranks(run: Run) -> tuple[int, ...]:
    """Return the numbers of the ranks without a file.

    If the number of ranks is not known, these are the gaps below the highest number. Many gaps do
    not count: then only one rank per host, or a few chosen ranks, were recorded.
    """
    known = {rank.name.rank for rank in run.ranks if rank.name.rank is not None}
    if not known:
        return ()
    if run.expected is not None:
        return tuple(number for number in range(run.expected) if number not in known)
    gaps = tuple(number for number in range(max(known)) if number not in known)
    return gaps if len(gaps) < len(known) / 2 else ()


def write_notes(run: Run, kinds: Sequence[OneKind]) -> tuple[str, ...]:
    """Say what limits the comparison, and what is true of nearly all ranks."""
    notes = []
    for kind in kinds:
        if not kind.compared.recorded:
            notes.append(
                f"{name_rows(kind.rows)} recorded no history: the state when the snapshot was"
                " written is compared, and only with other ranks without a history"
            )
        gains = kind.everyone_gains()
        if gains is not None:
            who = "each rank" if len(kind.rows) > 1 else kind.rows[0].words
            notes.append(
                f"{who} gains memory from step to step, {format_bytes(gains)} at the median"
            )
        widths = [row.device.allocated_width for row in kind.rows]
        if max(widths) > 0.01 * max(row.allocated for row in kind.rows):
            notes.append(
                f"the sizes of some blocks are only known as ranges: peaks may be up to"
                f" {format_bytes(max(widths))} higher"
            )
        off = any((unlike.side != 0).any() for unlike in kind.unlike)
        several = len({row.unit[0] for row in kind.rows}) > 1
        if off and several and not any(row.coordinates for row in kind.rows):
            notes.append(
                "the parallel layout is not known, so a rank that differs by design, such as the"
                " only one of a pipeline stage, counts as odd; give the layout, such as tp=8,pp=4"
            )
    notes += _dumps(kinds)
    notes += _slow_hosts(kinds)
    unused = [rank for rank in run.ranks if not rank.devices and not rank.error]
    if unused:
        notes.append(f"{format_count(len(unused))} files hold no memory of any device")
    twice = Counter(
        (rank.name.rank, rank.name.dump) for rank in run.ranks if rank.name.rank is not None
    )
    double = sorted({rank for (rank, _), count in twice.items() if count > 1 and rank is not None})
    if double:
        notes.append(
            f"there are several files of one step for {ranks_in_words(double)}, and one of each is"
            " compared"
        )
    return tuple(sentence(note) for note in notes)


def _dumps(kinds: Sequence[OneKind]) -> list[str]:
    """Name ranks that are compared at an earlier dump than the others."""
    notes = []
    for kind in kinds:
        dumps = Counter(row.rank.name.dump for row in kind.rows)
        usual = dumps.most_common(1)[0][0]
        behind: dict[int, list[Row]] = {}
        for row in kind.rows:
            dump = row.rank.name.dump
            if usual is not None and dump is not None and dump < usual:
                behind.setdefault(dump, []).append(row)
        for dump, rows in sorted(behind.items()):
            verb = "has" if len(rows) == 1 else "have"
            notes.append(
                f"{name_rows(rows)} {verb} no file of step {format_count(usual or 0)}, so"
                f" {'it is' if len(rows) == 1 else 'they are'} compared at step"
                f" {format_count(dump)}"
            )
    return notes


def _slow_hosts(kinds: Sequence[OneKind]) -> list[str]:
    """Name hosts whose ranks take longer per event: not about memory, but worth knowing.

    Ranks that wait for one another take equally long, so this only shows work done without waiting.
    """
    notes = []
    for kind in kinds:
        hosts: dict[str, list[float]] = {}
        for row in kind.rows:
            cells = row.device.by_time
            if cells is not None and row.device.events and not row.device.failed:
                took = (len(cells.allocated) << cells.shift) / row.device.events
                hosts.setdefault(row.rank.name.host, []).append(took)
        if len(hosts) < _HOSTS or "" in hosts:
            continue
        middle = {host: median(each) for host, each in hosts.items()}
        usual = median(middle.values())
        notes += [
            f"the ranks of host {host} take {middle[host] / usual:.1f} times as long per event as"
            " those of the median host"
            for host in sorted(hosts)
            if min(hosts[host]) > _SLOW * usual > 0
        ]
    return notes

"""What an index of several recordings says in words, the same on the page and in Markdown."""

from __future__ import annotations

from collections import Counter

from snapreport.ground.units import format_bytes, format_change, format_count
from snapreport.model.diagnoses import CODES
from snapreport.model.ranks import Rank, RankDevice, Run
from snapreport.reporters.words.summary_rows import plural

ODD = 0.05
"""A peak that differs from the median by this part of it is marked: less is not worth a look."""
_ALIKE = 0.005
_NAMED = 5
_MEMORIES = {
    "cuda": "allocated memory",
    "host": "pinned host memory",
    "cpu": "memory of the CPU",
}


def heading(run: Run) -> str:
    """Return the title that was given, else how many recordings there are."""
    return run.title or facts(run)


def conclusion(run: Run) -> list[str]:
    """Return sentences on what the recordings have in common, and which are unlike the others."""
    rows = run.rows
    said = [_peaks(run, kind) for kind in dict.fromkeys(device.kind for _, device in rows)]
    failed = [_name(*row) for row in rows if row[1].ooms]
    if failed:
        said.append(f"Out of memory: {_list(failed)}.")
    growing = [_name(*row) for row in rows if row[1].growth]
    if growing:
        said.append(f"Growing with every step: {_list(growing)}.")
    said += _odd_verdicts(run)
    broken = [rank.name for rank in run.ranks if rank.error]
    if broken:
        said.append(f"Without a report: {_list(broken)}.")
    return said


def _peaks(run: Run, kind: str) -> str:
    rows = run.of(kind)
    memory = _MEMORIES.get(kind, "allocated memory")
    begin = f"{memory[0].upper()}{memory[1:]} peaks"
    if len(rows) == 1:
        return f"{begin} at {format_bytes(rows[0][1].allocated)}."
    low = min(rows, key=lambda row: row[1].allocated)
    high = max(rows, key=lambda row: row[1].allocated)
    least, most = low[1].allocated, high[1].allocated
    if most - least <= _ALIKE * most:
        how = "to the byte" if least == most else "within half a percent"
        return f"{begin} at {format_bytes(most)} in all {format_count(len(rows))}, {how}."
    return (
        f"{begin} between {format_bytes(least)} ({_name(*low)}) and"
        f" {format_bytes(most)} ({_name(*high)}), median"
        f" {format_bytes(run.middle(kind))}."
    )


def _odd_verdicts(run: Run) -> list[str]:
    """Name the ranks whose verdict differs from that of three in four."""
    rows = run.rows
    usual, times = Counter(device.code for _, device in rows).most_common(1)[0] if rows else ("", 0)
    if times == len(rows) or 4 * times < 3 * len(rows):
        return []
    others: dict[str, list[str]] = {}
    for rank, device in rows:
        # They are named above already.
        if device.code not in (usual, "oom", "leak") and device.code:
            others.setdefault(device.code, []).append(_name(rank, device))
    return [
        f"Unlike the others: {_list(names)} ({_kind_of_finding(code)})."
        for code, names in others.items()
    ]


def _kind_of_finding(code: str) -> str:
    text = CODES[code][1].rstrip(".")
    return text[0].lower() + text[1:]


def deviation(run: Run, device: RankDevice) -> float | None:
    """Return by what part of the median a peak differs; None where there is no median."""
    middle = run.middle(device.kind)
    if len(run.of(device.kind)) < 2 or not middle:
        return None
    return (device.allocated - middle) / middle


def deviation_text(part: float | None) -> str:
    """Write it in percent, with its sign; ``""`` where it is next to nothing."""
    if part is None or abs(part) < _ALIKE:
        return ""
    return format_change(part, 1)


def peak_text(device: RankDevice) -> str:
    """Write an allocated peak; a lower bound says so."""
    return f"{'≥ ' if device.allocated_width else ''}{format_bytes(device.allocated)}"


def peak_title(device: RankDevice) -> str:
    """Write it to the byte, and what else is to be known of it."""
    text = f"{format_count(device.allocated)} bytes"
    if device.allocated_width:
        text = f"at least {text}, at most {format_count(device.allocated_width)} more"
    return text if device.recorded else f"{text} when the snapshot was written; no history"


def oom_text(device: RankDevice) -> str:
    """Say whether requests failed, and what the last asked for; ``""`` if none did."""
    if not device.ooms:
        return ""
    wanted = f"{format_bytes(device.oom_size)} refused"
    return wanted if device.ooms == 1 else f"{wanted}, last of {format_count(device.ooms)}"


def growth_text(device: RankDevice) -> str:
    """Say by how much it grows; ``""`` if it does not."""
    return f"{format_bytes(device.growth)} a step" if device.growth else ""


def facts(run: Run) -> str:
    """Say how many recordings there are."""
    return plural(len(run.ranks), "recording")


def _name(rank: Rank, device: RankDevice) -> str:
    """Name a row: with its device where a recording has several."""
    return rank.name if len(rank.devices) == 1 else f"{device.device} of {rank.name}"


def _list(names: list[str]) -> str:
    """List the first few names."""
    if len(names) > _NAMED:
        return f"{', '.join(names[:_NAMED])} and {format_count(len(names) - _NAMED)} more"
    return ", ".join(names)

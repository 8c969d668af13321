"""Words of the reports of a run, the same on the page, in Markdown and in a terminal."""

from __future__ import annotations

from snapreport.compare.among_ranks.rank_words import ranks_in_words
from snapreport.ground.units import format_bytes, format_count, format_signed_bytes, plural, times
from snapreport.model.run.rank_facts import DeviceFacts, Run
from snapreport.model.run.run_findings import Difference, Odd, RunFindings

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

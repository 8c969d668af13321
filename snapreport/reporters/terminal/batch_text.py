"""How the peak grows with the batch as text for a terminal, and the largest batch that fits."""

from __future__ import annotations

from snapreport.ground.units import format_bytes, format_count, share_in_words
from snapreport.model.what_if import BatchGrowth, BatchPeak, RoleGrowth
from snapreport.reporters.terminal.plan_text import plan_notes
from snapreport.reporters.terminal.text_tables import Page
from snapreport.reporters.words.role_words import plural_of

_DOUBTS = {
    "other work": "the recordings do not make and free the same, one after the other",
    "no law": "the sizes of some allocations neither grow evenly nor with the square of the batch",
    "convolutions": "convolutions choose their algorithms, and the memory for these, by the batch",
    "data": "sizes differ from step to step, so they depend on the data, too",
    "one step": "with only one step recorded, nothing shows whether sizes depend on the data, too",
}
"""Why there are no bounds; by what ``BatchGrowth.doubt`` says."""


def write_growth(
    page: Page, device: str, growth: BatchGrowth, beyond: int | None, *, failed: bool
) -> None:
    """Write how a peak grows.

    Args:
        page: to write to.
        device: its name.
        growth: of its allocated peak.
        beyond: reserved minus allocated bytes at the peak of the largest recording, or None.
        failed: whether a request for memory failed in any of the recordings.
    """
    page.say(f"{device}: {growth_verdict(growth)}")
    page.say()
    page.say("The allocated peak by batch")
    names = (
        "batch",
        "expected",
        *(("least", "most") if not growth.doubt else ()),
        "recorded",
        "in",
    )
    page.table(names, [_peak_row(each, not growth.doubt) for each in growth.peaks])
    page.say()
    page.say(f"What it consists of at batch {format_count(growth.told_for)}")
    curved = any(role.square for role in growth.roles)
    names = ("bytes", "fixed", "per sample", *(("per sample²",) if curved else ()), "role")
    page.table(names, [_role_row(each, curved) for each in growth.roles])
    page.say()
    page.say(" ".join(filter(None, (how_sure(growth), plan_notes(beyond, failed)))))


def growth_verdict(growth: BatchGrowth) -> str:
    """Say in a sentence or two which batch fits, and what grows."""
    return " ".join(filter(None, (_largest(growth), _what_grows(growth))))


def _largest(growth: BatchGrowth) -> str:
    if growth.target is None:
        return ""
    target = format_bytes(growth.target)
    if growth.fits is None:
        return f"the allocated peak does not grow with the batch, and fits into {target}."
    if not growth.fits:
        least = next(each.expected for each in growth.peaks if each.batch == 1)
        return (
            f"not even a batch of 1 fits into {target}: its allocated peak is expected to be"
            f" {format_bytes(least)}."
        )
    fits, peak = growth.fits, next(each for each in growth.peaks if each.batch == growth.fits)
    sizes = f"a batch of {format_count(fits)}"
    if growth.surely is None or growth.possibly is None:
        return (
            f"{sizes} is the largest expected to fit into {target}: {format_bytes(peak.expected)}."
        )
    if growth.surely == growth.possibly:
        return f"{sizes} is the largest that fits into {target}: {format_bytes(peak.expected)}."
    surely = f"{format_count(growth.surely)} surely does" if growth.surely else "none surely does"
    return (
        f"{sizes} is the largest expected to fit into {target}: {format_bytes(peak.expected)}."
        f" {surely[0].upper()}{surely[1:]}, and more than {format_count(growth.possibly)} cannot."
    )


def _what_grows(growth: BatchGrowth) -> str:
    sizes = growth.told_for
    added = [(each.bytes - each.fixed, each.role) for each in growth.roles]
    whole = sum(size for size, _ in added)
    if whole <= 0:
        return "Nothing in the peak grows with the batch."
    most, role = max(added)
    held = sum(each.bytes for each in growth.roles)
    return (
        f"At {format_count(sizes)}, {share_in_words(whole, held)} of the peak grows with the batch;"
        f" {share_in_words(most, whole)} of that are {plural_of(role)}."
    )


def how_sure(growth: BatchGrowth) -> str:
    """Say what the figures rest on, and why they are no bounds where they are none."""
    if not growth.doubt:
        return (
            "The recordings make and free the same, one after the other, and each allocation is"
            " fixed in size, or grows evenly or with the square of the batch. Least and most hold"
            " where another size does the same."
        )
    off = max(
        abs(each.expected - each.recorded) for each in growth.peaks if each.recorded is not None
    )
    return (
        f"These are estimates without bounds: {_DOUBTS[growth.doubt]}. At the recorded sizes the"
        f" estimate is {format_bytes(off)} off at the most."
    )


def _peak_row(peak: BatchPeak, bounded: bool) -> tuple[str, ...]:
    bounds = (peak.least or 0, peak.most or 0) if bounded else ()
    return (
        format_count(peak.batch),
        format_bytes(peak.expected),
        *map(format_bytes, bounds),
        "" if peak.recorded is None else format_bytes(peak.recorded),
        peak.phase,
    )


def _role_row(growth: RoleGrowth, curved: bool) -> tuple[str, ...]:
    figures = (growth.bytes, growth.fixed, growth.each, *((growth.square,) if curved else ()))
    return (*(_signed(figure) for figure in figures), growth.role)


def _signed(size: int) -> str:
    return format_bytes(size) if size >= 0 else f"-{format_bytes(-size)}"

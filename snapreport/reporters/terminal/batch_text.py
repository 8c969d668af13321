"""How the peak grows with the batch, and the largest batch that fits, as text for a terminal."""

from __future__ import annotations

from snapreport.ground.units import format_bytes, format_count, share_in_words
from snapreport.model.what_if import LARGEST_BATCH, BatchGrowth, BatchPeak, RoleGrowth
from snapreport.reporters.terminal.plan_text import plan_notes
from snapreport.reporters.terminal.text_tables import Page
from snapreport.reporters.words.role_words import plural_of

_DOUBTS = {
    "other work": "The recordings do not allocate and free the same tensors in the same order.",
    "no law": "Some sizes grow neither evenly nor with the square of the batch.",
    "convolutions": "Convolutions choose an algorithm, and so its memory, by the batch size.",
    "data": "Sizes differ from step to step, so they depend on the data, too.",
    "one step": "With only one step recorded, nothing shows whether sizes depend on the data, too.",
    "extrapolated": "Some of these sizes are outside of the recorded range.",
}
"""What makes the estimates less sure, by ``BatchGrowth.doubt``."""


def write_growth(
    page: Page, device: str, growth: BatchGrowth, beyond: int | None, *, failed: bool
) -> None:
    """Write how a peak grows.

    Args:
        page: to write to.
        device: the device's name.
        growth: of the device's allocated peak.
        beyond: reserved minus allocated bytes at the peak of the largest recording, or None.
        failed: whether a request for memory failed in any of the recordings.
    """
    page.say(f"{device}: {growth_verdict(growth)}")
    page.say()
    page.say("The allocated peak by batch")
    page.table(("batch", "expected", "recorded", "in"), map(_peak_row, growth.peaks))
    page.say()
    page.say(f"What it consists of at batch {format_count(growth.at_batch)}")
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
        return f"any batch up to {format_count(LARGEST_BATCH)} is expected to fit into {target}."
    peak = next(each for each in growth.peaks if each.batch == max(growth.fits, 1))
    size = format_bytes(peak.expected)
    if not growth.fits:
        return f"not even a batch of 1 is expected to fit into {target}: its peak would be {size}."
    batch = format_count(growth.fits)
    return f"a batch of {batch} is the largest expected to fit into {target}: {size}."


def _what_grows(growth: BatchGrowth) -> str:
    sizes = growth.at_batch
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
    """Say how good the estimates are, and what may make them wrong."""
    recorded = {each.batch: each.recorded for each in growth.peaks if each.recorded is not None}
    off = max(
        abs(each.expected - recorded[each.batch]) for each in growth.peaks if each.batch in recorded
    )
    advice = (
        ""
        if growth.at_batch in recorded
        else f": record at {format_count(growth.at_batch)} to be sure"
    )
    said = (
        f"These are estimates, at most {format_bytes(off)} off at the recorded sizes.",
        _DOUBTS.get(growth.doubt, ""),
        f"Splitting, padding and other thresholds may change other sizes{advice}.",
    )
    return " ".join(filter(None, said))


def _peak_row(peak: BatchPeak) -> tuple[str, ...]:
    return (
        format_count(peak.batch),
        format_bytes(peak.expected),
        "" if peak.recorded is None else format_bytes(peak.recorded),
        peak.phase,
    )


def _role_row(growth: RoleGrowth, curved: bool) -> tuple[str, ...]:
    figures = (growth.bytes, growth.fixed, growth.each, *((growth.square,) if curved else ()))
    return (*(_signed(figure) for figure in figures), growth.role)


def _signed(size: int) -> str:
    return format_bytes(size) if size >= 0 else f"-{format_bytes(-size)}"

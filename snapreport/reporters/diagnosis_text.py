"""A diagnosis as text for a terminal."""

from __future__ import annotations

from snapreport.ground.units import (
    format_bytes,
    format_count,
    format_share,
    list_of,
    plural,
    share_in_words,
)
from snapreport.model.answers import (
    LARGEST_BATCH,
    MOST_CHANGES,
    BatchGrowth,
    BatchPeak,
    Plan,
    RoleGrowth,
    RoleLeft,
)
from snapreport.model.diagnoses import (
    Suggestion,
)
from snapreport.reporters.document import Bullets
from snapreport.reporters.summary import suggestion as offered_item
from snapreport.reporters.text_tables import Page
from snapreport.reporters.words import (
    plural_of,
)


def suggestion(page: Page, offered: Suggestion, *, full: bool = False) -> None:
    """Write a suggestion and the change to make; ``full``: with the reasons for its figures."""
    page.blocks([Bullets([offered_item(offered, with_reasons=full)])])


# A plan as text for a terminal: whether the target is reached, the steps, what remains.


_NAMED = 3
"""The most roles that the sentence names."""
_LITTLE = 0.05
"""A role with a smaller share of what remains is not named."""


def write_plan(
    page: Page, device: str, plan: Plan, beyond: int | None, *, failed: bool, full: bool
) -> None:
    """Write a plan.

    Args:
        page: to write to.
        device: the device's name.
        plan: for the device's allocated peak.
        beyond: reserved minus allocated bytes at the recorded peak; None where that is not known.
        failed: whether a request for memory failed in the recording.
        full: with the reasons for each figure.
    """
    page.say(f"{device}: {verdict(plan)}")
    for number, step in enumerate(plan.steps, start=1):
        peak, most = format_bytes(step.expected), format_bytes(step.most)
        bound = f"{most} at most"
        page.part(f"{number}. {step.suggestion.code}: the peak is then {peak}, {bound}")
        suggestion(page, step.suggestion, full=full)
    if plan.steps or plan.reached == "no":
        page.say()
        page.say("What the peak then consists of" if plan.steps else "What the peak consists of")
        rows = [
            (format_bytes(each.bytes), format_share(each.bytes, plan.expected), each.role)
            for each in plan.left
        ]
        page.table(("bytes", "share", "role"), rows)
    notes = plan_notes(beyond, failed)
    if notes:
        page.say()
        page.say(notes)


def verdict(plan: Plan) -> str:
    """Say in a sentence or two whether the target is reached, and what remains if it is not."""
    peak, target = format_bytes(plan.peak), format_bytes(plan.target)
    then, most = format_bytes(plan.expected), format_bytes(plan.most)
    changes = plural(len(plan.steps), "change")
    if plan.reached == "yes" and not plan.steps:
        return f"the allocated peak is {peak}, within the target of {target} as it is."
    if plan.reached == "yes":
        bounded = f"about {then}, {most} at most" if plan.most > plan.expected else then
        return (
            f"{changes} {'lowers' if len(plan.steps) == 1 else 'lower'} the allocated peak from"
            f" {peak} to {bounded}: within the target of {target}."
        )
    if plan.reached == "expected":
        return (
            f"with {changes} the allocated peak is expected to fall from {peak} to {then}, within"
            f" the target of {target}. That is not certain: it may be up to {most}."
        )
    if not plan.steps:
        return (
            f"the allocated peak is {peak}, and the target of {target} is not reached: this"
            f" recording supports no change that would lower it much. {_remains(plan.left)}"
        )
    return (
        f"the target of {target} is not reached. No combination of up to {MOST_CHANGES} changes"
        f" that this recording supports is expected to get the allocated peak of {peak} below"
        f" {then}. {_remains(plan.left)}"
    )


def _remains(left: tuple[RoleLeft, ...]) -> str:
    whole = sum(each.bytes for each in left)
    named = [each for each in left[:_NAMED] if each.bytes >= _LITTLE * whole]
    words = [plural_of(each.role) for each in named]
    if not words:
        return ""
    held = sum(each.bytes for each in named)
    return f"Of that {format_bytes(held)} ({share_in_words(held, whole)}) are {list_of(words)}."


def plan_notes(beyond: int | None, failed: bool) -> str:
    """Say what a plan leaves out: requests after a failed one, and reserved bytes."""
    said = []
    if failed:
        said.append(
            "A request for memory failed in this recording: what the program would have allocated"
            " then and later is not counted."
        )
    if beyond:
        said.append(
            "These are allocated bytes, and the driver has to provide more: at the recorded peak"
            f" {format_bytes(beyond)} were reserved on top of them."
        )
    return " ".join(said)


# How the peak grows with the batch, and the largest batch that fits, as text for a terminal.


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

"""A plan as text for a terminal: whether the target is reached, the steps, what remains."""

from __future__ import annotations

from snapreport.ground.units import format_bytes, format_share, list_of, plural, share_in_words
from snapreport.model.what_if import MOST_CHANGES, Plan, RoleLeft
from snapreport.reporters.terminal.diagnosis_text import suggestion
from snapreport.reporters.terminal.text_tables import Page
from snapreport.reporters.words.role_words import plural_of

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

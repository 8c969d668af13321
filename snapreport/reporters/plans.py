"""Plans as documents: the changes that lower a peak to a target, and the largest batch that fits.

Each begins with a verdict of a sentence or two, and ends with what the figures leave out.
"""

from __future__ import annotations

from snapreport.ground.units import (
    format_bytes,
    format_count,
    format_share,
    list_of,
    plural,
    share_in_words,
)
from snapreport.model.answers import LARGEST_BATCH, MOST_CHANGES, BatchGrowth, Plan, RoleLeft
from snapreport.model.roles import CACHE, ROLES, STATE, UNKNOWN
from snapreport.reporters.document import (
    Block,
    Bullets,
    Document,
    Heading,
    Paragraph,
    Size,
    Table,
    columns,
)
from snapreport.reporters.summary import suggestion

# The cheapest changes.


_NAMED = 3
"""The most roles that the sentence names."""
_LITTLE = 0.05
"""A role with a smaller share of what remains is not named."""


def plan_document(
    device: str, plan: Plan, beyond: int | None, *, failed: bool, full: bool
) -> Document:
    """Say whether the target is reached, by which changes, and what remains.

    Args:
        device: the device's name.
        plan: for the device's allocated peak.
        beyond: reserved minus allocated bytes at the recorded peak; None where that is not known.
        failed: whether a request for memory failed in the recording.
        full: with the reasons for each figure.
    """
    blocks: list[Block] = [Paragraph(f"{device}: {plan_verdict(plan)}")]
    for number, step in enumerate(plan.steps, start=1):
        peak, most = format_bytes(step.expected), format_bytes(step.most)
        title = f"{number}. {step.suggestion.code}: the peak is then {peak}, {most} at most"
        blocks += [Heading(title), Bullets([suggestion(step.suggestion, with_reasons=full)])]
    if plan.steps or plan.reached == "no":
        rows = [
            (Size(each.bytes), format_share(each.bytes, plan.expected), each.role)
            for each in plan.left
        ]
        title = "What the peak then consists of" if plan.steps else "What the peak consists of"
        blocks.append(Table(columns("bytes", "share", text="role"), rows, title))
    if notes := plan_notes(beyond, failed):
        blocks.append(Paragraph(notes))
    return Document(f"How to lower the peak of {device}", blocks)


def plan_verdict(plan: Plan) -> str:
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
    if not named:
        return ""
    held = sum(each.bytes for each in named)
    words = list_of([_plural_of(each.role) for each in named])
    return f"Of that {format_bytes(held)} ({share_in_words(held, whole)}) are {words}."


def _plural_of(role: str) -> str:
    """Return a role's name for several allocations: ``parameters``."""
    if role == ROLES[UNKNOWN]:
        return "of unknown role"
    if role in (ROLES[STATE], ROLES[CACHE]):
        return role
    head, of, rest = role.replace(" of optimizer", " of the optimizer").partition(" of ")
    return f"{head[:-1]}ies{of}{rest}" if head.endswith("y") else f"{head}s{of}{rest}"


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


# The largest batch.


_DOUBTS = {
    "other work": "The recordings do not allocate and free the same tensors in the same order.",
    "no law": "Some sizes grow neither evenly nor with the square of the batch.",
    "convolutions": "Convolutions choose an algorithm, and so its memory, by the batch size.",
    "data": "Sizes differ from step to step, so they depend on the data, too.",
    "one step": "With only one step recorded, nothing shows whether sizes depend on the data, too.",
    "extrapolated": "Some of these sizes are outside of the recorded range.",
}
"""What makes the estimates less sure, by ``BatchGrowth.doubt``."""


def growth_document(
    device: str, growth: BatchGrowth, beyond: int | None, *, failed: bool
) -> Document:
    """Say which batch fits, how the peak grows with it, and how sure that is.

    Args:
        device: the device's name.
        growth: of the device's allocated peak.
        beyond: reserved minus allocated bytes at the peak of the largest recording, or None.
        failed: whether a request for memory failed in any of the recordings.
    """
    verdict = " ".join(filter(None, (_largest(growth), _what_grows(growth))))
    notes = " ".join(filter(None, (_how_sure(growth), plan_notes(beyond, failed))))
    curved = ["per sample²"] if any(role.square for role in growth.roles) else []
    peaks = Table(
        columns("batch", "expected", "recorded", text="in"),
        [
            (
                format_count(each.batch),
                Size(each.expected),
                "" if each.recorded is None else Size(each.recorded),
                each.phase,
            )
            for each in growth.peaks
        ],
        title="The allocated peak by batch",
    )
    roles = Table(
        columns("bytes", "fixed", "per sample", *curved, text="role"),
        [
            (
                *map(Size, (each.bytes, each.fixed, each.each)),
                *(Size(each.square) for _ in curved),
                each.role,
            )
            for each in growth.roles
        ],
        title=f"What it consists of at batch {format_count(growth.at_batch)}",
    )
    return Document(
        f"How the peak of {device} grows with the batch",
        [Paragraph(f"{device}: {verdict}"), peaks, roles, Paragraph(notes)],
    )


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
    added = [(each.bytes - each.fixed, each.role) for each in growth.roles]
    whole = sum(size for size, _ in added)
    if whole <= 0:
        return "Nothing in the peak grows with the batch."
    most, role = max(added)
    held = sum(each.bytes for each in growth.roles)
    return (
        f"At {format_count(growth.at_batch)}, {share_in_words(whole, held)} of the peak grows with"
        f" the batch; {share_in_words(most, whole)} of that are {_plural_of(role)}."
    )


def _how_sure(growth: BatchGrowth) -> str:
    """Say how good the estimates are, and what may make them wrong."""
    off = {
        each.batch: abs(each.expected - each.recorded)
        for each in growth.peaks
        if each.recorded is not None
    }
    wanted = growth.at_batch
    advice = "" if wanted in off else f": record at {format_count(wanted)} to be sure"
    most = format_bytes(max(off.values()))
    said = (
        f"These are estimates, at most {most} off at the recorded sizes.",
        _DOUBTS.get(growth.doubt, ""),
        f"Splitting, padding and other thresholds may change other sizes{advice}.",
    )
    return " ".join(filter(None, said))

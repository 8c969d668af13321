"""Changes to the program in words: what each would free, what it costs, and when not to make it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from snapreport.diagnosis.advice.edits import edited_peak
from snapreport.diagnosis.advice.program_changes import Change, find_changes
from snapreport.diagnosis.advice.situation import Situation, look_at
from snapreport.figures.callsites import label_sites, short_site, site_text
from snapreport.ground.units import format_count
from snapreport.model.diagnoses import Frees, Suggestion
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History
from snapreport.model.roles import ROLES

_WORTH = 0.02
"""What is expected to free less than this part of the peak is not worth the work."""
_SITES = 5


@dataclass(frozen=True)
class _Words:
    text: str
    change: str = ""
    costs: str = ""
    unless: str = ""
    whys: tuple[str, str, str] = ("", "", "")


_WORDS = {
    "checkpoint": _Words(
        "Checkpoint the blocks that {caller} calls{count}: keep what each is given, and compute the"
        " rest again in the backward pass.",
        "x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)",
        "Each step takes one more forward pass of these blocks.",
        "A block has to give the same result when it runs again.",
        (
            "each block keeps its largest tensor, too, and one block at a time is computed again",
            "each block keeps what the next one is given, until its backward pass begins",
            "these blocks keep nothing at all for the backward pass",
        ),
    ),
    "smaller-batch": _Words(
        "Halve the batch, and accumulate the gradients of two where its size matters.",
        "for part in batch.chunk(2):\n    (loss_of(part) / 2).backward()",
        "A step takes more, smaller operations, so more time for each sample.",
        "Not possible where a batch is one sample already.",
        (
            "only what is kept for the backward pass halves",
            "inputs, and temporary tensors of the forward and backward pass, halve with it",
            "all but parameters, gradients and the optimizer's state halves",
        ),
    ),
    "fused-optimizer": _Words(
        "Let the optimizer update parameters in one fused operation: its temporary tensors are part"
        " of the peak.",
        "torch.optim.AdamW(parameters, fused=True)",
        unless="Not every optimizer has a fused form.",
    ),
    "low-bit-state": _Words(
        "Keep the optimizer's state in half as many bits, such as bfloat16 in place of float32.",
        costs="Updates are less accurate.",
        unless="Not possible where the state is in few bits already.",
    ),
    "free-earlier": _Words(
        "Release gradients before the forward pass: they are kept through it until the next"
        " backward pass.",
        "optimizer.zero_grad(set_to_none=True)  # before the forward pass",
        unless="Not possible where gradients are accumulated over several passes.",
    ),
}


def advise_on_program(tables: History, device: DeviceFigures) -> tuple[Suggestion, ...]:
    """Return changes to the program that lower the allocated peak, the most first.

    Each is tried on the recording: what it takes away is taken from the history, and the peak over
    all time added up again.

    Args:
        tables: the file.
        device: the device's figures.
    """
    if not device.recorded or not len(device.history.allocations):
        return ()
    situation = look_at(tables, device.history, device.curves["allocated"])
    found = []
    for change in find_changes(situation):
        least, expected, most = _frees(situation, change)
        if expected >= max(_WORTH * situation.peak, 1):
            found.append(_suggestion(situation, change, least, expected, most))
    return tuple(sorted(found, key=lambda each: -each.expected))


def _frees(situation: Situation, change: Change) -> tuple[int, int, int]:
    least, expected, most = (
        situation.peak - edited_peak(situation.history, situation.curve, edits)[0]
        for edits in (change.least, change.expected, change.most)
    )
    return max(min(least - change.extra, expected), 0), expected, max(expected, most)


def _suggestion(
    situation: Situation, change: Change, least: int, expected: int, most: int
) -> Suggestion:
    words = _WORDS[change.code]
    live = np.flatnonzero(change.acts_on & situation.live())
    weights = situation.history.allocations.block_size[live]
    number, names = label_sites(situation.history, situation.tables.stacks)
    held = np.bincount(number[live], weights=weights, minlength=len(names))
    largest = [i for i in np.argsort(-held, kind="stable")[:_SITES].tolist() if held[i]]
    roles = np.bincount(situation.roles.role[live], weights=weights, minlength=len(ROLES))
    caller = count = ""
    if change.blocks is not None:
        caller = short_site(site_text(situation.tables.stacks, change.blocks.caller))
        count = f" ({format_count(change.blocks.in_a_turn)} in a forward pass)"
    whys = words.whys if least < most else ("", "", "")
    return Suggestion(
        change.code,
        words.text.format(caller=caller, count=count),
        words.change,
        Frees(least, expected, most, *whys),
        ROLES[int(roles.argmax())] if len(live) else "",
        tuple(names[i] for i in largest),
        words.costs,
        words.unless,
    )

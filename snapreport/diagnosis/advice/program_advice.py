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


_OF_BATCH = (
    "only what is kept for the backward pass halves",
    "inputs, and temporary tensors of the forward and backward pass, halve with it",
    "all but parameters, gradients and the optimizer's state halves",
)
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
        "Halve the batch: compute half as many samples at a time.",
        costs="More, smaller operations take more time for each sample.",
        unless="Not possible where a batch is one sample already.",
        whys=_OF_BATCH,
    ),
    "accumulate": _Words(
        "Compute each batch in two parts, and add up their gradients: its size stays what it was.",
        "for part in batch.chunk(2):\n    (loss_of(part) / 2).backward()",
        "More, smaller operations take more time for each sample.",
        "What is computed over a whole batch, such as batch normalization, gives other results.",
        _OF_BATCH,
    ),
    "chunked-loss": _Words(
        "Compute logits and loss for one part in {number} of the tokens at a time, each under a"
        " checkpoint.",
        "loss = sum(checkpoint(loss_of, part, use_reentrant=False) for part in x.chunk({number}))",
        "The last layer runs once more in the backward pass.",
        "The loss has to be a sum or a mean over tokens.",
        (
            "only what the loss itself makes shrinks",
            "logits shrink with it, and so do their gradients",
            "none of this memory is needed",
        ),
    ),
    "attention-kernel": _Words(
        "Use an attention that computes its weights a tile at a time and keeps none of them.",
        "x = torch.nn.functional.scaled_dot_product_attention(q, k, v)",
        unless="Not possible where the program needs the weights themselves.",
        whys=(
            "only the weights that attention keeps are gone",
            "all temporary tensors of their size are gone with them",
            "nothing of the forward and backward pass is needed",
        ),
    ),
    "inference-mode": _Words(
        "Run it in inference mode: nothing is then kept for a backward pass, and this recording has"
        " none.",
        "with torch.inference_mode():",
        unless="Not for a program that computes gradients later.",
        whys=(
            "what a block keeps is freed when the block has run",
            "what a block keeps is freed when the block has run",
            "none of this memory is needed at all",
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
    "free-earlier gradients": _Words(
        "Release gradients before the forward pass: they are kept through it until the next"
        " backward pass.",
        "optimizer.zero_grad(set_to_none=True)  # before the forward pass",
        unless="Not possible where gradients are accumulated over several passes.",
    ),
    "free-earlier outputs": _Words(
        "Delete what the forward pass returned as soon as the backward pass begins: a variable"
        " keeps it longer.",
        "del outputs",
        whys=(
            "",
            "what is held beyond its backward pass is freed when that begins",
            "what is held beyond its backward pass is freed when that begins",
        ),
    ),
    "leak": _Words(
        "Drop what each step adds and nothing frees, such as losses that are kept in a list.",
        "total += loss.item()",
        whys=(
            "each step frees what the one before it left",
            "none of it is kept",
            "none of it is kept",
        ),
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
    found: dict[tuple[str, str], Suggestion] = {}
    for change in find_changes(situation):
        least, expected, most = _frees(situation, change)
        if expected >= max(_WORTH * situation.peak, 1):
            # Of a change that can be made in several parts, the first: the fewest.
            said = _suggestion(situation, change, least, expected, most)
            found.setdefault((change.code, change.about), said)
    return tuple(sorted(found.values(), key=lambda each: -each.expected))


def _frees(situation: Situation, change: Change) -> tuple[int, int, int]:
    least, expected, most = (
        situation.peak - edited_peak(situation.history, situation.curve, edits)[0]
        for edits in (change.least, change.expected, change.most)
    )
    return max(min(least - change.extra, expected), 0), expected, max(expected, most)


def _suggestion(
    situation: Situation, change: Change, least: int, expected: int, most: int
) -> Suggestion:
    words = _WORDS[f"{change.code} {change.about}".strip()]
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
        words.text.format(caller=caller, count=count, number=change.number),
        words.change.format(number=change.number),
        Frees(least, expected, most, *whys),
        ROLES[int(roles.argmax())] if len(live) else "",
        tuple(names[i] for i in largest),
        words.costs,
        words.unless,
    )

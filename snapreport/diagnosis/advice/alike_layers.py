"""The layers that a model calls one after the other, and what each of them holds at a moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.advice.call_blocks import Blocks, are_layers, keep_much, name_caller
from snapreport.diagnosis.advice.situation import Situation
from snapreport.ground.units import format_bytes, format_count, share_in_words
from snapreport.model.tree_paths import marks_on_path

_ALIKE = 1.15
"""Layers are alike if the largest holds at most this times as much as the smallest."""
_FEWEST = 3
_PART = 0.1
"""Layers that hold a smaller part of what is live are not worth a sentence."""


@dataclass(frozen=True)
class AlikeLayers:
    """Module calls from one function, in one forward pass, that hold about the same amount."""

    caller: str
    """The line that calls them: ``forward (model.py:253)``."""
    called: int
    """How many calls of that pass kept much, up to that moment."""
    count: int
    """How many of them held about the same."""
    bytes: int
    """What they hold together."""
    least: int
    """What the smallest of them holds, in bytes."""
    most: int
    backward: int
    """What backward passes hold for all calls from ``caller``: PyTorch notes the lines that a
    gradient comes from, but not which of the calls."""


def find_layers(situation: Situation, event: int) -> AlikeLayers | None:
    """Return the layers that together hold the most after an event, None if that is little.

    Args:
        event: -1 for the start.
    """
    live = situation.history.allocations.live_at(event)
    held = np.where(live, situation.history.allocations.block_size, 0)
    found = max(_candidates(situation, held, event), key=lambda each: each.bytes, default=None)
    if found is None or found.bytes < _PART * situation.curve[event + 1]:
        return None
    return found


def layers_sentence(situation: Situation, event: int) -> str:
    """Say what one layer and all of them hold after an event, ``""`` where none are found."""
    found = find_layers(situation, event)
    if found is None:
        return ""
    least, most = format_bytes(found.least), format_bytes(found.most)
    each = least if least == most else f"{least} to {most}"
    share = share_in_words(found.bytes, int(situation.curve[event + 1]))
    calls = f"{format_count(found.called)} calls of layers from {found.caller}"
    few = found.count < found.called
    calls = f"Of the {calls}, {format_count(found.count)}" if few else f"The {calls}"
    back = (
        f"The backward pass of the layers called there held {format_bytes(found.backward)} more. "
        if found.backward
        else ""
    )
    return (
        f"{calls} held {format_bytes(found.bytes)} ({share}) of what was allocated, {each} each."
        f" {back}"
    )


def _candidates(situation: Situation, held: NDArray[np.int64], event: int) -> Iterator[AlikeLayers]:
    for blocks in situation.blocks:
        if not are_layers(situation.tables.stacks, situation.history, blocks):
            continue
        kept = np.bincount(blocks.instance, weights=held[blocks.rows], minlength=len(blocks))
        of_turn = np.bincount(blocks.turn, weights=kept)
        here = (blocks.turn == of_turn.argmax()) & blocks.meant
        sizes = np.sort(kept[here]).astype(np.int64)
        sizes = sizes[sizes > 0]
        if len(sizes) < _FEWEST:
            continue
        # For each size, add up those up to _ALIKE times as large; the largest sum wins.
        ends = np.searchsorted(sizes, sizes * _ALIKE, side="right")
        sums = np.append(0, np.cumsum(sizes))
        together = sums[ends] - sums[:-1]
        together[ends - np.arange(len(sizes)) < _FEWEST] = 0
        first = int(together.argmax())
        if together[first]:
            caller = name_caller(situation.tables.stacks, blocks)
            alike = sizes[first : ends[first]]
            called = max(_called(situation, blocks, here, event), len(alike))
            if called >= 2 * len(alike):
                continue  # only some calls are alike: operations inside a layer, not layers
            yield AlikeLayers(
                caller, called, len(alike), int(together[first]), int(alike[0]), int(alike[-1]),
                _in_backward(situation, blocks, held),
            )  # fmt: skip


def _in_backward(situation: Situation, blocks: Blocks, held: NDArray[np.int64]) -> int:
    """Add up what backward passes hold of tensors whose forward lines lead to the calls."""
    stacks = situation.tables.stacks
    frames, forward = stacks.frames, stacks.frames.of_forward()
    if not forward.any():
        return 0
    lead = list({blocks.caller, blocks.own} - {-1})
    bits = np.zeros(len(frames), np.int8)
    for k, frame in enumerate(lead):
        place = (frames.filenames[frame], frames.lines[frame])
        for gradient in np.flatnonzero(forward & (frames.lines == place[1])).tolist():
            if frames.filenames[gradient] == place[0]:
                bits[gradient] |= 1 << k
    every = (1 << len(lead)) - 1
    leads = marks_on_path(stacks.node_parent, bits[stacks.node_frame]) == every
    counts = stacks.of_stacks(leads, none=False)
    counts = np.append(counts, False)[situation.history.allocations.stack]  # the last: NO_STACK
    counts[blocks.rows] = False
    return int(held[counts].sum())


def _called(situation: Situation, blocks: Blocks, here: NDArray[np.bool_], event: int) -> int:
    """Count the calls of ``here`` that had begun by an event, without those that keep little."""
    rows = situation.history.allocations
    born, n = rows.alloc_event[blocks.rows], len(blocks)
    first, last = np.full(n, np.iinfo(np.int64).max), blocks.last_event(situation.history)
    np.minimum.at(first, blocks.instance, born)
    stays = rows.free_requested_event[blocks.rows] > last[blocks.instance]
    kept = np.bincount(blocks.instance, rows.block_size[blocks.rows] * stays, n)
    return int((keep_much(kept) & here & (first <= event)).sum())

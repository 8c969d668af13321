"""What advice is based on: the history with its roles, passes and blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.advice.edits import Edit, edited_peak, sizes_left
from snapreport.diagnosis.advice.layers import (
    Blocks,
    are_layers,
    find_blocks,
    keep_much,
    name_caller,
    program_call,
)
from snapreport.diagnosis.block_room import BlockRoom, find_room
from snapreport.ground.memoize import once_for_both, once_for_each
from snapreport.ground.native.columns import Outline, is_among, stable_order, unique
from snapreport.ground.records import dataclass
from snapreport.ground.units import format_bytes, format_count, share_in_words
from snapreport.model.history import START, DeviceHistory, History
from snapreport.model.roles import ACTIVATION, BUFFER, PARAMETER, Roles
from snapreport.model.snapshot import StackTable, marks_on_path
from snapreport.roles.lifetimes import find_roles
from snapreport.roles.passes import (
    BACKWARD,
    FORWARD,
    IN_BACKWARD,
    IN_OPTIMIZER,
    Passes,
    find_passes,
    stack_marks,
)
from snapreport.roles.steps import allocated_outline, parts_of_steps

_Bound: TypeAlias = "tuple[str | Change | Edit, ...]"


@dataclass(frozen=True, eq=False)
class Calls:
    """Calls of a model that keep memory, one after the other."""

    caller: int
    """The program's frame that calls the model, -1 if unknown."""
    starts: NDArray[np.int64]
    """The event at which each begins, ascending."""
    kept: int
    """Bytes that each call keeps at the peak, 0 if few calls do."""
    rows: NDArray[np.intp]
    """What is kept of them at the peak."""
    held: int
    """Of how many something is."""
    may_train: bool
    """Whether it may be the first forward pass of training, whose backward pass never came."""


@dataclass(frozen=True, eq=False)
class Change:
    """One change to the program, and what it would take from the history."""

    code: str
    acts_on: NDArray[np.bool_]
    """bool, shape (n_allocations,)."""
    least: tuple[Edit, ...]
    expected: tuple[Edit, ...]
    most: tuple[Edit, ...]
    about: str = ""
    blocks: Blocks | None = None
    number: int = 0
    """Into how many parts something is cut; 0 if nothing is."""
    extra: int = 0
    """Bytes that the change itself may need in the worst case."""
    calls: Calls | None = None


@dataclass(frozen=True, eq=False)
class Situation:
    """A device's history as advice uses it; arrays have shape (n_allocations,) unless stated."""

    tables: History
    history: DeviceHistory
    roles: Roles
    passes: Passes
    marks: NDArray[np.int32]
    """The marks of each allocation's call stack, from ``roles.stack_phases``."""
    blocks: tuple[Blocks, ...]
    """Functions that call modules; those whose calls keep most for backward first."""
    next_backward: NDArray[np.int64]
    """The event at which the next backward pass begins, ``events`` where none does."""
    to_host: bool
    """Whether memory can move to the host: not if the device is the CPU."""
    moment: int | None = None
    """The only event to consider; None for all, so that the peak counts."""

    @property
    def outline(self) -> Outline:
        """The allocated curve."""
        return allocated_outline(self.history)

    @property
    def peak(self) -> int:
        """The allocated peak in bytes."""
        return int(self.outline.curve[self.event + 1])

    @cached_property
    def event(self) -> int:
        """The peak's event."""
        return self.outline.top if self.moment is None else self.moment

    def edited(self, edits: Sequence[Edit]) -> tuple[int, int]:
        """Return the allocated peak after some edits, and the first event that has it."""
        key = tuple(edit for edit in edits if len(edit.rows))
        if not key:
            return self.peak, self.event
        if key not in self._tried:
            if self.moment is None:
                self._tried[key] = edited_peak(self.history, self.outline, edits)
            else:
                left = sizes_left(self.history, edits, self.moment)
                self._tried[key] = int(left.sum()), self.moment
        return self._tried[key]

    def left(self, *edits: Sequence[Edit]) -> int:
        """Return the allocated peak after all of some edits."""
        return self.edited([edit for some in edits for edit in some])[0]

    def at_most(self, changes: Sequence[Change]) -> int:
        """Return a bound that the allocated peak does not exceed after some changes."""
        key: _Bound = ("at most", *changes)
        if (known := self._bounds.get(key)) is not None:
            return known
        edits = [edit for each in changes for edit in each.least]
        all_of_them = [*edits, *(edit for each in changes for edit in (*each.expected, *each.most))]
        first = min(int(edit.begin.min(initial=self.history.events)) for edit in all_of_them)
        changed = np.zeros(len(self.history.allocations), np.bool_)
        for edit in all_of_them:
            changed[edit.rows] = True
        placed = self._built[~changed[self._built]]
        unused, too_much = self.room.after(first, placed)
        if self.moment is None:
            left, _ = edited_peak(self.room.history, self.room.widest, edits, unused, too_much)
        else:
            left = int(sizes_left(self.room.history, edits, self.moment, unused).sum())
        found = self._bounds[key] = left + sum(change.extra for change in changes)
        return found

    def at_least(self, changes: Sequence[Change]) -> int:
        """Return a bound that the peak does not fall below: with no part of a block unused."""
        edits = [edit for each in changes for edit in each.most]
        key: _Bound = ("at least", *edits)
        if (known := self._bounds.get(key)) is not None:
            return known
        if self.moment is None:
            found, _ = edited_peak(
                self.room.history, self.outline, edits, too_much=self.room.surplus
            )
        else:
            found = int(sizes_left(self.room.history, edits, self.moment).sum())
        self._bounds[key] = found
        return found

    def largest(self, chosen: NDArray[np.bool_], share: float = 1.0) -> int:
        """Return how large a block for a share of one of some allocations may be, at most."""
        size = self.room.history.allocations.block_size[chosen]
        whole = np.ceil(size * share).astype(np.int64) + self.room.possible[chosen]
        return int(whole.max(initial=0))

    @cached_property
    def _built(self) -> NDArray[np.intp]:
        """The model's rows: it is built before anything changes, also if recorded from later on."""
        begins = self.passes.of(FORWARD)[0].min(initial=self.history.events)
        begun = np.searchsorted(self.history.allocations.alloc_event, begins)
        return np.flatnonzero(self.of(PARAMETER, BUFFER)[:begun])

    @cached_property
    def at_worst(self) -> NDArray[np.int64]:
        """How large a block each allocation may get after a change that comes before it."""
        return self.room.history.allocations.block_size + self.room.possible

    @cached_property
    def room(self) -> BlockRoom:
        """By how much each block is, and may be, larger than its request."""
        return find_room(self.history, self.tables)

    @cached_property
    def _tried(self) -> dict[tuple[Edit, ...], tuple[int, int]]:
        return {}

    @cached_property
    def _bounds(self) -> dict[_Bound, int]:
        return {}

    @property
    def trains(self) -> bool:
        """Whether a backward pass or an optimizer's step was recorded."""
        return self.passes.train

    def of(self, *roles: int) -> NDArray[np.bool_]:
        """Say which allocations have one of some roles."""
        found: NDArray[np.bool_] = self.roles.role == roles[0]
        for role in roles[1:]:  # several times faster than a table of the roles
            found |= self.roles.role == role
        return found

    def live(self) -> NDArray[np.bool_]:
        """Say which allocations are live at the peak."""
        return self.history.allocations.live_at(self.event)


def look_at(tables: History, history: DeviceHistory) -> Situation:
    """Collect what the advice needs."""
    rows = history.allocations
    roles, passes = find_roles(history, tables), find_passes(history, tables)
    begins = passes.of(BACKWARD)[0]
    first_after = np.searchsorted(rows.alloc_event, begins, side="right")
    lengths = np.diff(first_after, prepend=0, append=len(rows))
    following = np.repeat(np.append(begins, history.events), lengths)
    marks = stack_marks(tables.stacks)[rows.stack]
    return Situation(
        tables, history, roles, passes, marks, _blocks(history, tables), following,
        to_host=history.device.kind != "cpu",
    )  # fmt: skip


@once_for_both
def _blocks(history: DeviceHistory, tables: History) -> tuple[Blocks, ...]:
    roles, passes = find_roles(history, tables), find_passes(history, tables)
    kept = np.where(roles.role == ACTIVATION, history.allocations.block_size, 0)
    in_pass = stack_marks(tables.stacks)[:-1] & (IN_BACKWARD | IN_OPTIMIZER) != 0
    starts = passes.of(FORWARD)[0]
    made = passes.made == FORWARD
    return tuple(find_blocks(tables.stacks, history, made, kept, starts, in_pass))


def only_at(situation: Situation, event: int) -> Situation:
    """Return the same situation with a given event as its peak; no other event counts.

    Args:
        event: -1 for the start.
    """
    return replace(situation, moment=event)


# Calls of a model that no backward pass followed, and when a backward pass frees what is kept.


LEAKS = 3
"""A line whose memory is kept in this many forward passes is taken to leak in every step."""


@once_for_each
def graph_calls(situation: Situation) -> Calls:
    """Return how often the program called its model, where no backward pass followed any call.

    What comes once in a call, such as an embedding, comes as often as there are calls.
    """
    rows, stacks = situation.history.allocations, situation.tables.stacks
    starts = situation.passes.of(FORWARD)[0]
    kept = np.flatnonzero(situation.of(ACTIVATION) & (rows.alloc_event > START) & (rows.stack >= 0))
    if not len(kept):
        return Calls(-1, starts, 0, kept, 0, may_train=False)
    kept = kept[stable_order(rows.alloc_event[kept])]
    stack, count = np.unique(rows.stack[kept], return_counts=True)
    # A call or two may take another way through C++, so the most call stacks decide.
    often = int(np.bincount(count[count < 2 * count.min()]).argmax())
    once = is_among(rows.stack[kept], stack[count == often])
    if often > 1 and (count.max() > often or _in_several_parts(stacks, stack)):
        at = np.flatnonzero(rows.stack[kept] == rows.stack[kept[once][0]])
        if at[0]:  # it does not begin a call, so it ends it
            at = np.append(0, at[:-1] + 1)
        starts = rows.alloc_event[kept[at]]
    heaviest = np.bincount(rows.stack[kept], weights=rows.block_size[kept]).argmax()
    live = kept[situation.live()[kept]]
    calls = len(unique(np.searchsorted(starts, rows.alloc_event[kept], side="right")))
    alive = len(unique(np.searchsorted(starts, rows.alloc_event[live], side="right")))
    held = int(rows.block_size[live].sum()) // max(alive, 1)
    to_the_end = bool((rows.free_requested_event[live] >= situation.history.events).any())
    return Calls(
        program_call(stacks, int(heaviest)), starts, held if alive >= LEAKS else 0, live, alive,
        may_train=calls < LEAKS and to_the_end,
    )  # fmt: skip


def _in_several_parts(stacks: StackTable, chosen: NDArray[np.int32]) -> bool:
    """Say whether call stacks pass through several lines of a model: the loop is around its calls.

    Layers that a model calls in a loop all pass through one.
    """
    return len(unique(parts_of_steps(stacks)[stacks.stack_node[chosen]])) > 1


def latest_free_after(situation: Situation, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for some events the latest free of any activation made after it in the same pass.

    The backward pass goes from the last operation to the first, so by that free it has reached
    what was made at the event.

    Args:
        wanted: int64, shape (n,), the events.

    Returns:
        int64, shape (n,), in events; -1 if nothing was made after it in its pass. Of the events
        before a pass only the last one before its first activation is one of it.
    """
    rows, events = situation.history.allocations, situation.history.events
    kept = situation.of(ACTIVATION)
    chosen = np.flatnonzero(kept & (rows.alloc_event >= 0) & (rows.free_requested_event < events))
    if not len(chosen):
        return np.full(len(wanted), -1, np.int64)
    born, gone = rows.alloc_event[chosen], rows.free_requested_event[chosen]
    first = np.append(True, np.diff(situation.next_backward[chosen]) != 0)
    # The running maximum within each pass, from its end; the offset keeps passes apart.
    number = np.cumsum(first)
    apart = (number[-1] - number) * np.int64(events + 1)
    latest = np.maximum.accumulate((gone + apart)[::-1])[::-1] - apart
    following = np.minimum(np.searchsorted(born, wanted, side="right"), len(born) - 1)
    until = born[following]
    there = (wanted == until - 1) | ((wanted < until) & ~first[following])
    return np.where(there, latest[following], -1)


# The layers that a model calls one after the other, and what each of them holds at a moment.


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
    if found is None or found.bytes < _PART * situation.outline.curve[event + 1]:
        return None
    return found


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


def layers_sentence(situation: Situation, event: int) -> str:
    """Say what one layer and all of them hold after an event, ``""`` where none are found."""
    found = find_layers(situation, event)
    if found is None:
        return ""
    least, most = format_bytes(found.least), format_bytes(found.most)
    each = least if least == most else f"{least} to {most}"
    share = share_in_words(found.bytes, int(situation.outline.curve[event + 1]))
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

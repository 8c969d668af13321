"""The recording with some memory taken away for some time, and its peak then."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.native.columns import Outline, Spans, is_among
from snapreport.ground.records import dataclass
from snapreport.history.block_sizes import MIN_BLOCK, SMALL_SIZE
from snapreport.model.history import DeviceHistory


@dataclass(frozen=True, eq=False)
class Edit:
    """A share of some allocations' bytes, taken away while ``begin <= event < end``.

    That is a part of each one's life, unless it adds memory.
    """

    rows: NDArray[np.intp]
    """Allocations, each at most once; shape (n,)."""
    share: NDArray[np.float64]
    """The share of each block that is taken away; shape (n,)."""
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    adds: bool = False
    """Whether it adds memory instead, before or after a life; ``share`` is then negative."""


def scaled(history: DeviceHistory, chosen: NDArray[np.bool_], share: float) -> Edit:
    """Take a share of the chosen allocations away for all of their lives; bool, shape (n,)."""
    rows, lives = np.flatnonzero(chosen), history.allocations
    return Edit(
        rows, np.full(len(rows), share), lives.alloc_event[rows], lives.free_requested_event[rows]
    )


def away(
    history: DeviceHistory,
    rows: NDArray[np.intp],
    begin: NDArray[np.int64],
    end: NDArray[np.int64] | None = None,
) -> Edit:
    """Take some allocations away for part of their lives, to the end if that is not said.

    Args:
        rows: the allocations, each at most once; shape (n,).
        begin, end: int64, shape (n,), events.
    """
    lives, freed = history.allocations, history.allocations.free_requested_event[rows]
    end = freed if end is None else end
    there = begin < end
    rows, end = rows[there], np.minimum(end, freed)[there]
    first = np.maximum(begin[there], lives.alloc_event[rows])
    return Edit(rows, np.ones(len(rows)), first, np.maximum(first, end))


def edited_peak(
    history: DeviceHistory,
    outline: Outline,
    edits: Sequence[Edit],
    unused: NDArray[np.int64] | None = None,
    too_much: Spans | None = None,
) -> tuple[int, int]:
    """Return the allocated peak after some edits, and the first event that has it.

    Edits of one allocation multiply: two halvings leave a quarter. Blocks stay multiples of the
    allocator's unit, except on the CPU.

    Args:
        outline: of the allocated curve.
        edits: in any order.
        unused: int64, shape (n_allocations,): what the curve holds of each block besides its size,
            which stays as long as the block is too large for the small pool; None for nothing.
        too_much: what the curve holds besides that.
    """
    spans: list[Spans] = [] if too_much is None else [too_much]
    for edit in edits:
        if edit.adds:
            size = history.allocations.block_size[edit.rows]
            if unused is not None:
                size = size + unused[edit.rows]
            spans.append((np.rint(size * edit.share).astype(np.int64), edit.begin, edit.end))
    used = [edit for edit in edits if len(edit.rows) and not edit.adds]
    if len(used) == 1:
        (one,) = used
        taken = _taken(history, one.rows, 1 - one.share, unused)
        spans.append((taken, one.begin, one.end))
    elif used:
        rows = np.concatenate([edit.rows for edit in used])
        left = 1 - np.concatenate([edit.share for edit in used])
        begin = np.concatenate([edit.begin for edit in used])
        end = np.concatenate([edit.end for edit in used])
        edited = np.zeros(len(history.allocations), np.bool_)
        edited[rows] = True
        if edited.sum() < len(rows):  # most edits are of other allocations than the rest
            times = np.bincount(rows)
            several = times[rows] > 1
            parts = _multiplied(history, used, np.flatnonzero(times > 1))
            rows, left, begin, end = (
                np.append(each[~several], more)
                for each, more in zip((rows, left, begin, end), parts, strict=True)
            )
        spans.append((_taken(history, rows, left, unused), begin, end))
    return outline.peak_without(*spans)


def _multiplied(
    history: DeviceHistory, edits: Sequence[Edit], rows: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Return what several edits leave of some allocations, for each part of their lives.

    Args:
        history: the device.
        edits: which make nothing larger.
        rows: the allocations, ascending.

    Returns:
        rows, the share that is left, and the events from which and until which it is.
    """
    lives = history.allocations
    never = np.iinfo(np.int64).max
    bounds = [lives.alloc_event[rows], lives.free_requested_event[rows]]
    spans = []
    for edit in edits:
        here = np.flatnonzero(is_among(edit.rows, rows))
        place = np.searchsorted(rows, edit.rows[here])
        begin, end = np.full(len(rows), never), np.full(len(rows), never)
        share = np.zeros(len(rows))
        begin[place], end[place], share[place] = edit.begin[here], edit.end[here], edit.share[here]
        spans.append((begin, end, share))
        bounds += [np.clip(begin, bounds[0], bounds[1]), np.clip(end, bounds[0], bounds[1])]
    cuts = np.sort(np.stack(bounds), axis=0)
    first, last = cuts[:-1], cuts[1:]
    left = np.ones(first.shape)
    for begin, end, share in spans:
        left *= np.where((begin <= first) & (first < end), 1 - share, 1.0)
    real = (first < last) & (left < 1)
    return np.broadcast_to(rows, first.shape)[real], left[real], first[real], last[real]


def sizes_left(
    history: DeviceHistory,
    edits: Sequence[Edit],
    event: int,
    unused: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Return what each allocation holds after an event and some edits.

    Args:
        edits: in any order.
        event: -1 for the start.
        unused: as for ``edited_peak``.

    Returns:
        int64, shape (n_allocations,), in bytes; their sum is the edited curve's value.
    """
    lives = history.allocations
    live = history.allocations.live_at(event)
    whole = lives.block_size if unused is None else lives.block_size + unused
    size, left = np.where(live, whole, 0), np.ones(len(live))
    for edit in edits:
        now = (edit.begin <= event) & (event < edit.end)
        rows, share = edit.rows[now], edit.share[now]
        if edit.adds:
            size[rows] -= np.rint(whole[rows] * share).astype(np.int64)
        else:
            left[rows] *= 1 - share
    rows = np.flatnonzero(live & (left < 1))
    size[rows] -= _taken(history, rows, left[rows], unused)
    return size


def _taken(
    history: DeviceHistory,
    rows: NDArray[np.intp],
    left: NDArray[np.float64],
    unused: NDArray[np.int64] | None,
) -> NDArray[np.int64]:
    """Return the bytes that blocks lose if the share ``left`` of each is left."""
    size = history.allocations.block_size[rows]
    if not left.any():
        return size if unused is None else size + unused[rows]
    unit = 1 if history.device.kind == "cpu" else MIN_BLOCK
    rest = size * left
    rest *= 16  # in place: a long recording has millions of these
    np.rint(rest, out=rest)
    rest /= 16 * unit
    np.ceil(rest, out=rest)
    whole = rest.astype(np.int64)
    whole *= unit
    np.minimum(whole, size, out=whole)
    taken = size - whole
    if unused is not None:
        taken += np.where(whole > SMALL_SIZE, 0, unused[rows])
    return taken

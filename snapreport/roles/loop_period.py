"""Find the period of a device's allocations: what comes once in every turn of a loop.

Where the same allocations come again and again in the same order, that order is the period. Else a
mark is looked for, a call stack (or a size, if there is no stack) that comes once in every turn. It
marks the program's outer loop if its distances are alike, counted in allocations, and fill the
recording from its first occurrence on. A loop over the layers of a model is just as regular. It is
recognized by its stacks, which all pass through one line inside a module, an optimizer, the
backward pass, or the building of a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.frames.frame_kinds import classify_frames
from snapreport.ground.units import format_count, rounded_share
from snapreport.model.findings import LIBRARY, OUTSIDE
from snapreport.model.history import DeviceHistory, History
from snapreport.model.stacks import GRADIENT_OF, StackTable
from snapreport.native.sorting import distinct, medians, stable_order, unique
from snapreport.roles.stack_phases import IN_BACKWARD, IN_OPTIMIZER, stack_marks

FEWEST = 5
"""A mark must occur this often: fewer equal distances are chance, or the parts of one step."""
TOLERANCE = 0.25
"""Distances are alike if they are this near to the median: programs branch, and log at times."""
_FILLS = 0.6
"""The part of the recording after the first mark that alike distances must fill. Evaluation, saving
and cleaning up may take the rest; the layers of one part of a step fill less."""
_AGREE, _SAME = 2, 0.1
"""How many marks must agree, within this part of their distances: in a program without a loop, one
of many marks may occur at even distances by chance."""
_FILLS_UNFRAMED = 0.9
"""``_FILLS`` if marks are sizes, as many different tensors have one size."""
_BODY = 2
"""A turn with fewer allocations than this is not a step."""
_FILLS_IN_ORDER = 0.9
"""``_FILLS`` if all allocations come in the same order: less is a part of the program."""
_TRIED = 200
"""At most this many marks are examined; those of one loop are all alike."""
_SAMPLED = 16
"""How many turns of each mark are examined."""
_KEPT = 0.5
"""A loop that keeps more than this part of the bytes it allocates loads or builds something, or
iterates over layers and keeps activations for the backward pass. Steps keep little."""
_SEARCHED = 1 << 16
"""A period is looked for among so many allocations, and then held against all."""
_FRAMED, _UNFRAMED = 0.9, 0.6
"""The highest confidence: a period is inferred, and without stacks inner loops are not excluded."""

_MODULE_CALL = re.compile(r"^_(wrapped_)?call_impl$")
_WITHIN = re.compile(
    r"torch::autograd::(python::Python)?Engine|^_engine_run_backward$"
    r"|^(forward|_apply|__init__|deepcopy|load_state_dict|_load_from_state_dict|from_pretrained)$"
)
_WITHIN_FILE = re.compile(r"torch[/\\]optim[/\\]|torch[/\\]_(inductor|dynamo)[/\\]")


@dataclass(frozen=True, eq=False)
class Period:
    """Places of one kind in the turns of a loop, one in each."""

    events: NDArray[np.int64]
    """The event of each; int64, shape (n,), ascending."""
    confidence: float
    how: str
    made: NDArray[np.int64]
    """The events of all allocations; int64, shape (n_made,), ascending."""
    mark: NDArray[np.int64]
    """The mark of each: equal ones are of one call stack, or, without one, of one size."""
    order: NDArray[np.int64] | None
    """If the same allocations come in the same order in each turn: which they are, by their places
    in ``made``; int64, shape (n, allocations in a turn)."""


def find_period(tables: History, history: DeviceHistory) -> Period | None:
    """Find the mark that best separates the turns of the outer loop, or None."""
    rows = history.allocations
    made = np.flatnonzero(rows.alloc_event >= 0)
    made = made[stable_order(rows.alloc_event[made])]
    if len(made) < FEWEST * _BODY:
        return None
    node = _nodes(tables.stacks, rows.stack[made])
    framed = node >= 0
    # Sizes are numbered after the stacks, so that no mark means both.
    mark = np.where(framed, rows.stack[made], len(tables.stacks) + rows.size[made])
    within = parts_of_steps(tables.stacks)
    inside = np.where(framed, within[node], -1)
    events = rows.alloc_event[made].astype(np.int64)

    def judged(
        places: NDArray[np.int64], share: float, how: str, order: NDArray[np.int64] | None = None
    ) -> Period | None:
        """Return the period that begins at some places, None if it is not the outer loop's."""
        if _is_inner(inside, framed, places) or _kept(history, made, places) > _KEPT:
            return None
        sure = _FRAMED if framed[places[0]] else _UNFRAMED
        how = f"by the pattern of the allocations: {how}"
        return Period(events[places], share * sure, how, events, mark.astype(np.int64), order)

    in_order = None
    for order in _in_order(mark, rows.size[made]):
        times, length = map(format_count, order.shape)
        how = f"the same {length} come {times} times in a row"
        in_order = judged(order[:, 0], 1.0, how, order)
        if in_order is not None:
            break
    trains = _trains(tables.stacks, rows.stack[made])
    if in_order is not None and trains is None:
        return in_order
    marks = _Marks(mark)
    for group in marks.best():
        places = marks.places(group)
        share = float(marks.filled[group])
        if not framed[places[0]] and share < _FILLS_UNFRAMED:
            continue
        how = (
            f"one comes {format_count(len(places))} times, at even distances"
            f" that cover {rounded_share(share)} of the allocations after it first comes"
        )
        found = judged(places, share, how)
        if found is not None:
            break
    else:
        return in_order
    # What a program does every tenth step makes a longer period of ten steps, each of which trains.
    if in_order is None or (3 * len(in_order.events) < 2 * len(places) and _each(trains, places)):
        return found
    return in_order


def _trains(stacks: StackTable, stack: NDArray[np.int32]) -> NDArray[np.int64] | None:
    """Return which allocations optimizer steps made, or else backward passes; None for none."""
    marks = stack_marks(stacks)[stack]
    for wanted in (IN_OPTIMIZER, IN_BACKWARD):
        found = np.flatnonzero(marks & wanted)
        if len(found):
            return found
    return None


def _each(wanted: NDArray[np.int64] | None, places: NDArray[np.int64]) -> bool:
    """Whether some allocations are in most of the turns that begin at some places."""
    if wanted is None:
        return False
    inside = np.diff(np.searchsorted(wanted, places)) > 0
    return bool(2 * inside.sum() > len(inside))


def _in_order(mark: NDArray[Any], size: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield the turns in which the same allocations come in the same order, as ``Period.order``.

    A line that makes tensors of several sizes in each turn is told by the sizes, too. Where these
    change from turn to turn, the call stacks alone may repeat.
    """
    alone = distinct(mark)[1]
    sizes, place = distinct(size)
    for ids in (distinct(alone * len(sizes) + place)[1], alone):
        found = _repeated(ids)
        if found is not None:
            yield found


def _repeated(ids: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return the turns of a sequence, if from one place on nearly all of it repeats exactly.

    Args:
        ids: int64, shape (n,), from 0 on.

    Returns:
        The places of each complete turn, shape (turns, length), at least FEWEST; else None.
    """
    n, width, tried = len(ids), 1, set[int]()
    # Any part of a loop shows its period; near its end it has begun, and the program still runs.
    skip = max(n - _SEARCHED, 0)
    words = distinct(ids[skip - skip // 4 : n - skip // 4])[1]
    n_words = len(words)
    # The usual distance of equal words is the period, unless they come more than once in a turn.
    # Longer words do so more rarely.
    while 2 * width <= n_words:
        order = stable_order(words)
        same = words[order[1:]] == words[order[:-1]]
        gaps = np.diff(order)[same]
        # What comes before the first that comes again is no part of the loop.
        if not len(gaps) or len(gaps) < _FILLS_IN_ORDER / 2 * (n_words - order[:-1][same].min()):
            return None
        period = int((np.bincount(gaps) * np.arange(gaps.max() + 1)).argmax())
        if period >= _BODY and period not in tried and period * FEWEST <= n:
            tried.add(period)
            unlike = np.flatnonzero(np.append(ids[period:] != ids[:-period], True))
            lengths = np.diff(unlike, prepend=-1) - 1
            run = int(lengths.argmax())
            start, covered = int(unlike[run] - lengths[run]), int(lengths[run]) + period
            if covered >= max(FEWEST * period, _FILLS_IN_ORDER * (n - start)):
                turns = covered // period
                return np.arange(start, start + turns * period).reshape(turns, period)
        words = distinct(words[:-width] * n_words + words[width:])[1]
        width *= 2
    return None


class _Marks:
    """The places at which each mark occurs, and how even their distances are."""

    def __init__(self, mark: NDArray[np.int64]) -> None:
        self._order = stable_order(mark)
        ordered = mark[self._order]
        self._begin = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        self.count = np.diff(np.append(self._begin, len(mark)))
        group = np.repeat(np.arange(len(self.count)), self.count)
        gap = np.diff(self._order)
        inner = group[1:] == group[:-1]
        gap, group = gap[inner], group[1:][inner]
        usual = medians(gap, group, len(self.count))
        alike = np.abs(gap - usual[group]) <= TOLERANCE * usual[group]
        regular = np.bincount(group, weights=gap * alike, minlength=len(self.count))
        rest = len(mark) - self._order[self._begin]
        self.filled = np.minimum((regular + usual) / np.maximum(rest, 1), 1.0)
        self._usual = usual
        self._fits = (self.count >= FEWEST) & (usual >= _BODY) & (self.filled >= _FILLS)

    def best(self) -> list[int]:
        """Return the groups that qualify: the fullest first, and of those the most frequent."""
        fits = np.flatnonzero(self._fits)
        score = self.filled[fits] - 1 / self.count[fits]
        first = self._order[self._begin[fits]]
        best = fits[np.lexsort((first, -score))][:_TRIED]
        return [group for group in best.tolist() if self._agreeing(group, fits) >= _AGREE]

    def _agreeing(self, group: int, fits: NDArray[np.int64]) -> int:
        """Count the marks that occur as often as one and at its distances, including itself."""
        often = np.abs(self.count[fits] - self.count[group]) <= 1
        alike = np.abs(self._usual[fits] - self._usual[group]) <= _SAME * self._usual[group]
        return int((often & alike).sum())

    def places(self, group: int) -> NDArray[np.int64]:
        """Return where a mark occurs, as positions in the order of the allocations."""
        begin = self._begin[group]
        return self._order[begin : begin + self.count[group]]


def _nodes(stacks: StackTable, stack: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the node of each stack id, -1 if it has no frames."""
    if not len(stacks):
        return np.full(len(stack), -1, np.int32)
    return np.where(stack >= 0, stacks.stack_node[np.maximum(stack, 0)], -1).astype(np.int32)


def parts_of_steps(stacks: StackTable) -> NDArray[np.int64]:
    """Number the part of a step that each node's path is within, -1 for none; the last is no node.

    A part is a path down to its outermost frame inside a step. The call of a module is not a part
    (the loop may do nothing else), but a line in the module is. C++ frames between Python frames do
    not count, as the interpreter may use more or fewer of them for the same call.
    """
    frames = stacks.frames
    kinds = classify_frames(frames)
    calls = [bool(_MODULE_CALL.match(name)) for name in frames.names]
    part = [
        name.startswith(GRADIENT_OF) or bool(_WITHIN.search(name) or _WITHIN_FILE.search(filename))
        for name, filename in zip(frames.names, frames.filenames, strict=True)
    ]
    counts = [kind in (OUTSIDE, LIBRARY) or p for kind, p in zip(kinds.tolist(), part, strict=True)]
    n = len(stacks.node_parent)
    found = np.full(n + 1, -1, np.int64)
    called = [False] * (n + 1)
    python = [-1] * (n + 1)
    paths: dict[tuple[int, int], int] = {}
    for node, (parent, frame) in enumerate(  # parents come first
        zip(stacks.node_parent.tolist(), stacks.node_frame.tolist(), strict=True)
    ):
        called[node] = called[parent] or calls[frame]
        python[node] = python[parent]
        if counts[frame]:
            python[node] = paths.setdefault((python[parent], frame), len(paths))
        if found[parent] >= 0:
            found[node] = found[parent]
        elif part[frame] or (called[parent] and kinds[frame] == OUTSIDE):
            found[node] = python[node]
    return found


def _is_inner(inside: NDArray[Any], framed: NDArray[np.bool_], places: NDArray[np.int64]) -> bool:
    """Say whether most turns are entirely within one part of a step."""
    chosen = unique(np.linspace(0, len(places) - 2, _SAMPLED).astype(np.int64))
    inner = 0
    for i in chosen.tolist():
        turn = slice(int(places[i]), int(places[i + 1]))
        parts = inside[turn][framed[turn]]
        inner += bool(len(parts) and parts[0] >= 0 and (parts == parts[0]).all())
    return 2 * inner > len(chosen)


def _kept(history: DeviceHistory, made: NDArray[np.int64], places: NDArray[np.int64]) -> float:
    """Return the share of bytes allocated from first to last mark that are live at the last."""
    rows = history.allocations
    turns = made[places[0] : places[-1]]
    size = rows.size[turns]
    last = int(rows.alloc_event[made[places[-1]]])
    return float(size[rows.free_event[turns] > last].sum() / max(int(size.sum()), 1))

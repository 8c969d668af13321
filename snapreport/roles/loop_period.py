"""Find the period of a device's allocations: a mark that occurs once in every turn of a loop.

A mark is a call stack (or a size, if there is no stack). It marks the program's outer loop if its
distances are alike, counted in allocations, and fill the recording from its first occurrence on. A
loop over the layers of a model is just as regular. It is recognized by its stacks, which all pass
through one line inside a module, an optimizer, the backward pass, or the building of a model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.frames.frame_kinds import classify_frames
from snapreport.ground.units import rounded_share
from snapreport.model.findings import LIBRARY, OUTSIDE
from snapreport.model.history import DeviceHistory, History
from snapreport.model.stacks import GRADIENT_OF, StackTable
from snapreport.native.sorting import medians, stable_order, unique

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
_TRIED = 200
"""At most this many marks are examined; those of one loop are all alike."""
_SAMPLED = 16
"""How many turns of each mark are examined."""
_KEPT = 0.5
"""A loop that keeps more than this part of the bytes it allocates loads or builds something, or
iterates over layers and keeps activations for the backward pass. Steps keep little."""
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
    """A mark that occurs at even distances."""

    events: NDArray[np.int64]
    """The event of each occurrence; int64, shape (n,), ascending."""
    confidence: float
    how: str


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
    marks = _Marks(mark)
    within = _outermost_within(tables.stacks)
    inside = np.where(framed, within[node], -1)
    for group in marks.best():
        places = marks.places(group)
        if _is_inner(inside, framed, places):
            continue
        sure = _FRAMED if framed[places[0]] else _UNFRAMED
        share = float(marks.filled[group])
        if not framed[places[0]] and share < _FILLS_UNFRAMED:
            continue
        if _kept(history, made, places) > _KEPT:
            continue
        how = (
            f"by the pattern of the allocations: one comes {len(places)} times, at even distances"
            f" that cover {rounded_share(share)} of the allocations after it first comes"
        )
        return Period(rows.alloc_event[made[places]], share * sure, how)
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


def _outermost_within(stacks: StackTable) -> NDArray[np.int64]:
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

"""Frames and call stacks, each distinct one once, as a prefix tree from the outermost frame."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.object_display import Shown
from snapreport.ground.safe_text import visible

_Value = TypeVar("_Value", bound=np.generic)

UNKNOWN_LINE = -1
"""PyTorch writes 2**64 - 1 where the unwinder knows no line; no column of ours holds that."""

NO_STACK = -1
"""The event or block has no stack at all; an empty stack is a stack of its own, of depth 0."""

SOURCE = "source"
"""The field of a frame that has the text of its line of code, where the recorder noted it."""
TRACE = "fx_original_trace"
"""The field of a frame in a traced graph's generated file that has the traceback of the line that
it was made from. That line, of the model, is what the frame shows."""
GENERATED = "generated"
"""The field that has such a frame's own function, file and line."""
LONGEST_CODE = 160
"""Letters of a line of code that are kept and shown: a file may be a stranger's."""

GRADIENT_OF = "gradient of "
"""How the name of a frame begins that did not run itself: backward computed its gradient.

PyTorch notes the forward call stack behind a backward allocation (``forward_frames``). Its frames
stand outside of those of the backward pass, so gradients are counted by the forward's lines.
"""

_LEAST_OF_LINE = 3
"""Characters of a frame in a stack's text besides its file and name: two colons and a number."""

_ARGUMENTS = re.compile(r"\((?!anonymous namespace\)|\)\().*$", re.DOTALL)


def short_name(name: str) -> str:
    """Return a C++ function's name without its arguments; a Python function's as it is."""
    if "::" not in name:
        return name
    cut = _ARGUMENTS.sub("", name)
    return cut.removeprefix("torch::autograd::generated::") or name


@dataclass(frozen=True, eq=False)
class FrameTable(Shown):
    """Every distinct frame; a frame id is a position in these lists."""

    names: list[str]
    filenames: list[str]
    lines: NDArray[np.int64]
    """int64, shape (n_frames,); UNKNOWN_LINE where the file has none."""
    extra: dict[int, dict[str, str]] = field(default_factory=dict)
    """Other fields of the frames that have them, by frame id: of FX (``fx_node_op`` and so on), and
    what our recorder adds (``line_is``, SOURCE)."""

    def __len__(self) -> int:
        return len(self.names)

    def of_forward(self) -> NDArray[np.bool_]:
        """Return which frames are of the forward pass behind a backward one; (n_frames,)."""
        return np.array([name.startswith(GRADIENT_OF) for name in self.names], np.bool_)

    def line(self, frame: int) -> int | None:
        """Return a frame's line, None where unknown: C++ frames mostly have line 0."""
        line = int(self.lines[frame])
        return None if line in (UNKNOWN_LINE, 0) else line

    def code(self, frame: int) -> str:
        """Return the text of a frame's line, in one line and cut if long; ``""`` if unknown."""
        text = self.extra.get(frame, {}).get(SOURCE, "")
        return short_line(text) if text else ""


def short_line(text: str) -> str:
    """Return a line of code without the space around it, cut where it is long."""
    text = visible(text[: 4 * LONGEST_CODE].strip())
    return text if len(text) <= LONGEST_CODE else f"{text[: LONGEST_CODE - 1]}…"


@dataclass(frozen=True, eq=False)
class StackTable(Shown):
    """Every distinct call stack as a node of a prefix tree (outermost frame first).

    A node's parent always has a smaller id, so one backward pass adds children into parents.
    """

    frames: FrameTable
    node_parent: NDArray[np.int32]
    """int32, shape (n_nodes,); -1 for an outermost frame."""
    node_frame: NDArray[np.int32]
    """int32, shape (n_nodes,), frame ids."""
    node_depth: NDArray[np.int32]
    """int32, shape (n_nodes,); 1 for an outermost frame."""
    stack_node: NDArray[np.int32]
    """int32, shape (n_stacks,); the node of the innermost frame, -1 for the empty stack."""

    def __len__(self) -> int:
        return len(self.stack_node)

    def of_stacks(self, of_node: NDArray[_Value], none: int = -1) -> NDArray[_Value]:
        """Return what the innermost node of each stack has, ``none`` for the empty stack.

        Args:
            of_node: shape (n_nodes,).
            none: a value of the same type.
        """
        return np.append(of_node, of_node.dtype.type(none))[self.stack_node]  # -1 picks the last

    def characters(self) -> int:
        """Return the length of all stacks written out in full, a line for each frame."""
        texts = zip(self.frames.names, self.frames.filenames, strict=True)
        own = np.array([len(name) + len(file) for name, file in texts], np.int64)
        parent = self.node_parent.astype(np.int64)
        line = own[self.node_frame] + _LEAST_OF_LINE
        total = np.concatenate(([0], np.cumsum(line)))
        # Mostly a node follows its parent: from the outermost frame to it are a few such runs.
        begins = parent != np.arange(len(parent)) - 1
        run = np.cumsum(begins | (parent < 0)) - 1
        first = np.flatnonzero(np.diff(run, prepend=-1))
        above: list[int] = []  # what each run has before its first node, less the total there
        known = zip(total[first].tolist(), parent[first].tolist(), strict=True)
        for (before, node), place in zip(known, run[parent[first]].tolist(), strict=True):
            below = int(total[node + 1]) + above[place] if node >= 0 else 0
            above.append(below - before)
        down = total[1:] + np.array(above, np.int64)[run]
        used = down[self.stack_node[self.stack_node >= 0]]
        return int(own.sum()) + int(used.sum(dtype=np.float64))

    def path(self, stack_id: int) -> Iterator[int]:
        """Return the frame ids of one stack, innermost first; none for NO_STACK."""
        return self.path_from(int(self.stack_node[stack_id]) if stack_id >= 0 else -1)

    def path_from(self, node: int) -> Iterator[int]:
        """Yield the frame ids from a node outward; nothing for -1."""
        while node >= 0:
            yield int(self.node_frame[node])
            node = int(self.node_parent[node])

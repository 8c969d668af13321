"""The call tree as lines of text: the frames that tell something, largest nodes only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from snapreport.ground.units import format_bytes, format_count
from snapreport.model.findings import NODE, OUTSIDE, CallTree
from snapreport.model.stacks import StackTable, short_name
from snapreport.reporters.words.plain_text import cut_site, location

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SMALLEST = 0.005
_DEEPEST = 16


@dataclass
class _Node:
    """A node of the folded tree; ``key`` is a frame id or a label."""

    key: int | str
    bytes: int = 0
    children: dict[int | str, _Node] = field(default_factory=dict)

    def child(self, key: int | str) -> _Node:
        return self.children.setdefault(key, _Node(key))


class TreeLine(NamedTuple):
    """A line of a drawn tree, which begins with an amount."""

    text: str
    share: float
    """Of all bytes of the tree."""


def tree_lines(
    tree: CallTree, stacks: StackTable, kinds: NDArray[np.int8], most: int
) -> list[TreeLine]:
    """Draw a call tree from the outermost frame.

    Library-internal frames and C++ are folded into the frame that led to them; an autograd node
    is kept, as it is all that a backward thread has. A stack of nothing else is drawn as the one
    frame that tells most.

    Args:
        tree: the tree.
        stacks: the file's.
        kinds: of each frame, OUTSIDE to MACHINERY; shape (n_frames,).
        most: the most lines to draw; smaller nodes and those that do not fit are counted.
    """
    root = _fold(tree, kinds)
    total = max(root.bytes, 1)
    lines: list[TreeLine] = []
    left_out = 0
    waiting = [(node, 0) for node in _ranked(root)]
    while waiting:
        node, depth = waiting.pop()
        if node.bytes < _SMALLEST * total or len(lines) == most:
            left_out += 1
            continue
        share = node.bytes / total
        indent = "  " * min(depth, _DEEPEST)
        text = f"{format_bytes(node.bytes):>10} {share:6.1%}  {indent}{_name(node, stacks)}"
        lines.append(TreeLine(text, share))
        waiting += [(child, depth + 1) for child in _ranked(node)]
    if left_out:
        nodes = (
            "nodes and what is below them are" if left_out > 1 else "node and what is below it is"
        )
        text = f"{format_count(left_out)} smaller {nodes} left out"
        lines.append(TreeLine(text, 0.0))
    return lines


def _ranked(node: _Node) -> list[_Node]:
    """Return the children, smallest first: the next to be drawn is taken from the end."""
    return sorted(node.children.values(), key=lambda child: (child.bytes, str(child.key)))


def _fold(tree: CallTree, frame_kinds: NDArray[np.int8]) -> _Node:
    kinds = frame_kinds.tolist()
    root = _Node("")
    place = [root]
    own = tree.own_bytes.tolist()
    parents, frames = tree.parent.tolist(), tree.frame.tolist()
    telling = [-1]  # on the path to each node the frame that tells most, the innermost of these
    for i in range(1, len(tree)):  # parents come first
        here, best = place[parents[i]], telling[parents[i]]
        key: int | str = tree.label.get(i, frames[i])
        if isinstance(key, str) or kinds[key] in (OUTSIDE, NODE):
            here = here.child(key)
        elif best < 0 or kinds[key] <= kinds[best]:
            best = key
        telling.append(best)
        place.append(here)
        if own[i]:  # best: a stack of nothing else
            (root.child(best) if here is root else here).bytes += own[i]
    _add_up(root)
    return root


def _add_up(root: _Node) -> None:
    order = [root]
    for node in order:
        order.extend(node.children.values())
    for node in reversed(order):
        node.bytes += sum(child.bytes for child in node.children.values())


def _name(node: _Node, stacks: StackTable) -> str:
    if isinstance(node.key, str):
        return f"({node.key})"
    frames = stacks.frames
    line = int(frames.lines[node.key])
    place = location(frames.filenames[node.key], line if line > 0 else None, 60)
    return f"{cut_site(short_name(frames.names[node.key]), 80)}  {place}".rstrip()

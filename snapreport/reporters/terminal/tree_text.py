"""A call tree as lines of text, largest nodes only."""

from __future__ import annotations

from typing import NamedTuple

from snapreport.ground.units import format_bytes, format_count
from snapreport.model.findings import CallTree
from snapreport.model.stacks import FrameTable
from snapreport.reporters.words.plain_text import cut_site, location

_SMALLEST = 0.005
_DEEPEST = 16


class TreeLine(NamedTuple):
    """A line of a drawn tree; its text begins with an amount."""

    text: str
    share: float
    """The node's share of all bytes of the tree."""


def tree_lines(tree: CallTree, frames: FrameTable, most: int) -> list[TreeLine]:
    """Draw a call tree, outermost frames first.

    Args:
        tree: the folded tree, without library-internal frames.
        stacks: the file's stack table.
        most: the most lines to draw; nodes left out are counted.
    """
    held, parents = tree.bytes.tolist(), tree.parent.tolist()
    keys: list[int | str] = [
        tree.label.get(node, frame) for node, frame in enumerate(tree.frame.tolist())
    ]
    children: list[list[int]] = [[] for _ in held]
    for node in range(1, len(tree)):
        children[parents[node]].append(node)

    def ranked(node: int) -> list[int]:
        """Return the children, smallest first: the next to be drawn is taken from the end."""
        return sorted(children[node], key=lambda child: (held[child], str(keys[child])))

    total = max(held[0], 1)
    lines: list[TreeLine] = []
    left_out = 0
    waiting = [(node, 0) for node in ranked(0)]
    while waiting:
        node, depth = waiting.pop()
        if held[node] < _SMALLEST * total or len(lines) == most:
            left_out += 1
            continue
        share = held[node] / total
        indent = "  " * min(depth, _DEEPEST)
        text = f"{format_bytes(held[node]):>10} {share:6.1%}  {indent}{_name(keys[node], frames)}"
        lines.append(TreeLine(text, share))
        waiting += [(child, depth + 1) for child in ranked(node)]
    if left_out:
        nodes = (
            "nodes and what is below them are" if left_out > 1 else "node and what is below it is"
        )
        text = f"{format_count(left_out)} smaller {nodes} left out"
        lines.append(TreeLine(text, 0.0))
    return lines


def _name(key: int | str, frames: FrameTable) -> str:
    if isinstance(key, str):
        return f"({key})"
    place = location(frames.filenames[key], frames.line(key), 60)
    return f"{cut_site(frames.names[key], 80)}  {place}".rstrip()

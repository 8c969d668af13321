"""The tree of call stacks, frame by frame."""

from __future__ import annotations

from collections.abc import Iterable


def build_tree(stacks: Iterable[tuple[int, ...]]) -> list[list[int]]:
    """Do as ``prefix_tree``, of frame ids, innermost first."""
    parents: list[int] = []
    node_frames: list[int] = []
    depths: list[int] = []
    nodes: dict[tuple[int, int], int] = {}
    stack_nodes: list[int] = []
    for stack in stacks:
        node = -1
        for depth, frame in enumerate(reversed(stack), start=1):
            key = (node, frame)
            child = nodes.get(key)
            if child is None:
                child = nodes[key] = len(parents)
                parents.append(node)
                node_frames.append(frame)
                depths.append(depth)
            node = child
        stack_nodes.append(node)
    return [parents, node_frames, depths, stack_nodes]

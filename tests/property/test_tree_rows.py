"""Rows of call trees: order, what is in sight, and keys, beside a walk from node to node."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from snapreport.commands.explorer.tree_rows import ROOT, TreeRows
from snapreport.diagnosis.compare.two_recordings import find_tree_change
from snapreport.figures.callsites import find_call_tree
from snapreport.model.asked import Question
from snapreport.model.findings import CallTree
from tests.property.simulated import Simulated, device_files, for_simulations, some_events
from tests.thorough import tried


def walk(tree: CallTree, top: int, opened: set[int]) -> list[int]:
    """The nodes in sight, from a recursive walk."""
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(tree.parent.tolist()):
        children.setdefault(parent, []).append(node)
    found: list[int] = []

    def visit(node: int) -> None:
        found.append(node)
        if node in opened or node == top:
            for child in children.get(node, []):
                visit(child)

    visit(top)
    return found


@for_simulations(60)
def test_rows_are_those_of_a_walk_and_keys_are_one_each(simulation: Simulated) -> None:
    for file, device in device_files(simulation):
        for event in some_events(device.events, 2):
            for upward, folded in ((False, True), (True, False)):
                tree = find_call_tree(
                    device,
                    file.stacks,
                    Question(alive=(event, event)),
                    upward=upward,
                    folded=folded,
                )
                rows = TreeRows(tree)
                everything = set(range(len(tree)))
                assert rows.in_sight(ROOT, rows.keys_of(np.arange(len(tree)))).tolist() == walk(
                    tree, ROOT, everything
                )
                assert len(set(rows.key.tolist())) == len(tree)
                half = set(range(0, len(tree), 2))
                opened = rows.keys_of(np.array(sorted(half)))
                for top in (ROOT, len(tree) // 2):
                    assert rows.in_sight(top, opened).tolist() == walk(tree, top, half)
                for node in (ROOT, len(tree) // 2, len(tree) - 1):
                    assert rows.node_of(int(rows.key[node])) == node
                    assert set(rows.below(node).tolist()) == set(walk(tree, node, everything))


@tried(100)
@given(parents=st.lists(st.floats(0, 1, exclude_max=True), max_size=40))
def test_any_tree_is_laid_out(parents: list[float]) -> None:
    """Level by level, whatever its shape."""
    parent = [-1]
    parent += sorted(int(share * (k + 1)) for k, share in enumerate(parents))
    parent = [-1, *(min(each, k) for k, each in enumerate(parent[1:]))]
    n = len(parent)
    zeros = np.zeros(n, np.int64)
    tree = CallTree(
        parent=np.array(parent, np.int32),
        frame=np.arange(-1, n - 1, dtype=np.int32),
        label={0: "root"},
        bytes=zeros,
        own_bytes=zeros,
        count=zeros,
        own_count=zeros,
    )
    rows = TreeRows(tree)
    assert sorted(rows.rank.tolist()) == list(range(n))
    assert rows.in_sight(ROOT, rows.keys_of(np.arange(n))).tolist() == walk(
        tree, ROOT, set(range(n))
    )


@for_simulations(40)
def test_the_change_of_two_moments_adds_up(simulation: Simulated) -> None:
    for file, device in device_files(simulation):
        events = list(some_events(device.events, 2))
        for folded in (False, True):
            base, new = (
                find_call_tree(device, file.stacks, Question(alive=(event, event)), folded=folded)
                for event in (events[0], events[-1])
            )
            frames = file.stacks.frames
            change = find_tree_change(base, frames, new, frames)
            assert int(change.change[0]) == int(new.bytes[0]) - int(base.bytes[0])
            assert int(change.new[0]) == int(new.bytes[0])
            for whole, part in ((change.base, base), (change.new, new)):
                below = np.zeros(len(change), np.int64)
                np.add.at(below, change.parent[1:], whole[1:])
                assert (below <= whole).all()
                # What is of no child adds up to all of it.
                assert int((whole - below).sum()) == int(part.bytes[0])
            back = find_tree_change(new, frames, base, frames)
            assert sorted(back.change.tolist()) == sorted((-change.change).tolist())

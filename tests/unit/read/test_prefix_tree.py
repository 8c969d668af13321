"""The tree of call stacks, built for all at once, is the one built frame by frame."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable

import numpy as np
import pytest

from snapreport.read.interner import prefix_tree
from tests.reference.prefix_trees import build_tree

Stacks = list[tuple[int, ...]]


def built(stacks: Stacks) -> list[list[int]]:
    tree = prefix_tree([array("i", stack).tobytes() for stack in stacks])
    assert all(column.dtype == np.int32 for column in tree)
    return [column.tolist() for column in tree]


@pytest.mark.parametrize("build", [built, build_tree])
def test_stacks_with_the_same_outer_frames_share_their_nodes(
    build: Callable[[Stacks], list[list[int]]],
) -> None:
    parent, frame, depth, node = build([(5, 7), (), (6, 7), (7,), (1, 5, 7), (7, 5)])
    assert parent == [-1, 0, 0, 1, -1, 4]
    assert frame == [7, 5, 6, 1, 5, 7]
    assert depth == [1, 2, 2, 3, 1, 2]
    assert node == [1, -1, 2, 0, 3, 5]


@pytest.mark.parametrize("seed", range(60))
def test_any_stacks_build_the_same_tree(seed: int) -> None:
    rng = random.Random(seed)
    distinct, deepest = rng.choice([1, 2, 3, 40]), rng.choice([0, 1, 3, 12, 40])
    drawn = [
        tuple(rng.randrange(distinct) for _ in range(rng.randint(0, deepest)))
        for _ in range(rng.choice([0, 1, 2, 10, 300]))
    ]
    stacks = list(dict.fromkeys(drawn))
    assert built(stacks) == build_tree(stacks)


@pytest.mark.parametrize("seed", range(20))
def test_stacks_of_a_deep_recursion_are_told_apart_wherever_they_part(seed: int) -> None:
    rng = random.Random(seed)
    trunk = [rng.randrange(3) for _ in range(400)]
    stacks = []
    for _ in range(rng.choice([2, 30, 90])):
        outer = trunk[: rng.choice([0, 60, 63, 64, 65, 128, 300, 399, 400])]
        inner = [rng.randrange(3) for _ in range(rng.choice([0, 0, 1, 5, 130]))]
        stacks.append(tuple(reversed(outer + inner)))
    stacks = list(dict.fromkeys(stacks))
    assert built(stacks) == build_tree(stacks)

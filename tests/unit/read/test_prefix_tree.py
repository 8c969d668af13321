"""The tree of call stacks, built frame by frame and level by level."""

from __future__ import annotations

import random
from array import array
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pytest

from snapreport.read.prefix_tree import PrefixTree, level_by_level, one_by_one, prefix_tree

if TYPE_CHECKING:
    from numpy.typing import NDArray

Stacks = list[tuple[int, ...]]


def columns(stacks: Stacks) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    length = np.array([len(stack) for stack in stacks], np.int64)
    return np.array([*chain.from_iterable(stacks)], np.int32), length


def chosen(stacks: Stacks) -> PrefixTree:
    return prefix_tree([array("i", stack).tobytes() for stack in stacks])


def lists(tree: PrefixTree) -> list[list[int]]:
    assert all(column.dtype == np.int32 for column in tree)
    return [column.tolist() for column in tree]


@pytest.mark.parametrize("build", [one_by_one, level_by_level])
def test_stacks_with_the_same_outer_frames_share_their_nodes(build: object) -> None:
    assert callable(build)
    parent, frame, depth, node = build(*columns([(5, 7), (), (6, 7), (7,), (1, 5, 7), (7, 5)]))
    assert parent.tolist() == [-1, 0, 0, 1, -1, 4]
    assert frame.tolist() == [7, 5, 6, 1, 5, 7]
    assert depth.tolist() == [1, 2, 2, 3, 1, 2]
    assert node.tolist() == [1, -1, 2, 0, 3, 5]


@pytest.mark.parametrize("seed", range(60))
def test_both_ways_build_the_same_tree(seed: int) -> None:
    rng = random.Random(seed)
    distinct, deepest = rng.choice([1, 2, 3, 40]), rng.choice([0, 1, 3, 12, 40])
    drawn = [
        tuple(rng.randrange(distinct) for _ in range(rng.randint(0, deepest)))
        for _ in range(rng.choice([0, 1, 2, 10, 300]))
    ]
    stacks = list(dict.fromkeys(drawn))
    by_level = lists(level_by_level(*columns(stacks)))
    assert by_level == lists(one_by_one(*columns(stacks))) == lists(chosen(stacks))


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
    assert lists(level_by_level(*columns(stacks))) == lists(one_by_one(*columns(stacks)))

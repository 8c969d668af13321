"""Paths of a prefix tree followed all at once: the same as node by node."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from snapreport.model.snapshot import add_up_paths, ancestors, lowest_on_path, with_ancestors

if TYPE_CHECKING:
    from numpy.typing import NDArray


def tree(seed: int) -> NDArray[np.int32]:
    """Draw parents: a bush, a chain, or something between the two; sometimes of many roots."""
    rng = random.Random(seed)
    n = rng.choice([0, 1, 2, 50, 300])
    near = rng.choice([1, 2, 1000])
    roots = rng.choice([0.0, 0.05, 1.0])
    return np.array(
        [
            -1 if i == 0 or rng.random() < roots else rng.randrange(max(i - near, 0), i)
            for i in range(n)
        ],
        np.int32,
    )


def path(parent: NDArray[np.int32], node: int) -> list[int]:
    found = []
    while node >= 0:
        found.append(node)
        node = int(parent[node])
    return found


def test_ancestors_are_twice_as_far_each_time() -> None:
    chain = np.arange(-1, 5, dtype=np.int32)
    assert [above.tolist() for above in ancestors(chain)] == [
        [6, 0, 1, 2, 3, 4, 6],
        [6, 6, 0, 1, 2, 3, 6],
        [6, 6, 6, 6, 0, 1, 6],
    ]


@pytest.mark.parametrize("seed", range(40))
def test_the_lowest_on_a_path_is_the_innermost_of_the_lowest(seed: int) -> None:
    parent = tree(seed)
    rank = np.random.default_rng(seed).integers(0, 4, len(parent)).astype(np.int8)
    expected = [min(path(parent, i), key=lambda node: rank[node]) for i in range(len(parent))]
    assert lowest_on_path(parent, rank).tolist() == expected


def test_even_the_highest_rank_that_there_can_be_is_found() -> None:
    parent = np.array([-1, 0, 1], np.int32)
    assert lowest_on_path(parent, np.full(3, 127, np.int8)).tolist() == [0, 1, 2]


@pytest.mark.parametrize("seed", range(40))
def test_nodes_come_with_all_that_is_above_them_once_and_in_order(seed: int) -> None:
    parent = tree(seed)
    rng = random.Random(seed)
    chosen = [
        rng.randrange(len(parent)) for _ in range(rng.choice([0, 1, 9]) if len(parent) else 0)
    ]
    expected = sorted({node for each in chosen for node in path(parent, each)})
    assert with_ancestors(parent, np.array(chosen, np.int32)).tolist() == expected


@pytest.mark.parametrize("seed", range(40))
def test_amounts_add_up_to_the_roots_exactly(seed: int) -> None:
    parent = tree(seed)
    amounts = np.random.default_rng(seed).integers(0, 2**50, len(parent))
    expected = [0] * len(parent)
    for node, amount in enumerate(amounts.tolist()):
        for each in path(parent, node):
            expected[each] += amount
    assert add_up_paths(parent, amounts).tolist() == expected

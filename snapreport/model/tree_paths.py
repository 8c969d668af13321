"""Follow all paths of a prefix tree at once, however deep it is.

Going from level to level takes as many turns as the deepest stack has frames, and from node to
node as many as there are nodes. Here each turn looks twice as far up as the one before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


def ancestors(parent: NDArray[np.integer[Any]]) -> Iterator[NDArray[np.intp]]:
    """Yield each node's ancestor one level above it, then 2, 4, 8 levels, while any has one.

    Args:
        parent: shape (n,), -1 for the outermost.

    Returns:
        shape (n + 1,); n stands for none, and is its own.
    """
    n = len(parent)
    above = np.append(np.where(parent < 0, n, parent), n).astype(np.intp)
    while (above != n).any():
        yield above
        above = above[above]


def lowest_on_path(
    parent: NDArray[np.integer[Any]], rank: NDArray[np.integer[Any]]
) -> NDArray[np.intp]:
    """Return for each node the node of lowest rank among itself and its ancestors.

    Of several with that rank it is the innermost.

    Args:
        parent: shape (n,), -1 for the outermost.
        rank: shape (n,).

    Returns:
        shape (n,), nodes.
    """
    n = len(parent)
    best = np.arange(n + 1)
    lowest = np.append(rank, np.iinfo(rank.dtype).max)
    for above in ancestors(parent):
        better = np.flatnonzero(lowest[above] < lowest)
        from_above = above[better]
        best[better], lowest[better] = best[from_above], lowest[from_above]
    return best[:n]


def with_ancestors(
    parent: NDArray[np.integer[Any]], nodes: NDArray[np.integer[Any]]
) -> NDArray[np.intp]:
    """Return some nodes and all their ancestors, ascending and distinct.

    Args:
        parent: shape (n,), -1 for the outermost.
        nodes: any of them, in any order.
    """
    wanted = np.zeros(len(parent) + 1, np.bool_)
    wanted[nodes] = True
    for above in ancestors(parent):
        wanted[above[np.flatnonzero(wanted)]] = True
    return np.flatnonzero(wanted[:-1])


def add_up_paths(parent: NDArray[np.integer[Any]], amounts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return each node's amount plus those of all nodes below it.

    Args:
        parent: shape (n,), -1 for the outermost.
        amounts: int64, shape (n,).

    Returns:
        int64, shape (n,).
    """
    total = np.append(amounts, 0)
    for above in ancestors(parent):
        # What is there so far is of a node and fewer levels below it than the ancestor is above.
        np.add.at(total, above, total.copy())
    return total[:-1]


def marks_on_path(
    parent: NDArray[np.integer[Any]], marks: NDArray[np.integer[Any]]
) -> NDArray[np.integer[Any]]:
    """Return for each node all bits that it or an ancestor has.

    Args:
        parent: shape (n,), -1 for the outermost.
        marks: shape (n,), bits.
    """
    found = np.append(marks, marks.dtype.type(0))
    for above in ancestors(parent):
        found |= found[above]
    return found[:-1]

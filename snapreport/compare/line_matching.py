"""Match the lines of a function before and after an edit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Alike = Callable[[int, int], tuple[int, int]]
"""How alike a line of each is, in percent: by what they call, and by what calls them."""

_MOST_SHIFTS = 200
_MOST_VOTES, _LEAST_VOTERS = 250_000, 32
_MOST_CELLS = 10_000
_OF_A_CELL = 10
"""What a cell of the table of two runs of lines costs, in comparisons."""


class Comparisons:
    """How many more comparisons may be made: files can be made that need the square of their size.

    No recording of a real program comes near the limit.
    """

    def __init__(self, most: int) -> None:
        """Allow so many."""
        self.left = most

    def take(self, count: int) -> bool:
        """Use up some; return whether there were as many left."""
        enough = count <= self.left
        self.left -= count if enough else 0
        return enough


def match_lines(
    base: Sequence[int],
    new: Sequence[int],
    alike: Alike,
    file_agrees: Callable[[int], int],
    comparisons: Comparisons,
) -> list[tuple[int, int]]:
    """Match lines in their order.

    Lines inserted above move all lines below by the same number, so the shift that most lines agree
    on is applied first. Lines in between are then matched if they call the same functions, the most
    alike first, then the nearest.

    Args:
        base: ascending line numbers.
        new: ascending line numbers.
        alike: compares two lines; it breaks ties.
        file_agrees: how many lines of the file a shift explains; it also breaks ties.
        comparisons: without any left, lines are matched by a shift alone.

    Returns:
        Pairs of lines, both ascending.
    """
    if list(base) == list(new):
        return list(zip(base, new, strict=True))
    shift = _best_shift(base, new, alike, file_agrees, comparisons)
    there = set(new)
    fixed = [(line, line + shift) for line in base if line + shift in there]
    found: list[tuple[int, int]] = []
    at_base = at_new = 0
    for a, b in [*fixed, (None, None)]:
        end_base = len(base) if a is None else base.index(a, at_base)
        end_new = len(new) if b is None else new.index(b, at_new)
        found += _fill(base[at_base:end_base], new[at_new:end_new], shift, alike, comparisons)
        if a is not None and b is not None:
            found.append((a, b))
        at_base, at_new = end_base + 1, end_new + 1
    return found


def _best_shift(
    base: Sequence[int],
    new: Sequence[int],
    alike: Alike,
    file_agrees: Callable[[int], int],
    comparisons: Comparisons,
) -> int:
    # Generated code has functions of thousands of lines; some of them are enough to vote.
    voters = base[:: 1 + len(base) * len(new) // _MOST_VOTES]
    if len(voters) < _LEAST_VOTERS or not comparisons.take(len(voters) * len(new)):
        voters = base[:: 1 + len(base) // _LEAST_VOTERS]
    votes = np.subtract.outer(np.array(new, np.int64), np.array(voters, np.int64))
    shifts, counts = np.unique(votes, return_counts=True)
    best: list[int] = sorted(shifts[counts == counts.max()].tolist(), key=abs)
    if len(best) == 1:
        return best[0]
    there = set(new)

    def rank(shift: int) -> tuple[int, int, int, int]:
        inside = outside = 0
        if comparisons.take(len(base)):
            for line in base:
                if line + shift in there:
                    likeness = alike(line, line + shift)
                    inside, outside = inside + likeness[0], outside + likeness[1]
        return inside, file_agrees(shift), outside, -abs(shift)

    return max(best[:_MOST_SHIFTS], key=rank)


def _fill(
    base: Sequence[int], new: Sequence[int], shift: int, alike: Alike, comparisons: Comparisons
) -> list[tuple[int, int]]:
    """Match lines that call the same, in order, to make the pairs as alike and near as possible."""
    if not base or not new:
        return []
    cells = len(base) * len(new)
    if cells > _MOST_CELLS or not comparisons.take(_OF_A_CELL * cells):
        return [pair for pair in zip(base, new, strict=False) if alike(*pair)[0]]
    # For the lines of base so far: the best score and its pairs among the first j lines of new.
    row: list[_Best] = [((0, 0, 0), ())] * (len(new) + 1)
    for a in base:
        following = [row[0]]
        for j, b in enumerate(new):
            best = max(row[j + 1], following[j])
            inside, outside = alike(a, b)
            if inside:
                sums, pairs = row[j]
                far = abs(b - a - shift)
                paired = (sums[0] + inside, sums[1] + outside, sums[2] - far), (*pairs, (a, b))
                best = max(best, paired)
            following.append(best)
        row = following
    return list(row[-1][1])


_Best = tuple[tuple[int, int, int], tuple[tuple[int, int], ...]]

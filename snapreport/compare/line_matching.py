"""Match the lines of a function before and after an edit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

Alike = Callable[[int, int], tuple[int, int]]
"""How alike a line of each is, in percent: by what they call, and by what calls them."""

_MOST_SHIFTS = 200
_MOST_VOTERS = 1000
_MOST_CELLS = 10_000


def match_lines(
    base: Sequence[int], new: Sequence[int], alike: Alike, file_agrees: Callable[[int], int]
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

    Returns:
        Pairs of lines, both ascending.
    """
    if list(base) == list(new):
        return list(zip(base, new, strict=True))
    shift = _best_shift(base, new, alike, file_agrees)
    there = set(new)
    fixed = [(line, line + shift) for line in base if line + shift in there]
    found: list[tuple[int, int]] = []
    at_base = at_new = 0
    for a, b in [*fixed, (None, None)]:
        end_base = len(base) if a is None else base.index(a, at_base)
        end_new = len(new) if b is None else new.index(b, at_new)
        found += _fill(base[at_base:end_base], new[at_new:end_new], shift, alike)
        if a is not None and b is not None:
            found.append((a, b))
        at_base, at_new = end_base + 1, end_new + 1
    return found


def _best_shift(
    base: Sequence[int], new: Sequence[int], alike: Alike, file_agrees: Callable[[int], int]
) -> int:
    # Generated code has functions of thousands of lines; some of them are enough to vote.
    voters = base[:: 1 + len(base) // _MOST_VOTERS]
    votes = Counter(b - a for a in voters for b in new)
    most = max(votes.values())
    best = sorted((shift for shift, count in votes.items() if count == most), key=abs)
    if len(best) == 1:
        return best[0]
    there = set(new)

    def rank(shift: int) -> tuple[int, int, int, int]:
        likenesses = [alike(line, line + shift) for line in base if line + shift in there]
        inside, outside = (sum(each) for each in zip(*likenesses, strict=True))
        return inside, file_agrees(shift), outside, -abs(shift)

    return max(best[:_MOST_SHIFTS], key=rank)


def _fill(
    base: Sequence[int], new: Sequence[int], shift: int, alike: Alike
) -> list[tuple[int, int]]:
    """Match lines that call the same, in order, to make the pairs as alike and near as possible."""
    if not base or not new:
        return []
    if len(base) * len(new) > _MOST_CELLS:
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

"""DDP's buckets among blocks from before the recording: they add up to all parameters.

Each trained parameter has its place in one bucket, without padding, so the buckets together are as
large as the parameters to the byte. A bucket is closed when it has reached its cap, of which the
first is 1 MiB, so only the last one may be smaller.

Source: torch/csrc/distributed/c10d/reducer.cpp, ``compute_bucket_assignment_by_size`` and
``initialize_buckets``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from snapreport.roles.parameter_sets import Sizes

_FIRST_CAP = 1 << 20
_MOST_SETS = 4
"""Blocks of a parameter beside its bucket: itself, its gradient, and Adam's two states."""
NUMBER = 8
"""Bytes: no more than one number, such as the count of an optimizer's steps."""
_DOUBTS = 0.05
"""Of the parameters' bytes at most this part may be in doubt."""
_TRIES = 10_000


def find_buckets(blocks: Sizes, parameters: Sizes, doubtful: int = NUMBER) -> Sizes | None:
    """Return the blocks that are buckets by how many there are of each size, None without any.

    Args:
        blocks: from before the recording, of which nothing is known yet.
        parameters: those that are trained.
        doubtful: in bytes; in sizes up to this one there may be fewer parameters.
    """
    bytes_ = parameters.size * parameters.count
    least, most = int(bytes_[parameters.size > doubtful].sum()), int(bytes_.sum())
    if most - least > _DOUBTS * most:
        return None
    for sets in range(_MOST_SETS, 0, -1):
        spare = np.maximum(blocks.count - sets * parameters.of(blocks.size), 0)
        size = np.repeat(blocks.size, spare)[::-1]
        small = [0, *np.unique(size[(size < _FIRST_CAP) & (size > NUMBER)]).tolist()]
        found = _adding_up_to(least, most, size[size >= _FIRST_CAP].tolist(), small)
        if least and found:
            return Sizes(*np.unique(np.array(found, np.int64), return_counts=True))
    return None


def _adding_up_to(
    least: int, most: int, sizes: Sequence[int], last: Sequence[int]
) -> tuple[int, ...] | None:
    """Return some of the sizes, and one of the last, whose sum lies in a range; None for none.

    Args:
        least: the range, this and the next included.
        most: likewise.
        sizes: the largest first.
        last: ascending; 0 stands for none.
    """
    left = np.cumsum([0, *sizes[::-1]])[::-1].tolist()
    waiting: list[tuple[int, int, tuple[int, ...]]] = [(0, most, ())]
    for _ in range(_TRIES):
        if not waiting:
            break
        at, rest, chosen = waiting.pop()
        one = last[bisect_right(last, rest) - 1]
        if rest - one <= most - least:
            return (*chosen, one) if one else chosen
        if at == len(sizes) or left[at] + last[-1] < rest - (most - least):
            continue
        waiting.append((at + 1, rest, chosen))
        if sizes[at] <= rest:
            waiting.append((at + 1, rest - sizes[at], (*chosen, sizes[at])))
    return None

"""Find DDP's buckets among blocks from before the recording: they add up to all parameters.

Each trained parameter is in one bucket, without padding, so the buckets together are exactly as
large as the parameters. A bucket is closed when it reaches its cap, 1 MiB for the first one, so
only the last bucket may be smaller than that.

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
"""Blocks of a parameter besides its bucket: itself, its gradient, and Adam's two states."""
NUMBER = 8
"""The most bytes of a tensor with a single number, such as an optimizer's step count."""
_DOUBTS = 0.05
"""At most this part of the parameters' bytes may be doubtful."""
_TRIES = 10_000


def find_buckets(blocks: Sizes, parameters: Sizes, doubtful: int = NUMBER) -> Sizes | None:
    """Return how many buckets there are of each size, None if there are none.

    Args:
        blocks: from before the recording, without a role yet.
        parameters: the trained ones.
        doubtful: in bytes; up to this size there may be fewer parameters than given.
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
    """Return some of the sizes, plus one of ``last``, with a sum in a range; None if impossible.

    Args:
        least: the smallest sum allowed.
        most: the largest sum allowed.
        sizes: the largest first.
        last: ascending; 0 stands for no last bucket.
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

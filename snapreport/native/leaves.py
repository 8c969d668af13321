"""Reads the rows in the leaves of an SQLite table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapreport.native.library import library, taken

_MOST_TEXTS, _LENGTH_BITS = 64, 6  # as in pages.c


def read_leaves(
    data: NDArray[np.uint8],
    page_size: int,
    leaves: NDArray[np.int64],
    shape: tuple[int, int],
    text: int | None,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_], list[bytes]] | None:
    """Return the ids, the values and where they are NULL, and the distinct texts.

    Args:
        data: uint8, shape (size,): an SQLite file.
        page_size: bytes of its pages.
        leaves: int64, shape (n_leaves,): where the leaves begin, in order.
        shape: how many columns there are, and how many rows the leaves say that they have.
        text: the column that holds texts; its values are places in the returned texts.

    Returns:
        int64, shape (n_rows,), ascending; int64 and bool of the given shape; and the texts. None
        if the rows have another form, such as floats, longer texts or too many of them.
    """
    width, n = shape
    ids, values, missing = np.empty(n, np.int64), np.empty(shape, np.int64), np.empty(shape, "?")
    texts, n_texts = np.empty(_MOST_TEXTS, np.uint64), np.empty(1, np.uint64)
    (starts,) = taken(np.int64, len(leaves), leaves)
    done = library().rows(
        *(data, len(data), page_size, starts, len(starts), width),
        *(ids, values, missing, n, width if text is None else text, texts, n_texts),
    )
    if not done:
        return None
    places = [divmod(place, 1 << _LENGTH_BITS) for place in texts[: int(n_texts[0])].tolist()]
    return ids, values, missing, [data[at : at + length].tobytes() for at, length in places]

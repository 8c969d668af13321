"""Which allocations answer a question about lifetimes, and how many bytes of each count.

An allocation has two events: ``b``, at which it is made, and ``d``, from which it no longer counts
in a curve. So a question is a rectangle of the plane of ``b`` and ``d``:

    live at S                     b <= S      S < d
    made between A and B          A < b <= B
    ... and still alive at C      A < b <= B  b <= C < d
    made and freed between        A < b       d <= B
    freed between A and B                     A < d <= B
    alive throughout              b <= A      B < d

What changed between A and B is the difference of two: what came and stayed (made between, alive at
B) minus what went (alive at A, freed between). It is the change of the curve, to the byte.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapreport.model.asked import Question
from snapreport.model.history import Allocations


def find_rows(rows: Allocations, asked: Question) -> NDArray[np.int64]:
    """Return the rows of the allocations that are asked for, ascending; int64, shape (n,).

    Args:
        rows: every allocation of the device.
        asked: its curve is ``requested``, ``allocated`` or ``active``.
    """
    born, died = rows.alloc_event, rows.ends(asked.curve)
    chosen = np.ones(len(rows), np.bool_)
    if asked.made is not None:
        chosen &= (asked.made[0] < born) & (born <= asked.made[1])
    if asked.freed is not None:
        chosen &= (asked.freed[0] < died) & (died <= asked.freed[1])
    if asked.alive is not None:
        chosen &= (born <= asked.alive[0]) & (asked.alive[1] < died)
    return np.flatnonzero(chosen).astype(np.int64)


def change_between(first: int, last: int, curve: str = "allocated") -> tuple[Question, Question]:
    """Return what came between two events and stayed, and what went; no allocation is in both."""
    span = (first, last)
    came = Question(curve, made=span, alive=(last, last))
    return came, Question(curve, freed=span, alive=(first, first))


def find_signed(rows: Allocations, *asked: Question) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows that are asked for, and the bytes of each; twice int64, shape (n,).

    Args:
        rows: every allocation of the device.
        asked: one question; or, as from ``change_between``, two: the bytes of the second's are
            negative.
    """
    found = [find_rows(rows, each) for each in asked]
    weights = [rows.weights(each.curve)[of] for each, of in zip(asked, found, strict=True)]
    weights[1:] = [-each for each in weights[1:]]
    return np.concatenate(found), np.concatenate(weights)

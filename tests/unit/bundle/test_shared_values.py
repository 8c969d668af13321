"""Rows that are alike in all columns are of one kind; births count from the first of their span."""

from __future__ import annotations

import random

import numpy as np
import pytest

from snapreport.bundle import database
from snapreport.bundle.database import find_kinds
from snapreport.bundle.tables import SPAN, span_bases
from snapreport.ground.native.columns import alike


def assert_kinds(rows: list[tuple[int, ...]]) -> None:
    first, kind = find_kinds([np.array(column, np.int64) for column in zip(*rows, strict=True)])
    known = list(dict.fromkeys(rows))  # in the order in which they are met
    assert [rows[row] for row in first.tolist()] == known
    assert [known[number] for number in kind.tolist()] == rows


@pytest.mark.parametrize("widest", [1, 2, 1 << 20, 1 << 62])
def test_rows_are_of_one_kind_if_all_columns_are_equal(widest: int) -> None:
    rng = random.Random(widest)
    few = [rng.randrange(-widest, widest) for _ in range(6)]
    assert_kinds([tuple(rng.choice(few) for _ in range(4)) for _ in range(3000)])


@pytest.mark.parametrize("different", [1, 2, 3, 100, 2999, 3000, 10**9])
def test_many_kinds_are_told_apart(different: int) -> None:
    rng = random.Random(different)
    assert_kinds([(divmod(rng.randrange(different), 7)) for _ in range(3000)])


@pytest.mark.parametrize("different", [1, 2, 50, 10**9])
def test_rows_are_told_apart_by_sorting(different: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "alike", lambda _: None)
    test_many_kinds_are_told_apart(different)


def test_rows_that_were_chosen_to_share_a_place_are_sorted() -> None:
    inverse = pow(0x9E3779B97F4A7C15, -1, 1 << 64)
    mixed = [k * inverse % (1 << 64) for k in range(3000)]
    undone = [(each ^ each >> 32) * inverse % (1 << 64) for each in mixed]
    column = np.array(undone, np.uint64).view(np.int64)
    assert alike([column]) is None
    assert_kinds([(number, 1) for number in np.tile(column, 2).tolist()])


def test_no_row_is_of_no_kind() -> None:
    first, kind = find_kinds([np.zeros(0, np.int64)] * 2)
    assert len(first) == len(kind) == 0


@pytest.mark.parametrize("cuts", [[], [5], [32], [1, 31, 33, 64], [60, 61, 62]])
def test_spans_go_on_from_device_to_device(cuts: list[int]) -> None:
    column = np.arange(-3, 97, dtype=np.int64)
    begun, bases, base = [], [], 0
    for low, high in zip([0, *cuts], [*cuts, len(column)], strict=True):
        some, rows = span_bases(column[low:high], low, base)
        base = int(some[-1]) if len(some) else base
        begun += some.tolist()
        bases += rows.tolist()
    assert begun == [max(int(value), 0) for value in column[::SPAN]]
    assert bases == [begun[i // SPAN] for i in range(len(column))]

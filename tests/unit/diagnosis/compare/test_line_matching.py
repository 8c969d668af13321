"""Which lines of a function are the same before and after an edit."""

from __future__ import annotations

import random

import pytest

from snapreport.diagnosis.compare.sites import Comparisons, match_lines
from tests.clock import took


def match(base: dict[int, str], new: dict[int, str], file_shift: int = 0) -> dict[int, int]:
    """Match lines that call the functions of these names; the file as a whole moved by a shift."""

    def alike(line: int, other: int) -> tuple[int, int]:
        return 100 * (base[line] == new[other]), 100

    return dict(
        match_lines(
            sorted(base),
            sorted(new),
            alike,
            lambda shift: int(shift == file_shift),
            Comparisons(10**9),
        )
    )


def same(*lines: int) -> dict[int, str]:
    return dict.fromkeys(lines, "linear")


def test_the_same_lines_stay() -> None:
    assert match(same(3, 5, 9), same(3, 5, 9)) == {3: 3, 5: 5, 9: 9}


@pytest.mark.parametrize("shift", [-2, 1, 2, 4, 100])
def test_all_lines_move_though_some_have_the_number_of_another(shift: int) -> None:
    lines = (10, 12, 14, 16)
    moved = same(*(line + shift for line in lines))
    assert match(same(*lines), moved) == {line: line + shift for line in lines}


def test_a_line_that_was_added_moves_no_other() -> None:
    assert match(same(10, 20, 30), same(10, 15, 20, 30)) == {10: 10, 20: 20, 30: 30}


def test_a_line_that_was_removed_moves_no_other() -> None:
    assert match(same(10, 15, 20), same(10, 20)) == {10: 10, 20: 20}


def test_lines_below_an_insertion_are_found_by_what_they_call() -> None:
    base = {10: "embedding", 11: "linear", 20: "softmax", 21: "dropout"}
    new = {10: "embedding", 11: "linear", 25: "softmax", 27: "dropout"}
    assert match(base, new) == {10: 10, 11: 11, 20: 25, 21: 27}


def test_a_lone_line_is_taken_for_that_which_calls_the_same() -> None:
    assert match({10: "linear"}, {10: "dropout", 11: "linear"}) == {10: 11}


def test_of_lines_that_call_the_same_the_one_that_did_not_move_is_taken() -> None:
    assert match({20: "linear"}, {20: "linear", 30: "linear"}) == {20: 20}


def test_the_file_decides_where_the_function_does_not() -> None:
    assert match(same(20), same(20, 25), file_shift=5) == {20: 25}
    assert match(same(20), same(20, 25), file_shift=0) == {20: 20}


def test_lines_that_call_different_functions_between_others_are_not_matched() -> None:
    base = {57: "empty", 71: "linear", 72: "softmax"}
    new = {66: "zero_", 71: "linear", 72: "softmax"}
    assert match(base, new) == {71: 71, 72: 72}


def test_functions_of_thousands_of_lines_are_matched_in_seconds() -> None:
    lines = random.Random(1).sample(range(1, 60_000), 6000)
    kept = [line for line in lines if line % 7]
    found: dict[int, int] = {}

    def match_all() -> None:
        found.update(match(same(*lines), same(*(line + 3 for line in kept))))

    assert took(match_all, most=10) <= 10
    assert found == {line: line + 3 for line in kept}

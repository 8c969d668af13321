"""Patterns as users type them: the rules of templates/app/lib/tables/search.ts, case for case."""

from __future__ import annotations

import pytest

from snapreport.ground.errors import PatternError
from snapreport.ground.patterns import compile_filter, compile_pattern

FILES = [
    "/home/me/model.py",
    "/home/me/train.py",
    "C:\\run\\train.py",
    "/venv/torch/nn/modules/linear.py",
]


@pytest.mark.parametrize(
    ("pattern", "rows"),
    [
        ("MODEL", [0]),
        ("(.*", []),
        ("TRAIN.*", [1, 2]),
        ("*/torch/*", [3]),
        ("rain.p?", []),
        ("/(MODEL|linear)\\.py$/", [0, 3]),
        ("//", []),  # a part, as there is nothing in between
        ("*[m]odel*", []),  # a bracket is a bracket
    ],
)
def test_a_pattern_fits_in_any_case(pattern: str, rows: list[int]) -> None:
    fits = compile_pattern(pattern)
    assert [row for row, file in enumerate(FILES) if fits(file)] == rows


def test_what_is_excluded_wins() -> None:
    fits = compile_filter(["*.PY"], ["Train"])
    assert [file for file in FILES if fits(file)] == [FILES[0], FILES[3]]


def test_a_wrong_expression_is_named() -> None:
    with pytest.raises(PatternError, match="is not a regular expression"):
        compile_pattern("/(/")

"""What others' errors say becomes part of one line."""

from __future__ import annotations

import pytest

from snapreport.ground.errors import reason_of


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("layout"), "no 'layout'"),
        (ValueError("two\n  lines\tof it"), "two lines of it"),
        (OverflowError(), "OverflowError"),
        (ValueError("x" * 1000), "x" * 200),
        (KeyError("x" * 1000), "no '" + "x" * 196),
    ],
)
def test_a_reason_is_one_short_line(error: Exception, said: str) -> None:
    assert reason_of(error) == said

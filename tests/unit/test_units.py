"""Numbers as text."""

from __future__ import annotations

import pytest

from snapreport.units import format_bytes, format_count, format_share, format_signed_bytes


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (99 * 1024, "99.00 KiB"),
        (100 * 1024, "100.0 KiB"),
        (1023 * 1024, "1023 KiB"),
        (12_435_678_901, "11.58 GiB"),
        (2**70, "1,024 EiB"),
    ],
)
def test_bytes_have_three_or_four_figures(count: int, text: str) -> None:
    assert format_bytes(count) == text


def test_rounding_up_to_the_next_unit_changes_the_unit() -> None:
    assert format_bytes(2**20 - 1) == "1.00 MiB"
    assert format_bytes(1000 * 2**20 - 1) == "1000 MiB"


def test_a_tie_is_rounded_up_as_in_the_page() -> None:
    assert format_bytes(1024 + 128) == "1.13 KiB"  # 1.125 KiB


def test_a_negative_number_keeps_its_sign() -> None:
    assert format_bytes(-1536) == "-1.50 KiB"


def test_a_change_always_shows_its_sign() -> None:
    assert format_signed_bytes(1536) == "+1.50 KiB"
    assert format_signed_bytes(-1536) == "-1.50 KiB"
    assert format_signed_bytes(0) == "0 B"


def test_counts_have_thousands_separators() -> None:
    assert format_count(22332) == "22,332"
    assert format_count(-1000) == "-1,000"


def test_a_share_is_in_percent_and_nothing_where_there_is_no_whole() -> None:
    assert [format_share(*each) for each in ((1, 3), (0, 3), (3, 3), (0, 0))] == [
        "33.3%", "0.0%", "100.0%", "-",
    ]  # fmt: skip

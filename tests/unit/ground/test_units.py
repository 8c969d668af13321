"""Numbers as text."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from snapreport.diagnosis.compare import gate
from snapreport.ground import processes
from snapreport.ground.units import (
    bytes_and_share,
    format_bytes,
    format_change,
    format_count,
    format_share,
    format_signed_bytes,
    parse_size,
    rounded_share,
    share_in_words,
    times,
)
from snapreport.model import asked

GIB = 1 << 30


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


def test_how_often_is_said_in_words_where_it_has_one() -> None:
    assert [times(number) for number in (1, 2, 3, 1200)] == [
        "once",
        "twice",
        "3 times",
        "1,200 times",
    ]


def test_a_share_is_in_percent_and_nothing_where_there_is_no_whole() -> None:
    assert [format_share(*each) for each in ((1, 3), (0, 3), (1, 3000), (3, 3), (0, 0))] == [
        "33.3%", "0%", "<0.1%", "100.0%", "-",
    ]  # fmt: skip
    assert share_in_words(1, 3000) == "under 0.1%"
    assert [rounded_share(*each) for each in ((0, 3), (1, 300), (1, 3), (299, 300), (3, 3))] == [
        "0%", "under 1%", "33%", "over 99%", "100%",
    ]  # fmt: skip


def test_a_change_is_in_percent_of_what_there_was_where_that_says_something() -> None:
    changes = ((1, 1), (-1, 3), (1, 30), (-1, 3000), (0, 3), (3, 0), (None, 3), (3, None))
    assert [format_change(*each) for each in changes] == [
        "+100%", "-33%", "+3.3%", "<0.1%", "", "", "", "",
    ]  # fmt: skip


def test_a_change_has_its_share_only_below_ten_times_what_there_was() -> None:
    assert bytes_and_share(-GIB, 2 * GIB) == "1.00 GiB (50%)"
    assert bytes_and_share(10 * GIB - 1, GIB) == "10.00 GiB (1,000%)"
    assert bytes_and_share(10 * GIB, GIB) == "10.00 GiB"
    assert bytes_and_share(GIB, 0) == "1.00 GiB"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("40GiB", 40 * GIB),
        ("40GB", 40 * 10**9),
        ("40G", 40 * GIB),
        ("40g", 40 * GIB),
        ("1.5 GiB", 3 * GIB // 2),
        ("0.1KiB", 102),
        (".5k", 512),
        ("2kb", 2000),
        ("1TiB", 1 << 40),
        ("512", 512),
        ("512B", 512),
        ("512 bytes", 512),
        ("1_000_000", 1_000_000),
        ("0", 0),
        ("50GB", 50 * 10**9),
        ("50GiB", 50 * GIB),
        ("1.5GiB", 3 * GIB // 2),
        (" 25 mb ", 25 * 10**6),
        ("7.9EiB", int(Fraction("7.9") * 2**60)),
        ("9223372036854775807", 2**63 - 1),
        (4096, 4096),
        (4096.0, 4096),
        (np.int64(7), 7),
    ],
)
def test_a_size_is_read_in_binary_and_decimal_units(text: float | str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    [
        "",
        -1,
        2**63,
        True,
        None,
        b"1",
        float("nan"),
        float("inf"),
        0.02,
        "GiB",
        "-1",
        "1e9",
        "40 apples",
        "4iB",
        "4Gbytes",
        "1,5G",
        "nan",
        "inf",
        "1  GB",
        "9EiB",
        "9223372036854775808",
        "٣GB",
    ],
)
def test_what_is_no_size_is_said_to_be_none(text: Any) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "size"), [("50GB", 50 * 10**9), ("1.5GiB", 3 << 29), ("2K", 2048)]
)
def test_a_size_means_the_same_wherever_it_is_said(
    monkeypatch: pytest.MonkeyPatch, text: str, size: int
) -> None:
    monkeypatch.setenv(processes.MAX_UNPACKED, text)
    assert processes.most_unpacked(1, 1) == size
    assert asked.make_cut(min_size=text) == asked.Cut(min_size=size)
    assert asked.cut_size(text) == size  # --fit
    budget = gate.Budget.of({"max_peak": text, "max_growth": text, "stages": {"x": text}}, "")
    assert (budget.max_peak, budget.max_growth, budget.stages) == (
        size,
        gate.Growth(None, size),
        {"x": size},
    )

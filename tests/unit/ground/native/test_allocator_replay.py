"""The model of the allocator refuses columns and settings that would lead out of its tables."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from snapreport.ground.native.allocator_replay import LiveReplay, ReplayColumns

MIB = 1 << 20
WRONG = (-(2**63), -1, 9, 2**31, 2**62, 2**63 - 1)
SIZES = (9, 2**31)
"""Those of them that are an address or a size like any other."""
SETTINGS = {
    "expandable": 0,
    "max_split": 1 << 62,
    "rounding": 20 * MIB,
    "large_segment": 20 * MIB,
    "garbage": 0,
    "capacity": 1 << 62,
    "limit": 1 << 62,
    "room": 1 << 40,
    "policy": 1,
    "seed": 0,
    "below": 1 << 60,
    "above": 1 << 60,
    "stop": 0,
}


def columns() -> dict[str, NDArray[np.int64]]:
    """One allocation from before the recording that is freed, one that is made in its place."""
    return {
        "op": np.array([1, 0]),
        "row": np.array([0, 1]),
        **{name: np.zeros(2, np.int64) for name in ("given", "freeable", "failed_size")},
        "failed_lane": np.zeros(2, np.int64),
        "rounded": np.array([4 * MIB, 3 * MIB]),
        "lane": np.zeros(2, np.int64),
        "address": np.array([40 * MIB, 0]),
        "block": np.array([4 * MIB, 0]),
    }


def asked(
    found: dict[str, NDArray[np.int64]], segments: list[list[int]] | None = None
) -> ReplayColumns:
    operations = ("op", "row", "given", "freeable", "failed_size", "failed_lane")
    rows = ("rounded", "lane", "address", "block")
    return ReplayColumns.of(
        {name: found[name] for name in operations},
        {name: found[name] for name in rows},
        np.zeros(1, np.int64),
        np.array(segments or [[40 * MIB, 20 * MIB, 0, 1, 0, 40 * MIB]], np.int64),
    )


def test_a_block_is_served_where_another_was_freed() -> None:
    found = asked(columns()).replay(SETTINGS)
    assert found.placed.tolist() == [40 * MIB, 40 * MIB]
    assert (found.peak, found.n_events, found.failed_op) == (20 * MIB, 0, -1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *product(("op", "row", "lane"), WRONG),
        *(("rounded", value) for value in WRONG if value not in SIZES),
    ],
)
def test_numbers_out_of_range_are_refused(name: str, value: int) -> None:
    bent = columns()
    bent[name][-1] = value
    with pytest.raises(ValueError, match="out of range"):
        asked(bent).replay(SETTINGS)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        # Address and size, which are never 0; lane, large and expandable, which are 0 or little.
        *((place, value) for place in (0, 1) for value in (*WRONG, 0) if value not in SIZES),
        *product((2, 3, 4), WRONG),
    ],
)
def test_segments_out_of_range_are_refused(place: int, value: int) -> None:
    segment = [40 * MIB, 20 * MIB, 0, 1, 0, 40 * MIB]
    segment[place] = value
    with pytest.raises(ValueError, match="out of range"):
        asked(columns(), [segment]).replay(SETTINGS)


def test_segments_that_lie_over_one_another_are_refused() -> None:
    segments = [[40 * MIB, 20 * MIB, 0, 1, 0, 0], [50 * MIB, 20 * MIB, 0, 1, 0, 0]]
    with pytest.raises(ValueError, match="out of range"):
        asked(columns(), segments).replay(SETTINGS)


@pytest.mark.parametrize("name", ["max_split", "rounding", "large_segment", "room", "policy"])
@pytest.mark.parametrize("value", [-1, 2**62 + 1])
def test_settings_out_of_range_are_refused(name: str, value: int) -> None:
    with pytest.raises(ValueError, match="out of range"):
        asked(columns()).replay({**SETTINGS, name: value})


def test_an_allocation_is_made_once() -> None:
    bent = columns()
    bent["op"][:] = 0
    with pytest.raises(ValueError, match="out of range"):
        asked(bent).replay(SETTINGS)


def test_columns_of_other_lengths_are_refused() -> None:
    bent = columns()
    bent["given"] = np.zeros(3, np.int64)
    with pytest.raises(ValueError, match="shape"):
        asked(bent)


def test_an_operation_that_is_refused_leaves_all_as_it_was() -> None:
    live = LiveReplay(1, SETTINGS)
    live.add_rows(2)
    live.rounded[0] = 512
    live.do(0, 0)
    for row, name, value in (
        *((row, "rounded", 512) for row in (0, 2, -1, 2**31, 2**63 - 1)),
        *((1, "rounded", value) for value in WRONG if value not in SIZES),
        *((1, "lane", value) for value in WRONG),
    ):
        live.rounded[1], live.lane[1] = 512, 0
        getattr(live, name)[1] = value
        with pytest.raises(ValueError, match="out of range"):
            live.do(0, row)
    for op in WRONG:
        with pytest.raises(ValueError, match="out of range"):
            live.do(op)
    live.rounded[1], live.lane[1] = 1024, 0
    live.do(0, 1)
    assert list(live.placed) == [1 << 60, (1 << 60) + 512]
    assert live.blocks()[:, :4].tolist() == [
        [1 << 60, 512, 1, 0],
        [(1 << 60) + 512, 1024, 1, 1],
        [(1 << 60) + 1536, 2 * MIB - 1536, 0, -1],
    ]


def test_a_live_replay_refuses_settings_out_of_range() -> None:
    for above in (-1, 0, (1 << 60) + 1):
        with pytest.raises(ValueError, match="out of range"):
            LiveReplay(1, {**SETTINGS, "above": above})

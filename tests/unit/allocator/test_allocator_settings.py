"""Settings as PYTORCH_ALLOC_CONF writes them, and as a snapshot records them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapreport.allocator.allocator_settings import (
    UNLIMITED,
    AllocatorSettings,
    parse_settings,
    recorded_settings,
)
from snapreport.ground.errors import AllocatorSettingsError

MIB = 1 << 20


def test_several_settings_are_read() -> None:
    found = parse_settings("expandable_segments:True, max_split_size_mb:128")
    assert (found.expandable_segments, found.max_split_size) == (True, 128 * MIB)
    assert str(found) == "expandable_segments:True,max_split_size_mb:128"


def test_nothing_is_the_defaults() -> None:
    assert parse_settings("") == parse_settings("default") == AllocatorSettings()
    assert str(AllocatorSettings()) == "default"
    assert AllocatorSettings().rounding == 20 * MIB


def test_rounding_follows_the_size_of_large_segments() -> None:
    assert parse_settings("large_segment_size_mb:40").rounding == 40 * MIB
    both = parse_settings("large_segment_size_mb:40,max_non_split_rounding_mb:64")
    assert both.rounding == 64 * MIB


@pytest.mark.parametrize(
    ("text", "divisions"),
    [
        ("4", (4,) * 16),
        ("[256:1,512:2,1024:4,>:8]", (1,) * 9 + (2, 4) + (8,) * 5),
        ("[64:2,>:4]", (2,) * 7 + (4,) * 9),
        ("[1:0,2:8]", (0, 8) + (0,) * 14),
        ("1", ()),
    ],
)
def test_divisions_fill_as_pytorch_fills_them(text: str, divisions: tuple[int, ...]) -> None:
    found = parse_settings(f"roundup_power2_divisions:{text},expandable_segments:True")
    assert found.roundup_power2_divisions == divisions
    assert found.expandable_segments


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("expandable_segments:yes", "True or False"),
        ("max_split_size_mb:19", "from 20 on"),
        ("max_split_size_mb:-1", "from 20 on"),
        ("roundup_power2_divisions:3", "powers of two"),
        ("roundup_power2_divisions:[4:2", "bracket"),
        ("garbage_collection_threshold:1.5", "at most 1"),
        ("backend:cudaMallocAsync", "not modelled"),
        ("something_new:1", "not modelled"),
        ("expandable_segments", "NAME:VALUE"),
    ],
)
def test_what_pytorch_refuses_or_nobody_modelled_is_refused(text: str, said: str) -> None:
    with pytest.raises(AllocatorSettingsError, match=said):
        parse_settings(text)


def test_recorded_fields_count_more_than_the_text() -> None:
    found = recorded_settings(
        {
            "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,large_segment_size_mb:40",
            "expandable_segments": False,
            "max_split_size": 64 * MIB,
        }
    )
    assert found == AllocatorSettings(max_split_size=64 * MIB, large_segment_size=40 * MIB)
    assert recorded_settings({}).max_split_size == UNLIMITED


@given(
    st.builds(
        AllocatorSettings,
        expandable_segments=st.booleans(),
        max_split_size=st.sampled_from([UNLIMITED, 20 * MIB, 512 * MIB]),
        max_non_split_rounding=st.sampled_from([0, 64 * MIB]),
        roundup_power2_divisions=st.sampled_from([(), (4,) * 16, (1, 2) * 8]),
        garbage_collection_threshold=st.sampled_from([0.0, 0.8, 1.0]),
        large_segment_size=st.sampled_from([12 * MIB, 20 * MIB]),
        memory_fraction=st.sampled_from([0.0, 0.5]),
    )
)
def test_what_is_written_reads_back(settings: AllocatorSettings) -> None:
    assert parse_settings(str(settings)) == settings

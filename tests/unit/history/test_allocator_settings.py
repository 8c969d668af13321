"""Settings as PYTORCH_ALLOC_CONF writes them, and as a snapshot records them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapreport.diagnosis.conclude import find
from snapreport.ground.errors import AllocatorSettingsError
from snapreport.history.allocator_settings import (
    UNLIMITED,
    AllocatorSettings,
    large_page,
    parse_settings,
    possible_settings,
    recorded_settings,
)
from tests.builders import MIB, trace


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
        ("max_split_size_mb:19", "20 or more"),
        ("max_split_size_mb:-1", "11 or more"),
        ("large_segment_size_mb:64,max_split_size_mb:40", "64 or more"),
        ("max_non_split_rounding_mb:19", "20 or more"),
        ("large_segment_size_mb:10", "11 or more"),
        ("expandable_segments_reserve:0.5", "not modelled: it limits how far"),
        ("throw_on_cudamalloc_oom:True", "not modelled: it refuses requests"),
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


def test_recorded_settings_that_are_not_modelled_are_named_and_hide_no_others() -> None:
    text = (
        "something_new:3,large_segment_size_mb:40,expandable_segments:True,"
        "expandable_segments_reserve_by_class:[serving:0.25,other:8G],"
        "throw_on_cudamalloc_oom:False,pinned_free_catch_all:True,per_process_memory_fraction:0.5"
    )
    found = recorded_settings({"PYTORCH_ALLOC_CONF": text})
    assert (found.large_segment_size, found.memory_fraction) == (40 * MIB, 0.5)
    assert found.not_modelled == (
        "something_new:3",
        "expandable_segments_reserve_by_class:[serving:0.25,other:8G]",
    )
    assert found.refusal == (
        "something_new:3 and expandable_segments_reserve_by_class:[serving:0.25,other:8G] are not"
        " modelled (what it does is not known; it limits how far an expandable segment can grow)"
    )
    # Without expandable segments their reserve changes nothing.
    plain = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments_reserve:0.5"}
    assert recorded_settings(plain) == AllocatorSettings()


def grown(*events: tuple[str, int, int], text: str = "") -> list[int]:
    """Return the possible sizes of large segments, in MiB, after what was got for requests."""
    made = trace()
    for number, (action, size, request) in enumerate(events):
        place = f"place {number}"
        made.event(action, addr=made.address(place), size=size * MIB).alloc(place, request * MIB)
    file = made.settings(PYTORCH_CUDA_ALLOC_CONF=text).file()
    found = possible_settings(file.settings, file.devices[0])
    return [each.large_segment_size // MIB for each in found]


def test_a_page_of_any_possible_size_is_a_number_that_arrays_can_hold() -> None:
    made = trace()
    for size in (23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97):
        place = f"place {size}"
        made.event("segment_alloc", addr=made.address(place), size=size * MIB).alloc(place, 2 * MIB)
        made.segment(place, size * MIB, (2 * MIB, 2 * MIB, "live"))
    (device,) = find(made.file()).devices
    assert device.allocator.large_page == UNLIMITED
    # A damaged event of no size says nothing.
    odd = trace().event("segment_alloc", addr=1 << 50, size=0).alloc("a", 2 * MIB).file()
    assert large_page(odd.settings, odd.devices[0]) == 20 * MIB


def test_a_field_that_no_known_version_records_is_named_and_not_ignored() -> None:
    fields = {"brand_new": 7, "unset": 0, "none": None, "no_limit": -1, "nested": {"a": 1}}
    found = recorded_settings(
        fields | {"large_segment_size_mb": 64, "pinned_num_register_threads": 1}
    )
    assert found.not_modelled == ("brand_new:7", "nested")
    assert found.large_segment_size == 64 * MIB


def test_large_segments_of_another_size_than_recorded_were_set_at_run_time() -> None:
    assert grown() == [20]
    assert grown(("segment_alloc", 20, 3)) == [20]
    assert grown(("segment_alloc", 64, 3)) == [64]
    assert grown(("segment_alloc", 64, 64)) == [20]  # as large as a request that is above 10 MiB
    assert grown(("segment_alloc", 64, 3), ("segment_alloc", 20, 3)) == [20, 64]
    assert grown(("segment_alloc", 64, 3), text="large_segment_size_mb:64") == [64]
    assert grown(("segment_alloc", 20, 3), text="large_segment_size_mb:64") == [20]


def test_expandable_segments_grow_by_the_size_of_large_segments_or_a_multiple() -> None:
    assert grown(("segment_map", 40, 30)) == [20]
    assert grown(("segment_map", 64, 3)) == [64]
    assert grown(("segment_map", 128, 100), ("segment_map", 64, 40)) == [32, 64]
    assert grown(("segment_map", 64, 40), text="large_segment_size_mb:32") == [32]


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

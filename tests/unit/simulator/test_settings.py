"""Size rules of the allocator."""

from __future__ import annotations

import pytest

from dev.simulator.settings import MIB, NO_DIVISIONS, AllocatorSettings


@pytest.mark.parametrize(
    ("requested", "size"), [(1, 512), (512, 512), (513, 1024), (1000, 1024), (MIB + 1, MIB + 512)]
)
def test_requests_are_rounded_up_to_512_bytes(requested: int, size: int) -> None:
    assert AllocatorSettings().round_size(requested) == size


@pytest.mark.parametrize(
    ("requested", "size"),
    [
        (2048, 2048),
        (2049, 2560),
        (4096, 4096),
        (5000, 5120),
        (6000, 6144),
        (1200 * 1024, 1280 * 1024),
    ],
)
def test_four_divisions_round_up_to_quarters_between_powers_of_two(
    requested: int, size: int
) -> None:
    settings = AllocatorSettings(roundup_power2_divisions=(4, *NO_DIVISIONS[1:]))
    assert settings.round_size(requested) == size


def test_divisions_hold_for_their_interval_only() -> None:
    settings = AllocatorSettings(roundup_power2_divisions=(0, 2, *NO_DIVISIONS[2:]))
    assert settings.round_size(MIB + 512) == MIB + 512
    assert settings.round_size(2 * MIB + 512) == 3 * MIB
    assert settings.round_size(4 * MIB + 512) == 4 * MIB + 512


@pytest.mark.parametrize(
    ("size", "segment"),
    [
        (512, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 512, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (11 * MIB, 12 * MIB),
    ],
)
def test_segments_are_as_large_as_the_request_from_10_mib_on(size: int, segment: int) -> None:
    assert AllocatorSettings().segment_size(size) == segment


def test_a_large_hole_is_split_when_more_than_1_mib_remains() -> None:
    settings = AllocatorSettings()
    assert not settings.should_split(3 * MIB, 2 * MIB, small=False)
    assert settings.should_split(3 * MIB + 512, 2 * MIB, small=False)


def test_a_small_or_expandable_hole_is_split_when_512_bytes_remain() -> None:
    assert AllocatorSettings().should_split(1024, 512, small=True)
    assert not AllocatorSettings().should_split(512, 512, small=True)
    assert AllocatorSettings(expandable_segments=True).should_split(
        2 * MIB + 512, 2 * MIB, small=False
    )


def test_requests_from_max_split_size_on_take_the_whole_hole() -> None:
    settings = AllocatorSettings(max_split_size=20 * MIB)
    assert settings.should_split(30 * MIB, 20 * MIB - 512, small=False)
    assert not settings.should_split(30 * MIB, 20 * MIB, small=False)


def test_the_config_string_names_what_was_set() -> None:
    settings = AllocatorSettings(expandable_segments=True, max_split_size=64 * MIB)
    stated = settings.as_snapshot()
    assert stated["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True,max_split_size_mb:64"
    assert AllocatorSettings().as_snapshot()["PYTORCH_CUDA_ALLOC_CONF"] == ""

"""What is concluded of small runs, checked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from snapreport.diagnosis.ranks.find_run import find_run
from snapreport.diagnosis.ranks.groups import Grouped
from snapreport.diagnosis.ranks.odd_ranks import stand_out
from snapreport.diagnosis.ranks.one_kind import along_text, find_imbalances
from snapreport.diagnosis.ranks.rows import list_rows
from snapreport.model.run import FailedRequest
from tests.made_ranks import GIB, MIB, Sites, a_device, a_rank, a_run

NOON = 1_763_985_791_208_000  # 2025-11-24 12:03:11.208 UTC
X = "\N{MULTIPLICATION SIGN}"
SOFTMAX = "softmax nn_utils.py:6"
USUAL: dict[str, tuple[int, int]] = {
    SOFTMAX: (24, 96 * MIB),
    "linear linear.py:134": (10, 512 * MIB),
}
THREE: dict[str, tuple[int, int]] = {
    "a a.py:1": (3, GIB),
    "b b.py:2": (3, GIB),
    "c c.py:3": (3, GIB),
}
HEAVY: dict[str, tuple[int, int]] = USUAL | {SOFTMAX: (24, 288 * MIB)}


def test_the_reason_of_a_heavy_rank_is_told_in_bytes_and_sizes() -> None:
    found = find_run(a_run([a_rank(k, a_device(HEAVY if k == 5 else USUAL)) for k in range(8)]))
    assert found.headline == (
        "Rank 5 peaks 4.50 GiB above the median because `softmax nn_utils.py:6` holds 4.50 GiB"
        f" more (24 {X} 288.0 MiB instead of 24 {X} 96.00 MiB)."
    )
    [odd] = found.odd
    assert (odd.row, odd.code, odd.bytes) == (5, "heavier", 24 * 192 * MIB)
    assert [group.name for group in found.groups] == ["all ranks"]
    assert found.groups[0].allocated == 24 * 96 * MIB + 5 * GIB


def test_groups_failures_and_missing_ranks_come_after_the_odd_ones() -> None:
    wide: Sites = USUAL | {"linear linear.py:134": (10, 716 * MIB)}
    ooms = [FailedRequest(2, NOON, 2 * GIB, SOFTMAX)]
    ranks = [
        a_rank(
            k,
            a_device(HEAVY if k == 17 else wide if 8 <= k < 16 else USUAL, failed=ooms * (k == 20)),
        )
        for k in range(32)
        if k not in (5, 6)
    ]
    found = find_run(a_run([*ranks, a_rank(32)]))
    assert found.headline == (
        "Rank 17 peaks 4.50 GiB above the median of its group because `softmax nn_utils.py:6` holds"
        f" 4.50 GiB more (24 {X} 288.0 MiB instead of 24 {X} 96.00 MiB); ranks 8 to 15 form a"
        " group at 9.24 GiB because `linear linear.py:134` holds 1.99 GiB more"
        f" (10 {X} 716.0 MiB instead of 10 {X} 512.0 MiB); rank 20 ran out of memory, at"
        " 12:03:11.208 UTC; ranks 5 and 6 are missing; the file of rank 32 could not be read."
    )
    assert found.missing == (5, 6)
    assert found.broken == (30,)
    assert found.first_failure == (18, 0)
    assert found.groups[1].rows == tuple(range(6, 14))


def test_ranks_that_are_alike_are_said_to_be() -> None:
    same = find_run(a_run([a_rank(k, a_device(USUAL)) for k in range(64)]))
    assert same.headline == "All 64 ranks behave alike: each peaks at 7.25 GiB."
    assert same.odd == ()


def test_two_ranks_are_compared_with_each_other() -> None:
    found = find_run(a_run([a_rank(0, a_device(USUAL)), a_rank(1, a_device(HEAVY))]))
    assert found.odd == ()
    assert found.headline == "Rank 1 peaks 4.50 GiB (62%) above rank 0."


@pytest.mark.parametrize("count", [1, 3])
def test_where_nothing_could_be_read_the_reason_is_told(count: int) -> None:
    found = find_run(a_run([a_rank(k) for k in range(count)]))
    assert "could" in found.headline
    assert "the pickle ends too early." in found.headline
    assert found.broken == tuple(range(count))


def test_a_run_of_nothing_has_no_findings() -> None:
    assert find_run(a_run([])).headline == "The run has no files."


def test_memory_of_different_kinds_is_not_compared() -> None:
    pinned: Sites = {"pin data.py:3": (1, 64 * MIB)}
    found = find_run(
        a_run(
            [
                a_rank(k, a_device(USUAL), a_device(pinned, device="host", kind="host"))
                for k in range(4)
            ]
        )
    )
    assert [len(group.rows) for group in found.groups] == [4, 4]
    assert found.odd == ()


def test_a_rank_without_history_is_not_compared_with_those_that_have_one() -> None:
    ranks = [a_rank(k, a_device(USUAL, recorded=True)) for k in range(6)]
    found = find_run(a_run([*ranks, a_rank(6, a_device({SOFTMAX: (1, MIB)}, recorded=False))]))
    assert found.odd == ()
    assert "Rank 6 recorded no history" in found.notes[0]


def test_ranks_of_different_kinds_are_no_groups_of_one_another() -> None:
    recorded = [a_rank(k, a_device(USUAL)) for k in range(6)]
    states = [a_rank(k, a_device({SOFTMAX: (1, MIB)}, recorded=False)) for k in (6, 7)]
    found = find_run(a_run([*recorded, *states]))
    assert [group.name for group in found.groups] == [
        "all ranks with a history",
        "all ranks without a history",
    ]
    peak = found.headline.removeprefix("All 6 ranks with a history behave alike: each peaks at ")
    assert peak != found.headline
    assert "group" not in peak
    devices = [a_device(USUAL), a_device({SOFTMAX: (1, MIB)}, device="cpu", kind="cpu")]
    both = find_run(a_run([a_rank(k, *devices) for k in range(4)]))
    assert [group.name for group in both.groups] == ["all ranks on cuda:0", "all ranks on cpu"]
    assert "group" not in both.headline


def test_stages_of_a_layout_name_the_groups() -> None:
    """With tp=2,pp=2,dp=2 the ranks 2, 3, 6 and 7 are of pipeline stage 1."""
    ranks = [a_rank(k, a_device(HEAVY if k // 2 % 2 else USUAL)) for k in range(8)]
    found = find_run(a_run(ranks, [("tp", 2), ("pp", 2), ("dp", 2)]))
    assert [(group.name, group.rows) for group in found.groups] == [
        ("pipeline stage 0", (0, 1, 4, 5)),
        ("pipeline stage 1", (2, 3, 6, 7)),
    ]
    assert found.odd == ()


def test_a_leak_on_one_rank_is_told_by_step() -> None:
    ranks = [
        a_rank(k, a_device(USUAL, left=[GIB + (k == 2) * 100 * MIB * step for step in range(6)]))
        for k in range(8)
    ]
    [odd] = find_run(a_run(ranks)).odd
    assert (odd.row, odd.code, odd.bytes) == (2, "growth", 100 * MIB)
    assert odd.sentence.startswith(
        "Rank 2 gains 100.0 MiB a step, 400.0 MiB in 4 steps in the recording; the others gain"
        " nothing."
    )


def test_a_leak_on_every_rank_is_no_oddity_but_a_note() -> None:
    ranks = [
        a_rank(k, a_device(USUAL, left=[GIB + 100 * MIB * step for step in range(6)]))
        for k in range(8)
    ]
    found = find_run(a_run(ranks))
    assert found.odd == ()
    assert found.notes == ("Each rank gains memory from step to step, 100.0 MiB at the median.",)


def test_between_dumps_the_rank_that_leaves_the_line_first_is_named() -> None:
    def peak(rank: int, dump: int) -> Sites:
        more = {3: max(dump - 20, 0), 5: max(dump - 40, 0)}.get(rank, 0)
        return USUAL | {"cache cache.py:9": (1 + more, 20 * MIB)}

    ranks = [
        a_rank(k, a_device(peak(k, dump)), dump=dump) for dump in (20, 40, 60) for k in range(12)
    ]
    found = find_run(a_run(ranks))
    by_rank = {odd.row - 24: odd for odd in found.odd}
    assert set(by_rank) == {3, 5}
    assert by_rank[3].parts_step == 40
    assert "It diverges at step 40, before all others." in by_rank[3].sentence
    assert by_rank[5].parts_step == 60
    assert found.growth[24 + 3] == 20 * MIB


def test_a_slow_host_is_a_note_and_no_oddity() -> None:
    ranks = [
        a_rank(k, a_device(USUAL, took_us=180 if k // 4 == 2 else 100 + k), host=f"node{k // 4}")
        for k in range(16)
    ]
    found = find_run(a_run(ranks))
    assert found.odd == ()
    assert found.notes == (
        "The ranks of host node2 take 1.6 times as long per event as those of the median host.",
    )


def test_peaks_that_differ_widely_are_not_said_to_be_alike() -> None:
    ranks = [a_rank(k, a_device({"moe moe.py:1": (1, GIB + k * k * 7 * MIB)})) for k in range(12)]
    assert find_run(a_run(ranks)).headline == (
        "No rank stands out, though the peaks of all 12 ranks are between 1.00 GiB and 1.83 GiB,"
        " 83% apart, the highest on rank 11."
    )


def test_no_share_is_told_of_peaks_that_are_many_times_as_high() -> None:
    ranks = [a_rank(k, a_device({"moe moe.py:1": (1, MIB + k * k * 4 * MIB)})) for k in range(12)]
    assert find_run(a_run(ranks)).headline == (
        "No rank stands out, though the peaks of all 12 ranks are between 1.00 MiB and 485.0 MiB,"
        " the highest on rank 11."
    )
    more = {key: (count, size * 30) for key, (count, size) in THREE.items()}
    [odd] = find_run(a_run([a_rank(k, a_device(more if k == 1 else THREE)) for k in range(8)])).odd
    assert "because all of its large call sites hold about 30 times as much;" in odd.sentence
    assert "%" not in odd.sentence


def test_a_rank_that_holds_more_everywhere_is_told_so() -> None:
    more = {key: (count, size * 6 // 5) for key, (count, size) in THREE.items()}
    [odd] = find_run(a_run([a_rank(k, a_device(more if k == 1 else THREE)) for k in range(8)])).odd
    assert odd.sentence == (
        "Rank 1 peaks 1.80 GiB (20%) above the median because all of its large call sites hold"
        " about 20% more; it diverges from the others at about event 1."
    )


def test_half_of_the_ranks_may_fail_at_once() -> None:
    ooms = [[FailedRequest(2, NOON + 1000 * k, GIB, SOFTMAX)] if k > 3 else [] for k in range(8)]
    found = find_run(a_run([a_rank(k, a_device(USUAL, failed=ooms[k])) for k in range(8)]))
    assert found.headline == (
        "Rank 4 ran out of memory first, at 12:03:11.212 UTC, and then ranks 5 to 7."
    )
    assert {odd.code for odd in found.odd} == {"failed"}


def test_along_a_dimension_all_else_is_equal() -> None:
    """Tensor rank 1 holds 1 GiB more on each stage, and stage 1 holds 2 GiB more than stage 0."""
    ranks = [
        a_rank(k, a_device({"w w.py:1": (8 + k % 2 + 2 * (k // 2 % 2), GIB)})) for k in range(8)
    ]
    found = find_run(a_run(ranks, [("tp", 2), ("pp", 2), ("dp", 2)]))
    told = {
        each.name: each.most - each.least
        for each in found.imbalances
        if each.name in ("tp", "pp", "dp")
    }
    assert told == {"tp": GIB, "pp": 2 * GIB, "dp": 0}


def test_along_a_dimension_medians_are_compared_and_no_peak_is_negative() -> None:
    """Along dp, rank 0 is 990 MiB below the others of its stage; most ranks hold far less."""
    peaks = np.array([10, 1000, 1000, 5, 5, 5], np.int64) * MIB
    ranks = [a_rank(k, a_device({"w w.py:1": (1, size)})) for k, size in enumerate(peaks.tolist())]
    rows = list_rows(a_run(ranks, [("dp", 3), ("pp", 2)]))
    all_of_them = tuple(range(6))
    group = Grouped("all ranks", all_of_them, all_of_them)
    along = {each.name: each for each in find_imbalances(rows, peaks, [group], [all_of_them])}
    # Of 10 and 5 MiB on the two stages; rank 0 is 990 MiB below on one and 0 on the other.
    assert (along["dp"].least, along["dp"].most) == (7.5 * MIB, 502.5 * MIB)


def test_equal_states_of_replicas_are_told_with_a_condition() -> None:
    roles = {"optimizer state": 4 * GIB}
    ranks = [a_rank(k, a_device(USUAL, roles=roles)) for k in range(4)]
    [copies] = find_run(a_run(ranks, [("dp", 4)])).replicated
    assert (copies.bytes, copies.saved, copies.copies) == (4 * GIB, 3 * GIB, 4)
    assert copies.sentence == (
        "Each of the 4 ranks along dp holds the same amount of optimizer state, 4.00 GiB; if these"
        " are copies, sharding them over dp would save each rank 3.00 GiB."
    )
    assert find_run(a_run(ranks, [("dp_shard", 4)])).replicated == ()


def test_a_second_device_of_a_rank_is_no_peak_of_a_rank() -> None:
    """Rank 3 touched its neighbour's card, too."""
    stray = a_device({"init main.py:1": (1, 300 * MIB)}, device="cuda:0")
    ranks = [a_rank(k, *[stray] * (k == 3), a_device(USUAL, device=f"cuda:{k}")) for k in range(8)]
    found = find_run(a_run(ranks))
    assert found.odd == ()
    assert [len(group.rows) for group in found.groups] == [8, 1]


def test_the_devices_of_one_process_are_compared_with_one_another() -> None:
    devices = [a_device(HEAVY if k == 2 else USUAL, device=f"cuda:{k}") for k in range(8)]
    found = find_run(a_run([a_rank(0, *devices)]))
    assert found.headline.startswith(
        "Device cuda:2 of rank 0 peaks 4.50 GiB above the median because"
    )


def test_what_stands_out_is_far_by_the_spread_and_from_the_next() -> None:
    """Twelve values spread by 10; of twelve the spread counts 6.7 times, the next 2.7 times."""
    usual = [990, 1010] * 5 + [1000]
    everyone = np.ones(12, bool)
    assert stand_out(np.array([*usual, 1120]), 30, everyone).tolist() == [0] * 11 + [1]
    assert stand_out(np.array([*usual, 1085]), 30, everyone).tolist() == [0] * 12
    assert stand_out(np.array([*usual, 1120]), 130, everyone).tolist() == [0] * 12
    assert stand_out(np.array([*usual[1:], 1060, 1120]), 30, everyone).tolist() == [0] * 12


def test_a_stage_that_differs_at_one_site_is_a_group_though_no_gap_shows_it() -> None:
    """Each stage holds 2 % more than the one before; rank 17 is heavy beside its own stage."""

    def held(rank: int) -> dict[str, tuple[int, int]]:
        scale = 100 + 2 * (rank // 8)
        return {"a a.py:1": (scale, 60 * MIB), "b b.py:2": (64 + 9 * (rank == 17), 64 * MIB)}

    ranks = [a_rank(k, a_device(held(k))) for k in range(64)]
    found = find_run(a_run(ranks, [("tp", 8), ("pp", 8)]))
    assert len(found.groups) > 1
    assert all(group.name.startswith("pipeline stage") for group in found.groups)
    assert [odd.row for odd in found.odd] == [17]


def test_a_peak_many_times_as_high_is_not_given_in_percent() -> None:
    assert along_text("pp", "stage 0", "stage 3", 2 * GIB, 3 * GIB) == (
        "Along pp the peaks are 1.00 GiB (50%) higher on stage 3 than on stage 0, at the median."
    )
    assert along_text("pp", "stage 0", "stage 3", GIB, 198 * GIB) == (
        "Along pp the peaks are 197.0 GiB higher on stage 3 than on stage 0 (198 times as high), at"
        " the median."
    )
    assert along_text("pp", "stage 0", "stage 3", 0, GIB).startswith(
        "Along pp the peaks are 1.00 GiB higher"
    )


def test_of_two_ranks_both_peaks_are_said() -> None:
    ranks = [a_rank(k, a_device({"w w.py:1": (1, size * GIB)})) for k, size in enumerate((4, 5))]
    [group] = find_run(a_run(ranks)).groups
    assert group.allocated == 4.5 * GIB
    assert group.sentence == "The peaks of both ranks are 4.00 GiB and 5.00 GiB."

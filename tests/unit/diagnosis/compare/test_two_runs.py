"""Two runs compared, rank by rank and by group, checked by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from snapreport.diagnosis.ranks.two_runs import compare_runs
from snapreport.model.run import Run
from tests.made_ranks import GIB, MIB, a_device, a_rank, a_run
from tests.thorough import tried

X = "\N{MULTIPLICATION SIGN}"
SOFTMAX = "softmax nn_utils.py:6"
USUAL = {SOFTMAX: (24, 96 * MIB), "linear linear.py:134": (10, 512 * MIB)}
WIDER = USUAL | {SOFTMAX: (24, 128 * MIB)}
HEAVY = USUAL | {SOFTMAX: (24, 288 * MIB)}


def test_ranks_are_compared_with_themselves_and_then_by_group() -> None:
    base = a_run([a_rank(k, a_device(USUAL)) for k in range(9)])
    new = a_run([a_rank(k, a_device(HEAVY if k == 3 else WIDER)) for k in range(1, 10)])
    diff = compare_runs(base, new)
    assert diff.headline == (
        "NEW peaks 768.0 MiB (10%) higher at the median of 8 ranks because `softmax nn_utils.py:6`"
        f" holds 768.0 MiB more (24 {X} 128.0 MiB instead of 24 {X} 96.00 MiB); rank 3 peaks 4.50"
        f" GiB (62%) higher because `softmax nn_utils.py:6` holds 4.50 GiB more (24 {X} 288.0 MiB"
        f" instead of 24 {X} 96.00 MiB); only BASE has rank 0; only NEW has rank 9."
    )
    assert [rank.name for rank in diff.ranks if rank.odd] == ["rank 3"]
    assert (diff.ranks[0].base_row, diff.ranks[0].new_row) == (1, 0)
    assert diff.ranks[2].change == 24 * 192 * MIB
    [group] = diff.groups
    assert group.ranks == tuple(range(8))
    assert group.change == 768 * MIB


def test_a_stage_that_grew_is_told_apart() -> None:
    base = a_run([a_rank(k, a_device(USUAL)) for k in range(8)], [("tp", 2), ("pp", 4)])
    new = a_run(
        [a_rank(k, a_device(HEAVY if k // 2 == 1 else USUAL)) for k in range(8)],
        [("tp", 2), ("pp", 4)],
    )
    assert compare_runs(base, new).headline == (
        "NEW peaks as high as BASE on pipeline stages 0, 2 and 3, 7.25 GiB; on pipeline stage 1 it"
        " peaks 4.50 GiB (62%) higher because `softmax nn_utils.py:6` holds 4.50 GiB more (24"
        f" {X} 288.0 MiB instead of 24 {X} 96.00 MiB)."
    )


def test_ranks_that_were_unlike_before_are_not_hidden_by_the_median() -> None:
    base = a_run([a_rank(k, a_device(WIDER if k in (1, 2, 5, 8) else USUAL)) for k in range(9)])
    new = a_run([a_rank(k, a_device(USUAL)) for k in range(9)])
    assert compare_runs(base, new).headline == (
        "NEW peaks as high as BASE at the median of 9 ranks, 7.25 GiB; 4 of the 9 ranks peak up to"
        " 768.0 MiB (9.4%) lower, most rank 1 because `softmax nn_utils.py:6` holds 768.0 MiB less"
        f" (24 {X} 96.00 MiB instead of 24 {X} 128.0 MiB)."
    )


def test_of_two_ranks_the_one_that_grew_is_named() -> None:
    base = a_run([a_rank(k, a_device(USUAL)) for k in range(2)])
    new = a_run([a_rank(0, a_device(USUAL)), a_rank(1, a_device(WIDER))])
    assert "; rank 1 peaks 768.0 MiB (10%) higher because" in compare_runs(base, new).headline


def test_runs_without_a_rank_in_common_are_not_compared() -> None:
    diff = compare_runs(a_run([a_rank(0, a_device(USUAL))]), a_run([a_rank(1, a_device(USUAL))]))
    assert diff.headline == "BASE and NEW have no rank in common that could be compared."
    assert (diff.only_base, diff.only_new) == (("rank 0",), ("rank 1",))


def test_a_history_is_not_compared_with_a_state() -> None:
    state = a_run([a_rank(0, a_device(USUAL, recorded=False))])
    diff = compare_runs(state, a_run([a_rank(0, a_device(USUAL))]))
    assert diff.ranks == ()
    assert "not compared" in diff.notes[0]


_SIDE = st.lists(st.sampled_from([USUAL, WIDER, HEAVY, {}, {"a": (1, GIB)}]), max_size=12).map(
    lambda held: a_run([a_rank(k, a_device(each)) for k, each in enumerate(held)])
)


@tried(100)
@given(base=_SIDE, new=_SIDE)
def test_reasons_account_for_every_change_to_the_byte(base: Run, new: Run) -> None:
    diff = compare_runs(base, new)
    assert len(diff.ranks) == min(len(base.ranks), len(new.ranks))
    told = [(each.differences, each.change) for each in diff.ranks]
    told += [(each.differences, each.change) for each in diff.groups]
    for differences, change in told:
        assert sum(d.bytes - d.usual for d in differences if d.kind == "site") == change
    assert sorted(place for group in diff.groups for place in group.ranks) == [
        *range(len(diff.ranks))
    ]
    same = compare_runs(new, new)
    assert all(not each.change and not each.odd for each in same.ranks)

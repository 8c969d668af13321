"""Ranks, steps and hosts from the names that trainers give to files."""

from __future__ import annotations

import pytest

from snapreport.api.runs.inputs import read_bare_numbers, read_name, reader_by
from snapreport.ground.errors import InputError
from snapreport.model.run import RankName


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("rank0.pickle", RankName(0)),
        ("run/rank12/snapshot.pickle.gz", RankName(12)),
        # torchtitan and torchtune, also after a failure.
        ("iteration_20/rank3_memory_snapshot.pickle", RankName(3, 20)),
        ("memory_snapshot/iteration_7_exit/rank0_memory_snapshot.pickle", RankName(0, 7)),
        ("snapshot.rank3.step100.pickle", RankName(3, 100)),
        ("oom_rank-3_snapshot.pickle", RankName(3)),  # Megatron-LM
        ("snapshot_oom_rank-11.pickle", RankName(11)),  # Megatron-Bridge
        ("20250131-1203/actor_rank5_pid7781.pickle", RankName(5)),  # verl
        ("global_step40/rank_0007.pickle", RankName(7, 40)),  # DeepSpeed's folders
        ("rank3_memory_snapshot_step_100.pickle", RankName(3, 100)),
        ("memory_snapshot_rank_2.pt.pickle", RankName(2)),
        ("epoch=3-step=200/rank=1.zip", RankName(1, 200)),  # Lightning's way to write numbers
        ("3/snapshot.rank6.oom.pickle", RankName(6)),  # our own recorder
        ("node-12/rank3.pickle", RankName(3, None, "node-12")),
        ("host=gpu-a-17_rank=4_pid=9.pickle", RankName(4, None, "gpu-a-17")),
        ("gpu17_Nov_23_12_03_11.pickle", RankName(None, None, "gpu17")),
        ("tp0_pp3_dp1_rank13.pickle", RankName(13, None, "", (("tp", 0), ("pp", 3), ("dp", 1)))),
        ("tp_rank_1/pp_rank_2/rank9.zip", RankName(9, None, "", (("pp", 2), ("tp", 1)))),
        ("local_rank3.pickle", RankName()),
        ("worker5.pickle", RankName(5)),
        ("frankfurt3.pickle", RankName()),
        ("snapshot.pickle", RankName()),
    ],
)
def test_names_of_trainers(path: str, name: RankName) -> None:
    assert read_name(path) == name


def test_a_pattern_reads_what_no_rule_would() -> None:
    read = reader_by("{host}/it_{step}/{rank}_p{stage}*.pickle")
    assert read("run/gpu-a/it_20/17_p3_late.pickle") == RankName(17, 20, "gpu-a", (("stage", 3),))
    assert read("run/gpu-a/it_20/17_p3.pickle") is not None
    assert read("run/gpu-a/it_x/17_p3.pickle") is None
    without_ending = reader_by("r{rank}")
    assert without_ending("a/r3.pickle.zst") == RankName(3)
    assert without_ending("a/xr3.pickle") is None


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("rank.pickle", "no field"),
        ("{rank}/{rank}", "{rank} twice"),
        ("{}", "{}"),
        ("{Rank}", "{Rank}"),
    ],
)
def test_a_pattern_that_is_none_is_refused(pattern: str, says: str) -> None:
    with pytest.raises(InputError, match=says.replace("{", r"\{").replace("}", r"\}")):
        reader_by(pattern)


def test_bare_numbers_are_ranks_only_from_zero_on() -> None:
    assert read_bare_numbers(["a/1.pickle", "a/0.pickle", "a/2.pickle"]) == [1, 0, 2]
    assert read_bare_numbers(["s_100.pickle", "s_200.pickle"]) is None
    assert read_bare_numbers(["a0/s0.pickle", "a1/s1.pickle"]) is None
    assert read_bare_numbers(["0.pickle", "b1.pickle"]) is None
    assert read_bare_numbers(["0.pickle"]) is None

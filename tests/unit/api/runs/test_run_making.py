"""Files become a run: order, ranks over hosts, dumps, labels, layout, and what is not shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapreport.api.loading import redacted_names
from snapreport.api.runs.inputs import reader_by
from snapreport.api.runs.many_files import Gathered
from snapreport.api.runs.run_making import find_run_files, make_run, name_files, parse_layout
from snapreport.ground.errors import InputError
from snapreport.model.asked import (
    NamesWanted,
)
from snapreport.model.run import RankName, Run

ROOT = Path("/data/job")


def run_of(*sources: str, noted: dict[str, Gathered] | None = None, **options: object) -> Run:
    """Return the run of files of which nothing but this is known."""
    files = name_files([ROOT / source for source in sources], ROOT, None)
    empty = Gathered(1, "", (), ())
    gathered = [(noted or {}).get(source, empty) for source in sources]
    return make_run(files, gathered, [""] * len(sources), **options)  # type: ignore[arg-type]


def labels(run: Run) -> list[str]:
    return [each.label for each in run.ranks]


def noted(rank: int, ranks: int, node: int | None = None) -> Gathered:
    return Gathered(1, "", (), (), rank, ranks, node)


def test_ranks_are_in_order_and_dumps_before_them() -> None:
    assert labels(run_of("rank10.pickle", "rank9.zip", "rank0.pickle.gz")) == [
        "rank 0", "rank 9", "rank 10",
    ]  # fmt: skip
    several = run_of(
        "iteration_20/rank1.pickle", "iteration_9/rank1.pickle", "iteration_9/rank0.pickle"
    )
    assert labels(several) == ["rank 0, step 9", "rank 1, step 9", "rank 1, step 20"]


def test_files_named_in_any_way_are_called_by_where_they_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def sources(*named: str | Path) -> list[str]:
        for each in named:
            if "://" not in str(each):
                Path(each).touch()
        found = find_run_files(named)
        assert found is not None
        return [file.source for file in found.files]

    other = tmp_path / "other.pickle"
    assert sources("one.pickle", other) == ["here/one.pickle", "other.pickle"]
    assert sources("../here/one.pickle", other) == ["here/one.pickle", "other.pickle"]
    assert sources("memory://store/one.pickle", other) == ["memory://store/one.pickle", str(other)]


def test_files_that_tell_no_rank_are_called_by_their_path() -> None:
    assert labels(run_of("before.pickle", "late/after.pickle.zst")) == ["before", "late/after"]
    assert labels(run_of("s_0.pickle", "s_1.pickle")) == ["rank 0", "rank 1"]
    assert labels(run_of("a/rank3.pickle", "a/rank3.oom.pickle")) == [
        "rank 3 (a/rank3.oom.pickle)", "rank 3 (a/rank3.pickle)",
    ]  # fmt: skip


def test_each_host_may_count_its_own_ranks() -> None:
    run = run_of(*(f"node{node}/rank{rank}.pickle" for node in (10, 2) for rank in (0, 1)))
    assert [(each.name.rank, each.name.host) for each in run.ranks] == [
        (0, "node2"), (1, "node2"), (2, "node10"), (3, "node10"),
    ]  # fmt: skip


def test_dumps_in_folders_without_a_number_of_steps_are_counted() -> None:
    times = ("20250131-0900", "20250131-1015")
    run = run_of(*(f"{time}/actor_rank{rank}_pid7.pickle" for time in times for rank in (0, 1)))
    assert [(each.name.dump, each.name.rank) for each in run.ranks] == [
        (1, 0), (1, 1), (2, 0), (2, 1),
    ]  # fmt: skip


def test_what_the_recorder_noted_counts_more_than_a_name() -> None:
    told = {"a_rank0.pickle": noted(5, 8, 1), "b.pickle": noted(2, 8, 0)}
    run = run_of("a_rank0.pickle", "b.pickle", noted=told)
    assert [(each.name.rank, each.name.host) for each in run.ranks] == [(2, "node0"), (5, "node1")]
    assert run.expected == 8
    by_user = make_run(
        name_files([ROOT / "a_rank0.pickle"], ROOT, reader_by("a_rank{rank}")),
        [noted(5, 8)], [""], named=True,
    )  # fmt: skip
    assert by_user.ranks[0].name.rank == 0


def test_a_layout_places_ranks_the_first_dimension_fastest() -> None:
    assert parse_layout("tp=2, PP=3") == (("tp", 2), ("pp", 3))
    run = run_of(*(f"rank{rank}.pickle" for rank in range(5)), layout=parse_layout("tp=2,pp=3"))
    assert run.expected == 6
    assert run.ranks[3].name.coordinates == (("tp", 1), ("pp", 1))


@pytest.mark.parametrize("text", ["", "tp", "tp=0", "tp=2,tp=3", "tp=2;pp=3", "a=99999,b=99999"])
def test_a_layout_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="layout"):
        parse_layout(text)


def test_a_layout_for_other_ranks_is_refused() -> None:
    with pytest.raises(InputError, match="tp=2 is for 2 ranks, and there is a rank 3"):
        run_of("rank3.pickle", layout=parse_layout("tp=2"))
    with pytest.raises(InputError, match="tp=2 is for 2 ranks, and the run has 8"):
        run_of("rank1.pickle", noted={"rank1.pickle": noted(1, 8)}, layout=parse_layout("tp=2"))


def test_a_broken_file_is_a_row_that_names_it_below_the_run() -> None:
    files = name_files([ROOT / "a/rank1.pickle"], ROOT, None)
    (rank,) = make_run(files, [None], [f"{ROOT}/a/rank1.pickle ends early."]).ranks
    assert (rank.label, rank.error, rank.devices) == ("rank 1", "a/rank1.pickle ends early.", ())


def test_redacted_nothing_shows_but_ranks_and_numbers() -> None:
    files = name_files([ROOT / "host=ann/secret_rank1.pickle"], ROOT, None)
    run = make_run(
        files, [None], ["secret"], names=NamesWanted(redact=True, salt="pepper, 16 or more")
    )
    (rank,) = run.ranks
    (host,) = redacted_names(["ann"], "pepper, 16 or more")
    assert (rank.name, rank.label) == (RankName(1, None, host), "rank 1")
    assert "ann" not in host
    assert "secret" not in rank.source + rank.error


def test_a_pattern_leaves_out_what_it_does_not_fit() -> None:
    paths = [ROOT / "3.pickle", ROOT / "notes.pickle"]
    assert [each.source for each in name_files(paths, ROOT, reader_by("job/{rank}.pickle"))] == [
        "3.pickle"
    ]

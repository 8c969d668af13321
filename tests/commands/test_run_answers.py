"""``summary``, ``check``, ``diff`` and ``export`` of a run."""

from __future__ import annotations

import pickle
from pathlib import Path

import orjson
import pytest

import snapreport
from snapreport.api.runs import tasks
from snapreport.api.runs.run_check import check_run
from snapreport.diagnosis.ranks.two_runs import compare_runs
from tests.builders import MIB, frame, trace
from tests.commands.conftest import Run
from tests.ready_workers import fork_workers

MODEL = [frame("forward", "model.py", 9)]
LOSS = [frame("loss", "loss.py", 4)]


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take one process where no number is given, and fork it: to start one takes long."""
    monkeypatch.setattr(tasks, "usable_cpus", lambda: 1)
    fork_workers(monkeypatch)


def write(folder: Path, losses: list[int]) -> Path:
    """Write a rank for each number of MiB that its loss takes beside 40 MiB of the model."""
    folder.mkdir()
    for rank, loss in enumerate(losses):
        made = trace().alloc("a", 40 * MIB, frames=MODEL).start("forward", 5)
        made.alloc("b", loss * MIB, frames=LOSS).end("forward", 15).free("b")
        (folder / f"rank{rank}.pickle").write_bytes(pickle.dumps(made.snapshot()))
    return folder


def cut(path: Path) -> None:
    """Leave half of a file."""
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return write(tmp_path / "base", [10, 10, 10, 10, 10])


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """Ranks 1 to 3 hold 20 MiB more, and one rank is new."""
    return write(tmp_path / "new", [10, 30, 30, 30, 10, 10])


def test_the_summary_says_what_the_report_does(run: Run, tmp_path: Path, base: Path) -> None:
    odd = write(tmp_path / "odd", [10, 10, 60, 10, 10, 10])
    result = run("summary", odd)
    assert result.exit_code == 0
    assert "Rank 2 peaks 50.00 MiB above the median because `loss loss.py:4`" in " ".join(
        result.stdout.split()
    )
    answer = orjson.loads(run("summary", odd, "--json").stdout)
    assert answer["format"] == {"name": "snapreport.run", "version": 1}
    assert [row["allocated"] for row in answer["rows"]] == [50 * MIB] * 2 + [100 * MIB] + [
        50 * MIB
    ] * 3
    cut(odd / "rank5.pickle")
    broken = run("summary", odd, "--findings")
    assert broken.exit_code == 1
    assert "rank5.pickle" in broken.stderr
    assert ", in rank 0, rank 1" in broken.stdout
    for option in (["--recording"], ["--card", "h100-80"]):
        assert run("summary", odd, *option).exit_code == 2


def test_every_rank_has_the_budget(run: Run, new: Path, base: Path) -> None:
    assert run("check", base, "--max-peak", "50MiB", "--fail-on", "none").exit_code == 0
    result = run("check", new, "--max-peak", "50MiB", "--fail-on", "none")
    assert result.exit_code == 3
    assert "Failed: 3 of 3 budgets are not kept" in result.stdout
    for rank in (1, 2, 3):
        assert f"rank {rank}: The peak of allocated memory is 70.00 MiB, 20.00 MiB" in result.stdout
    assert "rank 4:" not in result.stdout
    assert "rank 0 and 5 more: " in result.stdout  # findings are told once
    stage = run("check", new, "--max-stage", "for*=60MiB", "--fail-on", "none")
    assert (stage.exit_code, "rank 3" in stage.stdout) == (3, True)
    assert run("check", new, "--max-stage", "for*=70MiB", "--fail-on", "none").exit_code == 0
    missing = run("check", new, "--max-stage", "back=1GiB", "--fail-on", "none")
    assert (missing.exit_code, "no such stage" in missing.stdout) == (3, True)


def test_ranks_may_be_so_unlike_and_no_more(run: Run, new: Path, snapshot: Path) -> None:
    loaded = snapreport.load_run(new)
    for limit, passed in (("20MiB", True), ("16%", False), ("17%", True), (9 * MIB, False)):
        verdict = check_run(loaded, max_imbalance=limit, fail_on=["none"])
        # The median of 50, 50, 50, 70, 70 and 70 is 60 MiB.
        assert verdict.passed is passed, limit
    assert {check.base for check in verdict.checks} == {60 * MIB}
    assert [check.device for check in verdict.checks] == []  if passed else [
        "rank 1", "rank 2", "rank 3",
    ]  # fmt: skip
    assert run("check", snapshot, "--max-imbalance", "5%").exit_code == 2


def test_a_run_is_held_against_another(run: Run, base: Path, new: Path) -> None:
    result = run("check", new, "--base", base, "--max-growth", "5%", "--fail-on", "none", "--json")
    assert result.exit_code == 3
    answer = orjson.loads(result.stdout)
    assert [each["device"] for each in answer["checks"]] == [f"rank {k}" for k in (1, 2, 3, 5)]
    assert run("check", new, "--max-growth", "5%").exit_code == 1
    assert run("check", new, "--fits", "h100-80").exit_code == 2


def test_findings_of_ranks_fail_a_run(run: Run, base: Path) -> None:
    found = {each.code for each in snapreport.load_run(base).run.ranks[0].devices[0].findings}
    code = sorted(found)[0]
    assert run("check", base, "--fail-on", code).exit_code == 3
    assert run("check", base, "--fail-on", code, "--ignore", code).exit_code == 0


def test_a_difference_names_the_ranks_and_what_it_is(run: Run, base: Path, new: Path) -> None:
    result = run("diff", base, new)
    assert result.exit_code == 0
    said = " ".join(result.stdout.split())
    assert (
        "Rank 1, rank 2 and rank 3 peak 20.00 MiB higher each because `loss loss.py:4` holds 20.00"
        " MiB more (10.00 MiB before, 30.00 MiB now)."
    ) in said
    assert "only NEW has rank 5" in said
    answer = orjson.loads(run("diff", base, new, "--json").stdout)
    assert [each["new"] - each["base"] for each in answer["ranks"]] == [
        0, 20 * MIB, 20 * MIB, 20 * MIB, 0,
    ]  # fmt: skip
    assert "changed alike" not in run("diff", base, base).stdout
    assert run("diff", base, new, "--stage", "forward").exit_code == 2
    assert run("diff", base, new, "--curve", "reserved").exit_code == 2


def test_changes_of_sites_add_up_to_that_of_the_peak(samples: Path, tmp_path: Path) -> None:
    pair = []
    for name, order in (("a", (0, 1, 2)), ("b", (2, 0, 1))):
        folder = tmp_path / name
        folder.mkdir()
        files = ("training_step.pickle", "two_streams.pickle", "out_of_memory.pickle.gz")
        for rank, at in enumerate(order):
            ending = "".join(Path(files[at]).suffixes)
            (folder / f"rank{rank}{ending}").write_bytes((samples / files[at]).read_bytes())
        pair.append(snapreport.load_run(folder).run)
    diff = compare_runs(*pair)
    assert len(diff.ranks) == 3
    for each in diff.ranks:
        assert each.change != 0
        sites = [site for site in each.differences if site.kind == "site"]
        assert sum(site.bytes - site.usual for site in sites) == each.change


def test_a_table_has_a_row_for_each_device(run: Run, new: Path, folder: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    (new / "rank6.pickle").write_bytes((new / "rank5.pickle").read_bytes())
    cut(new / "rank6.pickle")
    result = run("export", "parquet", new, "--layout", "tp=2,pp=4")
    assert (result.exit_code, result.stdout) == (1, "new.parquet\n")
    rows = pq.read_table(folder / "new.parquet").to_pylist()
    assert [row["rank"] for row in rows] == list(range(7))
    assert [row["allocated"] for row in rows[:3]] == [50 * MIB, 70 * MIB, 70 * MIB]
    assert (rows[3]["at_tp"], rows[3]["at_pp"], rows[6]["device"]) == (1, 1, None)
    assert rows[6]["error"]
    run("render", new, "-o", "run.zip")
    run("export", "parquet", "run.zip", "-o", "again.parquet")
    assert len(pq.read_table(folder / "again.parquet")) == 7
    assert run("export", "csv", new).exit_code == 2


@pytest.mark.parametrize(
    "command", [["summary"], ["check", "--fail-on", "none"], ["diff"], ["export", "parquet"]]
)
def test_a_run_is_read_where_the_engine_says(run: Run, base: Path, command: list[str]) -> None:
    runs = [base] * (2 if command == ["diff"] else 1)
    result = run(*command, *runs, "--jobs", "1", "--engine", "nowhere")
    assert result.exit_code == 1
    assert "nowhere" in result.stderr

"""``whatif --allocator``: how exact a replay is, other settings, a capacity, and wrong usage."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from tests.commands.conftest import Run


@pytest.fixture
def step(samples: Path) -> Path:
    return samples / "training_step.pickle"


def test_how_exact_the_recording_s_own_replay_is(run: Run, step: Path) -> None:
    lines = run("whatif", step, "--allocator", "recorded").stdout.splitlines()
    assert lines[0].endswith("replayed under the recorded settings (default), exactly as recorded")
    assert lines[1] == "436 of 436 allocations at the recorded address (100.0%)"


def test_settings_are_listed_with_the_recorded_one_first(run: Run, step: Path) -> None:
    said = run("whatif", step, "--allocator", "expandable_segments:True").stdout
    rows = [line for line in said.splitlines() if "GiB" in line][1:]
    assert rows[0].startswith("default (recorded)")
    assert rows[1].startswith("expandable_segments:True")
    assert "not measured" in said


def test_without_a_value_there_is_a_table(run: Run, step: Path) -> None:
    said = run("whatif", step, "--allocator").stdout
    assert "max_split_size_mb:64" in said
    told = run("whatif", step, "--json", "--allocator", "--capacity", "4700MiB").stdout
    outcomes = orjson.loads(told)["allocator"]["outcomes"]
    assert [each["settings"] for each in outcomes][:2] == ["default", "expandable_segments:True"]
    assert [each["serves"] for each in outcomes][:2] == [False, True]
    for each in outcomes:
        assert each["capacity"]["least"] <= each["capacity"]["most"]


def test_where_nothing_helps_that_is_all_that_is_said(run: Run, samples: Path) -> None:
    said = run("whatif", samples / "out_of_memory.pickle.gz", "--allocator").stdout.splitlines()
    assert len(said) == 2
    assert said[1].startswith("No setting could have helped: ")
    larger = run("whatif", samples / "out_of_memory.pickle.gz", "--capacity", "8GiB", "--allocator")
    assert "default (recorded)" in larger.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--allocator", "max_split_size_mb:5"], "11 or more"),
        (["--allocator", "nonsense"], "NAME:VALUE"),
        (["--allocator", "backend:cudaMallocAsync"], "not modelled"),
        (
            ["--capacity", "4GiB", "--allocator", "recorded"],
            "--capacity needs settings",
        ),
        (["--capacity", "24", "--allocator"], "write a unit"),
        (["--without", "x", "--allocator", "recorded"], "does not go with --without"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(
    run: Run, step: Path, options: list[str], said: str
) -> None:
    done = run("whatif", step, *options)
    assert done.exit_code in (1, 2)
    assert said in done.stderr
    assert not done.stdout


def test_a_device_without_events_has_nothing_to_replay(run: Run, samples: Path) -> None:
    done = run("whatif", samples / "state_only.pickle", "--allocator")
    assert "has nothing to replay" in done.stderr

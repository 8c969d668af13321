"""``plan``: the steps, the sentence, what remains, exit statuses and wrong arguments."""

from __future__ import annotations

import pickle
from pathlib import Path

import orjson
import pytest

import snapreport
from snapreport.ground.errors import PlanError
from tests.builders import MIB, trace
from tests.commands.conftest import Run
from tests.unit.diagnosis.advice.test_program_changes import training


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    path = tmp_path / "trained.pickle"
    path.write_bytes(pickle.dumps(training().snapshot()))
    return path


def test_each_step_says_what_it_is_and_the_peak_after_it(run: Run, trained: Path) -> None:
    found = run("plan", trained, "--fit", "16MiB", "--full")
    assert found.exit_code == 0
    first, _, step, change, *_ = found.stdout.splitlines()
    assert first.startswith("cuda:0: 1 change lowers the allocated peak from 22.00 MiB to ")
    assert first.endswith(", 15.00 MiB at most: within the target of 16.00 MiB.")
    assert step.startswith("1. accumulate: the peak is then 12.00 MiB, 15.00 MiB at most")
    assert "frees" in change
    assert "What the peak then consists of" in found.stdout


def test_what_is_not_reached_fails_and_says_what_remains(run: Run, trained: Path) -> None:
    found = run("plan", trained, "--free", "21MiB", "--full")
    assert found.exit_code == 3
    first = found.stdout.splitlines()[0]
    assert first.startswith("cuda:0: the target of 1.00 MiB is not reached. No combination of up")
    assert "are parameters, optimizer state and gradients." in first
    nothing = run("plan", trained, "--fit", "2KiB", "-q", "--json")
    assert nothing.exit_code == 3
    assert orjson.loads(nothing.stdout)["reached"] == "no"


def test_where_no_change_is_known_that_is_said(run: Run, samples: Path) -> None:
    found = run("plan", samples / "two_streams.pickle", "--free", "100MB", "--full")
    assert found.exit_code == 3
    assert "this recording supports no change that would lower it much" in found.stdout
    assert "at the recorded peak 89.97 MiB were reserved beyond them" in found.stdout


def test_a_target_above_the_peak_needs_nothing(run: Run, trained: Path) -> None:
    found = run("plan", trained, "--fit", "24GB", "--full")
    assert found.exit_code == 0
    assert "the allocated peak is 22.00 MiB, within the target of 22.35 GiB" in found.stdout
    assert "1." not in found.stdout.splitlines()


def test_json_has_every_figure_and_a_bundle_gives_the_same(
    run: Run, trained: Path, tmp_path: Path
) -> None:
    bundle = tmp_path / "trained.zip"
    assert run("convert", trained, "-o", bundle).exit_code == 0
    one = orjson.loads(run("plan", trained, "--fit", "16MiB", "--json").stdout)
    other = orjson.loads(run("plan", bundle, "--fit", "16MiB", "--json").stdout)
    assert one | {"file": ""} == other | {"file": ""}
    assert (one["target"], one["peak"], one["reached"]) == (16 * MIB, 22 * MIB, "yes")
    assert sum(each["bytes"] for each in one["left"]) == one["steps"][-1]["expected"]


def test_a_failed_request_is_not_counted_and_that_is_said(run: Run, samples: Path) -> None:
    found = run("plan", samples / "out_of_memory.pickle.gz", "--fit", "2GB", "--full")
    assert "what the program would have allocated then and later is not counted" in found.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Give a target, --fit SIZE or --free SIZE: one of the two."),
        (("--fit", "1GB", "--free", "1GB"), "one of the two"),
        (("--fit", "24"), "'24' is 24 bytes; write a unit, such as 24GiB or 24GB."),
        (("--fit", "24 bananas"), "'24 bananas' is no size"),
        (("--free", "-1GB"), "'-1GB' is no size"),
    ],
)
def test_wrong_arguments_are_wrong_usage(
    run: Run, trained: Path, arguments: tuple[str, ...], said: str
) -> None:
    refused = run("plan", trained, *arguments)
    assert refused.exit_code == 2
    assert said in refused.stderr
    assert refused.stdout == ""


def test_what_cannot_be_planned_is_an_error_in_one_line(
    run: Run, trained: Path, tmp_path: Path, samples: Path
) -> None:
    more = run("plan", trained, "--free", "24GB")
    assert (more.exit_code, more.stdout) == (1, "")
    assert "22.35 GiB cannot be freed: cuda:0 has 22.00 MiB allocated at its peak." in more.stderr
    state = run("plan", samples / "state_only.pickle", "--fit", "1GB")
    assert state.exit_code == 1
    assert "has no recorded history" in state.stderr
    empty = tmp_path / "empty.pickle"
    empty.write_bytes(pickle.dumps(trace().snapshot()))
    assert run("plan", empty, "--fit", "1GB").exit_code == 1


def test_python_takes_one_target_as_bytes_or_text(trained: Path) -> None:
    device = snapreport.load(trained).device()
    assert device.plan(fit=16 * MIB) == device.plan(fit="16MiB") == device.plan(free="6MiB")
    for wrong in ({}, {"fit": 1, "free": 1}, {"fit": "24 bananas"}, {"free": 23 * MIB}):
        with pytest.raises(PlanError):
            device.plan(**wrong)

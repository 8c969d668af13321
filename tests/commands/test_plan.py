"""``plan``: the steps, the sentence, what remains, exit statuses and wrong arguments."""

from __future__ import annotations

import pickle
from pathlib import Path

import orjson
import pytest

import snapreport
from snapreport.ground.errors import PlanError
from tests.builders import MIB, frame, trace
from tests.commands.conftest import Run
from tests.commands.test_json import check
from tests.unit.diagnosis.advice.test_batch_law import at_batch
from tests.unit.diagnosis.advice.test_program_changes import BUILD, training


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
    assert first.endswith(", 15.75 MiB at most: within the target of 16.00 MiB.")
    assert step.startswith("1. accumulate: the peak is then 9.00 MiB, 15.75 MiB at most")
    assert "Frees" in change
    assert "What the peak then consists of" in found.stdout


def test_what_is_not_reached_fails_and_says_what_remains(run: Run, trained: Path) -> None:
    found = run("plan", trained, "--free", "21MiB", "--full")
    assert found.exit_code == 3
    first = found.stdout.splitlines()[0]
    assert first.startswith("cuda:0: the target of 1.00 MiB is not reached. No combination of up")
    assert "are parameters and gradients." in first
    nothing = run("plan", trained, "--fit", "2KiB", "-q", "--json")
    assert nothing.exit_code == 3
    assert orjson.loads(nothing.stdout)["reached"] == "no"


def test_where_no_change_is_known_that_is_said(run: Run, samples: Path) -> None:
    found = run("plan", samples / "two_streams.pickle", "--free", "100MB", "--full")
    assert found.exit_code == 3
    assert "this recording supports no change that would lower it much" in found.stdout
    assert "at the recorded peak 89.97 MiB were reserved on top of them" in found.stdout


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
        (("--fit", "24 bananas"), "'24 bananas' is not a size"),
        (("--free", "-1GB"), "'-1GB' is not a size"),
        (("--fit", "1GB", "other.zip"), "Name one SNAPSHOT or BUNDLE"),
        (("--batch-from", "8:a.zip", "--free", "1GB"), "--free belongs to one recording"),
        (("--batch-from", "8:a.zip"), "Write the batch size, a colon and the file, such as"),
        (("--batch-from", ":a.zip"), "such as 8:a.zip, not ':a.zip'."),
        (("--batch-from", "0:a.zip"), "A batch must be at least 1 and at most 16777216, not 0."),
        (("--batch-from", "16777217:a.zip"), "at most 16777216, not 16777217."),
        (("--batch-from", f"{'9' * 5000}:a.zip"), "at most 16777216, not 99999999999999999999."),
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


@pytest.fixture
def sized(tmp_path: Path) -> list[str]:
    for size in (2, 4):
        (tmp_path / f"{size}.pickle").write_bytes(pickle.dumps(at_batch(size).snapshot()))
    return [f"{size}:{tmp_path / f'{size}.pickle'}" for size in (2, 4)]


def test_the_largest_batch_is_told_from_two_recordings(run: Run, sized: list[str]) -> None:
    found = run("plan", "--batch-from", *sized, "--fit", "18MiB", "--full")
    assert found.exit_code == 0
    first, _, heading, names, *rows = found.stdout.splitlines()
    assert first == (
        "cuda:0: a batch of 14 is the largest expected to fit into 18.00 MiB: 18.00 MiB. At 14,"
        " 77.8% of the peak grows with the batch; 100.0% of that are activations."
    )
    assert heading == "The allocated peak by batch"
    assert names.split() == ["batch", "expected", "recorded", "in"]
    assert rows[0].split() == ["2", *("14.00", "MiB") * 2, "optimizer"]
    (row,) = (row for row in found.stdout.splitlines() if row.endswith("activation"))
    assert row.split() == ["14.00", "MiB", "0", "B", "1.00", "MiB", "activation"]
    assert (
        "These are estimates, at most 0 B off at the recorded sizes. Some of these sizes are"
        " outside of the recorded range. Splitting, padding and other thresholds may change other"
        " sizes: record at 14 to be sure."
    ) in found.stdout


def test_what_was_recorded_need_not_be_recorded_again(run: Run, tmp_path: Path) -> None:
    given = []
    for size in (2, 4):
        made = at_batch(size).segment("weight", 20 * MIB, (4 * MIB, 4 * MIB, "live"))
        for place in ("kept0", "step0", "kept1", "step1"):
            made.segment(place, 20 * MIB)
        path = tmp_path / f"{size}.pickle"
        path.write_bytes(pickle.dumps(made.snapshot()))
        given.append(f"{size}:{path}")
    found = run("plan", "--batch-from", *given, "--full")
    # Five segments of 20 MiB, of which the weight's 4 and the step's 10 are in use at the peak.
    assert (
        "other thresholds may change other sizes. These are allocated bytes, and the driver has to"
        " provide more: at the recorded peak 86.00 MiB were reserved on top of them."
    ) in found.stdout


def test_where_any_batch_fits_its_limit_is_said(run: Run, sized: list[str]) -> None:
    found = run("plan", "--batch-from", *sized, "--fit", "900TiB", "--full")
    assert found.exit_code == 0
    assert "any batch up to 16,777,216 is expected to fit into 900.0 TiB." in found.stdout
    assert "does not grow" not in found.stdout


def test_swapped_sizes_are_refused(run: Run, tmp_path: Path) -> None:
    """Backward's peak is 4 + the batch: 24 MiB at 20, and 16 MiB at 12."""
    for size in (12, 20):
        (tmp_path / f"{size}.pickle").write_bytes(pickle.dumps(at_batch(size).snapshot()))
    swapped = [f"20:{tmp_path / '12.pickle'}", f"12:{tmp_path / '20.pickle'}"]
    found = run("plan", "--batch-from", *swapped, "--fit", "1GB")
    assert (found.exit_code, found.stdout) == (1, "")
    assert "the peak falls from 24.00 MiB at batch 12 to 16.00 MiB at batch 20" in found.stderr
    right = [f"12:{tmp_path / '12.pickle'}", f"20:{tmp_path / '20.pickle'}"]
    assert run("plan", "--batch-from", *right, "--fit", "1GB").exit_code == 0


def test_two_programs_are_refused(run: Run, tmp_path: Path) -> None:
    """What is kept by another line of code cannot be that of the smaller batch."""
    (tmp_path / "2.pickle").write_bytes(pickle.dumps(at_batch(2, step=3).snapshot()))
    other = trace().alloc("table", 40 * MIB, frames=[frame("table", "other.py"), *BUILD])
    other.alloc("more", MIB, frames=BUILD)
    (tmp_path / "4.pickle").write_bytes(pickle.dumps(other.snapshot()))
    mixed = [f"{size}:{tmp_path / f'{size}.pickle'}" for size in (2, 4)]
    found = run("plan", "--batch-from", *mixed, "--fit", "1GB")
    assert (found.exit_code, found.stdout) == (1, "")
    assert "the recordings do not fit together: at batch 2 a peak of 7.00 MiB" in found.stderr
    assert len(found.stderr.splitlines()) <= 5


def test_the_option_may_be_repeated_and_json_has_every_figure(run: Run, sized: list[str]) -> None:
    repeated = [part for each in sized for part in ("--batch-from", each)]
    found = run("plan", *repeated, "--fit", "18MiB", "--json")
    assert found.exit_code == 0
    whole = orjson.loads(found.stdout)
    check("plan", whole)
    assert [(each["batch"], each["file"]) for each in whole["files"]] == [
        (2, "2.pickle"),
        (4, "4.pickle"),
    ]
    assert (whole["fits"], whole["doubt"]) == (14, "extrapolated")
    python = snapreport.batch_growth({2: sized[0][2:], 4: sized[1][2:]}, fit="18MiB")
    assert [each["expected"] for each in whole["peaks"]] == [each.expected for each in python.peaks]


def test_without_a_target_only_the_growth_is_told(run: Run, sized: list[str]) -> None:
    found = run("plan", "--batch-from", *sized, "--full")
    assert found.exit_code == 0
    assert found.stdout.startswith("cuda:0: Nothing in the peak grows with the batch.")


def test_what_fits_at_no_batch_fails(run: Run, sized: list[str]) -> None:
    found = run("plan", "--batch-from", *sized, "--fit", "13MiB", "--full")
    assert found.exit_code == 3
    assert (
        "not even a batch of 1 is expected to fit into 13.00 MiB: its peak would be 14.00 MiB."
    ) in found.stdout


def test_two_recordings_at_one_size_are_wrong_usage(run: Run, sized: list[str]) -> None:
    refused = run("plan", "--batch-from", sized[0], sized[0])
    assert refused.exit_code == 2
    assert "There are two recordings at batch 2." in refused.stderr
    alone = run("plan", "--batch-from", sized[0])
    assert alone.exit_code == 2
    assert "--batch-from needs recordings at two or more sizes." in alone.stderr


def test_python_says_what_it_cannot_tell_growth_from(sized: list[str], samples: Path) -> None:
    one, state = sized[0][2:], samples / "state_only.pickle"
    for wrong, more in (
        ({2: one}, {}),
        ({0: one, 2: one}, {}),
        ({2: one, 4: one}, {"fit": "24 bananas"}),
        ({2: one, 4: one}, {"at": (0,)}),
        ({2: one, 4: one}, {"at": (4_000_000_000,)}),
        ({2: one, 10**20: one}, {}),
        ({2: one, 4: state}, {}),
    ):
        with pytest.raises(PlanError):
            snapreport.batch_growth(wrong, **more)  # type: ignore[arg-type]


def test_python_takes_one_target_as_bytes_or_text(trained: Path) -> None:
    device = snapreport.load(trained).device()
    assert device.plan(fit=16 * MIB) == device.plan(fit="16MiB") == device.plan(free="6MiB")
    for wrong in ({}, {"fit": 1, "free": 1}, {"fit": "24 bananas"}, {"free": 23 * MIB}):
        with pytest.raises(PlanError):
            device.plan(**wrong)

"""``snapreport check``: a verdict on stdout, and status 3 where it fails."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import orjson
import pytest

from tests.builders import MIB, attention
from tests.commands.conftest import Run
from tests.commands.test_errors import assert_one_line_error


def _write(path: Path, size: int, name: str = "attend") -> Path:
    made = attention(size, name)
    path.write_bytes(pickle.dumps(made.snapshot()))
    return path


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return _write(tmp_path / "base.pickle", 1)


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """Peaks at 6 MiB, 3 more than ``base``, all of it in attend()."""
    return _write(tmp_path / "new.pickle", 4)


QUIET = ("--fail-on", "none")


def test_a_check_that_passes_is_status_0(run: Run, new: Path) -> None:
    result = run("check", new, "--max-peak", "6MiB", *QUIET)
    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout.splitlines()[0] == "Passed: 1 budget kept, findings were not checked."


def test_a_check_that_fails_is_status_3_and_names_budget_figure_and_call_sites(
    run: Run, new: Path
) -> None:
    result = run("check", new, "--max-peak", "5MiB", "--max-reserved", "1GiB", *QUIET)
    assert result.exit_code == 3
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert lines[0] == "Failed: 1 of 2 budgets is not kept."
    assert "FAIL    cuda:0  max-peak       6.00 MiB  5.00 MiB  +1.00 MiB" in lines
    assert "is 6.00 MiB, 1.00 MiB (20%) over the budget of 5.00 MiB." in result.stdout
    assert "4.00 MiB      1  attend  attention.py:40" in lines


def test_a_regression_is_explained_by_its_call_sites(run: Run, base: Path, new: Path) -> None:
    result = run("check", new, "--base", base, "--max-growth", "2%", *QUIET)
    assert result.exit_code == 3
    assert "The peak grew by 3.00 MiB (100%), from 3.00 MiB to 6.00 MiB" in result.stdout
    assert "+3.00 MiB  1.00 MiB  4.00 MiB  attend  attention.py:40" in result.stdout
    assert run("check", new, "--base", base, "--max-growth", "3MiB", *QUIET).exit_code == 0


def test_json_has_the_same(run: Run, base: Path, new: Path) -> None:
    result = run("check", new, "--base", base, "--max-growth", "2%", "--json", *QUIET)
    assert result.exit_code == 3
    found = orjson.loads(result.stdout)
    assert found["passed"] is False
    (check,) = found["checks"]
    assert (check["name"], check["outcome"], check["base"], check["value"]) == (
        "max-growth", "failed", 3 * MIB, 6 * MIB,
    )  # fmt: skip
    (compared,) = found["comparisons"]
    assert [(site["name"], site["change"]) for site in compared["sites"]] == [("attend", 3 * MIB)]


def test_markdown_goes_to_stdout_a_file_or_behind_a_job_s_summary(
    run: Run, base: Path, new: Path, folder: Path
) -> None:
    summary = folder / "summary.md"
    summary.write_text("# Job\n")
    options = ("--base", base, "--max-growth", "2%", "--max-stage", "forward=1G", *QUIET)
    shown = run("check", new, *options, "--md", "--summary", summary)
    assert shown.exit_code == 3
    assert shown.stdout.startswith("### ❌ GPU memory of new.pickle\n")
    assert "| ✅ | cuda:0 | `max-stage forward` |" in shown.stdout
    assert "| +3.00 MiB | 1.00 MiB | 4.00 MiB | `attend` `attention.py:40` |" in shown.stdout
    assert summary.read_text(encoding="utf-8") == f"# Job\n{shown.stdout}\n"
    written = run("check", new, *options, "-o", "verdict.md")
    assert (written.exit_code, written.stdout) == (3, "verdict.md\n")
    assert (folder / "verdict.md").read_text(encoding="utf-8") == shown.stdout
    again = run("check", new, *options, "-o", "verdict.md")
    assert_one_line_error(again, "verdict.md already exists")


def test_what_a_stranger_named_is_no_markup(run: Run, tmp_path: Path) -> None:
    path = _write(tmp_path / "new.pickle", 4, "</td>`a`|<script>\n# x")
    text = run("check", path, "--max-peak", "1", "--md", *QUIET).stdout
    row = next(line for line in text.splitlines() if "script" in line)
    assert row.startswith("| 4.00 MiB | 1 | ``</td>`a`\\|<script>\ufffd# x`` ")


def test_budgets_of_the_project_are_found_from_here_upward(
    run: Run, new: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "pyproject.toml").write_text(
        '[tool.snapreport.check]\nmax_peak = "5MiB"\nfail_on = "none"\n'
    )
    result = run("check", new)
    assert result.exit_code == 3
    assert "with budgets from pyproject.toml" in result.stdout
    assert run("check", new, "--max-peak", "none").exit_code == 0
    inner = folder / "src"
    inner.mkdir()
    monkeypatch.chdir(inner)
    assert run("check", new).exit_code == 3
    (inner / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert run("check", new, *QUIET).exit_code == 0


@pytest.mark.parametrize(
    "text",
    [
        '[tool.snapreport]\ncheck.max-peak = "5MiB"\n',
        '[tool]\nsnapreport = {check = {max-peak = "5MiB"}}\n',
        '[tool."snapreport".check]\nmax-peak = "5MiB"\n',
    ],
)
def test_budgets_of_the_project_count_however_they_are_written(
    run: Run, new: Path, folder: Path, text: str
) -> None:
    (folder / "pyproject.toml").write_text(text)
    assert run("check", new, *QUIET).exit_code == 3


@pytest.mark.parametrize("data", [b"[tool.snapreport.check", b"\xff[tool.snapreport.check]\n"])
def test_a_project_file_that_is_broken_does_not_pass_for_one_without_budgets(
    run: Run, new: Path, folder: Path, data: bytes
) -> None:
    (folder / "pyproject.toml").write_bytes(data)
    assert_one_line_error(run("check", new, *QUIET), "pyproject.toml")


def test_a_project_that_only_depends_on_us_has_no_budgets(
    run: Run, new: Path, folder: Path
) -> None:
    (folder / "pyproject.toml").write_text('[project]\ndependencies = ["snapreport"]\n')
    assert run("check", new, *QUIET).exit_code == 0


def test_a_budget_file_is_named(run: Run, new: Path, folder: Path) -> None:
    (folder / "memory.toml").write_text('max_peak = "5MiB"\n')
    assert run("check", new, "--budget", "memory.toml", *QUIET).exit_code == 3
    (folder / "memory.toml").write_text('max_peek = "5MiB"\n')
    result = run("check", new, "--budget", "memory.toml")
    assert_one_line_error(result, "memory.toml: there is no 'max_peek'")


def test_a_growth_with_nothing_to_compare_with_is_status_1(run: Run, new: Path) -> None:
    assert_one_line_error(run("check", new, "--max-growth", "2%"), "max_growth needs another")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--max-peak", "lots"], "max-peak: 'lots' is not a size"),
        (["--max-stage", "forward"], "'--max-stage': 'forward' is not NAME=SIZE"),
        (["--max-category", "=3"], "is not NAME=SIZE"),
        (["--fail-on", "leek"], "no finding is called 'leek'; there are critical"),
        (["--fail-on", ""], "fail-on: no finding is named; write none"),
        (["--fail-on", " , "], "fail-on: no finding is named; write none"),
        (["--ignore", "critical"], "no finding is called 'critical'"),
        (["--json", "--md"], "give one"),
        (["--md", "-o", "x.md"], "give one"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_status_2(
    run: Run, new: Path, folder: Path, options: list[str], words: str
) -> None:
    result = run("check", new, *options)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert words in " ".join(result.stderr.split())
    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--device", "7"], "new.pickle has no device '7'"),
        (["--base", "none.pickle"], "none.pickle"),
        (["--budget", "none.toml"], "none.toml cannot be read"),
        (["--summary", "no/such.md"], "no/such.md cannot be written"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_an_expected_error_is_one_line_and_status_1(
    run: Run, new: Path, options: list[str], words: str
) -> None:
    assert_one_line_error(run("check", new, *options), words)


def test_a_failed_request_fails_a_check_on_oom(run: Run, samples: Path) -> None:
    result = run("check", samples / "out_of_memory.pickle.gz", "--fail-on", "recording", "--json")
    found = orjson.loads(result.stdout)
    failing = [each for each in found["findings"] if each["fails"]]
    assert all(each["topic"] == "recording" for each in failing)
    assert result.exit_code == (3 if failing else 0)


def test_a_card_is_a_budget(run: Run, new: Path) -> None:
    passed = run("check", new, "--fits", "24GB", *QUIET)
    assert passed.exit_code == 0
    assert "pass    cuda:0  fits 24GB  20.00 MiB  21.67 GiB  -21.65 GiB" in passed.stdout
    failed = run("check", new, "--fits", "5MiB", *QUIET)
    assert failed.exit_code == 3
    assert "FAIL    cuda:0  fits 5MiB  6.00 MiB  5.00 MiB  +1.00 MiB" in failed.stdout
    assert "cuda:0: Cannot fit on a card of 5MiB, whatever the settings:" in failed.stdout
    between = run("check", new, "--fits", "19MiB", "--allow", "0", *QUIET)
    assert between.exit_code == 3
    assert "FAIL    cuda:0  fits 19MiB  20.00 MiB  19.00 MiB  +1.00 MiB" in between.stdout
    wrong = run("check", new, "--fits", "a100")
    assert wrong.exit_code == 2
    assert "fits: 'a100' could be several cards; write a100-40, a100-80" in wrong.stderr


def test_a_file_names_the_card_and_what_is_kept_of_it(run: Run, new: Path, tmp_path: Path) -> None:
    budget = tmp_path / "budget.toml"
    budget.write_text('fits = "21MiB"\nallow = "1MiB"\n')
    assert run("check", new, "--budget", budget, *QUIET).exit_code == 0
    assert run("check", new, "--budget", budget, "--allow", "2MiB", *QUIET).exit_code == 3
    lifted = run("check", new, "--budget", budget, "--fits", "none", *QUIET)
    assert lifted.stdout.startswith("Passed: no budget was given")
    budget.write_text('fits = "a100"\n')
    assert_one_line_error(run("check", new, "--budget", budget), "'a100' could be several cards")

"""``snapreport summary report.html``: what a page carries, without a browser."""

from __future__ import annotations

import json
from pathlib import Path

import orjson
import pytest
from jsonschema import Draft202012Validator

from tests.commands.conftest import Run
from tests.commands.test_errors import assert_one_line_error
from tests.conftest import REPOSITORY

BEGIN = '<!doctype html><meta name="generator" content="snapreport">'
SUMMARY = '<script type="application/json" id="summary">{}</script>'


@pytest.fixture
def page(run: Run, samples: Path, folder: Path) -> Path:
    path = folder / "report.html"
    assert run("render", samples / "out_of_memory.pickle.gz", "-o", path).exit_code == 0
    return path


def test_a_page_tells_what_its_snapshot_tells(run: Run, samples: Path, page: Path) -> None:
    told = run("summary", page).stdout
    alone = run("summary", samples / "out_of_memory.pickle.gz").stdout
    answer = alone[alone.index("The program ran") : alone.index("\n!")]
    assert answer in told
    for row in (
        "376.0 MiB  16.4%      2  training_step  train.py:40",
        "reserved   2.29 GiB    423",
    ):
        assert row in told
    assert "Use a batch of half the size. Frees" in told
    found = run("summary", samples / "out_of_memory.pickle.gz", "--findings").stdout
    title = next(line for line in found.splitlines() if line.startswith("CRITICAL"))
    assert title in told


def test_its_json_is_the_snapshots_with_lists_cut(run: Run, samples: Path, page: Path) -> None:
    carried = orjson.loads(run("summary", page, "--json").stdout)
    whole = orjson.loads(run("summary", samples / "out_of_memory.pickle.gz", "--json").stdout)
    assert carried["format"] == whole["format"]
    (ours,), (theirs,) = carried["devices"], whole["devices"]
    assert {name: ours[name] for name in ("peaks", "peak", "answer", "ooms", "closing")} == {
        name: theirs[name] for name in ("peaks", "peak", "answer", "ooms", "closing")
    }
    assert ours["sites"] == theirs["sites"][: len(ours["sites"])]
    schema = orjson.loads((REPOSITORY / "docs/schemas/summary.json").read_bytes())
    device = schema["properties"]["devices"]["items"]["properties"]
    for name in ("peaks", "sites", "diagnosis", "stages"):
        Draft202012Validator(device[name]).validate(ours[name])


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        ("", "without a summary"),
        (SUMMARY.format("{"), "damaged"),
        (SUMMARY.format("[1]"), "not an object"),
        (SUMMARY.format("[" * 100_000), "damaged"),
    ],
)
def test_a_damaged_page_is_told_in_a_line(run: Run, folder: Path, inside: str, said: str) -> None:
    path = folder / "page.html"
    path.write_text(BEGIN + inside, "utf-8")
    result = run("summary", path)
    assert_one_line_error(result)
    assert said in result.stderr


def test_a_strangers_summary_is_text_and_no_more(run: Run, folder: Path) -> None:
    odd = {
        "title": "\x1b[31mred\u202eder",
        "devices": [
            {"device": 3, "peaks": [1], "sites": [{"bytes": "x", "name": "\x1b]0;a\x07"}, 7]},
            {
                "answer": None,
                "diagnosis": {"findings": [{"suggestions": [{"frees": {"most": -1}}]}]},
            },
            {"peaks": {"a": {"bytes": 2**70}}, "sites": [{"bytes": -5, "line": 1.5}]},
        ],
        "warnings": {"a": 1},
    }
    path = folder / "page.html"
    path.write_text(BEGIN + SUMMARY.format(orjson.dumps(str(odd)).decode()), "utf-8")
    assert_one_line_error(run("summary", path))
    path.write_text(BEGIN + SUMMARY.format(json.dumps(odd)), "utf-8")
    result = run("summary", path)
    assert result.exit_code == 0
    assert not {"\x1b", "\u202e", "\x07"} & set(result.stdout)
    assert "red" in result.stdout


def test_options_that_need_the_snapshot_are_refused(run: Run, page: Path) -> None:
    for option in (["--findings"], ["--card", "h100-80"], ["--device", "0"]):
        result = run("summary", page, *option)
        assert result.exit_code == 2
        assert "summary is fixed" in result.stderr


def test_other_commands_point_to_it(run: Run, page: Path) -> None:
    result = run("live", page)
    assert_one_line_error(result)
    assert "'snapreport summary' prints what it carries" in result.stderr

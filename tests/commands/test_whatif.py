"""``whatif``: the table, what is taken away by patterns, JSON, and errors."""

from __future__ import annotations

import pickle
from pathlib import Path

import orjson
import pytest

from tests.builders import MIB, frame, trace
from tests.commands.conftest import Run


@pytest.fixture
def two_peaks(tmp_path: Path) -> Path:
    made = trace().settings(expandable_segments=True)
    for name, size in (("first", 4), ("second", 2)):
        made.alloc(name, size * MIB, frames=[frame(name, "/home/me/model.py", size)])
    made.free("first").free("second")
    made.alloc("third", 5 * MIB, frames=[frame("third", "/home/me/loss.py", 9)]).free("third")
    path = tmp_path / "peaks.pickle"
    path.write_bytes(pickle.dumps(made.snapshot()))
    return path


def test_each_call_site_is_taken_away(run: Run, two_peaks: Path) -> None:
    lines = run("whatif", two_peaks, "--full").stdout.splitlines()
    assert lines[0] == "cuda:0: 6.00 MiB allocated at the peak, event 1"
    assert lines[2].split() == [
        "5.00",
        "MiB",
        "1.00",
        "MiB",
        "4.00",
        "MiB",
        "6",
        "first",
        "~/model.py:4",
    ]
    assert lines[4].split()[:4] == ["6.00", "MiB", "0", "B"]
    short = run("whatif", two_peaks, "--top", "1").stdout
    assert "2 more, each lower by 1.00 MiB at most" in short


def test_patterns_take_several_away_together(run: Run, two_peaks: Path) -> None:
    both = run("whatif", two_peaks, "--without", "first", "--without", "loss.py:*", "--full").stdout
    assert "without 2 allocations of first  ~/model.py:4, third  ~/loss.py:9" in both
    assert "2.00 MiB at the peak, event 1: lower by 4.00 MiB" in both
    assert "second  ~/model.py:2" in both.split("Held then")[1]


def test_json_has_every_figure(run: Run, two_peaks: Path) -> None:
    table = orjson.loads(run("whatif", two_peaks, "--json").stdout)
    assert (table["peak_bytes"], table["peak_event"], table["by"]) == (6 * MIB, 1, "site")
    assert table["groups"][0] == {
        "name": "first  ~/model.py:4", "peak_bytes": 5 * MIB, "peak_event": 6,
        "falls": MIB, "held": 4 * MIB, "count": 1,
    }  # fmt: skip
    one = orjson.loads(run("whatif", two_peaks, "--json", "--without", "third").stdout)["without"]
    assert one["what_if"]["falls"] == 0
    assert [held["name"] for held in one["held"]] == [
        "first  ~/model.py:4",
        "second  ~/model.py:2",
    ]


def test_a_bundle_gives_the_same(run: Run, two_peaks: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "peaks.zip"
    assert run("convert", two_peaks, "-o", bundle).exit_code == 0
    for more in ((), ("--by", "category"), ("--curve", "requested"), ("--without", "first")):
        assert run("whatif", bundle, *more).stdout == run("whatif", two_peaks, *more).stdout


def test_wrong_patterns_and_options_are_told_in_one_line(run: Run, two_peaks: Path) -> None:
    nothing = run("whatif", two_peaks, "--without", "attention")
    assert nothing.exit_code == 1
    assert "'attention' fits none of 3 names" in nothing.stderr
    assert run("whatif", two_peaks, "--without", "/(/").exit_code == 1
    assert run("whatif", two_peaks, "--by", "colour").exit_code == 2
    assert run("whatif", two_peaks, "--rules", '{"a": "b"}').exit_code == 2

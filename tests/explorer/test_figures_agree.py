"""Every figure on a screen is that of ``summary``, ``live`` and ``stages``, to the byte."""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import orjson
import pytest
from click.testing import CliRunner

import snapreport
from snapreport.api.loading import load
from snapreport.commands import cli
from snapreport.ground.units import format_bytes
from tests.corpus import corpus_files
from tests.explorer.exploring_tools import Explored
from tests.thorough import IN_FULL, small

SAMPLES = Path(__file__).resolve().parents[2] / "sample_snapshots"
MOMENTS = 20 if IN_FULL else 2
FILES = [
    *(SAMPLES / name for name in ("training_step.pickle", "two_streams.pickle")),
    *(corpus_files() if IN_FULL else list(small(corpus_files()))[:3]),
]


@functools.lru_cache(1)
def loaded(path: Path) -> snapreport.Snapshot:
    return load(path)


def asked(*words: str) -> Any:
    """Ask a command; a file is loaded once for all that is asked of it."""
    with mock.patch.object(snapreport, "load", lambda path, **_: loaded(path)):
        result = CliRunner().invoke(cli, [*words, "--json", "-q"])
    assert result.exit_code == 0, result.output
    return orjson.loads(result.stdout_bytes)


def moments(explored: Explored, path: Path) -> Iterator[int]:
    events = explored.view.device.events
    yield explored.view.opening
    draw = random.Random(path.name)
    yield from (draw.randrange(-1, max(events, 1)) for _ in range(MOMENTS))


def table(explored: Explored, number: str) -> list[dict[str, Any]]:
    titles, rows = explored.press(number).panes.desk.shown.as_table()
    return [dict(zip(titles, row, strict=True)) for row in rows]


def named(figures: Mapping[str, Any], *names: str) -> list[str]:
    return [format_bytes(figures[name]) for name in names if figures[name] is not None]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_figures_of_a_moment_are_those_of_live(path: Path) -> None:
    explored = Explored(path, size=(300, 100))
    device = explored.view.device.name
    for event in moments(explored, path):
        explored.view.go_to(event)
        event = explored.view.event
        at = ["live", str(path), "--device", device, "--event", str(event)]
        told = asked(*at, "--by", "line")
        amounts = told["amounts"]
        head = explored.lines()[2].text
        for text in named(amounts, "allocated", "reserved"):
            assert text in head

        rows = table(explored, "4")
        assert [row["bytes"] for row in rows] == [each["bytes"] for each in told["lines"]]
        for ours, theirs in (
            ("cumulative", "cumulative"), ("median", "median"), ("count", "count"),
            ("allocated", "total"), ("line", "location"),
        ):  # fmt: skip
            assert [row[ours] for row in rows] == [each[theirs] for each in told["lines"]]

        live = asked(*at, "--by", "allocation")["allocations"]
        rows = table(explored, "5")
        assert [row["bytes"] for row in rows] == [each["bytes"] for each in live]
        assert [row["call site"] for row in rows] == [each["call_site"] for each in live]
        assert [row["made"] for row in rows] == [each["alloc_event"] for each in live]

        tree = asked(*at, "--by", "tree")["tree"]
        assert shape(explored) == Counter(
            (depth, each["bytes"], each["count"])
            for depth, each in zip(depths(tree), tree, strict=True)
        )
        explored.press("3", "h")  # folded again
        assert table(explored, "3")[0]["bytes"] == told["bytes"]

        if amounts["reserved"] is not None and explored.view.device.events:
            number = [each.name for each in explored.panes.desk.screens].index("allocator") + 1
            text = explored.press(str(number)).text()
            for figure in named(amounts, "reserved", "allocated", "inactive", "fragmentation"):
                assert figure in text
            segments = table(explored, str(number))
            assert sum(row["size"] for row in segments) == amounts["reserved"]


def shape(explored: Explored) -> Counter[tuple[int, int, int]]:
    """Every node of the whole tree, all frames shown and all open."""
    explored.press("3")
    if explored.panes.desk.shown.folded:  # type: ignore[attr-defined]
        explored.press("h")
    explored.press("E")
    return Counter((row["depth"], row["bytes"], row["count"]) for row in table(explored, "3"))


def depths(tree: list[dict[str, Any]]) -> list[int]:
    found: list[int] = []
    for node in tree:
        found.append(0 if node["parent"] is None else found[node["parent"]] + 1)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_overview_has_the_figures_of_the_summary(path: Path) -> None:
    explored = Explored(path, size=(3000, 400))
    told = asked("summary", str(path))
    found = told["devices"][told["default"]]
    assert found["device"] == explored.view.device.name
    text = explored.text()
    peak = found["peak"]
    for figure in named(peak, "allocated", "requested", "active", "reserved", "slack", "inactive"):
        assert figure in text
    for finding in found["diagnosis"]["findings"]:
        assert finding["title"] in text.replace("\ufffd", "")
    sites = table(explored, "1")
    assert sum(row["bytes"] for row in sites) == peak["allocated"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_stages_are_those_of_stages(path: Path) -> None:
    explored = Explored(path)
    names = [each.name for each in explored.panes.desk.screens]
    if "stages" not in names:
        return
    told = asked("stages", str(path))["stages"]
    rows = table(explored, str(names.index("stages") + 1))
    for ours, theirs in (("stage", "name"), ("start", "start_bytes"), ("peak", "peak_bytes"),
                         ("end", "end_bytes"), ("change", "change")):  # fmt: skip
        assert [row[ours] for row in rows] == [each[theirs] for each in told]

"""Answers: the figures of the Python interface, within their size, and pages that add up."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import snapreport
from snapreport.commands.mcp_server.guidance import BY_NAME, PARTS, VIEWS
from snapreport.commands.mcp_server.reply import USUAL, CursorError, as_text, count_tokens
from snapreport.ground.errors import SnapreportError
from snapreport.ground.units import format_bytes
from snapreport.model.asked import (
    NamesWanted,
)
from tests.builders import frame, trace
from tests.mcp.desks import DeskBelow

CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("open", {}),
    ("summary", {}),
    *(("summary", {"part": part}) for part in PARTS),
    ("findings", {}),
    ("findings", {"id": "peak"}),
    ("findings", {"id": "memory"}),
    *(("at", {"by": view}) for view in VIEWS),
    ("at", {"event": -1, "curve": "active"}),
    *(
        ("at", {**lived, "by": view})
        for lived in ({"made": ["start", "peak"], "alive": ["end"]}, {"changed": ["start", "end"]})
        for view in ("stack", "line", "tree", "allocation")
    ),
    ("whatif", {}),
    ("whatif", {"by": "role"}),
    ("whatif", {"card": "24GB"}),
    ("query", {"sql": "SELECT * FROM allocations"}),
    ("query", {"sql": "SELECT * FROM stacks"}),
)


@pytest.fixture(scope="module")
def desk(samples: Path) -> DeskBelow:
    return DeskBelow(samples)


def rows(page: dict[str, Any], title: str) -> list[list[Any]]:
    found: list[list[Any]] = next(
        each["rows"] for each in page.get("tables", []) if title in each["title"]
    )
    return found


def every_row(pages: list[dict[str, Any]]) -> list[list[Any]]:
    return [row for page in pages for each in page.get("tables", []) for row in each["rows"]]


def test_open_says_why_memory_ran_out(desk: DeskBelow, samples: Path) -> None:
    page = desk.ask("open", "out_of_memory.pickle.gz")
    device = snapreport.load(samples / "out_of_memory.pickle.gz").device()
    (failed,) = device.figures.ooms
    assert page["answer"].startswith("The program ran out of memory at event")
    assert page["first_finding"]["id"].startswith("oom/")
    assert page["failed_requests"][0]["asked_for"] == {
        "bytes": failed.size,
        "text": format_bytes(failed.size),
    }
    assert page["peak"]["bytes"] == device.peak.allocated
    assert page["peak"]["event"] == device.peak.event
    sites = rows(page, "by call site")
    assert [row[1] for row in sites] == [site.bytes for site in device.figures.sites[:10]]
    every = desk.ask_all("summary", "out_of_memory.pickle.gz", part="sites")
    assert sum(row[1] for row in every_row(every)) == device.peak.allocated


def test_a_site_of_autograd_has_no_place(tmp_path: Path) -> None:
    autograd = [frame("NllLossBackward0::apply", "??", 0), frame("unknown", "", 0)]
    written = trace().alloc("a", 2**20, frames=autograd).snapshot()
    (tmp_path / "a.pickle").write_bytes(pickle.dumps(written))
    desk = DeskBelow(tmp_path)
    for page in (desk.ask("open", "a.pickle"), desk.ask("summary", "a.pickle", part="sites")):
        assert rows(page, "by call site")[0][0] == "backward of nll_loss (NllLossBackward0)"
    assert "??" not in as_text(desk.ask("at", "a.pickle", by="stack"))


def test_without_a_failure_open_begins_with_the_peak_and_its_changes(desk: DeskBelow) -> None:
    page = desk.ask("open", "truncated_ring.pickle")
    assert page["first_finding"]["id"] == "peak"
    assert page["first_finding"]["suggestions"][0]["frees"]["unit"] == "bytes"
    assert page["trust"]["verdict"] != "trusted"


def test_a_state_without_history_is_no_peak(desk: DeskBelow) -> None:
    page = desk.ask("open", "state_only.pickle")
    assert "peak" not in page
    sites = rows(page, "Held when the snapshot was written, by call site")
    assert page["final_state"]["bytes"] == sum(row[1] for row in sites)
    row = rows(desk.ask("summary", "state_only.pickle", part="peaks"), "Memory")[0]
    assert row[1] == row[3] == row[5] == page["final_state"]["bytes"]


@pytest.mark.parametrize("by", VIEWS)
def test_what_is_live_adds_up_over_all_pages(desk: DeskBelow, samples: Path, by: str) -> None:
    pages = desk.ask_all("at", "training_step.pickle", by=by, max_tokens=500)
    held = pages[0]["held"]["bytes"]
    assert held == snapreport.load(samples / "training_step.pickle").device().at().bytes
    names = next(each["columns"] for page in pages for each in page.get("tables", []))
    own = "held by its own (bytes)" if by == "tree" else "held (bytes)"
    assert sum(row[names.index(own)] for row in every_row(pages)) == held


def test_a_comparison_adds_up(desk: DeskBelow) -> None:
    page = desk.ask(
        "diff", "training_step.pickle", "two_streams.pickle", max_tokens=20_000, by="role"
    )
    moved = sum(row[1] for row in rows(page, "Changes by role"))
    assert moved == page["change"]["bytes"] == page["new"]["bytes"] - page["base"]["bytes"]


def test_what_if_is_that_of_the_interface(desk: DeskBelow, samples: Path) -> None:
    device = snapreport.load(samples / "training_step.pickle").device()
    first = device.what_if()[0]
    page = desk.ask("whatif", "training_step.pickle", without=[first.name])
    assert page["peak"]["bytes"] == first.peak_bytes
    assert page["falls"]["bytes"] == first.falls
    plan = desk.ask("whatif", "training_step.pickle", free="1MiB")
    assert plan["target"]["bytes"] == device.peak.allocated - 2**20
    assert plan["reached"] == device.plan(free="1MiB").reached
    card = desk.ask("whatif", "training_step.pickle", card="24GB")
    assert card["answer"] == device.fits("24GB").text


def test_two_questions_at_once_are_refused(desk: DeskBelow) -> None:
    with pytest.raises(SnapreportError, match="card and fit are separate questions"):
        desk.ask("whatif", "training_step.pickle", card="24GB", fit="1GiB")


def test_sql_gives_what_the_shell_gives(desk: DeskBelow, samples: Path) -> None:
    sql = "SELECT count(*) AS n, sum(size) AS bytes FROM allocations"
    page = desk.ask("query", "training_step.pickle", sql=sql)
    (row,) = snapreport.load(samples / "training_step.pickle").query(sql)
    assert page["tables"] == [
        {
            "title": "rows",
            "columns": ["n", "bytes"],
            "count": 1,
            "rows": [[row["n"], row["bytes"]]],
        }
    ]


def test_large_numbers_are_texts(desk: DeskBelow) -> None:
    """A client in JavaScript would round them."""
    sql = "SELECT 9007199254740992 AS fits, 9007199254740993 AS larger, 9e999 AS huge"
    page = desk.ask("query", "training_step.pickle", sql=sql)
    assert page["tables"][0]["rows"] == [[2**53, "9007199254740993", "inf"]]


@pytest.mark.parametrize(("tool", "arguments"), CALLS, ids=lambda each: str(each)[:40])
def test_an_answer_keeps_to_its_size_and_its_schema(
    desk: DeskBelow, samples: Path, tool: str, arguments: dict[str, Any]
) -> None:
    without_history = () if {"made", "changed"} & arguments.keys() else ("state_only.pickle",)
    for file in ("out_of_memory.pickle.gz", "cpu_profile.pickle", *without_history):
        page = desk.ask(tool, file, **arguments)
        assert count_tokens(as_text(page)) <= USUAL, file
        jsonschema.validate(page, BY_NAME[tool].output_schema)
        small = desk.ask(tool, file, **arguments, max_tokens=300)
        assert count_tokens(as_text(small)) <= 300 + 100, file


def test_pages_are_the_same_each_time_and_lose_nothing(desk: DeskBelow) -> None:
    asked: dict[str, Any] = {"by": "allocation"}
    whole = desk.ask("at", "training_step.pickle", **asked, max_tokens=20_000)
    pages = desk.ask_all("at", "training_step.pickle", **asked, max_tokens=400)
    assert len(pages) > 2
    assert every_row(pages) == every_row([whole])
    assert pages == desk.ask_all("at", "training_step.pickle", **asked, max_tokens=400)


def test_lifetimes_have_the_figures_of_the_python_interface(desk: DeskBelow, samples: Path) -> None:
    device = snapreport.load(samples / "training_step.pickle").device()
    page = desk.ask("at", "training_step.pickle", made=[200, "peak"], alive=["end"], by="site")
    asked = device.ask(made=(200, "peak"), alive="end")
    assert page["held"]["bytes"] == asked.bytes
    assert page["held"]["allocations"] == len(asked.allocations.rows)
    assert (
        page["answer"] == "made between event 200 and event 793, alive at event 1,247, in"
        " allocated bytes"
    )
    assert [row[1] for row in rows(page, "by site")] == [each.bytes for each in asked.by("site")]
    pages = desk.ask_all("at", "training_step.pickle", changed=[200, "peak"], by="role")
    changed = device.changed(200, "peak")
    assert pages[0]["change"]["bytes"] == changed.bytes
    assert sum(row[1] for row in every_row(pages)) == changed.bytes
    for wrong, message in (
        ({"made": [1]}, "made takes two moments: events, times, start, peak or end."),
        ({"alive": [1, 2, 3]}, "alive takes one moment or two"),
        ({"freed": [1, None]}, "freed takes two moments"),
        ({"changed": [1, 2], "alive": [3]}, "these do not mix"),
        ({"made": [1, 2], "event": 3}, "these do not mix"),
        ({"made": [2, 1]}, "event 1 is before event 2"),
    ):
        with pytest.raises(SnapreportError, match=message):
            desk.ask("at", "training_step.pickle", **wrong)


def test_a_cursor_belongs_to_its_question(desk: DeskBelow) -> None:
    page = desk.ask("at", "training_step.pickle", by="allocation", max_tokens=400)
    with pytest.raises(CursorError, match="another question"):
        desk.ask("at", "training_step.pickle", by="stack", cursor=page["cursor"])
    for nonsense in ("x", "é", "AAAA", page["cursor"][:-3], "/" * 5000):
        with pytest.raises(CursorError):
            desk.ask("at", "training_step.pickle", by="allocation", cursor=nonsense)


def test_a_finding_is_named_by_id_code_or_topic(desk: DeskBelow) -> None:
    every = desk.ask("findings", "out_of_memory.pickle.gz")["findings"]
    oom = next(each for each in every if each["id"].startswith("oom/"))
    for name in (oom["id"], "oom"):
        assert desk.ask("findings", "out_of_memory.pickle.gz", id=name)["id"] == oom["id"]
    one = desk.ask("findings", "three_devices.pickle", id="peak")
    assert (one["device"], one["also_on"]) == ("cuda:1", ["cuda:0"])
    several = desk.ask("findings", "three_devices.pickle", id="memory")["findings"]
    assert [each["device"] for each in several] == ["cuda:1", "cuda:0"]
    assert desk.ask("findings", "out_of_memory.pickle.gz", id="leak")["answer"] == "nothing found"
    with pytest.raises(SnapreportError, match="not an id, code or topic; findings here are: oom/"):
        desk.ask("findings", "out_of_memory.pickle.gz", id="nonsense")


def test_frames_of_a_stack_are_there(desk: DeskBelow) -> None:
    page = desk.ask("at", "training_step.pickle", by="stack")
    stack = page["tables"][0]["rows"][0][-1]
    frames = desk.ask("at", "training_step.pickle", stack=stack)
    assert frames["tables"][0]["count"] == len(frames["tables"][0]["rows"]) > 1
    with pytest.raises(SnapreportError, match="There is no call stack 99999"):
        desk.ask("at", "training_step.pickle", stack=99999)


def test_what_led_to_a_moment_is_told_by_lines_of_python(desk: DeskBelow) -> None:
    opened = desk.ask("open", "out_of_memory.pickle.gz")
    event = opened["failed_requests"][0]["event"]
    was = desk.ask("at", "out_of_memory.pickle.gz", event=event)["event_was"]
    assert was["action"] == "oom"
    assert was["size"] == opened["failed_requests"][0]["asked_for"]
    assert was["frames"]
    assert all(".py:" in each for each in was["frames"])


def test_names_are_redacted_in_every_answer(tmp_path: Path, samples: Path) -> None:
    file = tmp_path / "secret-project.pickle"
    file.write_bytes((samples / "training_step.pickle").read_bytes())
    desk = DeskBelow(tmp_path, NamesWanted(redact=True, salt="0123456789abcdef"))
    (listed,) = desk.files.list()
    assert "secret" not in listed.shown
    own = {
        each for each in snapreport.load(file).history.stacks.frames.filenames if "train" in each
    }
    assert own
    for tool, arguments in CALLS:
        text = as_text(desk.ask(tool, listed.shown, **arguments))
        assert "secret" not in text
        assert not [name for name in own if name in text], tool

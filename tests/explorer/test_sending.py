"""What is copied out: Markdown, JSON, and links in the page's own grammar."""

from __future__ import annotations

import re
from pathlib import Path

import orjson
import pytest

from snapreport.commands.explorer.desk import LINK_KEYS, encode_link
from tests.explorer.exploring_tools import Explored

REPOSITORY = Path(__file__).resolve().parents[2]


def test_a_view_is_copied_as_markdown(samples: Path) -> None:
    explored = Explored(samples / "training_step.pickle").press("4", "@").type("100")
    explored.press("enter", "m")
    text = explored.copied[-1]
    assert text.startswith("**training")
    assert "at event 100" in text
    assert "`#event=100&tab=lines`" in text
    assert "| bytes |" in text
    first = explored.panes.desk.shown.as_table()[1][0]
    assert f"`{first[-1]}`" in text


def test_a_view_is_copied_as_json(samples: Path) -> None:
    explored = Explored(samples / "training_step.pickle").press("5", "J")
    told = orjson.loads(explored.copied[-1])
    assert told["event"] == explored.view.event
    assert told["bytes"] == explored.view.moment.bytes
    assert sum(row["bytes"] for row in told["rows"]) == told["bytes"]


def test_every_screen_can_be_copied(samples: Path) -> None:
    explored = Explored(samples / "training_step.pickle", samples / "two_streams.pickle")
    for screen in explored.panes.desk.screens:
        explored.panes.desk.show(screen.name)
        explored.press("m", "J", "L")
        assert explored.copied[-1].startswith("#")


def test_a_view_is_written_to_a_file_that_is_new(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    explored = Explored(samples / "training_step.pickle").press("4")
    explored.press("W").type("view.md").press("enter")
    assert "| bytes |" in (tmp_path / "view.md").read_text()
    explored.press("W").type("view.json").press("enter")
    assert orjson.loads((tmp_path / "view.json").read_bytes())["screen"] == "Lines"
    before = (tmp_path / "view.md").read_bytes()
    explored.press("5", "W").type("view.md").press("enter")
    assert (tmp_path / "view.md").read_bytes() == before
    assert "exists" in explored.text()


def test_links_have_the_page_s_keys_in_its_order() -> None:
    source = (REPOSITORY / "templates" / "app" / "lib" / "text" / "link.ts").read_text("utf-8")
    found = re.search(r"const PARTS.*?= \{(.*?)\n\}", source, re.DOTALL)
    assert found is not None
    known = re.findall(r': \["(\w+)"', found[1])
    assert [key for key in known if key in LINK_KEYS] == list(LINK_KEYS)


def test_a_link_is_encoded_as_the_page_encodes_it() -> None:
    assert encode_link({}) == ""
    assert (
        encode_link(
            {
                "device": 1, "axis": "time", "view": (-0.5, 1234.25, 0.0, 5e9), "event": -1,
                "curve": "requested", "search": "a=b&c, #ü</script>", "tab": "lines",
            }
        )
        == "device=1&axis=time&view=-0.5,1234.25,0,5000000000&curve=requested&event=-1"
        "&tab=lines&search=a%3Db%26c,%20%23%C3%BC%3C%2Fscript%3E"
    )  # fmt: skip


def test_the_link_of_each_screen_says_what_it_shows(samples: Path) -> None:
    explored = Explored(samples / "training_step.pickle")
    assert explored.panes.desk.link == ""
    explored.press("2", "+", "+")
    assert re.fullmatch(r"view=[\d.,-]+", explored.panes.desk.link)
    explored.press("home", "3", "h", "u")
    assert explored.panes.desk.link == "event=-1&stacks=up&frames=all"
    explored.press("v", "8", "i").type("oom >1m").press("enter")
    assert explored.panes.desk.link == "curve=requested&event=-1&tab=events&search=oom%20%3E1m"

"""docs/explore.md: every screen and key is there, and ptmem's keys do what the table says."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from snapreport.commands.explorer.desk import ALWAYS, KEYS, SCREENS
from tests.explorer.exploring_tools import Explored

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "explore.md").read_text("utf-8")
NAMED = {"←": "left", "→": "right", "↑": "up", "↓": "down", "Enter": "enter", "Esc": "escape"}


def part(title: str) -> str:
    return DOCUMENT.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_every_screen_is_in_the_document() -> None:
    for screen in SCREENS:
        assert f"| {screen.title} |" in part("Screens")


def test_every_key_of_every_screen_is_in_the_document() -> None:
    text = part("Keys")
    for each in (*KEYS, *ALWAYS):
        if len(each.names[0]) == 1 and each.names[0] != "1":
            assert f"`{each.names[0]}`" in text, each.what


def rows() -> list[tuple[str, str, str]]:
    found = re.findall(r"^\| (.+?) \| (.*?) \| .* \| (.*?) \|$", part("Beside ptmem"), re.MULTILINE)
    return [row for row in found if "`" in row[1] and "ptmem -" not in row[1]]


def test_every_key_of_ptmem_is_in_the_table() -> None:
    told = {key for _, keys, _ in rows() for key in re.findall(r"`(.+?)`", keys)}
    assert told == {
        *"bf[]+-rqQechnN/s{}", "←", "→", "↑", "↓", "Enter", "Esc",
    }  # fmt: skip


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_a_key_of_ptmem_works_here(row: tuple[str, str, str], samples: Path) -> None:
    what, theirs, ours = row
    assert ours == theirs, "the same key"
    tree = "Expandable" in part("Beside ptmem").split(f"| {what} |")[0]
    for key in re.findall(r"`(.+?)`", theirs):
        explored = Explored(samples / "training_step.pickle", samples / "two_streams.pickle")
        explored.press("3" if tree else "2", "down")
        assert explored.panes.press(NAMED.get(key, key)), f"{key} does something"


def test_the_recorded_session_is_a_small_picture_that_asks_for_nothing() -> None:
    from docs.make_explorer_picture import SESSION, TARGET, picture, screens

    for text in (TARGET.read_text("utf-8"), picture(screens())):
        root = ElementTree.fromstring(text)
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
        assert len(text.encode()) < 250_000
        assert text.count("<animate ") == len(SESSION)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        names = {each.attrib["id"] for each in root.iter() if "id" in each.attrib}
        used = {each.attrib["href"][1:] for each in root.iter() if "href" in each.attrib}
        assert used == names

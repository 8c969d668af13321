"""What a reader sees and does, screen by screen, without a terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from snapreport.commands.explorer.lines import width_of
from snapreport.commands.explorer.screen import Key
from tests.builders import MIB, frame, trace
from tests.explorer.exploring_tools import LARGE, SMALL, Explored
from tests.thorough import some

NAMES = ("training_step.pickle", "out_of_memory.pickle.gz", "two_streams.pickle")


@pytest.fixture(params=NAMES)
def explored(request: pytest.FixtureRequest, samples: Path) -> Explored:
    return Explored(samples / request.param)


def test_every_screen_fills_the_terminal_whatever_its_size(explored: Explored) -> None:
    for size in (SMALL, LARGE, (60, 10), (20, 5), (7, 3), (300, 90)):
        explored.size = size
        for screen in explored.panes.desk.screens:
            explored.panes.desk.show(screen.name)
            lines = explored.lines()
            assert len(lines) == size[1]
            assert {sum(width_of(run.text) for run in line.runs) for line in lines} == {size[0]}


def test_the_overview_says_what_the_summary_says(explored: Explored) -> None:
    explored.size = (2000, 200)
    text, figures = explored.text(), explored.view.device.figures
    assert figures.answer in text
    for finding in explored.view.device.diagnosis.findings:
        assert finding.title in text


def test_a_finding_in_full_begins_with_its_title(samples: Path) -> None:
    explored = Explored(samples / "training_step.pickle", size=(200, 60))
    finding = explored.view.device.diagnosis.findings[0]
    assert f"▸ Note: {finding.title}" in explored.text()
    text = explored.press("right").text()
    assert f"▾ NOTE: {finding.title}  [{finding.id}]" in text
    assert f"▸ Note: {finding.title}" not in text


def test_nothing_is_left_to_work_out_when_a_finding_is_opened(
    samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    explored = Explored(samples / "training_step.pickle", size=(200, 60))
    explored.text()  # its findings come from the thread beside the screen
    for name in ("suggest", "situation_of", "find_what_if"):
        monkeypatch.setattr(f"snapreport.diagnosis.peak.{name}", lambda *_: pytest.fail("late"))
    assert explored.view.device.diagnosis.findings[0].suggestions[0].text[:40] in explored.press(
        "right"
    ).text().replace("\n", " ")


def test_the_highest_column_is_the_peak_at_every_zoom(explored: Explored) -> None:
    explored.press("2")
    screen = explored.panes.desk.shown
    curve = explored.view.device.curve("allocated")
    for key in ("p", "+", "+", "+", "-", "a", "d", "+", "+", "+", "t", "+", "-", "0"):
        explored.press(key)
        first, end = screen.spans()  # type: ignore[attr-defined]
        bars = screen.bars()  # type: ignore[attr-defined]
        for low, high, bar in zip(first, end, bars.allocated, strict=True):
            assert bar == curve[low + 1 : high + 1].max()
        assert bars.allocated.max() == curve[first[0] + 1 : end[-1] + 1].max()
    assert int(screen.bars().allocated.max()) == explored.view.device.peak.allocated  # type: ignore[attr-defined]


def test_a_column_on_and_back_moves_the_moment_to_the_highest_event_of_the_column(
    samples: Path,
) -> None:
    explored = Explored(samples / "training_step.pickle").press("2", "home")
    seen = []
    curve = explored.view.device.curve("allocated")
    screen = explored.panes.desk.shown
    for _ in range(200):
        before = explored.view.event
        explored.press("right")
        seen.append(explored.view.event)
        if explored.view.event == before:
            break
        column = screen.column_of(explored.view.event)  # type: ignore[attr-defined]
        first, end = (int(each[column]) for each in screen.spans())  # type: ignore[attr-defined]
        assert curve[explored.view.event + 1] == curve[first + 1 : end + 1].max()
    assert seen == sorted(seen)
    assert explored.view.device.peak.event in seen
    assert screen.column_of(seen[-1]) == screen.width - 1  # type: ignore[attr-defined]
    explored.press("left", "left")
    assert explored.view.event < seen[-1]


def test_a_jump_goes_fifteen_columns_and_a_quarter_a_quarter(samples: Path) -> None:
    explored = Explored(samples / "training_step.pickle").press("2", "home")
    screen = explored.panes.desk.shown

    def column() -> int:
        found: int = screen.column_of(explored.view.event)  # type: ignore[attr-defined]
        return found

    explored.press("f")
    assert column() == 15
    explored.press("b")
    assert column() == 0
    explored.press("]")
    assert column() == screen.width // 4  # type: ignore[attr-defined]
    explored.press("[")
    assert column() == 0


def test_the_foot_of_the_y_axis_goes_up_and_down_again(samples: Path) -> None:
    explored = Explored(samples / "training_step.pickle").press("2")
    whole = explored.text()
    explored.press("up", "up")
    assert "y from" in explored.text()
    assert explored.press("down", "down", "r").text() == whole


def test_enter_shows_what_is_live_and_q_goes_back_and_out(samples: Path) -> None:
    explored = Explored(samples / "training_step.pickle")
    explored.press("2", "home", "right", "right", "enter")
    assert explored.panes.desk.shown.name == "stacks"
    event = explored.view.event
    explored.press("f", "q")
    assert explored.panes.desk.shown.name == "timeline"
    assert explored.view.event == event
    explored.press("q")
    assert explored.panes.desk.shown.name == "overview"
    assert not explored.left
    explored.press("q")
    assert explored.left


def test_the_screen_stays_at_its_place_when_the_terminal_changes_size(samples: Path) -> None:
    explored = Explored(samples / "training_step.pickle").press("3", "E", *["down"] * 30)
    node = explored.panes.desk.shown.node  # type: ignore[attr-defined]
    row = next(line for line in explored.lines() if line.mark == "cursor").text
    for size in ((60, 12), (200, 60), (40, 8), SMALL):
        explored.size = size
        explored.lines()
    assert explored.panes.desk.shown.node == node  # type: ignore[attr-defined]
    assert next(line for line in explored.lines() if line.mark == "cursor").text == row


def test_a_tree_by_hand() -> None:
    """Two steps of one forward, a backward thread without Python, and one without a stack."""
    inside = [frame("mul", "/x/site-packages/torch/ops.py", 5), frame("forward", "m.py", 3)]
    main = frame("main", "t.py", 1)
    file = (
        trace()
        .alloc("a", 4 * MIB, frames=[*inside, main])
        .alloc("b", 2 * MIB, frames=[frame("backward", "m.py", 9), main])
        .alloc("c", 1 * MIB, frames=[frame("at::empty", "??", 0)])
        .file()
    )
    explored = Explored(file).press("3", "E")
    rows = [line.text.rstrip() for line in explored.lines()[4:9]]
    assert [re.sub(r" +", " ", row) for row in rows] == [
        " 7.00 MiB 100.0% 3 ▾ all that is live",
        " 6.00 MiB 85.7% 2 ▾ main t.py:1",
        " 4.00 MiB 57.1% 1 forward m.py:3",
        " 2.00 MiB 28.6% 1 backward m.py:9",
        " 1.00 MiB 14.3% 1 at::empty",
    ]
    explored.press("h", "E")
    assert "mul  torch/ops.py:5" in explored.text() or "mul" in explored.text()
    explored.press("h", "u", "E")
    rows = [re.sub(r" +", " ", line.text.rstrip()) for line in explored.lines()[4:10]]
    assert rows[1:4] == [
        " 4.00 MiB 57.1% 1 ▾ forward m.py:3",
        " 4.00 MiB 57.1% 1 main t.py:1",
        " 2.00 MiB 28.6% 1 ▾ backward m.py:9",
    ]


def test_keys_of_the_tree_go_where_they_say(samples: Path) -> None:
    explored = Explored(samples / "training_step.pickle", size=(120, 60)).press("3", "C")
    screen = explored.panes.desk.shown
    tree = screen.rows.tree  # type: ignore[attr-defined]
    explored.press("right")
    child = screen.node  # type: ignore[attr-defined]
    assert tree.parent[child] == 0
    explored.press("left")
    assert screen.node == 0  # type: ignore[attr-defined]
    explored.press("right", "]")
    assert screen.node == child + 1  # type: ignore[attr-defined]
    explored.press("[")
    assert screen.node == child  # type: ignore[attr-defined]
    explored.press("e")
    below = screen.rows.below(child)  # type: ignore[attr-defined]
    assert set(below.tolist()) <= set(screen.items.tolist())  # type: ignore[attr-defined]
    explored.press("c")
    assert screen.items.tolist().count(child) == 1  # type: ignore[attr-defined]
    assert not set(below.tolist()) - {child} & set(screen.items.tolist())  # type: ignore[attr-defined]
    explored.press("f")
    assert screen.items[0] == child  # type: ignore[attr-defined]
    explored.press("E", "end", "r")
    assert screen.node == child  # type: ignore[attr-defined]
    explored.press("q")
    assert screen.items[0] == 0  # type: ignore[attr-defined]
    assert screen.node == child  # type: ignore[attr-defined]


def test_a_search_opens_what_it_finds_and_goes_round(samples: Path) -> None:
    explored = Explored(samples / "training_step.pickle").press("3", "C", "/").type("forward")
    explored.press("enter")
    assert "match 1 of" in explored.text()
    screen = explored.panes.desk.shown
    found = list(screen._found)  # type: ignore[attr-defined]
    assert len(found) > 1
    visited = [screen.node]  # type: ignore[attr-defined]
    for _ in found[1:]:
        visited.append(explored.press("n").panes.desk.shown.node)  # type: ignore[attr-defined]
    assert visited == found
    assert explored.press("n").panes.desk.shown.node == found[0]  # type: ignore[attr-defined]
    assert explored.press("N").panes.desk.shown.node == found[-1]  # type: ignore[attr-defined]
    assert "matching" not in explored.press("escape").text()
    assert explored.panes.desk.shown is screen
    assert explored.press("escape").panes.desk.shown.name == "overview"
    assert not explored.press("escape", "escape").left, "only q leaves"


def test_a_wrong_pattern_is_told_and_nothing_breaks(samples: Path) -> None:
    explored = Explored(samples / "training_step.pickle").press("3", "/").type("/(((/")
    assert explored.press("enter", "n", "N").panes.desk.shown.name == "stacks"


def test_the_same_moment_is_on_every_screen(explored: Explored) -> None:
    explored.press("2", "home", "]", "]")
    told = explored.lines()[2].text
    for number in range(1, len(explored.panes.desk.screens) + 1):
        assert explored.press(str(number)).lines()[2].text == told


@pytest.mark.parametrize("name", some(NAMES, 1))
def test_every_key_of_every_screen_can_be_pressed(name: str, samples: Path) -> None:
    explored = Explored(samples / name)
    desk = explored.panes.desk
    for screen in desk.screens:
        keys: list[Key] = list(screen.KEYS)
        for each in keys:
            for name in each.names:
                desk.show(screen.name)
                explored.press(name)
                if desk.prompt is not None:
                    explored.press("x", "escape")
                assert len(explored.lines()) == explored.size[1]


def test_the_list_of_keys_names_every_key_once(explored: Explored) -> None:
    explored.size = (200, 120)
    for screen in explored.panes.desk.screens:
        names = [name for each in screen.KEYS for name in each.names]
        assert len(set(names)) == len(names), screen.name
        explored.panes.desk.show(screen.name)
        text = explored.press("?").text()
        for each in screen.KEYS:
            assert each.what in text
        explored.press("x")


def test_an_event_is_gone_to_by_its_number(samples: Path) -> None:
    explored = Explored(samples / "training_step.pickle").press("@").type("17").press("enter")
    assert explored.view.event == 17
    explored.press("@").type("many").press("enter")
    assert explored.view.event == 17
    assert "many is not an event" in explored.text()


def test_another_device_has_its_own_figures(samples: Path) -> None:
    explored = Explored(samples / "three_devices.pickle")
    seen = {explored.view.device.name}
    for _ in range(2):
        explored.press("D")
        seen.add(explored.view.device.name)
        assert explored.view.device.name in explored.text()
        explored.press("2", "3", "1")
    assert len(seen) == 3


@pytest.mark.parametrize("name", ["state_only.pickle", "cpu_profile.pickle"])
def test_what_has_no_history_or_no_allocator_is_shown_as_well(name: str, samples: Path) -> None:
    explored = Explored(samples / name)
    for number in range(1, len(explored.panes.desk.screens) + 1):
        explored.press(str(number))
        explored.press("down", "up", "right", "left", "enter")


def test_nothing_allocated_is_shown_too() -> None:
    explored = Explored(trace().file())
    for number in range(1, len(explored.panes.desk.screens) + 1):
        explored.press(str(number), "down", "right", "left", "enter", "+", "-", "home", "end")


def test_two_recordings_stand_side_by_side_or_one_above_the_other(samples: Path) -> None:
    explored = Explored(
        samples / "training_step.pickle", samples / "two_streams.pickle", size=(120, 40)
    )
    assert "◀" in explored.text()
    assert "training_step" in explored.text()
    assert "two_streams" in explored.text()
    explored.press("}", "2")
    assert "▶" in explored.text()
    assert explored.panes.desks[0].shown.name == "overview"
    assert explored.panes.desks[1].shown.name == "timeline"
    explored.press("s")
    assert "▼" in explored.text()
    explored.press("{")
    assert "▲" in explored.text()
    assert len(explored.lines()) == 40


def test_a_click_moves_the_cursor_and_another_opens(samples: Path) -> None:
    explored = Explored(samples / "training_step.pickle").press("3", "C")
    explored.panes.click(5, 5)
    before = explored.panes.desk.shown.count()  # type: ignore[attr-defined]
    explored.panes.click(5, 5, twice=True)
    explored.lines()
    assert explored.panes.desk.shown.count() > before  # type: ignore[attr-defined]
    explored.panes.click(9, 1)
    assert explored.panes.desk.shown.name == "timeline"
    explored.lines()
    explored.panes.click(10, 8)
    assert explored.panes.desk.shown.column_of(explored.view.event) == 0  # type: ignore[attr-defined]

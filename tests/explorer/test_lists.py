"""Lines, allocations, stages, the allocator, events, the recording, SQL and the change."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from snapreport import convert, diff
from snapreport.commands.explorer.allocations import find_events
from snapreport.commands.explorer.desk import Panes
from snapreport.commands.explorer.opening import open_file
from snapreport.commands.explorer.screen import Viewpoint
from snapreport.commands.explorer.segments import lay_segments
from snapreport.figures.moments import entry_at
from snapreport.figures.segments import heap_at
from snapreport.ground.cards import wanted_card
from tests.builders import BASE, KIB, MIB, frame, trace
from tests.explorer.exploring_tools import Explored, open_here


def screen_of(explored: Explored, name: str) -> Explored:
    names = [each.name for each in explored.panes.desk.screens]
    explored.panes.desk.show(name)
    assert name in names
    explored.lines()
    return explored


def test_lines_count_only_files_that_are_asked_for(samples: Path) -> None:
    explored = screen_of(Explored(samples / "training_step.pickle", size=(140, 40)), "lines")
    explored.press("i").type("attention.py, -torch").press("enter")
    text = explored.text()
    assert "attention.py:39" in text
    assert "no matching frame" in text
    assert "transformer.py" not in text
    total = sum(row[0] for row in explored.panes.desk.shown.as_table()[1])  # type: ignore[misc]
    assert total == explored.view.moment.bytes
    explored.press("i", "ctrl+u", "enter", "o")
    medians = [row[2] for row in explored.panes.desk.shown.as_table()[1]]
    assert medians == sorted(medians, reverse=True)  # type: ignore[type-var]


def test_a_line_leads_to_its_stacks(samples: Path) -> None:
    explored = screen_of(Explored(samples / "training_step.pickle"), "lines").press("enter")
    assert explored.panes.desk.shown.name == "stacks"
    assert "train.py:43" in next(line for line in explored.lines() if line.mark == "cursor").text
    assert explored.press("q").panes.desk.shown.name == "lines"


def test_an_allocation_leads_to_its_birth_and_its_end(samples: Path) -> None:
    explored = screen_of(Explored(samples / "training_step.pickle"), "live").press("down")
    screen = explored.panes.desk.shown
    chosen = screen.chosen  # type: ignore[attr-defined]
    rows = explored.view.device.allocations
    explored.press(")")
    assert explored.view.event == int(rows.free_requested_event[chosen]) - 1
    assert screen.chosen == chosen  # type: ignore[attr-defined]
    explored.press("(")
    assert explored.view.event == int(rows.alloc_event[chosen])
    assert screen.chosen == chosen  # type: ignore[attr-defined]
    assert "train.py:88" in explored.press("enter").text()


def test_groups_of_every_kind_add_up(samples: Path) -> None:
    explored = screen_of(Explored(samples / "training_step.pickle"), "live")
    for _ in range(12):
        total = sum(row[0] for row in explored.panes.desk.shown.as_table()[1])  # type: ignore[misc]
        assert total == explored.view.moment.bytes
        explored.press("y")


def test_a_stage_leads_to_its_peak_and_to_the_timeline(samples: Path) -> None:
    explored = screen_of(Explored(samples / "training_step.pickle"), "stages")
    explored.press("down", "down", "enter")
    stage = explored.view.device.stages[2]
    assert explored.view.event == stage.peak_event
    explored.press("z")
    assert explored.panes.desk.shown.name == "timeline"
    x0, x1 = explored.panes.desk.shown.window  # type: ignore[attr-defined]
    assert x0 <= stage.start_event
    assert stage.end_event <= x1
    assert x1 - x0 < 1.2 * (stage.end_event - stage.start_event)


def test_cells_add_up_to_their_blocks(samples: Path) -> None:
    for name in ("two_streams.pickle", "private_pool.json"):
        explored = Explored(samples / name)
        device = explored.view.device
        for event in (-1, device.events // 3, device.peak.event, device.events - 1):
            heap = heap_at(device.file, device.figures, event)
            for width, zoom in ((7, 0), (60, 0), (60, 5), (33, -3)):
                cells = lay_segments(heap, width, zoom)
                used = np.zeros(len(heap.size), np.int64)
                waits = np.zeros(len(heap.size), np.int64)
                for place in range(len(cells.segment)):
                    amounts, pending = cells.amounts(place)
                    used[cells.segment[place]] += amounts.sum()
                    waits[cells.segment[place]] += pending.sum()
                    assert (amounts <= np.diff(cells.edges(place))).all()
                expected = np.zeros(len(heap.size), np.int64)
                np.add.at(expected, heap.segment, heap.bytes)
                assert used.tolist() == expected.tolist()
                assert waits.sum() == heap.bytes[heap.pending].sum()


def test_blocks_are_gone_through_one_by_one(samples: Path) -> None:
    explored = screen_of(Explored(samples / "training_step.pickle"), "allocator")
    screen = explored.panes.desk.shown
    explored.press("right")
    seen = [screen.block]  # type: ignore[attr-defined]
    for _ in range(len(screen.heap.row) + 3):  # type: ignore[attr-defined]
        explored.press("right")
        seen.append(screen.block)  # type: ignore[attr-defined]
    assert sorted(set(seen)) == list(range(len(screen.heap.row)))  # type: ignore[attr-defined]
    explored.press("left")
    assert screen.block == len(screen.heap.row) - 2  # type: ignore[attr-defined]


EVENTS = (
    trace()
    .alloc("a", 4 * MIB, frames=[frame("forward", "model.py", 3)])
    .alloc("b", 2 * KIB, frames=[frame("loss", "train.py", 9)])
    .request("b", frames=[frame("main", "train.py", 1)])
    .complete("b")
    .event("oom", addr=100, size=8 * MIB)
    .file()
)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("", [0, 1, 2, 3, 4]),
        ("alloc", [0, 1]),
        ("alloc free_completed", [0, 1, 3]),
        (">=1MiB", [0, 4]),
        ("<1m", [1, 2, 3]),
        ("1k..3k", [1, 2, 3]),
        ("2KiB", [1, 2, 3]),
        ("forward", [0]),
        ("model.py:3", [0]),
        ("train.py alloc", [1]),
        ('"alloc"', []),
        ("0x7f0000000010", [0]),
        ("oom", [4]),
        ("nothing-of-the-kind", []),
    ],
)
def test_events_are_filtered_as_on_the_page(typed: str, expected: list[int]) -> None:
    device = EVENTS.devices[0]
    assert find_events(device, EVENTS.stacks, typed).tolist() == expected


def test_the_list_of_events_follows_the_moment_and_leads_it(samples: Path) -> None:
    explored = screen_of(Explored(samples / "training_step.pickle"), "events")
    row = next(line for line in explored.lines() if line.mark == "cursor").text
    assert "▶" in row
    assert "793" in row
    explored.press("up", "enter")
    assert explored.view.event == 792
    explored.press("i").type("oom").press("enter")
    assert "0 of 1,248" in explored.text()
    explored.press("i", "ctrl+u").type("segment_alloc").press("enter", "home", "enter")
    entry = entry_at(explored.view.device.history, explored.view.event)
    assert entry is not None
    assert entry.action == "segment_alloc"


def test_the_recording_says_whether_to_trust_it(samples: Path) -> None:
    explored = screen_of(Explored(samples / "training_step.pickle", size=(100, 90)), "recording")
    text = explored.text()
    assert "You can trust the figures" in text
    assert "20ae4c6b3a38790d44e81f5a74f6d239" in text
    assert "expandable_segments" in text


def test_sql_is_asked_beside_the_screen(samples: Path, tmp_path: Path) -> None:
    bundle = convert(samples / "two_streams.pickle", tmp_path / "two.zip")
    done: list[Callable[[], None]] = []

    def run(work: Callable[[], Callable[[], None]]) -> None:
        thread = threading.Thread(target=lambda: done.append(work()))
        thread.start()
        thread.join(60)
        done.pop()()

    panes = Panes([Viewpoint(open_file(bundle))], run, lambda: None)
    panes.press(":")
    panes.draw(100, 30)
    assert any("CREATE TABLE" in line.text for line in panes.draw(100, 30))
    for name in (*"SELECT count", "(", "*", ")", *" AS many FROM allocations", "enter"):
        panes.press("space" if name == " " else name)
    text = "\n".join(line.text for line in panes.draw(100, 30))
    assert "many" in text
    assert f"{len(panes.desk.view.device.allocations)}" in text
    for name in ("i", *"DROP TABLE frames", "enter"):
        panes.press("space" if name == " " else name)
    assert "can only read" in panes.draw(100, 30)[-1].text
    for name in ("i", *"WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) ", "up"):
        panes.press("space" if name == " " else name)
    assert panes.desk.prompt is not None
    assert panes.desk.prompt.text == "DROP TABLE frames"


def test_the_change_is_that_of_diff(samples: Path) -> None:
    one, other = samples / "training_step.pickle", samples / "two_streams.pickle"
    explored = Explored(one, other, size=(200, 50)).press("x")
    screen = explored.panes.desk.shown
    tree = screen.change  # type: ignore[attr-defined]
    found = diff(one, other)
    assert int(tree.change[0]) == found.new.bytes - found.base.bytes
    for amounts in (tree.base, tree.new, tree.change):
        below = np.zeros(len(tree), np.int64)
        np.add.at(below, tree.parent[1:], amounts[1:])
        inner = np.flatnonzero(np.bincount(tree.parent[1:], minlength=len(tree)))
        assert (np.abs(below[inner]) <= np.abs(amounts[inner])).all() or amounts is tree.change
    explored.press("}", "2", "home")
    explored.press("{")
    after = int(screen.view.pair[1].moment.bytes)  # type: ignore[index]
    explored.lines()
    assert int(screen.change.new[0]) == after  # type: ignore[attr-defined]


def test_what_moved_to_another_line_is_the_same_path() -> None:
    def recorded(line: int, size: int) -> Explored:
        frames = [frame("forward", "m.py", line), frame("main", "t.py", 1)]
        return Explored(trace().alloc("a", size, frames=frames).file())

    before, after = recorded(3, 4 * MIB), recorded(9, 6 * MIB)
    files = [each.view.opened.snapshot.history for each in (before, after)]
    explored = Explored(*files, size=(161, 30)).press("x", "E")
    rows = explored.panes.desk.shown.as_table()[1]
    assert [row[:4] for row in rows] == [
        (0, 2 * MIB, 4 * MIB, 6 * MIB),
        (1, 2 * MIB, 4 * MIB, 6 * MIB),
        (2, 2 * MIB, 4 * MIB, 6 * MIB),
    ]
    assert "m.py:9" in str(rows[2])


def test_a_recording_with_itself_has_no_change(samples: Path) -> None:
    path = samples / "training_step.pickle"
    explored = Explored(path, path, size=(200, 50)).press("x")
    assert not explored.panes.desk.shown.change.change.any()  # type: ignore[attr-defined]


def test_the_allocators_map_marks_what_a_small_block_keeps() -> None:
    """A block of 1 KiB is left of a segment of 20 MiB."""
    made = trace().event("segment_alloc", addr=BASE, size=20 * MIB)
    made.alloc(BASE, 8 * MIB).alloc(BASE + 8 * MIB, 2 * MIB, frames=[frame("keep")])
    made.free(BASE).segment(
        BASE, 20 * MIB, (8 * MIB, 0, "free"), (2 * MIB, 2 * MIB, "live"), (10 * MIB, 0, "free")
    )
    explored = screen_of(Explored(made.file()), "allocator")
    explored.view.go_to(99)  # the end
    text = explored.text()
    assert f"{BASE:x}!20.00 MiB" in text
    assert "! 18.00 MiB kept from going back by one or two small blocks, in 1 segment" in text
    assert "18.00 MiB kept by 1 block of 2.00 MiB, made by keep" in text
    explored.view.go_to(2)
    assert "!" not in explored.text()


def test_the_overview_says_whether_it_fits_on_the_card_that_was_asked_about(samples: Path) -> None:
    view = Viewpoint(open_here(samples / "training_step.pickle"), None, wanted_card("6GB"))
    panes = Panes([view], lambda work: work()(), lambda: None)
    panes.draw(80, 24)
    text = " ".join(line.text.strip() for line in panes.draw(80, 24))
    assert view.device.fits("6GB").text in text

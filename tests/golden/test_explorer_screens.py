"""Every screen of the explorer, letter by letter, at two sizes, from three recordings.

``make golden`` rewrites them; then read the diff. Below each screen stands a mark of its roles: a
screen whose letters stay and whose colours change has another one.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

import pytest

from tests.explorer.exploring_tools import LARGE, SMALL, Explored

EXPECTED = Path(__file__).with_name("expected") / "explorer"
SAMPLES = ("training_step.pickle", "out_of_memory.pickle.gz", "three_devices.pickle")
NOT_HERE = {"query": "has a test of its own: it asks a process", "recording": "names the path"}


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", SAMPLES)
def test_screens_are_as_expected(
    name: str, size: tuple[int, int], samples: Path, rewrite_golden: bool
) -> None:
    explored = Explored(samples / name, size=size)
    parts = []
    for screen in explored.panes.desk.screens:
        if screen.name not in NOT_HERE:
            explored.panes.desk.show(screen.name)
            parts.append(told(explored, screen.title))
    explored.panes.desk.show("stacks")
    parts.append(told(explored.press("u", "E", "down", "/").type("forward"), "Search, upward"))
    parts.append(told(explored.press("enter", "?"), "Keys"))
    check(f"{name.split('.')[0]}_{size[0]}x{size[1]}.txt", parts, rewrite_golden)


def test_two_recordings_are_as_expected(samples: Path, rewrite_golden: bool) -> None:
    explored = Explored(*(samples / name for name in SAMPLES[:2]), size=(160, 40))
    parts = [told(explored.press("2", "}", "2"), "Timelines")]
    parts.append(told(explored.press("s", "{", "x"), "Change, above"))
    check("two_160x40.txt", parts, rewrite_golden)


def told(explored: Explored, title: str) -> str:
    """Return a screen as text with a frame, and the mark of its roles."""
    lines = explored.lines()
    roles = "\n".join(
        " ".join(f"{run.role}:{len(run.text)}" for run in line.runs) + line.mark for line in lines
    )
    mark = blake2b(roles.encode(), digest_size=4).hexdigest()
    body = "\n".join(f"│{line.text.rstrip()}" for line in lines)
    return f"── {title} ──\n{body}\n── roles {mark} ──\n"


def check(name: str, parts: list[str], rewrite: bool) -> None:
    text = "\n".join(parts)
    path = EXPECTED / name
    if rewrite:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")

"""Every screen of the explorer from three real snapshots: both sizes, both themes, every colour.

What is kept is a mark of each, as they are strangers' files; the screens of our own samples beside
this one can be read.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

from snapreport.commands.explorer.app import strip_of
from tests.explorer.exploring_tools import LARGE, SMALL, Explored

EXPECTED = Path(__file__).with_name("expected") / "explorer" / "real_snapshots.txt"
NAMES = ("mem_snapshot.pickle", "oom_snapshot_torch20.pickle", "compiled_lone_end.pickle")
LEFT_OUT = ("query", "recording")
"""The one asks a process, the other names the path."""


def marks(explored: Explored, name: str) -> list[str]:
    found = []
    for screen in explored.panes.desk.screens:
        if screen.name in LEFT_OUT:
            continue
        explored.panes.desk.show(screen.name)
        for theme in ("dark", "light"):
            whole = blake2b(digest_size=6)
            for line in explored.lines():
                for segment in strip_of(line, explored.size[0], theme):
                    whole.update(f"{segment.text}\0{segment.style}\0".encode())
            size = "{}x{}".format(*explored.size)
            found.append(f"{name} {size} {screen.name} {theme} {whole.hexdigest()}")
    return found


def test_screens_of_real_snapshots_are_as_expected(corpus: Path, rewrite_golden: bool) -> None:
    found = [
        mark
        for name in NAMES
        for size in (SMALL, LARGE)
        for mark in marks(Explored(corpus / name, size=size), name)
    ]
    if rewrite_golden:
        EXPECTED.write_text("\n".join(found) + "\n", encoding="utf-8")
    assert found == EXPECTED.read_text(encoding="utf-8").splitlines()
    assert len(set(found)) == len(found)
    dark = [line.split()[-1] for line in found if " dark " in line]
    light = [line.split()[-1] for line in found if " light " in line]
    assert not set(dark) & set(light), "themes differ in their colours"

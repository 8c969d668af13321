"""The text of the program's own lines is noted, where it is surely that which ran."""

from __future__ import annotations

import linecache
import os
import py_compile
import time
from pathlib import Path
from typing import Any

import pytest

from snapreport.model.snapshot import LONGEST_CODE, SOURCE
from snapreport.names.personal_data import Known
from snapreport.recorders import finishing
from snapreport.recorders.finishing import distinct_frames, note_line_texts
from tests.builders import frame

NOBODY = Known(frozenset(), frozenset())
NOW = time.time()


def noted(*frames: dict[str, Any], known: Known = NOBODY, began: float = NOW) -> list[str | None]:
    snapshot = {
        "device_traces": [[{"action": "alloc", "frames": [each]} for each in frames]],
        "segments": [{"frames": list(frames), "blocks": [{"frames": []}, {}]}],
    }
    note_line_texts(distinct_frames(snapshot), known, began)
    return [each.get(SOURCE) for each in frames]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text("import torch\n\n    loss.backward()  # é\n")
    os.utime(path, (NOW - 60, NOW - 60))
    return path


def test_a_line_of_the_users_own_has_its_text_without_the_space_around_it(program: Path) -> None:
    name = str(program)
    assert noted(frame("main", name, 3), frame("main", name, 1), frame("main", name, 9)) == [
        "loss.backward()  # é",
        "import torch",
        None,
    ]


def test_lines_of_libraries_of_no_file_and_those_not_at_work_have_none(program: Path) -> None:
    assert (
        noted(
            frame("forward", "/x/site-packages/torch/nn/functional.py", 3),
            frame("f", "??", 3),
            frame("f", "", 3),
            frame("f", "<string>", 1),
            frame("f", "a\0b.py", 1),
            frame("f", str(program), 0),
            frame("f", str(program), 3) | {"line_is": "function start"},
            {"name": "f", "filename": 7, "line": "x"},
        )
        == [None] * 8
    )


def test_a_file_that_was_changed_since_has_none(program: Path) -> None:
    assert noted(frame("main", str(program), 3), began=NOW - 120) == [None]


def test_a_module_that_was_changed_after_it_was_compiled_has_none(program: Path) -> None:
    program.write_text("import torch\n\nloss.forward()\n")
    os.utime(program, (NOW - 60, NOW - 60))
    py_compile.compile(str(program), doraise=True)
    assert noted(frame("main", str(program), 3)) == ["loss.forward()"]
    program.write_text("import torch\n\nloss.sideward()\n")
    os.utime(program, (NOW - 30, NOW - 30))
    assert noted(frame("main", str(program), 3)) == [None]


def test_a_cell_of_a_notebook_is_read_where_python_keeps_it() -> None:
    cell = "/tmp/ipykernel_4711/123.py"
    linecache.cache[cell] = (9, None, ["x = model(batch)\n"], cell)
    try:
        assert noted(frame("<module>", cell, 1)) == ["x = model(batch)"]
    finally:
        del linecache.cache[cell]


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")  # to read it would wait for ever
    (tmp_path / "folder.py").mkdir()
    assert noted(*(frame("f", str(tmp_path / name), 1) for name in ("pipe.py", "folder.py"))) == [
        None,
        None,
    ]


def test_names_of_people_are_not_in_the_text(program: Path) -> None:
    program.write_text("a = open('/home/alice/secret.txt')\n")
    os.utime(program, (NOW - 60, NOW - 60))
    (text,) = noted(frame("f", str(program), 1), known=Known(frozenset(["alice"]), frozenset()))
    assert text is not None
    assert "alice" not in text


def test_lines_are_cut_and_their_number_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "long.py"
    path.write_text("\n".join(f"x{i} = '{'y' * 500}'" for i in range(30)))
    os.utime(path, (NOW - 60, NOW - 60))
    frames = [frame(f"f{i}", str(path), i + 1) for i in range(30)]
    texts = noted(*frames)
    assert all(text is not None and len(text) == LONGEST_CODE for text in texts)
    monkeypatch.setattr(finishing, "_MOST_LINES", 7)
    again = [frame(f"f{i}", str(path), i + 1) for i in range(30)]
    assert [text is not None for text in noted(*again)] == [True] * 7 + [False] * 23
    monkeypatch.setattr(finishing, "_MOST_LINES", 100)
    monkeypatch.setattr(finishing, "_MOST_LETTERS", 5 * LONGEST_CODE)
    fresh = [frame(f"f{i}", str(path), i + 1) for i in range(30)]
    assert sum(text is not None for text in noted(*fresh)) == 5

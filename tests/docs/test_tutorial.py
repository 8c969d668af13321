"""Whoever follows the tutorial to the letter sees what it shows."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.docs.examples import find_commands, is_like
from tests.docs.tutorial import TUTORIAL, follow


@pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch")
def test_who_follows_the_tutorial_sees_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tutorial"
    folder.mkdir()
    monkeypatch.chdir(folder)
    text = TUTORIAL.read_text(encoding="utf-8")
    done = list(follow(text, folder))
    assert [example for example, _ in done] == find_commands(text)
    for example, printed in done:
        shown = example.output or ""
        assert is_like(printed, shown), f"line {example.line}: {example.code}\n{printed}"


def test_a_tutorial_saves_files_and_changes_them(tmp_path: Path) -> None:
    saves = "Save `a.py`:\n\n```python\nx = 1\ny = 2\n```\n\n"
    change = "Change `a.py`:\n\n```diff\n x = 1\n-y = 2\n+y = 3\n```\n"
    assert list(follow(saves + change, tmp_path)) == []
    assert (tmp_path / "a.py").read_text() == "x = 1\ny = 3\n"
    with pytest.raises(AssertionError, match="0 times in the file"):
        list(follow(change, tmp_path))
    with pytest.raises(AssertionError, match="names no file"):
        list(follow("Save this:\n\n```python\nx = 1\n```\n", tmp_path))

"""Compiled templates are kept beside their sources, and used only while those are the same."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from snapreport.ground import templates


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(templates, "templates_folder", lambda: tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    (tmp_path / "a.j2").write_text("<p>{{ x }}</p>")
    return tmp_path


def rendered() -> str:
    fresh = templates.environment.__wrapped__()
    return fresh.get_template("a.j2").render(x="<&")


def test_a_compiled_template_is_kept_and_gives_the_same(folder: Path) -> None:
    first = rendered()
    (kept,) = (folder / "__pycache__").iterdir()
    assert kept.stat().st_mode & 0o444 == 0o444
    before = kept.stat().st_mtime_ns
    assert rendered() == first == "<p>&lt;&amp;</p>"
    assert kept.stat().st_mtime_ns == before  # it was read, not made again


def test_a_template_that_was_changed_is_compiled_again(folder: Path) -> None:
    rendered()
    (folder / "a.j2").write_text("<b>{{ x }}</b>")
    assert rendered() == "<b>&lt;&amp;</b>"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (rb"(?s)^(.{40}).*", rb"\1"),  # UnpicklingError
        (rb"(?s)\x80\x02X.*", b""),  # EOFError
        (rb"\x80\x02X", b"\x80\xffX"),  # ValueError
        (rb"\x80\x02X(....).", b"\x80\x02X\\1\xff"),  # UnicodeDecodeError
    ],
)
def test_a_kept_template_that_is_damaged_is_compiled_again(
    folder: Path, old: bytes, new: bytes
) -> None:
    first = rendered()
    (kept,) = (folder / "__pycache__").iterdir()
    whole = kept.read_bytes()
    bent = re.sub(old, new, whole, count=1)
    assert bent != whole
    kept.write_bytes(bent)
    assert rendered() == first
    assert kept.read_bytes() != bent


def test_nothing_is_written_where_python_writes_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert rendered() == "<p>&lt;&amp;</p>"
    assert not (folder / "__pycache__").exists()


def test_a_folder_that_takes_no_file_is_no_hindrance(folder: Path) -> None:
    (folder / "__pycache__").write_text("a file is in the way")
    assert rendered() == "<p>&lt;&amp;</p>"

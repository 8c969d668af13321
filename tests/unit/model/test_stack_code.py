"""The text of a frame's line, whoever wrote the file."""

from __future__ import annotations

import pytest

from snapreport.model.snapshot import LONGEST_CODE, SOURCE
from tests.builders import frame, trace


def text_of(source: object) -> str:
    stack = [frame("forward", "model.py", 3) | {SOURCE: source}]
    frames = trace().alloc("a", 512, frames=stack).file().stacks.frames
    return frames.code(0)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("  x = y + 1\n", "x = y + 1"),
        ("x\x1b[31m\ny\u202e", "x\\x1b[31m\\ny\\u202e"),
        (None, ""),
        (7, "7"),
        ("<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"),
    ],
)
def test_it_is_one_line_that_drives_nothing(source: object, text: str) -> None:
    assert text_of(source) == text


def test_it_has_an_end() -> None:
    assert len(text_of("x" * 10**4)) == LONGEST_CODE
    assert len(text_of("\x1b" * 10**4)) == LONGEST_CODE
    assert text_of("x" * LONGEST_CODE) == "x" * LONGEST_CODE


def test_a_frame_without_it_has_none() -> None:
    frames = trace().alloc("a", 512, frames=[frame("f")]).file().stacks.frames
    assert frames.code(0) == ""

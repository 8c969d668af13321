"""Does what the tutorial says, from its first line to its last."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tests.docs.examples import _BLOCK, ROOT, Example, find_commands, run_example

TUTORIAL = ROOT / "docs" / "tutorial.md"

_NAMED = re.compile(r"`([\w.]+)`:\n\n\Z")
"""How the sentence before a file, or before a change of it, ends."""


def follow(text: str, folder: Path) -> Iterator[tuple[Example, str]]:
    """Save the files, make the changes and run the commands of a tutorial, in the current folder.

    A ``python`` block is a file to save, and a ``diff`` block a change of one; the sentence before
    it ends in its name.

    Yields:
        Each command, with what it printed.
    """
    for block in _BLOCK.finditer(text):
        if block[1] == "console":
            above = text.count("\n", 0, block.start())
            for example in find_commands(block[0]):
                placed = replace(example, line=above + example.line)
                yield placed, run_example(example, folder)
        elif block[1] in ("python", "diff"):
            named = _NAMED.search(text, 0, block.start())
            assert named, f"{block[2]}: the sentence before it names no file"
            file = folder / named[1]
            changed = block[2] if block[1] == "python" else _edited(file.read_text(), block[2])
            file.write_text(changed)


def _edited(text: str, change: str) -> str:
    lines = change.splitlines(keepends=True)
    old, new = ("".join(each[1:] for each in lines if each[0] in kept) for kept in (" -", " +"))
    assert text.count(old) == 1, f"stands {text.count(old)} times in the file:\n{old}"
    return text.replace(old, new)

"""Find the newest of a folder's recordings: the numbered folder that ``latest`` points to.

A link, or where there are none the file ``latest.txt`` with the number.
"""

from __future__ import annotations

import re
from pathlib import Path

from snapreport.ground.files import is_folder, open_regular

LATEST = "latest"
LATEST_FILE = "latest.txt"
NUMBER = re.compile(r"[1-9]\d{0,8}")
"""The name of a recording's folder."""
WRITTEN = re.compile(
    r"(?P<stem>snapshot|snap|report)(\.[\w-]{1,99}){0,3}\.(pickle|pickle\.zst|zip|html|md)"
)
"""The names of files that recordings leave, as ``report.rank3.oom.html``."""


def latest_number(parent: Path) -> int:
    """Return the number that ``latest`` points to; 0 if there is none, or its folder is gone."""
    try:
        name = str((parent / LATEST).readlink())
    except OSError:
        try:
            with open_regular(parent / LATEST_FILE) as file:
                name = file.read(32).decode().strip()
        except (OSError, ValueError):
            return 0
    known = NUMBER.fullmatch(name) and is_folder(parent / name)
    return int(name) if known else 0


def name_a_file(folder: Path) -> str:
    """Say that a file is needed, not this folder, and which file to name."""
    number = latest_number(folder)
    if number:
        return f"is a folder of recordings; name a file of the newest, in {folder / str(number)}."
    return "is a folder; name a file in it."

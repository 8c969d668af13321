"""What tests look for in a recording's folder."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import snapreport

MIB = 2**20
ALL = {"snapshot.pickle", "snap.zip", "report.html", "report.md"}


def names(folder: Path) -> set[str]:
    """The names of the files of the first recording into a folder."""
    return {path.name for path in (folder / "1").iterdir()}


def allocations(path: Path) -> list[int]:
    """The sizes that were allocated in a recording, in order."""
    rows = snapreport.load(path).device("cuda:0").allocations
    return [int(size) for size in rows.size[rows.alloc_event >= 0]]


def metadata(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        found: dict[str, Any] = pickle.load(file)["snapreport"]
    return found

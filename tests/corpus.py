"""The real snapshots that tests read where there are some: the folder SNAPREPORT_CORPUS names."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

import snapreport
from snapreport.model.findings import Findings

NO_CORPUS = "SNAPREPORT_CORPUS names no folder of real snapshots"
_REFUSED = "not_a_snapshot.pickle"


def corpus_files() -> list[Path]:
    """Return every file that is a snapshot, by name; none without a folder."""
    folder = os.environ.get("SNAPREPORT_CORPUS")
    if not folder:
        return []
    found = (path for kind in ("*.pickle", "*.pkl") for path in Path(folder).glob(kind))
    return sorted(path for path in found if path.name != _REFUSED)


@cache
def loaded(path: Path, *, keep_paths: bool = False) -> snapreport.Snapshot:
    """Return a real snapshot, read once for all tests of a process that only look at it."""
    return snapreport.load(path, keep_paths=keep_paths)


@cache
def findings_of(path: Path) -> Findings:
    """Return what is found in a real snapshot, likewise."""
    return loaded(path).findings()


every_corpus_file = pytest.mark.parametrize(
    "path",
    corpus_files() or [pytest.param(None, marks=pytest.mark.skip(NO_CORPUS))],
    ids=lambda path: path.name if path else "none",
)
"""For laws, which hold for any file: whoever adds one to the folder has it tested too."""

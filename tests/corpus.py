"""The real snapshots that tests read where there are some: the folder SNAPREPORT_CORPUS names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

import snapreport
from snapreport.model.findings import Findings
from tests.thorough import IN_FULL, small

NO_CORPUS = "SNAPREPORT_CORPUS names no folder of real snapshots"
_REFUSED = "not_a_snapshot.pickle"


def corpus_files() -> list[Path]:
    """Return every file that is a snapshot, by name; none without a folder."""
    folder = os.environ.get("SNAPREPORT_CORPUS")
    if not folder:
        return []
    found = (path for kind in ("*.pickle", "*.pkl") for path in Path(folder).glob(kind))
    return sorted(path for path in found if path.name != _REFUSED)


_LARGE = "three_gpus_expandable_oom.pickle"


def representative(files: Sequence[Path]) -> Sequence[Path]:
    """Return all small files, and of the large ones one, which has the most of what there can be.

    It has three devices, segments that expand and a failed request; ``make thorough`` takes all.
    """
    return files if IN_FULL else [*small(files), *(p for p in files if p.name == _LARGE)]


@cache
def loaded(path: Path, *, keep_paths: bool = False) -> snapreport.Snapshot:
    """Return a real snapshot, read once for all tests of a process that only look at it."""
    return snapreport.load(path, keep_paths=keep_paths)


@cache
def findings_of(path: Path, *, keep_paths: bool = False) -> Findings:
    """Return what is found in a real snapshot, likewise."""
    return loaded(path, keep_paths=keep_paths).findings()


def _of_each(files: Sequence[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "path",
        files or [pytest.param(None, marks=pytest.mark.skip(NO_CORPUS))],
        ids=lambda path: path.name if path else "none",
    )


every_corpus_file = _of_each(corpus_files())
"""For laws, which hold for any file: whoever adds one to the folder has it tested too."""

representative_corpus_file = _of_each(representative(corpus_files()))
"""For laws of what is written of a history, which is the same for large files and small ones."""

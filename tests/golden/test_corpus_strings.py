"""The default report and bundle of every real snapshot say nothing of who made it, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapreport.names.file_strings import find_leaks, list_strings
from snapreport.names.personal_data import Known, find_users
from tests.corpus import NO_CORPUS, corpus_files, loaded
from tests.golden.conftest import Make

FILES = corpus_files()
pytestmark = pytest.mark.skipif(not FILES, reason=NO_CORPUS)

EXCEPTIONS: dict[str, set[str]] = {}
"""By the file's name, the parts that --check finds in its reports, each with the reason why it may
stay; there is none."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
@pytest.mark.parametrize("ending", ["zip", "html", "md"])
def test_a_default_report_is_clean(path: Path, ending: str, made: Make) -> None:
    # Whoever is in the snapshot itself must not be found by name either.
    raw = loaded(path, keep_paths=True).history.stacks.frames.filenames
    users = find_users(raw)
    leaks = find_leaks(list_strings(made(path, ending)), Known(frozenset(users), frozenset()))
    assert {leak.found for leak in leaks} == EXCEPTIONS.get(path.name, set())


def test_a_snapshot_itself_is_not(corpus: Path) -> None:
    leaks = find_leaks(
        list_strings(corpus / "sgd_annotated.pickle"), Known(frozenset(), frozenset())
    )
    assert {leak.found for leak in leaks} == {"C:\\Users\\Zidong", "Zidong"}

"""Files that crashed a reader once, or ran away with it, do so no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev.fuzz import CRASHES
from dev.fuzz.native import HARNESSES
from dev.fuzz.seeds import seeds
from dev.fuzz.targets import TARGETS, run

FILES = {path: path.name.partition("-")[0] for path in sorted(CRASHES.iterdir())}
"""What each one crashed: a reader, or a harness, whose short run begins with it."""


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "path", [path for path in FILES if FILES[path] in TARGETS], ids=lambda path: path.name
)
def test_it_is_read_or_refused(path: Path) -> None:
    run(FILES[path], path.read_bytes())


def test_each_is_of_something_that_is_fuzzed() -> None:
    assert set(FILES.values()) <= {*TARGETS, *HARNESSES, "README.md"}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("target", TARGETS)
def test_no_file_to_begin_with_crashes(target: str) -> None:
    found = seeds(target)
    assert found
    for data in found:
        run(target, data)

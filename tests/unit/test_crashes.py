"""Files that crashed a reader once, or ran away with it, do so no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.seeds import CRASHES, seeds
from fuzz.targets import TARGETS, run

FILES = sorted(path for path in CRASHES.iterdir() if path.name != "README.md")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_is_read_or_refused(path: Path) -> None:
    target = path.name.partition("-")[0]
    assert target in TARGETS
    run(target, path.read_bytes())


@pytest.mark.timeout(60)
@pytest.mark.parametrize("target", TARGETS)
def test_no_file_to_begin_with_crashes(target: str) -> None:
    found = seeds(target)
    assert found
    for data in found:
        run(target, data)

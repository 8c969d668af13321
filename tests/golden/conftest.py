"""What is made of a real snapshot, once for all tests that only read it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import snapreport
from snapreport.api.making import save_report
from tests.corpus import loaded

Make = Callable[[Path, str], Path]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Give a snapshot's bundle (``zip``), page (``html``) or Markdown (``md``), as by default."""

    @cache
    def make(path: Path, ending: str) -> Path:
        target = tmp_path_factory.mktemp(path.stem) / f"made.{ending}"
        if ending == "html":  # of what is loaded already; Markdown is made from the file on
            save_report(loaded(path).findings(allocator=False), target, ending)
            return target
        return (snapreport.convert if ending == "zip" else snapreport.render)(path, target)

    return make

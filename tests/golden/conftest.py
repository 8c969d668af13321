"""What is made of a real snapshot, once for all tests that only read it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import snapreport

Make = Callable[[Path, str], Path]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Give a snapshot's bundle (``zip``), page (``html``) or Markdown (``md``), as by default."""

    @cache
    def make(path: Path, ending: str) -> Path:
        make_it = snapreport.convert if ending == "zip" else snapreport.render
        return make_it(path, tmp_path_factory.mktemp(path.stem) / f"made.{ending}")

    return make

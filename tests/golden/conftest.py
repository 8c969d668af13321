"""What is made of a real snapshot, once for all tests that only read it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import snapreport
from snapreport.api.making import save_report
from snapreport.model.findings import Findings
from tests.corpus import corpus_files, loaded, representative

Make = Callable[[Path, str], Path]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Give a snapshot's bundle (``zip``), page (``html``) or Markdown (``md``), as by default."""

    @cache
    def reported(path: Path) -> Findings:
        return loaded(path).findings(allocator=False)  # as render() asks

    @cache
    def make(path: Path, ending: str) -> Path:
        target = tmp_path_factory.mktemp(path.stem) / f"made.{ending}"
        if ending == "html" or (ending == "md" and path not in representative(corpus_files())):
            save_report(reported(path), target, ending)  # as render() does with a file
            return target
        return (snapreport.convert if ending == "zip" else snapreport.render)(path, target)

    return make

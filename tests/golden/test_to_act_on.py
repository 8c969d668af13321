"""What a summary names is what of the whole diagnosis is more than a note: two ways to it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import snapreport
from tests.conftest import REPOSITORY
from tests.corpus import every_corpus_file

SAMPLES = sorted((REPOSITORY / "sample_snapshots").glob("*.pickle"))


def check(path: Path, ignore: Sequence[str]) -> None:
    for device in snapreport.load(path).findings(ignore=ignore).devices:
        named = device.to_act_on  # before the diagnosis, which it must not depend on
        whole = device.diagnosis.findings
        assert named == tuple(each for each in whole if each.severity != "note")


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("ignore", [(), ("peak", "oom", "growth")], ids=["all", "some"])
def test_of_samples(path: Path, ignore: Sequence[str]) -> None:
    check(path, ignore)


@every_corpus_file
def test_of_real_files(path: Path) -> None:
    check(path, ())

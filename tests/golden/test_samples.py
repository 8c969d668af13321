"""Each sample through each text reporter, compared with the expected files beside this one.

``make golden`` rewrites them; then read the diff.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import snapreport
from snapreport.ground.version import __version__
from tests.documents import report_as

EXPECTED = Path(__file__).with_name("expected")
SAMPLES = (
    "cpu_profile.pickle",
    "expandable_segments.pickle.zst",
    "out_of_memory.pickle.gz",
    "private_pool.json",
    "state_only.pickle",
    "three_devices.pickle",
    "training_step.pickle",
    "truncated_ring.pickle",
    "two_streams.pickle",
)


def test_every_sample_is_tested(samples: Path) -> None:
    stored = {path.name for path in samples.iterdir() if path.suffix not in (".py", ".md")}
    assert stored - {"__pycache__"} == set(SAMPLES)


@pytest.mark.parametrize("kind", ["json", "md", "txt"])
@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_reported_as_expected(
    name: str, kind: str, samples: Path, rewrite_golden: bool
) -> None:
    found = snapreport.load(samples / name).findings()
    report = report_as(found, kind).replace(__version__, "VERSION")
    expected = EXPECTED / f"{name.split('.')[0]}.{kind}"
    if rewrite_golden:
        expected.write_text(report, encoding="utf-8")
    assert report == expected.read_text(encoding="utf-8")

"""Each sample through each text reporter, compared with the expected files beside this one.

``make golden`` rewrites them; then read the diff.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

import snapreport
from snapreport.ground.version import __version__
from snapreport.model.findings import Findings
from snapreport.reporters.json_report import JsonReporter
from snapreport.reporters.markdown import MarkdownReporter
from snapreport.reporters.reporter import Reporter
from snapreport.reporters.summary_text import TextReporter

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
REPORTERS: dict[str, Reporter[Findings]] = {
    "json": JsonReporter(),
    "md": MarkdownReporter(),
    "txt": TextReporter(width=100),
}


def test_every_sample_is_tested(samples: Path) -> None:
    stored = {path.name for path in samples.iterdir() if path.suffix not in (".py", ".md")}
    assert stored - {"__pycache__"} == set(SAMPLES)


@pytest.mark.parametrize("kind", sorted(REPORTERS))
@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_reported_as_expected(
    name: str, kind: str, samples: Path, rewrite_golden: bool
) -> None:
    out = BytesIO()
    REPORTERS[kind].render(snapreport.load(samples / name).findings(), out)
    report = out.getvalue().decode().replace(__version__, "VERSION")
    expected = EXPECTED / f"{name.split('.')[0]}.{kind}"
    if rewrite_golden:
        expected.write_text(report, encoding="utf-8")
    assert report == expected.read_text(encoding="utf-8")

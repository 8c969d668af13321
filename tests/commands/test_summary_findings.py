"""``snapreport summary --findings``: findings as text and JSON, and those that one silences."""

from __future__ import annotations

import pickle
from pathlib import Path

import orjson
import pytest

from tests.builders import BASE, MIB, frame, trace
from tests.commands.conftest import Run


@pytest.fixture
def failed(folder: Path) -> Path:
    """A recording that began late and ended in a failed request."""
    builder = (
        trace()
        .alloc(BASE, 2 * MIB, frames=[frame("forward")])
        .event("oom", addr=None, size=64 * MIB, device_free=MIB)
        .segment(BASE, 20 * MIB, (2 * MIB, 2 * MIB, "live"))
        .segment(BASE + 40 * MIB, 20 * MIB, (20 * MIB, 20 * MIB, "live"))
    )
    path = folder / "failed.pickle"
    path.write_bytes(pickle.dumps(builder.snapshot(), protocol=4))
    return path


def test_the_failed_request_comes_first(run: Run, failed: Path) -> None:
    lines = [line for line in run("summary", failed, "--findings").stdout.splitlines() if line]
    assert lines[0].startswith("cuda:0: 1 critical")
    assert lines[1].startswith("CRITICAL: Out of memory")
    assert "started-late" in run("summary", failed, "--findings").stdout


def test_json_has_every_finding_with_its_evidence_and_unit(run: Run, failed: Path) -> None:
    answer = orjson.loads(run("summary", failed, "--json").stdout)
    (device,) = answer["devices"]
    assert device["device"] == "cuda:0"
    first = device["diagnosis"]["findings"][0]
    assert first["code"] == first["id"] == "oom"
    assert first["severity"] == "critical"
    figures = {each["label"]: (each["value"], each["unit"]) for each in first["evidence"]}
    assert figures["asked for"] == (64 * MIB, "bytes")


@pytest.mark.parametrize("name", ["started-late", "recording"])
def test_a_finding_is_silenced_by_code_or_topic_and_that_is_said(
    run: Run, failed: Path, name: str
) -> None:
    text = run("summary", failed, "--findings", "--ignore", name).stdout
    assert "WARNING" not in text
    assert "Silenced: " in text
    assert "started-late" in text.rpartition("Silenced:")[2]


def test_several_findings_are_silenced_with_commas_as_in_check(run: Run, failed: Path) -> None:
    text = run("summary", failed, "--findings", "--ignore", "started-late, oom").stdout
    assert "Silenced: oom, started-late" in text
    assert "CRITICAL" not in text


def test_a_name_that_no_finding_has_is_wrong_usage(run: Run, failed: Path) -> None:
    result = run("summary", failed, "--findings", "--ignore", "leek")
    assert result.exit_code == 2
    assert "leak" in result.stderr


def test_a_report_leaves_out_what_is_silenced(run: Run, failed: Path, folder: Path) -> None:
    run("render", failed, "-o", folder / "r.html", "--ignore", "started-late")
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert 'data-code="started-late"' not in page
    assert "Silenced when this report was made: started-late." in page

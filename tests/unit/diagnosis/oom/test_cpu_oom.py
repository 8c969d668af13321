"""A program that ended because the CPU's memory was not enough ran out of memory, as any other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pytest

import snapreport
from snapreport.model.asked import (
    NamesWanted,
)
from snapreport.model.snapshot import recorder_info
from snapreport.names.redaction import redact
from snapreport.recorders.system import describe
from snapreport.reporters.json_report import findings_as_json
from tests.documents import report_as

PYTORCH_S = (
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory:"
    " you tried to allocate 21474836480 bytes. Error code 12 (Cannot allocate memory)"
)
NO_FAILURE = "No request for memory failed"


def ended_by(path: Path, error: BaseException | None) -> snapreport.Snapshot:
    """A sample, as if this error had ended the program."""
    history = snapreport.load(path).history
    failure = None if error is None else describe(error)
    noted = recorder_info({"format": 1, "recorder": "torch.profiler", "failure": failure})
    return snapreport.Snapshot(replace(history, recorder=noted))


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (RuntimeError(PYTORCH_S), 20 << 30),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 7 bytes."), 7),
        (MemoryError(), 0),
        (RuntimeError("std::bad_alloc"), 0),
        (OSError(12, "Cannot allocate memory"), 0),
        (ValueError("something else"), None),
    ],
)
def test_which_errors_are_failed_requests(error: Exception, asked: int | None) -> None:
    assert describe(error)["cpu_request"] == asked
    outer = KeyError("while it was handled")
    outer.__cause__ = error
    assert describe(outer)["cpu_request"] == asked


def test_every_report_says_so_and_none_says_that_no_request_failed(samples: Path) -> None:
    snapshot = ended_by(samples / "cpu_profile.pickle", RuntimeError(PYTORCH_S))
    findings = snapshot.findings()
    said = "Out of memory: a request for 20.00 GiB of the CPU's memory failed"
    (first, *_) = findings.devices[0].diagnosis.findings
    assert (first.code, first.severity, first.title) == ("oom", "critical", said)
    assert "dumped-early" not in {each.code for each in findings.devices[0].diagnosis.findings}
    reports = [orjson.dumps(findings_as_json(findings)).decode()]
    reports += [report_as(findings, kind) for kind in ("md", "html")]
    for report in reports:
        assert "a request for 20.00 GiB of the CPU" in report
        assert NO_FAILURE not in report


def raised(message: str) -> RuntimeError:
    try:
        raise RuntimeError(message)
    except RuntimeError as error:
        return error


def test_where_the_failed_request_was_made_is_said(samples: Path) -> None:
    outer = KeyError("while it was handled")
    outer.__cause__ = raised(PYTORCH_S)
    snapshot = ended_by(samples / "cpu_profile.pickle", outer)
    (first, *_) = snapshot.device().diagnosis.findings
    line = raised.__code__.co_firstlineno + 2
    assert first.title.endswith(f"of the CPU's memory failed in raised (test_cpu_oom.py:{line})")
    hidden = snapreport.Snapshot(redact(snapshot.history, NamesWanted(salt="0123456789abcdef")))
    assert "raised" not in hidden.device().diagnosis.findings[0].title


def test_a_request_for_more_than_the_machine_has_is_not_helped_by_freeing(samples: Path) -> None:
    history = snapreport.load(samples / "cpu_profile.pickle").history
    for capacity, enough in ((16 << 30, False), (64 << 30, True), (None, True)):
        row = {"device": "cpu:0", "capacity": capacity}
        values = {"failure": describe(RuntimeError(PYTORCH_S)), "devices": [row]}
        noted = recorder_info({"format": 1, "recorder": "torch.profiler", **values})
        snapshot = snapreport.Snapshot(replace(history, recorder=noted))
        (first, *_) = snapshot.device().diagnosis.findings
        assert bool(first.suggestions) == enough
        assert ("The request must be smaller" in first.explanation) != enough
        assert ("would have lowered" in first.explanation) == enough


def test_a_redacted_report_says_it_too(samples: Path) -> None:
    snapshot = ended_by(samples / "cpu_profile.pickle", RuntimeError(PYTORCH_S))
    hidden = snapreport.Snapshot(redact(snapshot.history, NamesWanted(salt="0123456789abcdef")))
    assert hidden.device().diagnosis.findings[0].code == "oom"


@pytest.mark.parametrize("error", [None, ValueError("something else")])
def test_of_requests_that_a_program_survived_a_profile_knows_nothing(
    samples: Path, error: Exception | None
) -> None:
    (first, *_) = ended_by(samples / "cpu_profile.pickle", error).device().diagnosis.findings
    assert first.code == "peak"
    assert NO_FAILURE not in first.explanation


def explanation(snapshot: snapreport.Snapshot) -> str:
    found = snapshot.device(0).diagnosis.findings
    return next(each.explanation for each in found if each.code == "peak")


def test_on_a_gpu_no_request_failed_as_far_as_that_is_recorded(samples: Path) -> None:
    step = samples / "two_streams.pickle"
    assert f"{NO_FAILURE} on this device in this recording" in explanation(snapreport.load(step))
    ring = snapreport.load(samples / "truncated_ring.pickle")
    assert f"{NO_FAILURE} on this device in the part that was recorded" in explanation(ring)
    ended = ended_by(step, MemoryError())
    assert NO_FAILURE not in explanation(ended)
    assert "but one for the CPU's" in explanation(ended)

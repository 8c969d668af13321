"""What is said where lines are not those at work."""

from __future__ import annotations

from dataclasses import replace

from snapreport.diagnosis.conclude import find
from snapreport.model.history import History
from snapreport.reporters.words import lines_note
from tests.builders import frame, trace
from tests.documents import report_as


def recording(**fields: str) -> History:
    return trace().alloc("a", 512, frames=[frame("forward", "model.py", 12) | fields]).file()


def test_an_operator_of_a_cpu_recording_has_the_line_of_its_def_and_every_table_says_so() -> None:
    findings = find(recording(line_is="function start"))
    for kind in ("md", "txt"):
        assert "has the line of the def that it is in." in report_as(findings, kind)


def test_a_bare_profile_has_no_other_lines() -> None:
    assert "that of a def" in lines_note(replace(recording(), layout="profiler"))


def test_a_recording_of_the_lines_at_work_says_nothing() -> None:
    assert lines_note(recording()) == ""

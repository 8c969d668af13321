"""Progress reports."""

from __future__ import annotations

import pytest

from snapreport.ground.progress import Progress, silent


def test_silence_is_a_progress_callback(capsys: pytest.CaptureFixture[str]) -> None:
    progress: Progress = silent
    progress("reading", None)
    progress("reading", 0.5)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""

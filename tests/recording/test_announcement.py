"""What a finished recording announces, on which ranks, and how to silence it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import snapreport
from snapreport.recorders import system
from tests.recording.fake_torch import FakeGpu
from tests.recording.folders import MIB

LOGGER = logging.getLogger("snapreport")


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    system._announced.clear()
    yield
    LOGGER.setLevel(logging.NOTSET)


def record(gpu: FakeGpu, size: int = MIB, **arguments: object) -> None:
    with snapreport.record("out", formats=["md"], **arguments):  # type: ignore[arg-type]
        gpu.alloc(size)


def test_one_line_says_where_the_report_is_and_what_it_found(
    gpu: FakeGpu, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "snapreport")
    record(gpu)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("snapreport recorded out/1/report.md (1.00 MiB allocated at the peak")
    assert [each.message for each in caplog.records] == [line]


def test_an_out_of_memory_error_is_what_was_found(
    gpu: FakeGpu, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RuntimeError, match="out of memory"):
        record(gpu, 2**31)
    assert "(Out of memory: 2.00 GiB asked for" in capsys.readouterr().err


def test_it_can_be_silenced(gpu: FakeGpu, capsys: pytest.CaptureFixture[str]) -> None:
    record(gpu, quiet=True)
    LOGGER.setLevel("WARNING")
    record(gpu)
    captured = capsys.readouterr()
    assert captured.err == captured.out == ""


def test_a_log_that_shows_it_on_the_terminal_is_enough(
    gpu: FakeGpu, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = logging.StreamHandler(sys.stderr)
    LOGGER.addHandler(handler)
    LOGGER.setLevel("INFO")
    try:
        record(gpu)
    finally:
        LOGGER.removeHandler(handler)
    assert capsys.readouterr().err.count("snapreport recorded") == 1


def test_a_function_in_a_loop_does_not_fill_the_terminal(
    gpu: FakeGpu, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(6):
        record(gpu)
    assert capsys.readouterr().err.count("\n") == 3


@pytest.mark.parametrize(
    ("rank", "fails", "lines"), [("0", False, 1), ("3", False, 0), ("3", True, 1)]
)
def test_one_rank_speaks_for_all_and_those_that_fail(
    gpu: FakeGpu,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    rank: str,
    fails: bool,
    lines: int,
) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", "8")
    if fails:
        with pytest.raises(RuntimeError):
            record(gpu, 2**31)
    else:
        record(gpu)
    assert capsys.readouterr().err.count("\n") == lines

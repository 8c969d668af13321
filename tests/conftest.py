"""Fixtures for every test: the samples, and a folder of real snapshots where there is one."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from snapreport.ground import processes
from tests.corpus import NO_CORPUS

REPOSITORY = Path(__file__).resolve().parent.parent

# Hundreds of tests start a Python, many with PyTorch, which `make` does not compile. Where nothing
# is kept of what Python compiles, each of them compiles a thousand modules again.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    sys.dont_write_bytecode = False

# Tests send Ctrl-C to what they start, which ignores it where we do: a shell has all that it runs
# in the background ignore it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# As many tests run at once as there are processors: threads of PyTorch would wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-golden",
        action="store_true",
        help="write what the golden tests expect anew (make golden); then read the diff",
    )


@pytest.fixture(scope="session")
def rewrite_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden tests write what they get instead of comparing it."""
    return bool(request.config.getoption("--rewrite-golden"))


@pytest.fixture(scope="session", autouse=True)
def _query_forks_beside_our_own_threads() -> Iterator[None]:
    """Let a query fork in a test as in a command, though a thread of xdist listens beside it.

    It would start a Python each time. Threads that a test starts count as ever.
    """
    others = threading.active_count()
    with pytest.MonkeyPatch.context() as patch:
        if others > 1:
            patch.setattr(processes, "may_fork", lambda: threading.active_count() <= others)
        yield


@pytest.fixture(scope="session")
def samples() -> Path:
    """The folder of our own small snapshots."""
    return REPOSITORY / "sample_snapshots"


@pytest.fixture(scope="session")
def corpus() -> Path:
    """A folder of real snapshots, from SNAPREPORT_CORPUS; without one the test is skipped."""
    given = os.environ.get("SNAPREPORT_CORPUS")
    if not given:
        pytest.skip(NO_CORPUS)
    folder = Path(given)
    assert folder.is_dir(), f"SNAPREPORT_CORPUS is {given}, which is not a folder"
    return folder


def pytest_collection_finish() -> None:
    """Look for garbage less often, and never among what was there before the first test.

    There are hundreds of thousands of objects then; to look through them again and again took more
    than a tenth of the time of tests that make many objects.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = [r for r in terminalreporter.getreports("skipped") if NO_CORPUS in str(r.longrepr)]
    if skipped:
        terminalreporter.write_line(f"{len(skipped)} tests were skipped: {NO_CORPUS}.", yellow=True)

"""What a command imports before it can answer: counted, since each module costs every start."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

SAMPLE = Path(__file__).parents[2] / "sample_snapshots" / "two_streams.pickle"

READS_BUNDLES = {"apsw", "zipfile", "snapreport.bundle"}
WRITES_PAGES = {"jinja2", "markdown_it", "snapreport.reporters.page_report"}
RUNS = {"snapreport.model.run", "snapreport.api.runs", "concurrent.futures.process"}
RARE = {"tomllib", "tomli", "zstandard", "socket", "asyncio", "torch", "fsspec", "html.entities"}
RARE |= {"numpy.ma"}  # which takes longer than most recordings do here

_PROGRAM = """
import sys
from snapreport.__main__ import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(*sys.modules, file=sys.stderr)
"""


def imported(*words: str) -> set[str]:
    """Run a command in a process of its own, and return the modules that it had imported."""
    command = [sys.executable, "-c", _PROGRAM, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())


def own(modules: set[str]) -> int:
    return sum(name.split(".")[0] == "snapreport" for name in modules)


def test_help_imports_almost_nothing() -> None:
    modules = imported("--help")
    assert own(modules) <= 13, sorted(modules)
    assert not {"numpy", "orjson", "rich", *READS_BUNDLES, *WRITES_PAGES, *RUNS, *RARE} & modules


@pytest.mark.parametrize(
    ("words", "most", "without"),
    [
        (("summary", str(SAMPLE)), 120, {*READS_BUNDLES, *WRITES_PAGES, *RUNS, *RARE}),
        (("convert", str(SAMPLE), "-o", "x.zip"), 82, {*WRITES_PAGES, *RUNS, *RARE, "rich"}),
        (("render", "x.zip", "-o", "x.html"), 130, {*RARE, "rich"}),
    ],
    ids=["summary", "convert", "render"],
)
def test_a_command_imports_what_it_needs(
    words: Sequence[str],
    most: int,
    without: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    if words[0] == "render":
        imported("convert", str(SAMPLE), "-o", "x.zip")
    modules = imported(*words)
    assert not without & modules
    assert own(modules) <= most, sorted(modules)

"""What users do with strangers' files, each as an attempt for ``families.run_family``.

Files that need another one beside them are packed: see ``packed``.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from snapreport.commands import cli
from snapreport.ground.errors import SnapreportError
from tests.hostile.cost import report
from tests.hostile.families import Attempt

PACKED = ".several"
"""The ending of the name of a file that ``packed`` made."""

EXPORTS = (
    "speedscope", "collapsed", "pprof", "perfetto", "csv", "json", "pickle", "snapviewer",
)  # fmt: skip
GROUPINGS = ("site", "category", "role", "stage", "line", "file", "function", "module", "context")


_ALONE = ("--force", "--jobs", "1")
"""Without processes of our own, whose time would not be counted."""


def packed(files: Sequence[bytes]) -> bytes:
    """Return several files as one, which the attempts unpack again."""
    return pickle.dumps(list(files), 4)


def _run(*arguments: str | Path) -> None:
    """Run a command, its output thrown away."""
    with (
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        try:
            cli.main([str(each) for each in arguments], standalone_mode=False)
        except click.ClickException as error:
            raise SnapreportError(error.message) from error


def _with_files(source: Path, work: Callable[[list[Path]], None]) -> None:
    """Do something with the files that are packed in one, or with one file twice."""
    folder = source.with_name("ranks")
    files = pickle.loads(source.read_bytes()) if source.suffix == PACKED else []
    data = files or [source.read_bytes()] * 2
    try:
        folder.mkdir()
        paths = [folder / f"rank{i}.pickle" for i in range(len(data))]
        for path, content in zip(paths, data, strict=True):
            path.write_bytes(content)
        work(paths)
    finally:
        shutil.rmtree(folder)


def diff(source: Path, output: Path) -> None:
    """Compare the first with the second, as a page and by file."""

    def work(paths: list[Path]) -> None:
        _run("diff", *paths[:2], "-o", output.with_suffix(".html"), "--force")
        _run("diff", *paths[:2], "--by", "file")

    try:
        _with_files(source, work)
    finally:
        _remove(output)


def folder(source: Path, output: Path) -> None:
    """Make the page and the Markdown of a run, and print its summary."""

    def work(paths: list[Path]) -> None:
        for ending in (".html", ".md"):
            _run("render", paths[0].parent, "-o", output.with_suffix(ending), *_ALONE)
        _run("summary", paths[0].parent, "--jobs", "1")

    try:
        _with_files(source, work)
    finally:
        _remove(output)


def summary(source: Path, _output: Path) -> None:
    """Print the summary, as text and as JSON."""
    _run("summary", source)
    _run("summary", "--json", source)


def strings(source: Path, _output: Path) -> None:
    """List the strings."""
    _run("strings", source)
    _run("strings", "--check", "--json", source)


def whatif(source: Path, _output: Path) -> None:
    """Ask what the peak would be without something, by every grouping."""
    for by in GROUPINGS:
        _run("whatif", source, "--by", by)
    with contextlib.suppress(SnapreportError):  # nothing may be called so
        _run("whatif", source, "--without", "*1*1*1*1", "--without", "1")


def export(source: Path, output: Path) -> None:
    """Write every format."""
    for each in EXPORTS:
        target = output.with_name("exported")
        try:
            _run("export", each, source, "-o", target)
        finally:
            shutil.rmtree(target, ignore_errors=True)
            target.unlink(missing_ok=True)


def _remove(output: Path) -> None:
    for ending in (".html", ".md"):
        output.with_suffix(ending).unlink(missing_ok=True)


TASKS: dict[str, Attempt] = {
    "report": report,
    "diff": diff,
    "folder": folder,
    "summary": summary,
    "strings": strings,
    "whatif": whatif,
    "export": export,
}

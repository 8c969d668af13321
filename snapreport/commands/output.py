"""What commands share that print an answer, or work on several files or a run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

import snapreport
from snapreport.commands.console import (
    bars,
    in_colour,
    print_bytes,
    print_clean,
    print_path,
    progress_bar,
    say,
    say_error,
    say_warnings,
    update_bar,
)
from snapreport.commands.options import (
    RunWanted,
    full_option,
    json_option,
    keep_paths_option,
    paths_kept,
    quiet_option,
    together,
    top_option,
)
from snapreport.ground.safe_text import plain_json, visible
from snapreport.ground.units import format_bytes, format_share, plural
from snapreport.model.answers import Group

if TYPE_CHECKING:
    from rich.progress import TaskID

    from snapreport.api.device import Device
    from snapreport.api.runs import Batch, Doing, LoadedRun, ManyProgress, Skipped
    from snapreport.reporters.document import Document
    from snapreport.reporters.text import Page


F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Answer:
    """How to print an answer."""

    as_json: bool
    full: bool = False
    quiet: bool = False
    top: int | None = None
    """Rows to show as text; None for all."""

    def device(self, source: Path, device: str | None) -> Device:
        """Load a file, and pick a device; None for the one that a report opens with."""
        with progress_bar(self.quiet) as progress:
            found = snapreport.load(source, keep_paths=paths_kept(), progress=progress)
            return found.device(device)

    def page(self) -> Page:
        """Return a page as wide as the terminal, or with ``full`` as wide as its texts."""
        from snapreport.reporters.text import Page, terminal_width

        return Page(terminal_width(self.full), colour=in_colour(sys.stdout))

    def print(self, document: Document) -> None:
        """Write a document to stdout."""
        page = self.page()
        page.write(document)
        print_page(page)


def answer_options(rows: int | None = None) -> Callable[[F], F]:
    """``--json``, ``--full``, ``--keep-paths`` and ``-q``, in this order, as ``answer``.

    Args:
        rows: the default of ``--top``; None for a command without it.
    """
    options = (json_option, full_option, keep_paths_option, quiet_option)
    return together("answer", _answer, *([] if rows is None else [top_option(rows)]), *options)


def _answer(as_json: bool, full: bool, quiet: bool, top: int | None = None) -> Answer:
    return Answer(as_json, full, quiet, None if full else top)


def device_json(device: Device) -> dict[str, Any]:
    """Return the names of the file and the device; most answers begin with them."""
    return {"file": device.file.source.name, "device": device.name}


def groups_json(device: Device, groups: Sequence[Group], by: str) -> list[dict[str, Any]]:
    """Return groups as plain objects."""
    from snapreport.reporters.json_report import group_as_json

    return [group_as_json(group, device.file.stacks, by) for group in groups]


def print_json(name: str, answer: dict[str, Any]) -> None:
    """Write an answer as indented JSON that begins with the name and version of its format."""
    import orjson

    from snapreport.reporters.json_report import with_format

    whole = orjson.dumps(with_format(name, answer), option=orjson.OPT_INDENT_2)
    print_bytes(plain_json(whole) + b"\n")


def print_page(page: Page) -> None:
    """Write a page to stdout."""
    print_clean(page.render())


# Work on several files or a run: one progress display, and a line for each file that fails.


_NAME = 40
"""Width of a file's name beside its bar, in characters."""


def load_a_run(
    paths: Path | Sequence[Path],
    wanted: RunWanted,
    quiet: bool,
    *,
    may_be_empty: bool = False,
    **options: Any,
) -> LoadedRun:
    """Load a run; files left out, and files without figures, are listed on stderr.

    Args:
        paths: as in ``load_run()``.
        wanted: how to read its files.
        quiet: print only errors.
        may_be_empty: return it even if no file gave any figures.
        options: other arguments of ``load_run()``.

    Raises:
        Exit: no file gave any figures.
    """
    options = {"keep_paths": paths_kept(), **options}
    with progress_bars(quiet) as progress:
        loaded = snapreport.load_run(paths, progress=progress, **vars(wanted), **options)
    if not quiet:
        say_skipped(loaded.skipped)
    say_errors(loaded.errors)
    if not loaded.findings.rows and not may_be_empty:
        raise click.exceptions.Exit(1)
    return loaded


def end_with_errors(*runs: LoadedRun) -> None:
    """End with status 1 if a file gave no figures.

    Raises:
        Exit: a file gave none.
    """
    if any(each.errors for each in runs):
        raise click.exceptions.Exit(1)


def convert_several(
    sources: Sequence[Path], output: Path | None, quiet: bool, watch: bool, **options: Any
) -> None:
    """Convert several snapshots and print the outcome; exits with 1 if one failed."""
    failed = False
    for batch in _batches(sources, output, quiet, watch, **options):
        if not quiet:
            say_skipped(batch.skipped)
            _say_sizes(batch)
            _say_warnings(batch)
        say_errors(batch.errors)
        for path in batch.paths:
            print_path(path)
        sys.stdout.flush()
        failed = failed or bool(batch.errors)
    if failed:
        raise click.exceptions.Exit(1)


def _batches(
    sources: Sequence[Path], output: Path | None, quiet: bool, watch: bool, **options: Any
) -> Iterator[Batch]:
    if not watch:
        with progress_bars(quiet) as progress:
            batch = snapreport.convert_many(sources, output, progress=progress, **options)
        yield batch
        return
    from snapreport.api.runs.many_files import convert_arriving

    if not quiet:
        say("Waiting for snapshots; Ctrl-C ends it.")
    yield from convert_arriving(sources, output, **options)


def say_skipped(skipped: Sequence[Skipped]) -> None:
    """Say which files were left out, and why."""
    from snapreport.api.runs import skipped_words

    for line in skipped_words(skipped):
        say(f"Skipped: {line}")


def _say_sizes(batch: Batch) -> None:
    there = sum(outcome.already for outcome in batch.outcomes)
    if there:
        files = "the same file" if there == 1 else "the same files"
        say(f"{plural(there, 'bundle')} already there, made from {files}.")
    made = [each for each in batch.outcomes if each.path is not None and not each.already]
    if not made:
        return
    before = sum(each.source.stat().st_size for each in made)
    after = sum(each.path.stat().st_size for each in made if each.path is not None)
    say(
        f"{plural(len(made), 'bundle')}: {format_bytes(after)},"
        f" {format_share(after, before)} of the {format_bytes(before)} of their snapshots."
    )


def _say_warnings(batch: Batch) -> None:
    """Write the first few warnings, each after its bundle's name."""
    said = [(each.path, text) for each in batch.outcomes for text in each.warnings]
    say_warnings([f"{path.name if path else ''}: {text}" for path, text in said], "reports list")


def say_errors(errors: Sequence[str]) -> None:
    """Write one line per error to stderr."""
    for error in errors:
        say_error(error)


@contextmanager
def progress_bars(quiet: bool) -> Iterator[ManyProgress | None]:
    """Show on stderr one bar for all files, and one for each file in progress.

    Nothing is shown, nor rich imported, when stderr is no terminal or ``quiet`` is on.
    """
    with bars(quiet, "{task.fields[name]}", "", "{task.description}") as shown:
        if shown is None:
            yield None
            return
        running: dict[Path, TaskID] = {}
        whole = shown.add_task("", total=None, name="In all")

        def show(doing: Doing) -> None:
            done = f"{doing.ended} of {doing.total} files"
            shown.update(whole, description=done, total=doing.total, completed=doing.ended)
            source = doing.source
            if doing.what is None:
                if source in running:
                    shown.remove_task(running.pop(source))
                return
            if source not in running:
                running[source] = shown.add_task("", total=None, name=_short(source))
            update_bar(shown, running[source], doing.what, doing.fraction)

        yield show


def _short(source: Path) -> str:
    text = visible(str(source))
    return text if len(text) <= _NAME else f"…{text[1 - _NAME :]}"

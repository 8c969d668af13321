"""What commands share that print an answer, or work on several files or a run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

import snapreport
from snapreport.commands.console import (
    bars,
    in_colour,
    print_bytes,
    print_clean,
    progress_bar,
    say,
    say_error,
    update_bar,
)
from snapreport.commands.options import (
    RunWanted,
    json_option,
    keep_paths_option,
    quiet_option,
    together,
)
from snapreport.ground.safe_text import plain_json, visible

if TYPE_CHECKING:
    from rich.progress import TaskID

    from snapreport.api.device import Device
    from snapreport.api.runs import Doing, LoadedRun, ManyProgress, Skipped
    from snapreport.model.answers import Group
    from snapreport.reporters.document import Document

F = TypeVar("F", bound=Callable[..., Any])
_AnyRoom = TypeVar("_AnyRoom")


@dataclass
class Answer:
    """How to print an answer: as text, unless it is to have another form."""

    full: bool = False
    quiet: bool = False
    keep_paths: bool = False
    top: int | None = None
    """Rows to show of a table; None for all."""
    as_json: bool = False
    as_markdown: bool = False
    as_csv: bool = False
    forecast: str = field(default="", init=False)
    """What stands first in text and Markdown if the file is a forecast; known once it is loaded."""

    def device(self, source: Path, device: str | None) -> Device:
        """Load a file, and pick a device; None for the one that a report opens with."""
        from snapreport.model.forecasts import headline_of

        with progress_bar(self.quiet) as progress:
            found = snapreport.load(source, keep_paths=self.keep_paths, progress=progress)
            self.forecast = headline_of(found.history.recorder)
            return found.device(device)

    def run(
        self,
        paths: Path | Sequence[Path],
        wanted: RunWanted,
        *,
        may_be_empty: bool = False,
        **options: Any,
    ) -> LoadedRun:
        """Load a run; files left out, and files without figures, are listed on stderr.

        Args:
            paths: as in ``load_run()``.
            wanted: how to read its files.
            may_be_empty: return it even if no file gave any figures.
            options: other arguments of ``load_run()``.

        Raises:
            Exit: no file gave any figures.
        """
        options = {"keep_paths": self.keep_paths, **vars(wanted), **options}
        with progress_bars(self.quiet) as progress:
            loaded = snapreport.load_run(paths, progress=progress, **options)
        if not self.quiet:
            say_skipped(loaded.skipped)
        say_errors(loaded.errors)
        if not loaded.findings.rows and not may_be_empty:
            raise click.exceptions.Exit(1)
        return loaded

    def print(self, *documents: Document, titled: bool = False) -> None:
        """Write documents to stdout as text or Markdown, one below the other.

        Args:
            documents: what to write, all of it.
            titled: whether text has their titles too, as Markdown always has.
        """
        if self.forecast:
            from snapreport.reporters.document import Document, Paragraph

            note = Paragraph(self.forecast, "warning", is_note=True)
            first, *others = documents
            documents = (Document(first.title, [note, *first.blocks]), *others)
        if self.as_markdown:
            from snapreport.reporters.markdown import document_blocks

            blocks = (block for each in documents for block in document_blocks(each))
            print_bytes(("\n\n".join(blocks) + "\n").encode())
            return
        from snapreport.reporters.document import Heading
        from snapreport.reporters.text import Page, terminal_width

        page = Page(terminal_width(self.full), colour=in_colour(sys.stdout))
        for document in documents:
            title = [Heading(document.title)] if titled else []
            page.blocks([*title, *document.blocks])
        print_clean(page.render())

    def print_fitting(
        self, build: Callable[[_AnyRoom], Document], *rooms: _AnyRoom, titled: bool = False
    ) -> None:
        """Print a document as ``print()`` does; as Markdown, one that fits into an issue comment.

        Args:
            build: returns the document for a room, such as the most rows of each table.
            rooms: to try in turn, the largest first. Text and all that is whole take the first.
            titled: as in ``print()``.
        """
        if self.full or not self.as_markdown:
            self.print(build(rooms[0]), titled=titled)
            return
        from snapreport.reporters.markdown import write_markdown

        out = BytesIO()
        write_markdown(build, rooms, out)
        print_bytes(out.getvalue())


def answer_options(rows: int | None = None, *, csv: str = "") -> Callable[[F], F]:
    """The options of all commands that print an answer, which they get as ``answer``.

    Args:
        rows: the default of ``--top``; None for a command without it.
        csv: the help of ``--csv``; ``""`` for a command without it.
    """
    top = click.option(
        "--top", type=click.IntRange(min=1), default=rows, show_default=True, metavar="N",
        help="Rows to show as text or Markdown.",
    )  # fmt: skip
    return together(
        "answer",
        _answer,
        *([] if rows is None else [top]),
        json_option,
        click.option("--md", is_flag=True, help="Print Markdown, such as for an issue comment."),
        *([click.option("--csv", is_flag=True, help=csv)] if csv else []),
        click.option("--full", is_flag=True, help="Print every row, and texts in full."),
        keep_paths_option,
        quiet_option,
    )


def _answer(
    full: bool, quiet: bool, keep_paths: bool, as_json: bool, md: bool, csv: bool = False,
    top: int | None = None,
) -> Answer:  # fmt: skip
    forms = {"--json": as_json, "--md": md, "--csv": csv}
    given = [name for name, is_given in forms.items() if is_given]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} exclude one another; give one.")
    return Answer(full, quiet, keep_paths, None if full else top, as_json, md, csv)


def device_json(device: Device) -> dict[str, Any]:
    """Return the names of the file and the device; most answers begin with them.

    They also say whether it is a forecast, and for which card.
    """
    from snapreport.model.forecasts import forecast_as_json

    forecast = forecast_as_json(device.file.forecast)
    return {"file": device.file.source.name, "device": device.name, "forecast": forecast}


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


# Work on several files or a run: one progress display, and a line for each file that fails.


_NAME = 40
"""Width of a file's name beside its bar, in characters."""


def end_with_errors(*runs: LoadedRun) -> None:
    """End with status 1 if a file gave no figures.

    Raises:
        Exit: a file gave none.
    """
    if any(each.errors for each in runs):
        raise click.exceptions.Exit(1)


def say_skipped(skipped: Sequence[Skipped]) -> None:
    """Say which files were left out, and why."""
    from snapreport.api.runs import skipped_words

    for line in skipped_words(skipped):
        say(f"Skipped: {line}")


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

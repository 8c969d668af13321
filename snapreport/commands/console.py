"""The terminal: errors as one line, notes and progress on stderr, results on stdout."""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO

import click

from snapreport.ground.errors import OutputError, SnapreportError
from snapreport.ground.progress import Progress, silent
from snapreport.ground.safe_text import printable, visible

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID


INTERRUPTED = 130
"""128 + SIGINT, as in shells."""
_MOST_WARNINGS = 5


class Commands(click.Group):
    """A group that turns expected errors into one line on stderr and exit status 1."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Parse the arguments; errors may quote the names of a stranger's files.

        Without this, Ctrl-C during parsing would end click with status 1.
        """
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.ClickException as error:
            _calm(error)
            raise
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; show an expected error, or Ctrl-C, as one line."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            _calm(error)
            raise
        except SnapreportError as error:
            raise OneLineError(visible(str(error))) from error
        except PermissionError as error:
            if error.filename is None:  # a port, for instance: the traceback says what
                raise
            raise OneLineError(f"{visible(str(error.filename))}: permission denied.") from error
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            name = visible(str(error.filename))[:60]
            raise OneLineError(f"{name}… is too long for a file name.") from error
        except MemoryError as error:
            message = "not enough memory for this file; free some, and try again."
            raise OneLineError(message) from error
        except KeyboardInterrupt:
            click.echo("Interrupted; no unfinished file is left behind.", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None


def _calm(error: click.ClickException) -> None:
    vars(error)["message"] = visible(error.message, "\n\t")  # click declares it Final


def in_colour(stream: TextIO) -> bool:
    """Say whether to write in colour: to a terminal that shows it, unless ``NO_COLOR`` is set."""
    named = os.environ.get("TERM", "") if os.name == "posix" else os.environ.get("WT_SESSION", "")
    return stream.isatty() and named not in ("", "dumb") and not os.environ.get("NO_COLOR")


class OneLineError(click.ClickException):
    """An expected error, as one line on stderr."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the error, its first word in red on a colour terminal."""
        say_error(self.message, file)


def say_error(text: str, file: IO[Any] | None = None) -> None:
    """Write one line about an error to stderr, or to a file."""
    _say_marked("Error:", text, "red", file)


def _say_marked(mark: str, text: str, colour: str, file: IO[Any] | None = None) -> None:
    if in_colour(sys.stderr):
        mark = click.style(mark, fg=colour, bold=True)
    click.echo(f"{mark} {visible(text)}", file=file, err=True)


def say(text: str) -> None:
    """Write one line for the reader to stderr."""
    click.echo(visible(text), err=True)


def say_warnings(texts: list[str], listed_by: str = "report lists") -> None:
    """Write the first few warnings to stderr, a line each, and how many more there are."""
    more = len(texts) - _MOST_WARNINGS
    left = [f"{more} more; the {listed_by} all of them."] if more > 0 else []
    for text in texts[:_MOST_WARNINGS] + left:
        _say_marked("Warning:", text, "yellow")


def print_path(path: Path) -> None:
    """Write the path of a result to stdout, byte for byte, so that it can be piped.

    On a terminal, control characters are shown escaped. Nothing is written if the result went to a
    pipe or device: that may be stdout itself.
    """
    if path.is_file():
        shown = visible(str(path)).encode() if sys.stdout.isatty() else os.fsencode(path)
        print_clean(shown + b"\n")


def print_bytes(text: bytes) -> None:
    """Write a result to stdout with control characters escaped, as ``print_clean()`` does."""
    print_clean(printable(text))


def print_clean(text: bytes) -> None:
    """Write bytes to stdout as they are: a rendered ``Page`` is escaped, but for our own colours.

    Raises:
        OutputError: it cannot be written, as on a full disk. A closed pipe is left to click.
    """
    try:
        click.echo(text, nl=False)
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        # At exit Python flushes what is left and would fail again: send that to os.devnull.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OutputError(f"stdout cannot be written: {error.strerror}.") from error


@contextmanager
def bars(quiet: bool, *columns: str) -> Iterator[Bars | None]:
    """Show bars on stderr while the body runs; the caller adds and updates them.

    None, and nothing is shown nor rich imported, when stderr is no terminal or ``quiet`` is on.

    Args:
        quiet: show nothing.
        columns: rich's formats of the texts beside a bar; ``""`` is the bar itself.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    parts = [TextColumn(each, markup=False) if each else BarColumn() for each in columns]
    before = threading.enumerate()
    console = Console(stderr=True)
    with Progress(*parts, TimeElapsedColumn(), console=console, transient=True) as shown:
        drawing = [thread for thread in threading.enumerate() if thread not in before]
        yield shown
    # It has been told to end. Beside another thread a process can only be started, not forked.
    for thread in drawing:
        thread.join()


def update_bar(shown: Bars, bar: TaskID, what: str, fraction: float | None) -> None:
    """Show on a bar what is being done, and the fraction done."""
    total = None if fraction is None else 1.0
    shown.update(bar, description=what, total=total, completed=fraction or 0.0)


@contextmanager
def progress_bar(quiet: bool = False) -> Iterator[Progress]:
    """Show progress on stderr, as ``bars()`` does, while the body runs."""
    with bars(quiet, "{task.description}", "") as shown:
        if shown is None:
            yield silent
            return
        bar = shown.add_task("", total=None)
        yield lambda what, fraction: update_bar(shown, bar, what, fraction)

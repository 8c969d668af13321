"""The shell of ``snapreport query``: statements over several lines, and a few dot commands."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from snapreport.commands.output.console import print_bytes, say_error
from snapreport.ground.errors import SnapreportError
from snapreport.ground.safe_text import visible

PROMPT, MORE = "sql> ", "...> "

HELP = """\
.tables          the names of the tables
.schema [TABLE]  what their columns mean
.quit            leave; so does Ctrl-D
Anything else is SQL, run when a line ends in a semicolon. Ctrl-C drops what was typed.
"""

ReadLine = Callable[[str], str]
"""Returns the line typed at a prompt; raises EOFError at the end, KeyboardInterrupt on Ctrl-C."""


class Shell:
    """Reads statements and dot commands until ``.quit``."""

    def __init__(
        self,
        run: Callable[[str], None],
        schema: Callable[[str | None], str],
        tables: Sequence[str],
    ) -> None:
        """``run`` answers a statement; ``schema`` describes one table, or all."""
        self._run = run
        self._schema = schema
        self._tables = tables

    def run(self, read_line: ReadLine) -> None:
        """Read and answer until .quit or the end of the input; an error does not end the shell."""
        text = ""
        while True:
            try:
                line = read_line(MORE if text else PROMPT)
            except EOFError:
                click.echo()
                return
            except KeyboardInterrupt:
                click.echo()
                text = ""
                continue
            if not text and line.strip().startswith("."):
                if line.split()[0] in (".quit", ".exit", ".q"):
                    return
                self._guarded(self._dot, line)
                continue
            text = f"{text}\n{line}" if text else line
            if _ends(text):
                self._guarded(self._run, text)
                text = ""
            elif not text.strip():
                text = ""

    def _guarded(self, answer: Callable[[str], None], typed: str) -> None:
        try:
            answer(typed)
        except SnapreportError as error:
            say_error(str(error))
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)

    def _dot(self, line: str) -> None:
        words = line.split()
        if words[0] == ".tables":
            print_bytes("".join(f"{visible(name)}\n" for name in self._tables).encode())
        elif words[0] == ".schema":
            print_bytes(self._schema(words[1] if words[1:] else None).encode() + b"\n")
        else:
            print_bytes(HELP.encode())


def _ends(text: str) -> bool:
    """Say whether a statement is complete: it ends in a semicolon outside quotes and comments."""
    import apsw

    return bool(apsw.complete(text))


def terminal_lines() -> ReadLine:
    """Return a function that reads lines from the terminal, with editing and history if possible.

    These need readline. The history is kept in ``snapreport/query_history`` under
    ``$XDG_STATE_HOME``.
    """
    try:
        import readline
    except ImportError:  # Windows
        return input
    state = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    history = Path(state) / "snapreport" / "query_history"
    try:
        history.parent.mkdir(parents=True, exist_ok=True)
        if history.exists():
            readline.read_history_file(history)
    except OSError:
        return input  # the home folder is not writable: go without a saved history

    def save() -> None:
        try:
            readline.set_history_length(1000)
            readline.write_history_file(history)
        except OSError:
            pass

    import atexit

    atexit.register(save)
    return input

"""The command line: the group, its options, and ``main``, which the console script calls."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections import UserDict
from contextlib import suppress
from typing import Any

import click
from click.shell_completion import CompletionItem

from snapreport.commands.console import Commands, say
from snapreport.ground import processes
from snapreport.ground.processes import SignalExit, raise_on_signals
from snapreport.ground.units import parse_size
from snapreport.ground.version import __version__

__all__ = ["cli", "main"]


_COMMANDS = {
    "record": "Run a program and report on its memory.",
    "forecast": "Tell what a program would allocate on a card that is not there.",
    "convert": "Turn a snapshot into a portable bundle.",
    "render": "Make a report of a snapshot, a bundle or an entire run.",
    "summary": "Print what held the memory, what went wrong, and what to do.",
    "live": "Print what is live at the peak, or at another moment.",
    "stages": "Print the memory of annotated stages and training steps.",
    "profile": "Print memory by category or role over time.",
    "whatif": "Print how far the peak would fall without each call site.",
    "plan": "Find the cheapest changes, or the largest batch, that fit into memory.",
    "diff": "Compare two snapshots: what changed, and where it came from.",
    "check": "Fail if memory is over budget, or a finding is not allowed.",
    "query": "Query a bundle in SQL.",
    "explore": "Explore a snapshot in the terminal.",
    "mcp": "Let coding agents ask about recordings (MCP).",
    "skill": "Print a guide for coding agents that have a shell.",
    "export": "Write a file for another tool.",
    "strings": "List what a file gives away.",
}
"""What each command does, here and not in its module: to import all of them, as click does for a
list of commands, takes several times as long as all else that ``--help`` does."""


class _Modules(UserDict[str, Any]):
    """The commands by name, each imported on first use: most runs need only one."""

    def __getitem__(self, name: str) -> click.Command:
        if self.data[name] is None:
            self.data[name] = getattr(importlib.import_module(f"{__name__}.{name}"), name)
        command: click.Command = self.data[name]
        return command


class _CommandLine(Commands):
    """The group that lists its commands without importing them."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each command with what it does."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name]) for name in self.list_commands(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the commands, again without importing them, and the options of all of them."""
        items = [
            CompletionItem(name, help=_COMMANDS[name])
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]
        return items + click.Command.shell_complete(self, ctx, incomplete)


@click.group(
    cls=_CommandLine,
    commands=_Modules(dict.fromkeys(_COMMANDS)),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="snapreport", message="%(prog)s %(version)s")
@click.option(
    "--max-unpacked",
    metavar="SIZE",
    envvar=processes.MAX_UNPACKED,
    help="Let trusted files unpack to this size, such as 50GiB. [default: 200 times their size]",
)
@click.option(
    "--no-memory-check",
    is_flag=True,
    help="Read files even if they seem to need more memory than is free.",
)
def cli(max_unpacked: str | None, no_memory_check: bool) -> None:
    """See what holds the memory in a PyTorch CUDA memory snapshot, and share it.

    \b
    Example:
      snapreport convert snap.pickle -o snap.zip
      snapreport render snap.zip -o report.html
    """
    if max_unpacked:
        try:
            parse_size(max_unpacked)
        except ValueError as error:
            hint = f"--max-unpacked or {processes.MAX_UNPACKED}"
            raise click.BadParameter(f"{error}.", param_hint=hint) from None
        # In the environment, so that the worker processes of --jobs inherit it.
        os.environ[processes.MAX_UNPACKED] = max_unpacked
    if no_memory_check:
        os.environ[processes.NO_MEMORY_CHECK] = "1"


def main() -> None:
    """Run the command line and exit."""
    raise_on_signals()
    # A process this short-lived makes little garbage: collecting it is not worth the time.
    gc.disable()
    # We multiply no matrices, and waiting for OpenBLAS's threads can take 50 ms.
    if sys.argv[1:2] not in (["record"], ["forecast"]):  # whose program may multiply matrices
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        cli(prog_name="snapreport")
    except SignalExit as ended:
        with suppress(OSError):  # a terminal that is closed
            say(f"Ended by {ended.name}; no unfinished file is left behind.")
        raise
    finally:
        gc.freeze()  # no collection at exit either

"""The command line: the group, its options, and ``main``, which the console script calls."""

from __future__ import annotations

import gc
import os
import sys

import click

from snapreport import allowed
from snapreport.commands.check import check
from snapreport.commands.check_recording import check_recording
from snapreport.commands.console import Commands, exit_on_terminate
from snapreport.commands.convert import convert
from snapreport.commands.diagnose import diagnose
from snapreport.commands.diff import diff
from snapreport.commands.export import export
from snapreport.commands.lines import lines
from snapreport.commands.live import live
from snapreport.commands.peak import peak
from snapreport.commands.profile import profile
from snapreport.commands.query import query
from snapreport.commands.record import record
from snapreport.commands.render import render
from snapreport.commands.stages import stages
from snapreport.commands.strings import strings
from snapreport.commands.summary import summary
from snapreport.commands.usage import usage
from snapreport.commands.whatif import whatif
from snapreport.version import __version__

__all__ = ["cli", "main"]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="snapreport", message="%(prog)s %(version)s")
@click.option(
    "--max-unpacked",
    metavar="SIZE",
    envvar=allowed.MAX_UNPACKED,
    help="Unpack files that you trust to as much, such as 50GiB. [default: 200 times their size]",
)
@click.option(
    "--no-memory-check",
    is_flag=True,
    help="Read files that seem to need more memory than is free.",
)
def cli(max_unpacked: str | None, no_memory_check: bool) -> None:
    """See what held a PyTorch CUDA memory snapshot's memory, and show it to others.

    \b
    Example:
      snapreport convert snap.pickle -o snap.zip
      snapreport render snap.zip -o report.html
    """
    if max_unpacked and allowed.parse_size(max_unpacked) is None:
        raise click.BadParameter(
            f"{max_unpacked!r} is no size like 50GiB.",
            param_hint=f"--max-unpacked or {allowed.MAX_UNPACKED}",
        )
    if max_unpacked:  # in the environment, so that the processes of --jobs have it, too
        os.environ[allowed.MAX_UNPACKED] = max_unpacked
    if no_memory_check:
        os.environ[allowed.NO_MEMORY_CHECK] = "1"


cli.add_command(record)
cli.add_command(convert)
cli.add_command(render)
cli.add_command(diagnose)
cli.add_command(check_recording)
cli.add_command(summary)
cli.add_command(profile)
cli.add_command(usage)
cli.add_command(stages)
cli.add_command(whatif)
cli.add_command(peak)
cli.add_command(live)
cli.add_command(lines)
cli.add_command(diff)
cli.add_command(check)
cli.add_command(query)
cli.add_command(export)
cli.add_command(strings)


def main() -> None:
    """Run the command line and exit."""
    exit_on_terminate()
    # A process this short makes little garbage: no collection is worth its time.
    gc.disable()
    # We multiply no matrices, and waiting for the threads that would takes 50 ms at times.
    if sys.argv[1:2] != ["record"]:  # but the program that is recorded may
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        cli(prog_name="snapreport")
    finally:
        gc.freeze()  # nor is the one that Python ends with

"""``snapreport forecast``: run a program for a card that is not there, and report on its memory."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from snapreport.commands.console import say
from snapreport.commands.options import quiet_option, reads
from snapreport.commands.record import (
    FORMATS,
    OF_PROGRAM,
    Launched,
    end,
    folder_option,
    formats_option,
    module_option,
    prepare,
    rest_argument,
    run_and_leave,
    title_option,
)
from snapreport.ground.cards import find_card
from snapreport.model.snapshot import SIZES

_LARGEST, _MOST_RANKS = 1e18, 1 << 20


def _assumptions(values: tuple[str, ...]) -> dict[str, float]:
    """Read NAME=VALUE.

    Raises:
        ValueError: one has no name, or its value is no number.
    """
    found = {}
    for each in values:
        name, _, value = each.partition("=")
        try:
            found[name] = float(value)
        except ValueError:
            raise ValueError(f"{each!r} is not NAME=VALUE with a number") from None
        if not 0 <= abs(found[name]) < _LARGEST or (name in SIZES and found[name] < 0):
            raise ValueError(f"{each!r} is no value that can be")
        if not name:
            raise ValueError(f"{each!r} has no name before the =")
    return found


def _ranks(values: tuple[str, ...]) -> tuple[int, ...]:
    """Read N or FIRST-LAST.

    Raises:
        ValueError: one is neither.
    """
    found: set[int] = set()
    for each in values:
        first, _, last = each.partition("-")
        if not (first.isascii() and first.isdigit() and (last or first).isdigit()):
            raise ValueError(f"{each!r} is not a rank such as 3, nor ranks such as 0-7")
        if int(last or first) < int(first) or int(last or first) >= _MOST_RANKS:
            raise ValueError(f"{each!r} is not a rank such as 3, nor ranks such as 0-7")
        found |= {*range(int(first), int(last or first) + 1)}
    return tuple(sorted(found))


@click.command(context_settings=OF_PROGRAM)
@click.argument("program", metavar="PROGRAM.py|MODULE", type=click.Path())
@rest_argument
@click.option(
    "--card",
    metavar="CARD",
    required=True,
    callback=reads(find_card, keep=True),
    help="The card: a name such as h100-80 or rtx-4090, or a size such as 24GB.",
)
@module_option
@folder_option("forecasts", "train.forecast")
@click.option(
    "--steps",
    metavar="N",
    type=click.IntRange(min=0),
    help="End after N steps of the optimizer; 0 for all that the program makes. By default it ends"
    " once a step allocates exactly what the one before did, and reserves nothing new.",
)
@click.option(
    "--assume",
    metavar="NAME=VALUE",
    multiple=True,
    callback=reads(_assumptions),
    help="What to assume of values that a forecast does not have, by kind (bool, int, float,"
    " nonzero, unique, bincount) or by place, such as train.py:52. May be repeated.",
)
@click.option(
    "--devices",
    metavar="N",
    type=click.IntRange(min=1, max=64),
    help="How many cards a machine has; by default 1, with --ranks one for each, and 8 at most.",
)
@click.option(
    "--ranks",
    metavar="N",
    type=click.IntRange(min=1),
    help="How many processes the program has, as under torchrun, each with its card. Those that are"
    " not forecast do not exist.",
)
@click.option(
    "--rank",
    "chosen",
    metavar="N",
    multiple=True,
    callback=reads(_ranks),
    help="Forecast this one of them, or several such as 0-7. May be repeated; by default 0.",
)
@click.option(
    "--allocator",
    metavar="SETTINGS",
    help="Settings of PYTORCH_ALLOC_CONF; by default those of the environment.",
)
@title_option
@formats_option
@click.option("--force", is_flag=True, help="Remove the previous forecast when this one is done.")
@quiet_option
def forecast(
    program: str,
    arguments: tuple[str, ...],
    card: str,
    module: bool,
    output: Path | None,
    steps: int | None,
    assume: dict[str, float],
    devices: int | None,
    ranks: int | None,
    chosen: tuple[int, ...],
    allocator: str | None,
    title: str | None,
    formats: tuple[str, ...],
    force: bool,
    quiet: bool,
) -> None:
    """Run PROGRAM with its ARGUMENTS for a card that is not there, and report on its memory.

    Neither a GPU nor the memory for the model is needed: nothing is computed, tensors on the card
    have shapes but no values, and the program, unchanged, believes that it has the card. What it
    asks of values that do not exist is assumed, counted and told. It writes what record writes, and
    all of it says that it is a forecast. Checkpoints without values are not written, but files that
    the program opens, copies or deletes itself are real.

    A program for torchrun is forecast with --ranks: one process of many, on this machine alone. It
    finds RANK, WORLD_SIZE and the like, and its process groups send nothing. Ranks differ in a
    pipeline or where a model does not divide evenly; several of them make a run for render.

    \b
    Example:
      snapreport forecast --card h100-80 train.py --batch 16
      snapreport forecast --card h100-80 --ranks 64 --rank 0 --rank 63 train.py
      snapreport diff train.forecast/latest/snap.zip train.memory/latest/snap.zip
    """
    from snapreport.api.forecasting import no_such_rank, ready

    for each in chosen:
        if ranks is None or each >= ranks:
            raise click.UsageError(
                no_such_rank(each, ranks) if ranks else "--rank is one of --ranks N; give both."
            )
    if len(chosen) > 1:
        sys.exit(_each(chosen, program, module, arguments))
    stem = prepare(program, module, arguments, _forecast_one)
    with ready(
        output or Path(f"{stem}.forecast"),
        card=card,
        devices=devices,
        ranks=ranks,
        rank=chosen[0] if chosen else 0,
        allocator=allocator,
        steps=steps,
        assume=assume,
        title=title or (program if module else Path(program).name),
        formats=formats or FORMATS,
        force=force,
        quiet=True,  # printed below, after the program's traceback
    ) as (recording, how_far):
        left = run_and_leave(program, module, recording, quiet=quiet)
        if not quiet:
            of = f"Rank {chosen[0] if chosen else 0} of {ranks}: " if ranks else ""
            say(of + how_far())
    end(left)


_FOLDER = "SNAPREPORT_FORECAST_RANKS"
"""A copy of ``ranks.FOLDER``: importing that module needs PyTorch."""
_AT_ONCE = 8
"""Processes. Stages of a pipeline wait for what others send."""


def _each(ranks: tuple[int, ...], program: str, module: bool, arguments: tuple[str, ...]) -> int:
    """Forecast ranks of one run, each in its own process; return the first status that is not 0."""
    before, rest = sys.argv[: -1 - len(arguments)], sys.argv[-1 - len(arguments) :]
    prepare(program, module, arguments, _forecast_one)
    own, options = before[before.index("forecast") + 1 :], []
    while own:
        option = own.pop(0)
        if option == "--rank":
            own.pop(0)
        elif not option.startswith("--rank="):
            options.append(option)
    command = [sys.executable, "-m", "snapreport", "forecast"]
    # Told apart from other forecasts by this; so they write into one folder.
    environment = {"TORCHELASTIC_RUN_ID": f"forecast-{os.getpid()}-{time.time_ns()}", **os.environ}

    def run(rank: int) -> int:
        one = [*command, "--rank", str(rank), *options, *rest]
        return subprocess.run(one, env=environment, check=False).returncode  # noqa: S603  (ours)

    with TemporaryDirectory() as folder, ThreadPoolExecutor(_AT_ONCE) as pool:
        environment[_FOLDER] = folder
        for rank in ranks:
            (Path(folder) / f"rank{rank}").touch()
        return next((status for status in pool.map(run, ranks) if status), 0)


_PROCESSES = re.compile(r"--(nproc[-_]per[-_]node|num[-_]processes|num[-_]gpus)(?:=(\w+))?")
_MACHINES = re.compile(r"--(nnodes|num[-_]nodes)(?:=(\w+))?")


def _forecast_one(found: Launched) -> str:
    """Return a sentence with the command that forecasts one of the processes of a launcher."""
    processes, machines = (_number(found.given, each) for each in (_PROCESSES, _MACHINES))
    ranks = str(processes * (machines or 1)) if processes else "N"
    own = [] if "--ranks" in found.own else ["--ranks", ranks]
    program = [*(["-m"] * found.module), *(found.program or ["train.py"])]
    run = shlex.join(["snapreport", "forecast", *found.own, *own, *program])
    return (
        f"{found.launcher} starts other processes. Forecast one of those, with their number as"
        f" --ranks: {run}"
    )


def _number(options: list[str], name: re.Pattern[str]) -> int | None:
    """Return the number that an option of a launcher has, None if there is none."""
    for option, following in zip(options, [*options[1:], ""], strict=False):
        match = name.fullmatch(option)
        if match and (match[2] or following).isdigit():
            return int(match[2] or following)
    return None

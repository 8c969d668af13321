"""``snapreport record``: run a program, and write snapshot, bundle and reports of its memory."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import io
import os
import runpy
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

import click

import snapreport
from snapreport.commands.console import INTERRUPTED, say
from snapreport.commands.options import quiet_option
from snapreport.ground.errors import InputError
from snapreport.ground.processes import SignalExit, ignore_further_signals, signals_as_by_default

if TYPE_CHECKING:
    from snapreport.api.recording import Recording

FORMATS = ("pickle", "zip", "html", "md")
"""Copies of ``recording.FORMATS`` and ``MAX_ENTRIES``: importing that module is slow."""
MAX_ENTRIES = 1_000_000


# What the commands that run a program share.

OF_PROGRAM = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""Everything after the program's name belongs to the program."""
program_argument = click.argument("program", metavar="PROGRAM.py|MODULE")
rest_argument = click.argument(
    "arguments", metavar="[ARGUMENT]...", nargs=-1, type=click.UNPROCESSED
)
module_option = click.option(
    "-m", "--module", is_flag=True, help="Run a module by its name, as python -m does."
)
title_option = click.option(
    "--title", metavar="TEXT", help="Title of the reports; by default the program's name."
)
formats_option = click.option(
    "--format",
    "formats",
    multiple=True,
    type=click.Choice(FORMATS),
    help="Write a snapshot, bundle, page or Markdown. May be repeated; by default all.",
)


@click.command(context_settings=OF_PROGRAM)
@program_argument
@rest_argument
@module_option
@click.option(
    "-o",
    "--output",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Folder for the recordings: 1, 2, ..., and latest, a link to the newest."
    " By default named after the program: train.memory.",
)
@title_option
@formats_option
@click.option("--compress", is_flag=True, help="Write snapshot.pickle.zst.")
@click.option(
    "--stacks",
    type=click.Choice(["python", "all"]),
    help="Record call stacks of Python only, or with C++. By default with C++ if PyTorch can.",
)
@click.option(
    "--max-entries",
    metavar="N",
    type=click.IntRange(min=2),
    default=MAX_ENTRIES,
    help="Keep the last N events of each device; 1,000,000 by default.",
)
@click.option("--compile-context", is_flag=True, help="Name the compiled region of each event.")
@click.option("--pinned", is_flag=True, help="Record pinned host memory too.")
@click.option(
    "--rank",
    "ranks",
    metavar="N",
    multiple=True,
    type=click.IntRange(min=0),
    help="Record only this one of several processes. May be repeated; by default all.",
)
@click.option("--force", is_flag=True, help="Remove the previous recording when this one is done.")
@quiet_option
def record(
    program: str,
    arguments: tuple[str, ...],
    module: bool,
    output: Path | None,
    title: str | None,
    formats: tuple[str, ...],
    ranks: tuple[int, ...],
    quiet: bool,
    **options: Any,
) -> None:
    """Run PROGRAM with its ARGUMENTS, and write snapshot, bundle and reports into a folder.

    They are written even if it fails, runs out of memory, or is ended by a signal such as SIGTERM
    or SIGHUP, and its exit status is kept. With a CUDA device PyTorch's memory history is recorded,
    without one the CPU's memory. Options for snapreport come before the program's name. Every
    recording is kept in a folder of its own: train.memory/1, train.memory/2; train.memory/latest is
    the newest. If there are several processes, record each: let torchrun start snapreport, not the
    reverse.

    \b
    Example:
      snapreport record train.py --epochs 1
      torchrun --nproc-per-node 2 -m snapreport record train.py
    """
    stem = prepare(program, module, arguments)
    recording = snapreport.record(
        output or Path(f"{stem}.memory"),
        title=title or (program if module else Path(program).name),
        formats=formats or FORMATS,
        ranks=ranks or None,
        quiet=True,  # printed below, after the program's traceback
        **options,
    )
    end(run_and_leave(program, module, recording, quiet=quiet))


def prepare(
    program: str,
    module: bool,
    arguments: tuple[str, ...],
    advise: Callable[[Launched], str] | None = None,
) -> str:
    """Set up the interpreter as if a program ran alone; return a name for its folder.

    Args:
        program: its file or module.
        module: whether it is a module's name.
        arguments: the program's own.
        advise: says what to do instead if it is a launcher; by default to record what it starts.

    Raises:
        InputError: it cannot be run, or starts other processes.
    """
    _find(program, module)
    launched = find_launched(program, module, arguments)
    if launched is not None:
        raise InputError((advise or _record_those)(launched))
    sys.argv = [program, *arguments]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.getcwd() if module else str(Path(program).resolve().parent)  # noqa: PTH109
    return program.rsplit(".", 1)[-1] if module else Path(program).stem


def run_and_leave(
    program: str, module: bool, recording: Recording, *, quiet: bool
) -> int | SignalExit:
    """Record a program to its end, and say what was written; return its status, or its signal."""
    names, error = _run(program, module, recording)
    if "" not in names:  # it was not started
        recording.abandon()
        if isinstance(error, SignalExit | KeyboardInterrupt):
            signal = error.name if isinstance(error, SignalExit) else "Ctrl-C"
            with contextlib.suppress(OSError):  # a terminal that is closed
                say(f"{signal} came before {Path(program).name} was started; nothing was recorded.")
            sys.exit(error.code if isinstance(error, SignalExit) else INTERRUPTED)
        raise error or AssertionError
    try:
        if recording.on:  # off in a forked child, or where the program stopped it
            recording.stop(error)
    finally:
        status = _leave(error)
    del names
    if not quiet:
        recording.tell(error)
    return error if isinstance(error, SignalExit) else status


def end(left: int | SignalExit) -> NoReturn:
    """End this process as the program has ended."""
    if isinstance(left, SignalExit):
        _end_by_signal(left)
    sys.exit(left)


def _find(program: str, module: bool) -> None:
    """Refuse a program that cannot be run, before anything is recorded.

    Raises:
        InputError: it cannot be found or read.
    """
    if module:
        try:
            found = importlib.util.find_spec(program)
        except (ImportError, ValueError):
            found = None
        if found is None and not Path(*program.split(".")).with_suffix(".py").is_file():
            raise InputError(f"There is no module {program}; -m takes a module's name.")
        return
    try:
        with Path(program).open("rb"):
            pass
    except OSError as error:
        if not Path(program).is_dir():  # which may have a __main__.py
            raise InputError(
                f"{program} cannot be read: {error.strerror}; name a Python program."
            ) from error


def _run(
    program: str, module: bool, recording: Recording
) -> tuple[dict[str, object], BaseException | None]:
    """Record the program to its end, and return its names and what ended it.

    Keeping the names keeps their values live at the end, as when a program records itself. The CPU
    profiler also needs them: it finds a function's name and file only while its code exists. There
    is none if the program was not started.
    """
    names: dict[str, object] = {}
    try:
        recording.start()
        gc.enable()  # main() turned it off
        with signals_as_by_default():
            # By its absolute path, as Python names its main file: the program may change folders.
            names[""] = path = str(Path(program).absolute())
            if module:
                names |= runpy.run_module(program, run_name="__main__", alter_sys=True)
            else:
                names |= runpy.run_path(path, run_name="__main__")
        ignore_further_signals()
    except BaseException as error:  # whatever it is, it is the program's
        ignore_further_signals()
        return names, error
    return names, None


def _end_by_signal(error: SignalExit) -> NoReturn:
    """End as the program itself would have: at once, even if its threads are still running."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    error.end_as_by_default()


def _leave(error: BaseException | None) -> int:
    """Do what Python does at the end of a program, and return the exit status."""
    if error is None:
        return 0
    if isinstance(error, SystemExit):
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        click.echo(str(error.code), err=True)
        return 1
    with contextlib.suppress(io.UnsupportedOperation):
        sys.stdout.flush()
    trace = _of_program(error.__traceback__)
    sys.excepthook(type(error), error.with_traceback(trace), trace)
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1


def _of_program(trace: TracebackType | None) -> TracebackType | None:
    """Leave out our frames and those of runpy; a forecast's lie inside of the program's."""
    ours = {__file__, runpy.__file__, "<frozen runpy>"}
    first = trace
    while first is not None and first.tb_frame.f_code.co_filename in ours:
        first = first.tb_next
    last = first
    while last is not None and last.tb_next is not None:
        if last.tb_next.tb_frame.f_code.co_filename.startswith(_FORECAST):
            last.tb_next = None
            break
        last = last.tb_next
    return first or trace


_FORECAST = str(Path(__file__).parents[1] / "recorders" / "forecast") + os.sep


# Launchers, such as torchrun: record the programs that they start, not the launchers.


_LAUNCHERS = {
    "torchrun": ("torchrun",),
    "torch.distributed.run": ("torchrun",),
    "torch.distributed.launch": ("python", "-m", "torch.distributed.launch"),
    "accelerate": ("accelerate",),
    "accelerate.commands.launch": ("accelerate", "launch"),
    "accelerate.commands.accelerate_cli": ("accelerate",),
    "deepspeed": ("deepspeed", "--no_local_rank"),
    "deepspeed.launcher.runner": ("deepspeed", "--no_local_rank"),
}
"""How each launcher is called, by its module or file name; most take a module to run with ``-m``.

DeepSpeed takes it with ``--module``, and puts ``--local_rank=0`` after the module's name unless
given ``--no_local_rank``; programs find it in ``LOCAL_RANK`` as well.
"""
_MODULE = ("-m", "--module")


@dataclass(frozen=True)
class Launched:
    """What a launcher was to start."""

    launcher: str
    called: tuple[str, ...]
    """How the launcher is called."""
    own: list[str]
    """Our own options."""
    given: list[str]
    """The launcher's options."""
    program: list[str]
    """The program with its arguments; empty if none was named."""
    module: bool
    """Whether the program is a module's name."""


def find_launched(program: str, module: bool, arguments: Sequence[str]) -> Launched | None:
    """Return what a program starts if it is a launcher, None if it is not."""
    name = program if module else Path(program).name
    called = _LAUNCHERS.get(name)
    if called is None:
        return None
    before = sys.argv[: len(sys.argv) - 1 - len(arguments)]
    ours = next((n for n, each in enumerate(before) if each in ("record", "forecast")), None)
    own = [] if ours is None else [each for each in before[ours + 1 :] if each not in _MODULE]
    # The launched program is a Python file, or the name after -m; without one, this is the end.
    start = next(
        (k + (each in _MODULE) for k, each in enumerate(arguments)
         if each in _MODULE or each.endswith(".py")),
        len(arguments),
    )  # fmt: skip
    given = [each for each in arguments[:start] if each not in (*_MODULE, *called)]
    names_module = any(each in _MODULE for each in arguments[:start])
    return Launched(name, called, own, given, list(arguments[start:]), names_module)


def _record_those(found: Launched) -> str:
    """Return a sentence with the command that records what a launcher starts."""
    option = "--module" if "deepspeed" in found.called else "-m"
    run = [option, "snapreport", "record", *found.own]
    if found.module and found.program:
        run.append("-m")
    trains = [*found.called, *found.given, *run, *(found.program or ["train.py"])]
    return (
        f"{found.launcher} starts other processes, and recording it sees none of them. Record those"
        f" instead: {shlex.join(trains)}"
    )

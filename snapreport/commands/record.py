"""``snapreport record``: run a program, and write snapshot, bundle and reports of its memory."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import io
import os
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.shell_completion import CompletionItem

import snapreport
from snapreport.api.any_process import ALL, LAUNCHERS, ONLY_OOM, OPTIONS
from snapreport.commands.console import INTERRUPTED, say
from snapreport.commands.options import quiet_option
from snapreport.ground.errors import InputError
from snapreport.ground.files import latest_number
from snapreport.ground.processes import (
    SignalExit,
    ignore_further_signals,
    signals_as_by_default,
    signals_held,
)
from snapreport.ground.records import dataclass

if TYPE_CHECKING:
    from snapreport.api.recording import Recording

FORMATS = ("pickle", "zip", "html", "md")
"""Copies of what ``recording`` has: importing that module is slow."""
MAX_ENTRIES = 1_000_000
ACTIONS = ("free_requested", "snapshot")


# What the commands that run a program share.

OF_PROGRAM = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""Everything after the program's name belongs to the program."""
rest_argument = click.argument(
    "arguments",
    metavar="[ARGUMENT]...",
    nargs=-1,
    type=click.UNPROCESSED,
    shell_complete=lambda _context, _argument, begun: [CompletionItem(begun, type="file")],
)
module_option = click.option(
    "-m", "--module", is_flag=True, help="Run a module by its name, as python -m does."
)
title_option = click.option(
    "--title", metavar="TEXT", help="Title of the reports; by default the program's name."
)


def folder_option(what: str, example: str) -> Callable[[Any], Any]:
    """Return the option for the folder of what a command makes, with its default's name."""
    return click.option(
        "-o",
        "--output",
        metavar="FOLDER",
        type=click.Path(path_type=Path),
        help=f"Folder for the {what}: 1, 2, ..., and latest, a link to the newest."
        f" By default named after the program: {example}.",
    )


formats_option = click.option(
    "--format",
    "formats",
    multiple=True,
    type=click.Choice(FORMATS),
    help="Write a snapshot, bundle, page or Markdown. May be repeated; by default all.",
)


@click.command(context_settings=OF_PROGRAM)
@click.argument("program", metavar="PROGRAM.py|MODULE|COMMAND", type=click.Path())
@rest_argument
@module_option
@folder_option("recordings", "train.memory")
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
    "--forward-frames",
    is_flag=True,
    help="Name the line of forward behind memory of backward; slow. PyTorch 2.12 or newer.",
)
@click.option(
    "--skip-actions",
    metavar="ACTION",
    multiple=True,
    type=click.Choice(ACTIONS),
    help="Record no events of this kind: free_requested or snapshot. May be repeated.",
)
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
    the newest. PROGRAM may also be a launcher, such as torchrun, or any other command: then each
    Python process that it starts and that imports PyTorch (2.5 or newer) is recorded, and the ranks
    of a run get a page together.

    \b
    Example:
      snapreport record train.py --epochs 1
      snapreport record torchrun --nproc-per-node 2 train.py
      snapreport record -o out -- bash job.sh
    """
    command = find_command(program, module, arguments)
    if command is not None:
        launched = find_launched(program, module, arguments)
        named = launched.program[0] if launched and launched.program else program
        options |= {"title": title, "formats": formats, "ranks": ranks}
        if options.pop("force"):
            raise click.UsageError("--force is for a single program: a command may run several.")
        folder = output or Path(f"{Path(named).stem}.memory")
        sys.exit(_record_command(command, folder, options, quiet))
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
        advise: says what to do instead if it is a launcher.

    Raises:
        InputError: it cannot be run, or starts other processes.
    """
    _find(program, module)
    launched = find_launched(program, module, arguments) if advise is not None else None
    if launched is not None and advise is not None:
        raise InputError(advise(launched))
    for name in (ALL, ONLY_OOM):  # this process is seen to already
        os.environ.pop(name, None)
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


# Launchers and other commands: the processes that they start record themselves.

_MODULE = ("-m", "--module")


@dataclass(frozen=True)
class Launched:
    """What a launcher would start."""

    launcher: str
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
    if name not in LAUNCHERS:
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
    given = [each for each in arguments[:start] if each not in (*_MODULE, *LAUNCHERS, "launch")]
    names_module = any(each in _MODULE for each in arguments[:start])
    return Launched(name, own, given, list(arguments[start:]), names_module)


def find_command(program: str, module: bool, arguments: tuple[str, ...]) -> list[str] | None:
    """Return how to start a program that is no Python program to run here, None if it is one."""
    launcher = (program if module else Path(program).name) in LAUNCHERS
    if module:
        return [sys.executable, "-m", program, *arguments] if launcher else None
    if not Path(program).exists():
        found = shutil.which(program)
        return None if found is None else [found, *arguments]
    path = str(Path(program).absolute())
    if launcher:
        return [*([] if os.access(path, os.X_OK) else [sys.executable]), path, *arguments]
    return None if _is_python(Path(path)) else [path, *arguments]


def _is_python(path: Path) -> bool:
    """Say whether a file or folder is a Python program: all that does not say otherwise is."""
    try:
        with path.open("rb") as file:
            begin = file.read(200)
    except OSError:  # a folder, or what _find() says
        return True
    if begin.startswith(b"#!"):
        return b"python" in begin.partition(b"\n")[0]
    packed = begin.startswith(b"PK") or path.suffix == ".pyc"
    other = path.suffix.lower() in (".sh", ".bat", ".cmd", ".exe")
    return packed or not (other or b"\0" in begin)


def _record_command(command: list[str], folder: Path, options: dict[str, Any], quiet: bool) -> int:
    """Run a command, let its processes record themselves, and say what they left.

    Returns:
        its exit status.

    Raises:
        InputError: it cannot be run.
    """
    words = [
        name if value is True else f"{name}={_word(value)}"
        for name, value in options.items()
        if value not in (None, (), False)
    ]
    environment = {**os.environ, ALL: str(folder.absolute()), OPTIONS: shlex.join(words)}
    environment.pop(ONLY_OOM, None)
    before = latest_number(folder)
    ended: SignalExit | None = None
    process: subprocess.Popen[bytes] | None = None
    while True:
        try:
            if process is None:
                with signals_held():
                    process = subprocess.Popen(command, env=environment)  # noqa: S603  (the user's)
            status = process.wait()
            break
        except SignalExit as error:  # all of it is to end
            ended = error
            if process is not None:
                process.send_signal(error.number)
        except KeyboardInterrupt:
            if process is not None and not os.isatty(0):  # a terminal sends it to the command, too
                process.send_signal(signal.SIGINT)
        except OSError as error:
            raise InputError(f"{command[0]} cannot be run: {error.strerror}.") from error
    ignore_further_signals()
    if not quiet:
        _tell(Path(command[0]).name, folder, before)
    if ended is not None:
        _end_by_signal(ended)
    return 128 - status if status < 0 else status


def _word(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _tell(name: str, folder: Path, before: int) -> None:
    """Say what the processes of a command left; make the page of a run of several."""
    numbers = range(before + 1, latest_number(folder) + 1)
    recorded = [folder / str(n) for n in numbers if any((folder / str(n)).glob("snapshot*"))]
    for each in recorded:
        if any(each.glob("snapshot.rank*")):
            try:
                page = each / "run.html"
                run = snapreport.render_run(each, page, pages="none", force=True).loaded.run
                of = f"{len(run.ranks)} of {run.expected}" if run.expected else str(len(run.ranks))
                say(f"snapreport recorded {of} ranks: {page}")
            except Exception as error:  # the command's own status counts
                say(f"The ranks in {each} have no page together: {error}")
    if not recorded:
        say(
            f"No process that {name} started was recorded: none of them allocated memory through"
            " PyTorch, or their Python has no snapreport, or a PyTorch before 2.5."
        )

"""Try many hostile inputs in processes of their own, and count what went wrong.

A child takes one input after the other under limits of time and memory; where one of them ends
it, a new child goes on behind that input. What an attempt needs is imported before the fork.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import pickle
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from snapreport.ground.errors import SnapreportError

MIB = 1 << 20

SECONDS = 30
"""Of the processor that one input may take: who needs them, hangs."""

MEMORY = 2048 * MIB
"""Address space that a child may take besides what it was born with: all inputs are small."""

Attempt = Callable[[Path, Path], None]
"""Takes an input, and a file that it may write. A SnapreportError is as good as success."""

Inputs = Callable[[], Iterable[tuple[str, bytes]]]
"""Makes names and inputs, the same ones every time."""

_NO_INPUT = 3
"""A child's exit status where the next input could not be made."""

_RUNS = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "subprocess.Popen")
_CALLS = ("socket.connect", "ctypes.dlopen", "code.__new__", "pty.spawn", "webbrowser.open")


@dataclass(frozen=True)
class Family:
    """What came of one kind of inputs."""

    name: str
    tried: int
    worst_s: float
    """Seconds of the processor, for one input."""
    worst_bytes: int
    """Memory that one input took besides what was there before."""
    crashes: int
    """Inputs that ended in anything but success or an expected error, limits included."""
    code_run: int
    """Inputs during which something was run, loaded or asked of the network."""
    left_over: int
    """Files that lay there afterwards."""
    notes: tuple[str, ...] = ()
    """The first crashes, for whoever mends them."""


@dataclass
class _Tally:
    tried: int = 0
    worst_s: float = 0.0
    worst_bytes: int = 0
    crashes: int = 0
    code_run: int = 0
    left_over: int = 0
    notes: list[str] = field(default_factory=list)


def run_family(
    name: str,
    inputs: Inputs,
    attempt: Attempt,
    ending: str,
    *,
    seconds: float = SECONDS,
    memory: int = MEMORY,
) -> Family:
    """Try every input, and say what came of them.

    Args:
        name: of the family.
        inputs: makes them.
        attempt: what is done with each.
        ending: of the input's file name, with its dot.
        seconds: of the processor for one input.
        memory: bytes of address space that a child may take for all of them.

    Raises:
        RuntimeError: the inputs cannot be made: that says nothing of what reads them.
    """
    tally = _Tally()
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        trial = _Trial(inputs, attempt, Path(folder), ending, seconds, memory)
        while (ended := _run_child(tally, trial)) is not None:
            tally.tried += 1
            tally.crashes += 1
            tally.notes.append(f"input {tally.tried}, {ended}")
    return Family(name, **{**vars(tally), "notes": tuple(tally.notes[:10])})


@dataclass(frozen=True)
class _Trial:
    """What ``run_family`` was given, and a folder to do it in."""

    inputs: Inputs
    attempt: Attempt
    folder: Path
    ending: str
    seconds: float
    memory: int


def _run_child(tally: _Tally, trial: _Trial) -> str | None:
    """Go on behind the inputs that were tried; return how the child was ended, None if well."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reader)
            with os.fdopen(writer, "wb", buffering=0) as results:  # it may end at any moment
                _try_all(tally.tried, trial, results.write)
                status = 0
        except _InputError:
            traceback.print_exc()
            status = _NO_INPUT
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as results, suppress(EOFError, pickle.UnpicklingError):
        while True:
            took, grew, crash, ran, left = pickle.load(results)
            tally.tried += 1
            tally.worst_s = max(tally.worst_s, took)
            tally.worst_bytes = max(tally.worst_bytes, grew)
            tally.code_run += ran
            tally.left_over += left
            if crash:
                tally.crashes += 1
                tally.notes.append(crash)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"ended by {signal.Signals(os.WTERMSIG(status)).name}"
    if os.WEXITSTATUS(status) == _NO_INPUT:
        raise RuntimeError(f"input {tally.tried + 1} could not be made; see above for why")
    return f"status {os.WEXITSTATUS(status)}" if status else None


class _InputError(Exception):
    """An input could not be made."""


def _made(inputs: Inputs) -> Iterator[tuple[str, bytes]]:
    try:
        yield from inputs()
    except Exception as error:
        raise _InputError from error


def _try_all(skip: int, trial: _Trial, tell: Callable[[bytes], object]) -> None:
    ran: list[str] = []
    watching = False

    def watch(event: str, _arguments: object) -> None:
        if watching and event.startswith((*_RUNS, *_CALLS)):
            ran.append(event)

    sys.addaudithook(watch)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    most = _address_space() + trial.memory
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    folder = trial.folder
    os.chdir(folder)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    source, output = folder / f"input{trial.ending}", folder / "output"
    _clear(folder, source, output)  # of a child that was ended
    for name, data in itertools.islice(_made(trial.inputs), skip, None):
        source.write_bytes(data)
        ran.clear()
        before = _reset_peak()
        signal.setitimer(signal.ITIMER_PROF, trial.seconds)
        start = _spent()
        watching = True
        crash = _outcome(trial.attempt, source, output)
        watching = False
        took = _spent() - start
        signal.setitimer(signal.ITIMER_PROF, 0)
        grew = max(_peak() - before, 0)
        left = _clear(folder, source, output)
        if ran:
            crash = crash or f"ran {ran[0]}"
        told = f"{name}: {crash}" if crash else ""
        tell(pickle.dumps((took, grew, told, bool(ran), left)))


def _spent() -> float:
    """Return the seconds of the processor that this process and those it waited for have taken."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def _outcome(attempt: Attempt, source: Path, output: Path) -> str:
    """Return what went wrong, or nothing."""
    try:
        attempt(source, output)
    except SnapreportError as error:
        lines = str(error).splitlines()
        if len(lines) != 1 or not lines[0].strip():
            return f"{type(error).__name__} of {len(lines)} lines"
        if output.exists():
            return "an error, and yet an output"
    except MemoryError:
        return "out of memory"
    except BaseException as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{error!r:.120} at {Path(place.filename).name}:{place.lineno}"
    return ""


def _clear(folder: Path, source: Path, output: Path) -> int:
    """Empty the folder; return how many files there were that should not be."""
    left = 0
    for path in folder.iterdir():
        left += path not in (source, output)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    return left


def _address_space() -> int:
    """Return how many bytes of address space this process has; 0 where that is not told."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def _reset_peak() -> int:
    """Let the peak of memory begin anew; return it.

    What the C library keeps of memory that was freed is given back first, or an input that
    takes it again would seem to take nothing.
    """
    with suppress(OSError, AttributeError):  # only glibc keeps and trims
        ctypes.CDLL(None).malloc_trim(0)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    """Return the most bytes of memory that this process had since."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        scale = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


HEADING = ("family", "tried", "worst s", "worst MiB", "crashes", "code run", "left over")


def table(families: Iterable[Family]) -> Iterator[str]:
    """Yield the lines of a table, each when its family is done."""
    yield f"{HEADING[0]:<44}" + "".join(f"{word:>11}" for word in HEADING[1:])
    for each in families:
        yield (
            f"{each.name:<44}{each.tried:>11,}{each.worst_s:>11.2f}"
            f"{each.worst_bytes / MIB:>11.1f}{each.crashes:>11}{each.code_run:>11}"
            f"{each.left_over:>11}"
        )
        for note in each.notes:
            yield f"    {note}"

"""What a recording needs of the program around it: facts about it, a folder, and a line to say so.

The facts are its command, versions, rank, and how it failed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import multiprocessing
import os
import platform
import re
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count, takewhile
from pathlib import Path, PurePath
from typing import Any

from snapreport.ground import processes
from snapreport.ground.errors import OutputError, OutputExistsError, RecordingError
from snapreport.ground.files import (
    LATEST,
    LATEST_FILE,
    NUMBER,
    WRITTEN,
    latest_number,
    write_atomically,
)
from snapreport.ground.records import dataclass
from snapreport.ground.safe_text import visible
from snapreport.model.findings import OUTSIDE
from snapreport.roles.frames import classify_file


def best_stacks() -> str:
    """Return ``all`` where PyTorch can walk C++ frames; elsewhere allocations would fail."""
    walks = sys.platform == "linux" and platform.machine() in ("x86_64", "AMD64")
    return "all" if walks else "python"


def program_name() -> str | None:
    """Return the file name of the program, or None if that says nothing."""
    name = Path(sys.argv[0]).name if sys.argv else ""
    return None if name in ("", "-c", "-m", "ipykernel_launcher.py") else name


def require_torch() -> None:
    """Import torch, or say how to get it.

    Raises:
        RecordingError: it is not installed, or cannot be imported.
    """
    if "torch" not in sys.modules and importlib.util.find_spec("torch") is None:
        raise RecordingError(
            "Recording needs PyTorch, which is not installed here;"
            " install it with: pip install torch."
        )
    try:
        import torch  # noqa: F401
    except (ImportError, OSError) as error:
        raise RecordingError(f"PyTorch cannot be imported: {error}.") from error


def cuda_is_there() -> bool:
    """Say whether PyTorch can use a CUDA (or ROCm) device."""
    import torch

    return bool(torch.cuda.is_available())


def has_card() -> bool:
    """Say whether there is a card for this process, without a context on it: a fork may follow."""
    import torch

    if not torch.backends.cuda.is_built():
        return False
    name = "_device_count_amdsmi" if torch.version.hip else "_device_count_nvml"
    count = getattr(torch.cuda, name, lambda: -1)()
    devices = ("nvidia[0-9]*", "kfd", "dxg", "nvmap")  # also of ROCm, WSL and Jetson
    return bool(count > 0 or (count < 0 and any(any(_DEVICES.glob(each)) for each in devices)))


def at_first_use_of_cuda(function: Callable[[], None]) -> None:
    """Call a function when PyTorch has initialised CUDA; at once if it has already."""
    import torch

    torch.cuda._lazy_call(function)


def after_each_step(function: Callable[..., None]) -> None:
    """After each step of one of PyTorch's optimizers, call a function with that optimizer."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(function)


def allocator_backend() -> str:
    """Return the name of the CUDA allocator; only ``native`` keeps a history."""
    import torch

    with suppress(Exception):
        return str(torch.cuda.memory.get_allocator_backend())
    return "native"


def allocator_variable() -> str:
    """Return what the environment sets for PyTorch's allocator; empty for nothing."""
    names = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
    return next((value for name in names if (value := os.environ.get(name))), "")


_BACKENDS = ("xpu", "mps", "mtia", "npu")


def other_accelerator() -> str | None:
    """Return the name of an accelerator whose memory cannot be recorded, None if there is none."""
    import torch

    for name in _BACKENDS:
        backend = getattr(torch, name, None) or getattr(torch.backends, name, None)
        with suppress(Exception):
            if backend is not None and backend.is_available():
                return name
    return None


def versions() -> dict[str, str | None]:
    """Return the versions of PyTorch, CUDA (or ROCm) and the driver; None where there is none."""
    import torch

    built = getattr(torch, "version", None)
    cuda = getattr(built, "cuda", None)
    hip = getattr(built, "hip", None)
    return {
        "torch": str(torch.__version__),
        "cuda": str(cuda) if cuda else f"ROCm {hip}" if hip else None,
        "driver": _driver(),
        "python": ".".join(map(str, sys.version_info[:3])),
    }


_DEVICES = Path("/dev")
_DRIVER = Path("/proc/driver/nvidia/version")


def _driver() -> str | None:
    try:
        text = _DRIVER.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(r"Module\D{0,40}([\d.]+)", text)
    return found.group(1) if found else None


def command_line() -> list[str]:
    """Return the command that this process runs, without the folders of Python and of ours."""
    python, *given = map(str, getattr(sys, "orig_argv", None) or [sys.executable, *sys.argv])
    if given and PurePath(given[0]).name == "snapreport":
        return ["snapreport", *given[1:]]
    return [PurePath(python).name, *given]


def rank_of_process() -> tuple[int, int]:
    """Return this process's rank and the number of ranks; ``(0, 1)`` for a single process."""
    if "torch.distributed" in sys.modules:
        from torch import distributed

        with suppress(Exception):
            if distributed.is_available() and distributed.is_initialized():
                return int(distributed.get_rank()), int(distributed.get_world_size())
    try:
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError):
        return 0, 1
    return (rank, size) if 0 <= rank < size else (0, 1)


def place_in_run() -> dict[str, int | None]:
    """Return this process's number on its machine, and the machine's, as set by the launcher."""

    def first(*names: str) -> int | None:
        found = (os.environ.get(name, "") for name in names)
        return next((int(each) for each in found if re.fullmatch(r"\d{1,9}", each)), None)

    return {
        "local_rank": first("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"),
        "node": first("GROUP_RANK", "NODE_RANK", "SLURM_NODEID"),
    }


def children_seconds() -> float:
    """Return the processor time of all child processes that have ended, in seconds."""
    times = os.times()
    return times.children_user + times.children_system


def process_label() -> str:
    """Return a label for this process among those of its program: ``rank3``, ``pid77``, or none.

    Workers of ``multiprocessing`` do not know a rank, but may still record into one folder.
    """
    rank, size = rank_of_process()
    if size > 1:
        return f"rank{rank}"
    return f"pid{os.getpid()}" if multiprocessing.parent_process() is not None else ""


def out_of_memory(error: BaseException | None) -> bool:
    """Say whether an exception, or one that led to it, is an allocator's out of memory error."""
    import torch

    kind = getattr(torch.cuda, "OutOfMemoryError", ())  # before 1.13 there was none
    # A compiled function, or another process, may pass on only the message.
    return any(
        isinstance(each, kind) or "out of memory" in _message(each).lower()
        for each in _led_to(error)
    )


def has_failed(error: BaseException | None) -> bool:
    """Say whether a program that an exception ended has failed, and did not only exit."""
    return error is not None and not (isinstance(error, SystemExit) and error.code in (None, 0))


def describe(error: BaseException) -> dict[str, Any]:
    """Return what failed, for the report."""
    kind = type(error)
    module = "" if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}."
    name, message = f"{module}{kind.__qualname__}", _message(error)[:4000]
    if isinstance(error, processes.SignalExit):
        name, message = error.name, ""
    return {
        "type": name,
        "message": message,
        "cpu_request": _cpu_request(error),
        "place": _place_of(_cpu_failure(error) or error),
    }


def _place_of(error: BaseException) -> str | None:
    """Return the innermost line of the program itself that an error passed through."""
    place = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if classify_file(file) == OUTSIDE and file != processes.__file__:
            place = f"{frame.f_code.co_name} ({PurePath(file).name}:{line})"
    return place


def _cpu_request(error: BaseException) -> int | None:
    """Return the size in bytes of the failed request for the CPU's memory.

    0 if the message does not say it; None if something else failed.

    Source: PyTorch, c10/core/impl/alloc_cpu.cpp, ``alloc_cpu``, whose error is a RuntimeError.
    """
    failed = _cpu_failure(error)
    if failed is None:
        return None
    asked = re.search(r"tried to allocate (\d{1,18}) bytes", _message(failed))
    return int(asked[1]) if asked else 0


_CPU_FAILURES = (
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
    "[Errno 12] Cannot allocate memory",
    "std::bad_alloc",
)


def _cpu_failure(error: BaseException) -> BaseException | None:
    """Return the failure of a request for the CPU's memory that led to an error, if one did."""
    for each in _led_to(error):
        message = _message(each)
        if isinstance(each, MemoryError) or any(words in message for words in _CPU_FAILURES):
            return each
    return None


def _led_to(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and those that led to it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # the user's own class may raise anything
        return ""


# Where the files of a recording go: a numbered folder of its own, and ``latest``.
#
#     train.memory/1/   train.memory/2/   train.memory/latest -> 2
#
# Only ``os.mkdir`` and files that must not exist yet decide which process gets a folder: both are
# exclusive on every system, and on file systems that the machines of one run share.


@dataclass(frozen=True)
class Place:
    """The folder of one recording; the ranks of a run share it."""

    parent: Path
    number: int
    replaces: int
    """The recording that this one replaces; 0 for none."""
    made: tuple[Path, ...]
    """The parent and those above it, innermost first, that this process made for the recording."""
    token: Path | None
    """This process's mark that it records here, where the processes of a run share the folder."""

    @property
    def folder(self) -> Path:
        """Where the files go."""
        return self.parent / str(self.number)

    def filled(self) -> None:
        """Note that there are files now: point ``latest`` here, unless a newer recording has it."""
        if latest_number(self.parent) < self.number:
            _point(self.parent, self.number)
        if self.replaces:
            _remove(self.parent / str(self.replaces))

    def close(self) -> None:
        """Remove what was made for this recording if nothing was written to it.

        In a run this is for the last of its processes to do.
        """
        with suppress(OSError):
            if self.token is not None:
                if any(self.folder.iterdir()):
                    return
                self.token.unlink()
                shared = self.token.with_suffix("")
                if any(self.token.parent.glob(f"{shared.name}.*")):
                    return
                shared.unlink()
            self.folder.rmdir()
            if self.token is not None:
                self.token.parent.rmdir()
            for folder in self.made:
                folder.rmdir()


def claim(parent: Path, force: bool) -> Place:
    """Make a folder that no other recording has; the processes of a run share one.

    Args:
        parent: made if missing.
        force: remove the recording that is the newest now, once this one has files.

    Raises:
        OutputError: it cannot be made, is a file, or cannot be written to.
    """
    made = _make(parent)
    newest = latest_number(parent) if force else 0
    token = None
    try:
        run = _run_id()
        if run is None:
            number = _new_number(parent)
        else:
            number, token = _number_in_run(parent, run)
    except OSError as error:
        raise _cannot_be_made(parent, error) from error
    # For a late rank the newest recording is this one, with the files of another rank.
    return Place(parent, number, newest if newest < number else 0, made, token)


def _make(folder: Path) -> tuple[Path, ...]:
    """Make a folder, and return those that were missing, innermost first."""
    try:
        missing = tuple(takewhile(lambda each: not each.exists(), (folder, *folder.parents)))
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise OutputError(f"{folder} is a file; name a folder for the recording.") from None
    except OSError as error:
        raise _cannot_be_made(folder, error) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"{folder} cannot be written to; name another folder.")
    return missing


def _cannot_be_made(folder: Path, error: OSError) -> OutputError:
    return OutputError(f"{folder} cannot be made: {error.strerror}; name another folder.")


def _new_number(parent: Path) -> int:
    taken = (int(each.name) for each in parent.iterdir() if NUMBER.fullmatch(each.name))
    for number in count(max(taken, default=0) + 1):
        with suppress(FileExistsError):
            (parent / str(number)).mkdir()
            return number
    raise AssertionError


_RUNS = ".runs"
"""The folder whose files say which numbered folder the processes of a run share."""


def _number_in_run(parent: Path, run: str) -> tuple[int, Path]:
    """Return the number of the folder that the ranks of a run share for their next recording.

    Also the file that says that this process records there.

    The first recordings of all ranks share a folder, and so do the second ones. A rank that has
    already recorded into it, as after the program restarted its workers, takes the next folder.
    """
    runs = parent / _RUNS
    runs.mkdir(exist_ok=True)
    process = process_label()
    for turn in count(1):
        shared = runs / f"{run}-{turn}"
        token = shared.with_name(f"{shared.name}.{process}")
        with suppress(FileExistsError):
            token.touch(exist_ok=False)
            break
    number = 0
    if not shared.exists():
        number = _new_number(parent)
        try:
            with write_atomically(shared, force=False) as out:
                out.write(str(number).encode())
        except OutputExistsError:  # another rank has just made it
            (parent / str(number)).rmdir()
    number = int(shared.read_text(encoding="ascii"))
    (parent / str(number)).mkdir(exist_ok=True)
    return number, token


# One of these is the same for all processes of a run, on all machines, and differs between runs.
_RUN_IDS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "TORCHELASTIC_RUN_ID")
_RUN_PARTS = ("SLURM_STEP_ID", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")
_NO_ID = ("", "none")
"""An unset id; ``none`` is torchrun's."""


def _run_id() -> str | None:
    """Return an id that all processes of this run share and no other run has.

    None for a single process. If no launcher gave a run on several machines an id, the processes
    of each machine count as a run of their own.
    """
    if rank_of_process()[1] == 1 and multiprocessing.parent_process() is None:
        return None
    known = {name: os.environ.get(name, "") for name in (*_RUN_IDS, *_RUN_PARTS)}
    parts = [*known.values(), os.environ.get("TORCHELASTIC_RESTART_COUNT", "")]
    alone = os.environ.get("LOCAL_WORLD_SIZE") == known["WORLD_SIZE"]
    started = multiprocessing.parent_process() is not None
    if alone or started or all(known[name] in _NO_ID for name in _RUN_IDS):
        # The process that started all of them on this machine.
        parts += [os.uname().nodename if hasattr(os, "uname") else "", *_parent()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _parent() -> list[str]:
    """Return the id of the process that started this one and, where known, when that started."""
    parent = os.getppid()
    with suppress(OSError, IndexError):
        # Source: proc_pid_stat(5): the 22nd field. The 2nd, the name, may have blanks.
        fields = Path(f"/proc/{parent}/stat").read_text(encoding="latin-1").rpartition(")")[2]
        return [str(parent), fields.split()[19]]
    return [str(parent)]


def _point(parent: Path, number: int) -> None:
    """Make ``latest`` a link to a folder; where links are not possible, ``latest.txt`` names it."""
    link = parent / LATEST
    beside = parent / f".{LATEST}.{os.getpid()}-{os.urandom(4).hex()}"
    try:
        if link.is_symlink() or not link.exists():  # never replace a real file
            beside.symlink_to(str(number), target_is_directory=True)
            beside.replace(link)
            return
    except (OSError, NotImplementedError):
        with suppress(OSError):
            beside.unlink(missing_ok=True)
    with write_atomically(parent / LATEST_FILE, force=True) as out:
        out.write(f"{number}\n".encode())


def _remove(folder: Path) -> None:
    """Remove the files of a recording, and its folder if nothing else is in it."""
    with suppress(OSError):
        for path in list(folder.iterdir()):
            if WRITTEN.fullmatch(path.name):
                path.unlink(missing_ok=True)
        folder.rmdir()


# The line about a finished recording: where the report is, and what it found.

_LOG = logging.getLogger("snapreport.recording")
_MOST = 3
"""How many recordings into one folder are announced: a function in a loop would fill stderr."""

_announced: Counter[Path] = Counter()
"""How many recordings this process has announced, by folder."""


def recorded_line(best: Path, headline: str) -> str:
    """Return the line: ``snapreport recorded out/1/report.html (1.2 GiB allocated …)``."""
    try:
        shown = best.relative_to(Path.cwd())
    except (OSError, ValueError):
        shown = best
    return visible(f"snapreport recorded {shown}" + (f" ({headline})" if headline else ""))


def announce(line: str, parent: Path, failed: bool, speaker: int) -> None:
    """Log the line, and write it to stderr unless the log shows it there.

    ``logging.getLogger("snapreport").setLevel("WARNING")`` silences it.

    Args:
        line: as ``recorded_line()`` returns it.
        parent: the folder that the recording went into.
        failed: whether an exception ended the recording; then every rank announces it.
        speaker: the rank that announces it for all if nothing failed.
    """
    _LOG.info("%s", line)
    _announced[parent] += 1
    interactive = "IPython" in sys.modules or hasattr(sys, "ps1")
    later = _announced[parent] > _MOST and not interactive
    if failed or not (later or rank_of_process()[0] != speaker):
        if _silenced() or _logged_to_stderr() or sys.stderr is None:
            return
        with suppress(OSError, ValueError, RuntimeError):  # closed, or a signal interrupted a line
            sys.stderr.write(line + "\n")
            sys.stderr.flush()


def _silenced() -> bool:
    """Say whether our loggers are set above INFO; the root's level is only a default."""
    logger: logging.Logger | None = _LOG
    while logger is not None and logger.name != "root":
        if logger.disabled or logger.level > logging.INFO:
            return True
        logger = logger.parent
    return False


def _logged_to_stderr() -> bool:
    """Say whether a handler of the log has just written the line to stderr."""
    if not _LOG.isEnabledFor(logging.INFO):
        return False
    logger: logging.Logger | None = _LOG
    while logger is not None:
        for handler in logger.handlers:
            stream = getattr(handler, "stream", None)
            if handler.level <= logging.INFO and stream in (sys.stderr, sys.__stderr__):
                return True
        logger = logger.parent if logger.propagate else None
    return False

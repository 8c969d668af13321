"""Facts about the running program: its command, versions, rank, and how it failed."""

from __future__ import annotations

import contextlib
import importlib.util
import multiprocessing
import os
import platform
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

from snapreport.frames.frame_kinds import classify_file
from snapreport.ground.errors import RecordingError
from snapreport.ground.processes import ending_signals
from snapreport.model.findings import OUTSIDE

_DRIVER = Path("/proc/driver/nvidia/version")
_CPU_FAILURES = (
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
    "[Errno 12] Cannot allocate memory",
    "std::bad_alloc",
)
_BACKENDS = ("xpu", "mps", "mtia", "npu")


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


def allocator_backend() -> str:
    """Return the name of the CUDA allocator; only ``native`` keeps a history."""
    import torch

    with contextlib.suppress(Exception):
        return str(torch.cuda.memory.get_allocator_backend())
    return "native"


def other_accelerator() -> str | None:
    """Return the name of an accelerator whose memory cannot be recorded, None if there is none."""
    import torch

    for name in _BACKENDS:
        backend = getattr(torch, name, None) or getattr(torch.backends, name, None)
        with contextlib.suppress(Exception):
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

        with contextlib.suppress(Exception):
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


def describe(error: BaseException) -> dict[str, Any]:
    """Return what failed, for the report."""
    kind = type(error)
    module = "" if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}."
    name, message = f"{module}{kind.__qualname__}", _message(error)[:4000]
    if isinstance(error, ending_signals.SignalExit):
        name, message = error.name, ""
    return {
        "type": name,
        "message": message,
        "cpu_request": cpu_request(error),
        "place": _place_of(_cpu_failure(error) or error),
    }


def _place_of(error: BaseException) -> str | None:
    """Return the innermost line of the program itself that an error passed through."""
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [
        each
        for each in frames
        if classify_file(each[0].co_filename) == OUTSIDE
        and each[0].co_filename != ending_signals.__file__
    ]
    for code, line in reversed(own):
        return f"{code.co_name} ({PurePath(code.co_filename).name}:{line})"
    return None


def cpu_request(error: BaseException) -> int | None:
    """Return the size in bytes of the failed request for the CPU's memory.

    0 if the message does not say it; None if something else failed.

    Source: PyTorch, c10/core/impl/alloc_cpu.cpp, ``alloc_cpu``, whose error is a RuntimeError.
    """
    failed = _cpu_failure(error)
    if failed is None:
        return None
    asked = re.search(r"tried to allocate (\d{1,18}) bytes", _message(failed))
    return int(asked[1]) if asked else 0


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

"""One run of one command in a fresh process: its time, its peak memory, the bytes it wrote."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

# A command that takes too long is stopped by this parent, who alone learns what it took.
_LAUNCH = """
import os, signal, sys, time
begin = time.perf_counter()
child = os.posix_spawnp(sys.argv[3], sys.argv[3:], os.environ, setpgroup=0)
signal.signal(signal.SIGALRM, lambda *_: os.killpg(child, signal.SIGKILL))
signal.setitimer(signal.ITIMER_REAL, float(sys.argv[2]))
_, status, usage = os.wait4(child, 0)
signal.setitimer(signal.ITIMER_REAL, 0)
wall = time.perf_counter() - begin
cpu = usage.ru_utime + usage.ru_stime
figures = f"{os.waitstatus_to_exitcode(status)} {cpu} {wall} {usage.ru_maxrss}"
os.write(int(sys.argv[1]), figures.encode())
"""


_GRACE = 30.0
"""Seconds in which a command that was stopped has to be gone."""


class CommandError(Exception):
    """A command failed, or took too long; the message is one line."""

    def __init__(self, name: str, reason: str) -> None:
        """Tell of a command by its name why it failed."""
        super().__init__(f"{name}: {reason}")
        self.reason = reason


class TookTooLongError(CommandError):
    """A command was stopped; ``cost`` is what it had taken until then."""

    def __init__(self, name: str, seconds: float, cost: Cost) -> None:
        """Tell of a command by its name after how many seconds it was stopped."""
        super().__init__(name, f"not done after {seconds:.3g} s")
        self.seconds = seconds
        self.cost = cost


_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"


@dataclass(frozen=True)
class Cost:
    """What one run took."""

    cpu: float
    """Seconds of processor time, user and system: other programs hardly change it."""
    wall: float
    """Seconds until it was done."""
    peak: int
    """Resident bytes at the most."""
    bytes: int = 0
    """Bytes of what it wrote; all files of it together if it wrote a folder."""


def _environment() -> dict[str, str]:
    """Our own, but programs may keep what they compile: they are installed once and run often."""
    return {name: value for name, value in os.environ.items() if name != _NO_BYTECODE}


def run_once(
    command: Sequence[str],
    *,
    output: Path | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    seconds: float | None = None,
    log: Path | None = None,
) -> Cost:
    """Run a command and wait for it.

    Args:
        command: its program and arguments.
        output: the file or folder that it writes, to be removed first.
        environment: what to add to our own.
        folder: where it runs.
        seconds: the most that it may take by the clock.
        log: where its stdout goes; nowhere by default.

    Raises:
        CommandError: it fails, or does not write its file.
        TookTooLongError: it took longer, and was stopped with all that it had started.
    """
    if output is not None:
        remove(output)
    name = " ".join(Path(part).name for part in command[:3])
    told, tell = os.pipe()
    # Linux counts a child's peak from what its parent has resident: so a small one starts it.
    limit = "0" if seconds is None else str(max(seconds, 0.001))  # 0 is no limit
    launcher = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(tell), limit, *command]
    with contextlib.ExitStack() as stack:
        out = stack.enter_context((log or Path(os.devnull)).open("wb"))
        process = subprocess.Popen(
            launcher,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            env={**_environment(), **(environment or {})},
            cwd=folder,
            pass_fds=(tell,),
            start_new_session=True,
        )
        os.close(tell)
        try:
            _, errors = process.communicate(timeout=None if seconds is None else seconds + _GRACE)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            os.close(told)
            assert seconds is not None
            raise TookTooLongError(name, seconds, Cost(0, seconds, 0)) from None
    with os.fdopen(told) as figures:
        taken = figures.read().split()
    said = errors.decode("utf-8", "replace").strip().splitlines()
    if not taken:
        raise CommandError(name, said[-1] if said else "could not be started")
    # Linux counts ru_maxrss in KiB, macOS in bytes.
    peak = int(taken[3]) * (1 if sys.platform == "darwin" else 1024)
    cost = Cost(float(taken[1]), float(taken[2]), peak)
    if seconds is not None and cost.wall >= seconds and taken[0] == str(-signal.SIGKILL):
        raise TookTooLongError(name, seconds, cost)
    if taken[0] != "0":
        raise CommandError(name, said[-1] if said else f"status {taken[0]}")
    if output is not None and not output.exists():
        raise CommandError(name, f"wrote no {output.name}")
    return replace(cost, bytes=size_of(output)) if output is not None else cost


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder."""
    files = [each for each in path.rglob("*") if each.is_file()] if path.is_dir() else [path]
    return sum(each.stat().st_size for each in files)


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that is in it; nothing if there is none."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)

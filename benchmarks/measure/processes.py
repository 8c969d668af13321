"""One run of one command in a fresh process: its time, its peak memory, the bytes it wrote."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_LAUNCH = """
import os, sys, time
begin = time.perf_counter()
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(child, 0)
wall = time.perf_counter() - begin
cpu = usage.ru_utime + usage.ru_stime
figures = f"{os.waitstatus_to_exitcode(status)} {cpu} {wall} {usage.ru_maxrss}"
os.write(int(sys.argv[1]), figures.encode())
"""


class CommandError(Exception):
    """A command failed, or took too long; the message is one line."""


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
    """Bytes of what it wrote."""


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
        output: the file that it writes, to be removed first.
        environment: what to add to our own.
        folder: where it runs.
        seconds: the most that it may take.
        log: where its stdout goes; nowhere by default.

    Raises:
        CommandError: it fails, takes longer, or does not write its file.
    """
    if output is not None:
        output.unlink(missing_ok=True)
    name = " ".join(Path(part).name for part in command[:3])
    told, tell = os.pipe()
    # Linux counts a child's peak from what its parent has resident: so a small one starts it.
    launcher = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(tell), *command]
    with contextlib.ExitStack() as stack:
        out = stack.enter_context((log or Path(os.devnull)).open("wb"))
        process = subprocess.Popen(
            launcher,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            env={**os.environ, **(environment or {})},
            cwd=folder,
            pass_fds=(tell,),
            start_new_session=True,
        )
        os.close(tell)
        try:
            _, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            os.close(told)
            raise CommandError(f"{name}: not done after {seconds:.0f} s") from None
    with os.fdopen(told) as figures:
        taken = figures.read().split()
    if not taken or taken[0] != "0":
        said = errors.decode("utf-8", "replace").strip().splitlines()
        raise CommandError(f"{name}: {said[-1] if said else f'status {taken[:1]}'}")
    if output is not None and not output.exists():
        raise CommandError(f"{name}: wrote no {output.name}")
    # Linux counts ru_maxrss in KiB, macOS in bytes.
    peak = int(taken[3]) * (1 if sys.platform == "darwin" else 1024)
    size = output.stat().st_size if output is not None else 0
    return Cost(float(taken[1]), float(taken[2]), peak, size)

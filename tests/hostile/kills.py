"""Kill convert and render at random moments: the target is the old file or the whole new one.

Half of the runs are processes of their own, killed anywhere from the first import on; the others
are forks in which everything is imported, so that the work itself and the writing are hit.

Example: python -m tests.hostile.kills --kills 1000
"""

from __future__ import annotations

import functools
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click

SAMPLE = Path(__file__).resolve().parent.parent.parent / "sample_snapshots" / "two_streams.pickle"

OLD = b"the old file\n" * 1000

_UNFINISHED = re.compile(r"\.(out\.zip|out\.html)\.\d+-[0-9a-f]{8}\.part")

Start = Callable[[Sequence[str], Path], int]
"""Starts the command line with arguments in a folder, and returns the process's id."""


@dataclass(frozen=True)
class Kills:
    """What was found after the kills."""

    tried: int
    alive: int
    """Processes that were still at work when the signal came."""
    found: Counter[str]
    """``none`` (there was no file and is none), ``old``, ``new``, or ``wrong``."""
    unfinished: int
    """Hidden files that say by their name what they are."""
    strange: int
    """Files with any other name."""
    hung: int
    """Processes that the signal did not end within a minute."""

    @property
    def failures(self) -> int:
        """How often a promise was broken."""
        return self.found["wrong"] + self.strange + self.hung


def kill_at_random(
    count: int, seed: int = 1, source: Path = SAMPLE, number: int = signal.SIGKILL
) -> Kills:
    """Start commands and kill each at a random moment.

    Args:
        count: how many.
        seed: of the moments.
        source: the snapshot.
        number: the signal.
    """
    rng = random.Random(seed)
    found: Counter[str] = Counter()
    alive = unfinished = strange = hung = 0
    lasts, whole = _not_killed(source, 3 if count > 100 else 1)
    commands = _commands(source)
    with tempfile.TemporaryDirectory(prefix="kills-") as root:
        folder = Path(root)
        for i in range(count):
            target, way = rng.choice(list(commands)), rng.choice(list(_STARTS))
            path, before = folder / target, OLD if i % 2 else None
            if before is not None:
                path.write_bytes(before)
            child = _STARTS[way](commands[target], folder)
            time.sleep(rng.random() * 1.1 * lasts[target, way])
            if os.waitpid(child, os.WNOHANG) == (0, 0):
                status = _end(child, number)
                hung += status is None
                alive += status in (-number, 128 + number)
            after = path.read_bytes() if path.exists() else None
            found[_name(after, before, whole[target])] += 1
            path.unlink(missing_ok=True)
            for left in folder.iterdir():
                unfinished += (known := _UNFINISHED.fullmatch(left.name) is not None)
                strange += not known
                left.unlink()
    return Kills(count, alive, found, unfinished, strange, hung)


def _commands(source: Path) -> dict[str, list[str]]:
    """Return the commands by their targets."""
    return {
        "out.zip": ["convert", "-q", "--force", str(source), "-o", "out.zip"],
        "out.html": ["render", "-q", "--force", str(source), "-o", "out.html"],
    }


@functools.cache
def _not_killed(source: Path, tries: int) -> tuple[dict[tuple[str, str], float], dict[str, bytes]]:
    """Return how long each command takes each way, and what it writes."""
    lasts, whole = {}, {}
    with tempfile.TemporaryDirectory(prefix="kills-") as root:
        folder = Path(root)
        for target, arguments in _commands(source).items():
            for way, start in _STARTS.items():
                lasts[target, way] = min(_run(start, arguments, folder) for _ in range(tries))
            whole[target] = (folder / target).read_bytes()
            (folder / target).unlink()
    return lasts, whole


def _name(after: bytes | None, before: bytes | None, whole: bytes) -> str:
    if after == whole:
        return "new"
    if after != before:
        return "wrong"
    return "none" if after is None else "old"


def _end(child: int, number: int) -> int | None:
    """Send the signal and wait; return the exit status, None where it did not end."""
    with suppress(ProcessLookupError):
        os.kill(child, number)
    for _ in range(6000):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _run(start: Start, arguments: Sequence[str], folder: Path) -> float:
    """Let a command run to its end; return the seconds that it took."""
    begin = time.perf_counter()
    child = start(arguments, folder)
    _, status = os.waitpid(child, 0)
    if status:
        raise RuntimeError(f"{' '.join(arguments)} ended with status {status}")
    return time.perf_counter() - begin


def start_process(arguments: Sequence[str], folder: Path) -> int:
    """Start the command line as a user does."""
    null = subprocess.DEVNULL
    command = [sys.executable, "-m", "snapreport", *arguments]
    root = Path(__file__).resolve().parent.parent.parent
    paths = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        command, cwd=folder, env=os.environ | {"PYTHONPATH": paths}, stdout=null, stderr=null
    )
    process.returncode = 0  # it is waited for by its id
    return process.pid


def start_fork(arguments: Sequence[str], folder: Path) -> int:
    """Start the command line in a fork of this process, which has imported everything."""
    import snapreport.api.loading
    import snapreport.reporters.page_report  # noqa: F401
    from snapreport.commands import main

    child = os.fork()
    if child:
        return child
    try:
        os.chdir(folder)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        sys.argv = ["snapreport", *arguments]
        main()
    except SystemExit as end:
        os._exit(end.code if isinstance(end.code, int) else 1)
    except BaseException:
        os._exit(1)
    os._exit(0)


_STARTS: dict[str, Start] = {"process": start_process, "fork": start_fork}


@click.command()
@click.option("--kills", default=1000, help="How many.")
@click.option("--seed", default=1, help="Of the moments.")
def main(kills: int, seed: int) -> None:
    """Kill convert and render with -9 at random moments, and say what was found."""
    found = kill_at_random(kills, seed)
    targets = ", ".join(f"{found.found[name]:,} {name}" for name in ("none", "old", "new", "wrong"))
    print(f"{found.tried:,} kills, {found.alive:,} of them before the end. Targets: {targets}.")
    print(f"Left: {found.unfinished:,} unfinished files named so, {found.strange:,} others.")
    print(f"Not ended within a minute: {found.hung:,}.")
    sys.exit(1 if found.failures else 0)


if __name__ == "__main__":
    main()

"""What workers do in tests: functions that they can import."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from snapreport.ground.files import write_atomically

Progress = Callable[[str, float | None], None]


@dataclass(frozen=True)
class Work:
    """One item."""

    number: int
    folder: Path
    deaths: int = 0
    """How often its worker is killed in the middle of it."""

    @property
    def target(self) -> Path:
        return self.folder / f"{self.number}.txt"

    @property
    def tries(self) -> int:
        return len(list(self.folder.glob(f"try-{self.number}-*")))


def not_done(work: Work, how: str) -> str:
    return f"{work.number}: {how}"


def square(work: Work, progress: Progress) -> str:
    """Write the number's square into a file, where no worker is killed over it."""
    (work.folder / f"try-{work.number}-{uuid4()}").touch()
    progress("squaring", 0.5)
    with write_atomically(work.target, force=False) as out:
        out.write(b"half")
        out.flush()
        if work.tries <= work.deaths:
            time.sleep(0.2)  # so that others are in the middle of theirs
            os.kill(os.getpid(), signal.SIGKILL)
        out.write(str(work.number**2).encode())
    return str(work.number**2)


def wait_long(work: Work, progress: Progress) -> str:
    """Begin a file and come to no end, unless it is stopped."""
    with write_atomically(work.target, force=False):
        (work.folder / f"try-{work.number}-{os.getpid()}").touch()
        for _ in range(3000):
            progress("waiting", None)
            time.sleep(0.02)
            (work.folder / f"alive-{work.number}").write_text(str(time.monotonic()))
    return "waited to the end"


def fail(work: Work, progress: Progress) -> str:
    raise ZeroDivisionError(f"{work.number} is no good")

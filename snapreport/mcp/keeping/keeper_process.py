"""A process that keeps a recording open and answers questions about it: what the process runs.

Whatever a stranger's file makes of it, and whatever it is in the middle of, it can be ended.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snapreport.bundle.query.query_process import end_with_parent
from snapreport.ground.errors import SnapreportError
from snapreport.mcp.keeping.answering_desk import Desk
from snapreport.mcp.keeping.question import ANSWER, PROGRESS, REFUSAL, Question
from snapreport.model.name_treatment import NamesWanted

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_BETWEEN = 0.1
"""Seconds between two reports of progress."""


def answer_all(connection: Connection, names: NamesWanted) -> None:
    """Answer until nobody asks any more."""
    with suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server gets it, too, and ends us
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=end_with_parent, daemon=True).start()
    desk = Desk(names)
    told = 0.0

    def progress(what: str, fraction: float | None) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told > _BETWEEN:
            told = now
            connection.send((PROGRESS, what, fraction))

    with suppress(EOFError, OSError):
        while True:
            question: Question = connection.recv()
            told = 0.0
            kind, content = _answer(desk, question, progress)
            connection.send((kind, content, used_memory()))


def _answer(desk: Desk, question: Question, progress: Any) -> tuple[str, Any]:
    try:
        return ANSWER, desk.answer(question, progress)
    except (SnapreportError, ValueError) as error:
        return REFUSAL, str(error)
    except MemoryError:
        return REFUSAL, "There is not enough memory for that; ask for less, or free some."


def used_memory() -> int:
    """Return the bytes of memory that this process has; 0 where the system does not tell."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0

"""The code of the process that keeps a recording open and answers questions about it.

The server can end the process at any time, whatever a stranger's file makes it do. The server
imports this module too; so that it starts quickly, only the process imports what answers.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snapreport.ground.errors import SnapreportError
from snapreport.ground.progress import Progress
from snapreport.mcp.answering.question import ANSWER, PROGRESS, REFUSAL, Question
from snapreport.model.name_treatment import NamesWanted

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from snapreport.mcp.answering.answering_desk import Desk

_BETWEEN = 0.1
"""The least seconds between two reports of progress."""
_ALIVE = 2.0
"""Seconds after which progress is reported again, because a client may time out without it."""


def answer_all(connection: Connection, names: NamesWanted) -> None:
    """Answer questions until the server closes the connection; runs in the process."""
    from snapreport.mcp.answering.answering_desk import Desk

    desk, teller = Desk(names), Teller(connection)
    threading.Thread(target=teller.tell_again, daemon=True).start()
    while True:
        question: Question = connection.recv()
        teller.begin()
        teller.end(*_answer(desk, question, teller.progress))


class Teller:
    """Sends progress while a question is worked on, and nothing after its answer."""

    def __init__(self, connection: Connection) -> None:
        """``connection``: leads to the server."""
        self._connection = connection
        self._lock = threading.Lock()
        self._busy = False
        self._told = 0.0
        self._what = ""

    def begin(self) -> None:
        """Start to report on a new question."""
        self._busy, self._told, self._what = True, 0.0, ""

    def progress(self, what: str, fraction: float | None) -> None:
        """Send what is being done, unless the same was sent just now."""
        new, self._what = what != self._what, what
        if new or time.monotonic() - self._told > _BETWEEN:
            self._tell(what, fraction)

    def end(self, kind: str, content: Any) -> None:
        """Send the answer, or why there is none."""
        with self._lock:
            self._busy = False
            self._connection.send((kind, content, used_memory()))

    def tell_again(self) -> None:
        """Repeat the last report from time to time during the work; runs in a thread."""
        with suppress(OSError):
            while True:
                time.sleep(_ALIVE)
                if self._what and time.monotonic() - self._told > _ALIVE:
                    self._tell(self._what, None)

    def _tell(self, what: str, fraction: float | None) -> None:
        with self._lock:
            if self._busy:
                self._told = time.monotonic()
                self._connection.send((PROGRESS, what, fraction))


def _answer(desk: Desk, question: Question, progress: Progress) -> tuple[str, Any]:
    try:
        return ANSWER, desk.answer(question, progress)
    except (SnapreportError, ValueError) as error:
        return REFUSAL, str(error)
    except MemoryError:
        return REFUSAL, "There is not enough memory for that; ask for less, or free some."


def used_memory() -> int:
    """Return this process's memory in bytes; 0 if the system does not report it."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0

"""Keeps recordings open, each in a process; the least recently used are ended to make room.

A process can be ended at any time, whatever a stranger's file makes it do.
"""

from __future__ import annotations

import math
import os
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from multiprocessing import get_all_start_methods
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from snapreport.commands.mcp_server.questions import ANSWERING, FileBelow, Question
from snapreport.ground.errors import InputError, SnapreportError
from snapreport.ground.processes import ChildProcess, ProcessLostError, Tell, available_memory
from snapreport.ground.units import format_duration
from snapreport.model.answers import QUERY_SECONDS
from snapreport.model.asked import (
    NamesWanted,
)

if TYPE_CHECKING:
    from snapreport.commands.mcp_server.answering import Desk

Report = Callable[[str, float | None], Awaitable[None]]
"""Called with what is being done, and the fraction that is done."""

MOST_FILES = 8
_MOST_MEMORY = 4 * 2**30
_ALIVE = 2.0
"""Seconds after which progress is reported again, because a client may time out without it."""
_GRACE = 3.0
"""Seconds after its time limit until a question is ended together with its process: SQLite ends its
statements by itself."""


class FileKeepers:
    """The processes that keep recordings open; call ``close()`` at the end."""

    def __init__(
        self, names: NamesWanted, *, files: int = MOST_FILES, memory: int | None = None
    ) -> None:
        """Start with nothing open.

        Args:
            names: how the names in files are treated.
            files: how many may be open at once.
            memory: the most bytes that the processes may use together; beyond it the least recently
                used are ended. None for half of the free memory, 4 GiB at most.
        """
        self._names, self._files = names, files
        free = available_memory()
        usual = _MOST_MEMORY if free is None else min(_MOST_MEMORY, free // 2)
        self._memory = usual if memory is None else memory
        self._keepers: OrderedDict[FileBelow, _Keeper] = OrderedDict()
        self._changed = anyio.Condition()

    async def ask(self, question: Question, report: Report) -> dict[str, Any]:
        """Return the answer; if the caller is cancelled, work on it stops at once.

        Raises:
            SnapreportError: the question cannot be answered.
        """
        keeper = await self._take(question.files[0])
        try:
            return await keeper.ask(question, report)
        finally:
            await self._put_back(keeper)

    def close(self) -> None:
        """End all processes."""
        for keeper in self._keepers.values():
            keeper.end()
        self._keepers.clear()

    @property
    def open_files(self) -> list[str]:
        """Return the shown names of the open files, the most recently used last."""
        return [file.shown for file in self._keepers]

    def processes(self) -> list[int]:
        """Return the ids of the processes, in the same order."""
        return [one.process_id for one in self._keepers.values() if one.process_id is not None]

    async def _take(self, file: FileBelow) -> _Keeper:
        async with self._changed:
            while file not in self._keepers and len(self._keepers) >= self._files:
                idle = next((one for one in self._keepers.values() if not one.users), None)
                if idle is None:
                    await self._changed.wait()
                else:
                    self._drop(idle)
            keeper = self._keepers.setdefault(file, _Keeper(file, self._names))
            self._keepers.move_to_end(file)
            keeper.users += 1
            return keeper

    async def _put_back(self, keeper: _Keeper) -> None:
        with anyio.CancelScope(shield=True):
            async with self._changed:
                keeper.users -= 1
                idle = [one for one in self._keepers.values() if not one.users]
                for one in idle:
                    if sum(each.memory for each in self._keepers.values()) > self._memory:
                        self._drop(one)
                self._changed.notify_all()

    def _drop(self, keeper: _Keeper) -> None:
        self._keepers.pop(keeper.file).end()


class _Keeper:
    """One process, asked one question at a time."""

    def __init__(self, file: FileBelow, names: NamesWanted) -> None:
        self.file = file
        self.users = 0
        """How many callers use it or wait for it."""
        self.memory = 0
        self._names = names
        self._lock = anyio.Lock()
        self._process: ChildProcess | None = None

    @property
    def process_id(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def ask(self, question: Question, report: Report) -> dict[str, Any]:
        async with self._lock:
            if self._process is not None and not self._process.ready:
                self.end()  # something else ended it, perhaps for lack of memory
            if self._process is None:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(self._start)
            try:
                return await self._asked(question, report)
            finally:
                if self._process is not None and self._process.busy:
                    self.end()

    async def _asked(self, question: Question, report: Report) -> dict[str, Any]:
        process = self._process
        assert process is not None, "the process has not been started"
        process.ask(question)
        what = ""
        with anyio.CancelScope() as scope:
            while True:
                # After a cancelled call its thread still waits here, until the process has ended.
                hearing = anyio.to_thread.run_sync(process.hear, _ALIVE, abandon_on_cancel=True)
                try:
                    done, content = await hearing
                except TimeoutError:
                    if what:
                        await report(what, None)
                    continue
                except ProcessLostError as error:
                    raise InputError(
                        f"The process that read {self.file.shown} is gone: {error}."
                    ) from None
                if done:
                    break
                what, fraction = content
                # Opening the file does not count, nor do the conclusions that are drawn once.
                if what == ANSWERING and scope.deadline == math.inf:
                    scope.deadline = anyio.current_time() + QUERY_SECONDS + _GRACE
                await report(what, fraction)
        if scope.cancelled_caught:
            limit = format_duration(round(QUERY_SECONDS * 1e6))
            raise InputError(f"The answer took longer than {limit}; ask for less.")
        answer: dict[str, Any]
        found, answer, self.memory = content
        if not found:
            raise InputError(answer)
        return answer

    def _start(self) -> None:
        self._process = ChildProcess(_way_to_start(), _open, self._names)

    def end(self) -> None:
        """End the process, whatever it does; callers that wait for it get an error."""
        if self._process is not None:
            self._process.end()
            self._process = None
            self.memory = 0


READ_BEFORE = (
    "api.device", "commands.mcp_server.answering", "commands.mcp_server.keeping",
    "diagnosis.conclude", "history.build", "read",
)  # fmt: skip
"""Modules that processes have loaded from the start."""


def _way_to_start() -> str:
    """Return how to start processes: from one that has loaded our modules, if possible."""
    if "forkserver" not in get_all_start_methods():
        return "spawn"
    from multiprocessing import forkserver

    forkserver.set_forkserver_preload([f"snapreport.{name}" for name in READ_BEFORE])
    return "forkserver"


def make_ready() -> None:
    """Start the fork server, which takes a second, so that the first call need not wait for it."""
    if _way_to_start() == "forkserver":
        from multiprocessing import forkserver

        forkserver.ensure_running()


_BETWEEN = 0.1
"""The least seconds between two reports of the same progress."""


def _open(names: NamesWanted) -> Callable[..., Any]:
    """Get a process ready, and return what answers its questions."""
    from snapreport.commands.mcp_server.answering import Desk  # not in the server

    return partial(_answer, Desk(names))


def _answer(desk: Desk, tell: Tell, question: Question) -> tuple[bool, Any, int]:
    """Return whether there is an answer, that or why not, and this process's memory in bytes."""
    last, when = "", 0.0

    def progress(what: str, fraction: float | None) -> None:
        nonlocal last, when
        if what != last or time.monotonic() - when > _BETWEEN:
            last, when = what, time.monotonic()
            tell((what, fraction))

    try:
        return True, desk.answer(question, progress), _used_memory()
    except (SnapreportError, ValueError) as error:
        why = str(error)
    except MemoryError:
        why = "There is not enough memory for that; ask for less, or free some."
    return False, why, _used_memory()


def _used_memory() -> int:
    """Return this process's memory in bytes; 0 if the system does not report it."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0

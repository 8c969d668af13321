"""The questions for a recording's process, and the kinds of messages it answers with."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_all_start_methods
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from snapreport.commands.mcp_server.finding_answers import (
    findings_reply,
    open_reply,
    summary_reply,
    what_if_reply,
)
from snapreport.commands.mcp_server.moment_answers import diff_reply, moment_reply, query_reply
from snapreport.commands.mcp_server.opened import FileBelow, KeptRecording, KeptRun
from snapreport.commands.mcp_server.reply import USUAL, Reply, digest_of, fit_page, read_cursor
from snapreport.commands.mcp_server.run_answers import run_reply
from snapreport.ground.errors import InputError, SnapreportError
from snapreport.ground.processes import ChildProcess, available_memory
from snapreport.ground.progress import Progress
from snapreport.ground.units import format_duration
from snapreport.model.answers import QUERY_SECONDS
from snapreport.model.history import NamesWanted

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


PROGRESS, ANSWER, REFUSAL = "progress", "answer", "refusal"
"""Kinds of messages; the last two end a question, and carry the process's memory in bytes."""

ANSWERING = "Answering"
"""The progress report that starts the time limit: the files are open."""


@dataclass(frozen=True)
class Question:
    """One call of a tool."""

    tool: str
    files: tuple[FileBelow, ...]
    """The recording; for ``diff`` NEW and BASE; for ``run`` the folder or zip."""
    arguments: Mapping[str, Any]
    """The tool's arguments, except files."""
    roots: tuple[Path, ...] = ()
    """For ``run``: the folders that its files have to be below."""


# Answers questions about a process's open recordings, or its open run.


_OF_ONE: Mapping[str, Callable[[KeptRecording, Mapping[str, Any]], Reply]] = {
    "open": open_reply,
    "summary": summary_reply,
    "findings": findings_reply,
    "at": moment_reply,
    "whatif": what_if_reply,
    "query": query_reply,
}
_BEFORE: Mapping[str, Callable[[KeptRecording], object]] = {
    **dict.fromkeys(("open", "summary", "findings"), attrgetter("findings")),
    "query": attrgetter("database"),
}
"""What an answer needs and is computed once: like opening a file, it takes as long as it takes."""
_PAGING = ("cursor", "max_tokens")
_REPLIES = 4
"""How many answers are kept, so that their next pages need no work."""


class Desk:
    """Answers questions about one file or run, and compares a file with another."""

    def __init__(self, names: NamesWanted) -> None:
        """Start with nothing open.

        Args:
            names: how the names in files are treated.
        """
        self._names = names
        self._open: OrderedDict[FileBelow, KeptRecording] = OrderedDict()
        self._replies: OrderedDict[str, Reply] = OrderedDict()
        self._whole: KeptRun | None = None

    def answer(self, question: Question, progress: Progress) -> dict[str, Any]:
        """Return a page of the answer, as plain JSON.

        Raises:
            SnapreportError: the question cannot be answered; the message says why.
        """
        asked = {key: each for key, each in question.arguments.items() if key not in _PAGING}
        run = None
        if question.tool == "run":
            progress("Looking for files", None)
            run = self._run(question)
            about = run.look()
        else:
            about = [(each.shown, each.size, each.changed_ns) for each in question.files]
        digest = digest_of(question.tool, asked, about)
        place = read_cursor(question.arguments.get("cursor"), digest)
        reply = self._replies.pop(digest, None)
        if reply is None and run is not None:
            loaded = run.load(asked.get("layout"), progress)
            progress(ANSWERING, None)
            reply = run_reply(run.place.shown, loaded, run.skipped(), asked)
        elif reply is None:
            recordings = [self._recording(each, progress) for each in question.files]
            for recording in recordings:
                recording.progress = progress
                if question.tool in _BEFORE:
                    _BEFORE[question.tool](recording)
            progress(ANSWERING, None)
            if question.tool == "diff":
                new, base = recordings
                reply = diff_reply(base, new, asked)
            else:
                reply = _OF_ONE[question.tool](recordings[0], asked)
        self._replies[digest] = reply
        if len(self._replies) > _REPLIES:
            self._replies.popitem(last=False)
        return fit_page(reply, place, question.arguments.get("max_tokens", USUAL))

    def _run(self, question: Question) -> KeptRun:
        (place,) = question.files
        if self._whole is None or self._whole.place != place:
            self._whole = KeptRun(place, question.roots, self._names)
        return self._whole

    def _recording(self, file: FileBelow, progress: Progress) -> KeptRecording:
        """Return an open recording; the least recently used one is closed to make room."""
        if file not in self._open:
            while len(self._open) > 1:
                self._open.popitem(last=False)
            self._open[file] = KeptRecording(file, self._names, progress)
        self._open.move_to_end(file)
        return self._open[file]


# The code of the process that keeps a recording open and answers questions about it.
#
# The server can end the process at any time, whatever a stranger's file makes it do. The server
# imports this module too; so that it starts quickly, only the process imports what answers.


_BETWEEN = 0.1
"""The least seconds between two reports of progress."""
_ALIVE = 2.0
"""Seconds after which progress is reported again, because a client may time out without it."""


def answer_all(connection: Connection, names: NamesWanted) -> None:
    """Answer questions until the server closes the connection; runs in the process."""
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


# All open recordings, a process for each; the least recently used are ended to make room.


Report = Callable[[str, float | None], Awaitable[None]]
"""Called with what is being done, and the fraction that is done."""

MOST_FILES = 8
_MOST_MEMORY = 4 * 2**30
_READ_BEFORE = (
    "api.device", "bundle.query.query_process", "diagnosis.conclude", "history.build",
    "mcp.answering.answering_desk", "mcp.keeping.keeper_process", "names.redaction", "read",
)  # fmt: skip
"""Modules that processes have loaded from the start."""
_GRACE = 3.0
"""Seconds after its time limit until a question is ended together with its process: SQLite ends its
statements by itself."""


class RefusedError(SnapreportError):
    """The question cannot be answered; the message says why. The process can go on."""


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
            done = False
            try:
                if self._process is not None and not self._process.alive():
                    self.end()  # something else ended it, perhaps for lack of memory
                if self._process is None:
                    with anyio.CancelScope(shield=True):
                        await anyio.to_thread.run_sync(self._start)
                answer = await self._asked(question, report)
                done = True
                return answer
            except RefusedError:
                done = True
                raise
            finally:
                if not done:  # it is still working
                    self.end()

    async def _asked(self, question: Question, report: Report) -> dict[str, Any]:
        assert self._process is not None, "the process has not been started"
        connection = self._process.connection
        with suppress(OSError):  # a dead process is noticed on reading
            connection.send(question)
        with anyio.CancelScope() as scope:
            while True:
                message = await anyio.to_thread.run_sync(_hear, connection, abandon_on_cancel=True)
                if message is None:
                    how = await anyio.to_thread.run_sync(self._process.how_it_ended)
                    raise InputError(f"The process that read {self.file.shown} is gone: {how}.")
                kind, content, more = message
                if kind != PROGRESS:
                    break
                # Opening the file does not count, nor do the conclusions that are drawn once.
                if content == ANSWERING and scope.deadline == math.inf:
                    scope.deadline = anyio.current_time() + QUERY_SECONDS + _GRACE
                await report(content, more)
        if scope.cancelled_caught:
            limit = format_duration(round(QUERY_SECONDS * 1e6))
            raise InputError(f"The answer took longer than {limit}; ask for less.")
        self.memory = more
        if kind == REFUSAL:
            raise RefusedError(content)
        found: dict[str, Any] = content
        return found

    def _start(self) -> None:
        self._process = ChildProcess(_way_to_start(), answer_all, self._names)

    def end(self) -> None:
        """End the process, whatever it does; callers that wait for it get an error."""
        if self._process is not None:
            self._process.end()
            self._process = None
            self.memory = 0


def _hear(connection: Connection) -> Any:
    """Return the next message, None if the process has ended.

    After a cancelled call its thread may still wait here; only that thread then releases the pipe.
    """
    with suppress(EOFError, OSError):
        return connection.recv()
    return None


def _way_to_start() -> str:
    """Return how to start processes: from one that has loaded our modules, if possible."""
    if "forkserver" not in get_all_start_methods():
        return "spawn"
    from multiprocessing import forkserver

    forkserver.set_forkserver_preload([f"snapreport.{name}" for name in _READ_BEFORE])
    return "forkserver"


def make_ready() -> None:
    """Start the fork server, which takes a second, so that the first call need not wait for it."""
    if _way_to_start() == "forkserver":
        from multiprocessing import forkserver

        forkserver.ensure_running()

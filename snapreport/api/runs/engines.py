"""What every engine offers: an executor of ``concurrent.futures``, and reports on its tasks.

Only ``submit()`` of the executor is used, so any executor will do.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn, TypeAlias, TypeVar

from snapreport.ground.processes import PATIENCE, ChildProcess, ProcessLostError, Tell
from snapreport.ground.records import dataclass

Teller: TypeAlias = Callable[[int, str, float | None], None]
"""Called in a worker with a task's place, what is being done and the fraction done."""


@dataclass(frozen=True)
class OpenEngine:
    """An engine at work."""

    executor: Executor
    teller: Teller | None = None
    """Called in workers to report progress, so it is pickled; None if they report none."""
    at_once: int | None = None
    """Tasks to hand over at a time; None for all of them, where a cluster has a queue."""
    how_lost: Callable[[BaseException], str] = lambda _: ""
    """Tells from a future's error how its worker was lost; ``""`` where the task itself failed."""
    tries: int = 3
    """How often to hand over a task that workers are lost over, the last time alone."""


Result = TypeVar("Result")

_tell: Tell | None = None
"""In a worker: where its progress goes."""


@contextmanager
def open_local(jobs: int, hear: Teller | None) -> Iterator[OpenEngine]:
    """Work in processes of this machine; on an error, end them in the middle of their work."""
    with LocalProcesses(jobs, hear) as executor:
        try:
            yield OpenEngine(executor, tell_parent if hear else None, jobs, _how_lost)
        except BaseException:
            executor.end()
            raise


def tell_parent(place: int, what: str, fraction: float | None) -> None:
    """Tell the process that gave the task of its progress; called in a worker."""
    if _tell is None:  # no process could be started
        return
    try:
        _tell((place, what, fraction))
    except OSError:  # the parent is gone
        raise SystemExit(1) from None


def _how_lost(error: BaseException) -> str:
    return str(error) if isinstance(error, ProcessLostError) else ""


class LocalProcesses(ThreadPoolExecutor):
    """Processes of this machine as an executor; where one is killed, the others go on.

    ``ProcessPoolExecutor`` gives up all that waits when one of its processes is killed, and tells
    neither how it ended nor of progress; so each thread of a ``ThreadPoolExecutor`` has a process
    here, started anew (spawn), which works on every system and with threads around. A future of a
    process that was killed has a ``ProcessLostError``; a new process takes the next task.
    """

    def __init__(self, jobs: int, hear: Teller | None = None) -> None:
        super().__init__(jobs)
        self._hear = hear
        self._mine = threading.local()
        self._workers: list[ChildProcess] = []
        self._lock = threading.Lock()
        self._ended = False

    def submit(
        self, function: Callable[..., Result], /, *args: Any, **kwargs: Any
    ) -> Future[Result]:
        """Call a function of a module in one of the processes."""
        return super().submit(self._call, function, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes when they have done what was submitted."""
        super().shutdown(wait, cancel_futures=cancel_futures)
        if wait:
            with self._lock:
                workers, self._workers = self._workers, []
            for worker in workers:
                worker.hang_up()
            for worker in workers:
                worker.end(PATIENCE)

    def end(self) -> None:
        """End the processes in the middle of their work."""
        with self._lock:
            self._ended = True
            workers = list(self._workers)
        super().shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.end(PATIENCE)

    def _call(
        self, function: Callable[..., Result], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Result:
        """Let this thread's process call a function, and wait for what comes of it."""
        worker: ChildProcess | None = getattr(self._mine, "worker", None)
        if worker is None:
            try:
                worker = self._start()
            except OSError:  # a limit on processes: do it here
                return function(*args, **kwargs)
        with self._lock:  # the caller's main module is hidden while a process starts
            worker.ask(function, args, kwargs)
        try:
            done, content = worker.hear()
            while not done:
                if self._hear is not None:
                    self._hear(*content)
                done, content = worker.hear()
        except ProcessLostError:
            self._mine.worker = None
            worker.hang_up()
            with self._lock, suppress(ValueError):
                self._workers.remove(worker)
            raise
        result: Result
        result, error = content
        if error is not None:
            raise error
        return result

    def _start(self) -> ChildProcess:
        with self._lock:
            if self._ended:
                raise ProcessLostError("ended")
            worker = ChildProcess("spawn", _prepare)
            self._workers.append(worker)
        self._mine.worker = worker
        return worker


def _prepare() -> Callable[..., Any]:
    """Get a process ready for tasks, and return what does them."""

    def leave(_number: int, _frame: FrameType | None) -> NoReturn:
        # Work that is stopped half-way may raise other errors, which nobody should see.
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
        raise SystemExit(1)  # raised, so that unfinished files are removed

    signal.signal(signal.SIGTERM, leave)
    # As in the commands' main(): several processes need no threads for matrices, and the
    # collector no turns in between.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()
    return _do


_begun, _LOADING = 0, 2
"""The tasks begun, and those before which there are new modules: the first imports the rest."""


def _do(
    tell: Tell, function: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[object, Exception | None]:
    """Do a task; what it raises is for its future."""
    global _tell, _begun
    _tell = tell
    if _begun < _LOADING:  # modules stay, and to go through them takes longer than a small task
        gc.collect()
        gc.freeze()
    _begun += 1
    try:
        return function(*args, **kwargs), None
    except Exception as error:
        return None, error
    finally:
        gc.collect()

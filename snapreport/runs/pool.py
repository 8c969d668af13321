"""Processes that work on several files at once; where one is killed, the others go on.

Each process is started anew (spawn), which works on every system and with threads around. One that
dies, as of want of memory, takes the file it worked on with it and no other.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from snapreport.ground.files import remove_unfinished
from snapreport.ground.progress import silent
from snapreport.runs.work import Outcome, Task, run_task

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

Watch: TypeAlias = Callable[[int, str | None, float | None], None]
"""Called with a task's place, what is being done and the fraction done; None: it has ended."""

_PATIENCE = 10.0
"""Seconds in which a process that is asked to end may remove its unfinished file."""


@dataclass
class _Worker:
    process: SpawnProcess
    connection: Connection
    place: int | None = None
    """Of the task that it works on; None while it waits for one."""

    def give(self, place: int, task: Task) -> None:
        """Hand it a task; one that is dead is noticed when its answer is read."""
        self.place = place
        with suppress(OSError):
            self.connection.send(task)


def run_tasks(tasks: Sequence[Task], jobs: int, watch: Watch | None = None) -> list[Outcome]:
    """Do tasks in ``jobs`` processes, and return what came of each, in their order.

    Whatever ends this early, Ctrl-C included, ends the processes and removes unfinished files.

    Args:
        tasks: begun in this order.
        jobs: at least 1.
        watch: told of the work; without it nothing is sent.
    """
    outcomes: dict[int, Outcome] = {}
    waiting = deque(enumerate(tasks))
    workers: list[_Worker] = []
    try:
        while waiting or any(worker.place is not None for worker in workers):
            while waiting and sum(each.place is not None for each in workers) < jobs:
                worker = _idle(workers, watch is not None)
                if worker is None:
                    break
                worker.give(*waiting.popleft())
            if not workers:  # a limit on processes: do it here
                place, task = waiting.popleft()
                outcomes[place] = run_task(task, silent)
                continue
            for connection in wait([worker.connection for worker in workers]):
                worker = next(each for each in workers if each.connection is connection)
                _hear(worker, tasks, outcomes, watch)
                if worker.process.exitcode is not None:
                    workers.remove(worker)
    except BaseException:
        _end_now(workers, tasks)
        raise
    for worker in workers:
        worker.connection.close()  # tells the worker that there are no more tasks
    for worker in workers:
        worker.process.join(_PATIENCE)
    _end_now([worker for worker in workers if worker.process.is_alive()], tasks)
    return [outcomes[place] for place in range(len(tasks))]


def _hear(
    worker: _Worker, tasks: Sequence[Task], outcomes: dict[int, Outcome], watch: Watch | None
) -> None:
    """Take what a process sent: progress, an outcome, or that it is no more."""
    try:
        message = worker.connection.recv()
    except (EOFError, OSError):
        worker.connection.close()
        worker.process.join(_PATIENCE)
        if worker.process.exitcode is None:
            worker.process.kill()
            worker.process.join()
        if worker.place is None:
            return
        message = _crash(worker, tasks[worker.place])
    place = worker.place
    assert place is not None, "a process has something to say only of its task"
    if isinstance(message, Outcome):
        outcomes[place] = message
        worker.place = None
        message = (None, None)
    if watch is not None:
        watch(place, *message)


def _crash(worker: _Worker, task: Task) -> Outcome:
    """Say what became of a process, and remove what it left."""
    code, number = worker.process.exitcode or 0, worker.process.pid
    if number is not None:
        remove_unfinished(task.target, number)
    if code == -getattr(signal, "SIGKILL", 9):
        how = (
            "was killed by the system, most likely for want of memory;"
            " try --jobs 1, or where more is free."
        )
    elif code < 0:
        how = f"was ended by signal {-code}; try it alone."
    else:
        how = f"ended with status {code}; try it alone."
    return Outcome(task.source, None, f"{task.source}: the process that worked on it {how}")


def _idle(workers: list[_Worker], tell: bool) -> _Worker | None:
    """Return a process without a task, a new one if need be; None if there can be no more."""
    for worker in workers:
        if worker.place is None:
            return worker
    try:
        worker = _start(tell)
    except OSError:
        return None
    workers.append(worker)
    return worker


def _start(tell: bool) -> _Worker:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, tell), daemon=True)
    try:
        with _apart():
            process.start()
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()  # so that the pipe closes when the worker ends
    return _Worker(process, ours)


@contextmanager
def _apart() -> Iterator[None]:
    """Start processes that do not run the caller's program again and do not hear Ctrl-C.

    A process made by spawn imports the main module of its parent, for functions in it. Ours are
    not, and a program without ``if __name__ == "__main__"`` would begin anew in each of them. And a
    terminal sends Ctrl-C to all of its processes; we end ours ourselves.
    """
    main = sys.modules["__main__"]
    blocks = hasattr(signal, "pthread_sigmask")
    if blocks:
        from multiprocessing import resource_tracker

        resource_tracker.ensure_running()  # which would unblock what is blocked
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        if blocks:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_now(workers: Sequence[_Worker], tasks: Sequence[Task]) -> None:
    """End processes in the middle of their work, and leave no unfinished file."""
    for worker in workers:
        worker.process.terminate()
    for worker in workers:
        worker.process.join(_PATIENCE)
        if worker.process.exitcode is None:
            worker.process.kill()
            worker.process.join()
        if worker.place is not None and worker.process.pid is not None:
            remove_unfinished(tasks[worker.place].target, worker.process.pid)


def _serve(connection: Connection, tell: bool) -> None:
    """Do tasks until there are no more: what each of the processes runs."""

    def leave(_number: int, _frame: FrameType | None) -> NoReturn:
        # Work that is stopped half-way may raise other errors, which nobody should see.
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
        raise SystemExit(1)  # raised, so that unfinished files are removed

    def progress(what: str, fraction: float | None) -> None:
        try:
            connection.send((what, fraction))
        except OSError:  # the parent is gone
            raise SystemExit(1) from None

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # As in the commands' main(): several processes need no threads for matrices, and the
    # collector no turns in between.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()
    with suppress(EOFError, OSError):
        while True:
            task = connection.recv()
            outcome = run_task(task, progress if tell else silent)
            connection.send(outcome)
            gc.collect()

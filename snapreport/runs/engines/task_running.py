"""Tasks done in an engine: their order, their progress, and those whose workers are lost.

What a worker was killed over is done again beside the others, and a last time alone, so that it has
the machine's memory to itself. Whatever ends the run early, Ctrl-C included, ends the workers
and removes unfinished files.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, Future
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeAlias, TypeVar

from snapreport.ground.errors import EngineError
from snapreport.ground.files import remove_unfinished, writing_as
from snapreport.ground.progress import Progress, silent
from snapreport.ground.version import __version__
from snapreport.runs.engines.engine_at_work import OpenEngine, Teller
from snapreport.runs.engines.engine_choice import LOCAL, Engine, open_engine

Item = TypeVar("Item")
Result = TypeVar("Result")

Watch: TypeAlias = Callable[[int, str | None, float | None], None]
"""Called with a task's place, what is being done and the fraction done; None: it has ended."""

_Heard: TypeAlias = "SimpleQueue[tuple[int, str | None, float | None]]"

_BLINK = 0.5
"""Seconds between looks for Ctrl-C, which on Windows ends no waiting."""


def run_tasks(
    function: Callable[[Item, Progress], Result],
    items: Sequence[Item],
    *,
    lost: Callable[[Item, str], Result],
    engine: Engine | Executor = LOCAL,
    jobs: int | None = None,
    watch: Watch | None = None,
    folders: Iterable[Path] = (),
) -> list[Result]:
    """Call a function with each of some items in the workers of an engine.

    Args:
        function: of a module, so that it can be pickled; called with an item and what takes its
            progress. It should raise nothing: what it raises ends all.
        items: begun in this order; pickled as well.
        lost: makes a result of an item whose workers were lost each time, and of how.
        engine: where.
        jobs: tasks at once; None for as many as there are processors, or as a cluster has.
        watch: told of the work; without it nothing is sent.
        folders: that the function writes into, so that unfinished files can be removed.

    Returns:
        what the function returned, in the order of the items.

    Raises:
        EngineError: the engine cannot be used, or another version of snapreport is at its workers.
    """
    results: dict[int, Result] = {}
    if not items:
        return []
    heard: _Heard = SimpleQueue()

    def hear(place: int, what: str | None, fraction: float | None) -> None:
        heard.put((place, what, fraction))

    mark = os.urandom(6).hex()
    running: dict[int, Future[Result]] = {}
    try:
        with open_engine(engine, jobs, None if watch is None else hear) as opened:
            queue = _Queue(len(items), opened.at_once, opened.tries)
            while queue or running:
                for place in queue.take(len(running)):
                    call = partial(_work, function, items[place], place, opened.teller, mark)
                    running[place] = opened.executor.submit(call, __version__)
                    running[place].add_done_callback(partial(_ended, heard, place))
                place, what, fraction = _next(heard)
                if what is not None:
                    if watch is not None and place in running:
                        watch(place, what, fraction)
                    continue
                future = running.pop(place)
                how = _how_lost(future, opened)
                if how:
                    if queue.again(place):
                        continue
                    where = "where more memory is free" if "memory" in how else "alone"
                    how = f"each process that worked on it was {how}; try it {where}."
                results[place] = lost(items[place], how) if how else future.result()
                if watch is not None:
                    watch(place, None, None)
    finally:
        for folder in folders:
            remove_unfinished(folder, mark)
    return [results[place] for place in range(len(items))]


class _Queue:
    """Which task comes next."""

    def __init__(self, tasks: int, at_once: int | None, tries: int) -> None:
        self._waiting = deque(range(tasks))
        self._alone: deque[int] = deque()
        """Those that have one try left."""
        self._left = [tries] * tasks
        self._at_once = at_once or tasks

    def __bool__(self) -> bool:
        return bool(self._waiting or self._alone)

    def take(self, running: int) -> Iterator[int]:
        """Yield the tasks to begin beside those that are running."""
        while self._waiting and running < self._at_once:
            running += 1
            yield self._waiting.popleft()
        if self._alone and not running:
            yield self._alone.popleft()

    def again(self, place: int) -> bool:
        """Put back a task that was lost; False if it was lost often enough."""
        self._left[place] -= 1
        if self._left[place]:
            (self._alone if self._left[place] == 1 else self._waiting).append(place)
        return self._left[place] > 0


def _ended(heard: _Heard, place: int, _: object) -> None:
    heard.put((place, None, None))


def _next(
    heard: _Heard,
) -> tuple[int, str | None, float | None]:
    while True:
        try:
            return heard.get(timeout=_BLINK)
        except Empty:
            continue


def _how_lost(future: Future[Result], opened: OpenEngine) -> str:
    try:
        error = future.exception()
    except CancelledError:
        return "lost with the cluster"
    return "" if error is None else opened.how_lost(error)


def _work(
    function: Callable[[Item, Progress], Result],
    item: Item,
    place: int,
    teller: Teller | None,
    mark: str,
    version: str,
) -> Result:
    """Do one task: what each worker calls."""
    if version != __version__:
        raise EngineError(
            f"the workers have snapreport {__version__}, and here it is {version};"
            " install the same version on both."
        )

    def progress(what: str, fraction: float | None) -> None:
        if teller is not None:
            teller(place, what, fraction)

    with writing_as(mark):
        return function(item, silent if teller is None else progress)

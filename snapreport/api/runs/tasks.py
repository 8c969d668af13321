"""Tasks done in an engine: which engine, how many at once, and those whose workers are lost.

What a worker was killed over is done again beside the others, and a last time alone, so that it has
the machine's memory to itself. Whatever ends the work early, Ctrl-C included, ends the workers and
removes unfinished files.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Literal, TypeAlias, TypeVar

from snapreport.api.runs.engines import OpenEngine, Teller, open_local
from snapreport.bundle.archive import checked_members
from snapreport.ground.errors import EngineError, SnapreportError
from snapreport.ground.files import open_regular, remove_unfinished, writing_as
from snapreport.ground.processes import available_memory, usable_cpus
from snapreport.ground.progress import Progress, silent
from snapreport.ground.records import dataclass
from snapreport.ground.stores import is_remote
from snapreport.ground.version import __version__


@dataclass(frozen=True)
class Engine:
    """Where to work."""

    kind: Literal["local", "dask"]
    address: str = ""
    """Of a cluster that is there; ``""`` for one that is started here and ended after the work."""


LOCAL = Engine("local")


def parse_engine(text: str) -> Engine:
    """Return the engine that a user named, such as ``dask=tcp://10.0.0.5:8786``.

    Raises:
        EngineError: there is no such engine, or ``local`` was given an address.
    """
    kind, equals, address = text.strip().partition("=")
    if kind == "local" and not equals:
        return LOCAL
    if kind == "dask" and bool(equals) == bool(address):
        return Engine("dask", address)
    raise EngineError(f"{text} is not an engine; choose local, dask or dask=tcp://HOST:PORT.")


def open_engine(
    engine: Engine | Executor, jobs: int | None, hear: Teller | None
) -> AbstractContextManager[OpenEngine]:
    """Return what starts an engine, and at the end of the ``with`` block ends its workers.

    Args:
        engine: which; an executor of the caller's is used as it is and not shut down.
        jobs: tasks at a time, and workers to start where none are there; None for as many as there
            are processors, or as a cluster has.
        hear: called with the progress of tasks, in some thread; without it nothing is sent.
    """
    if isinstance(engine, Executor):
        return _foreign(engine, jobs)
    if not engine.address:
        jobs = jobs or usable_cpus()
    if engine.kind == "dask":
        from snapreport.api.runs.dask_cluster import open_dask

        return open_dask(engine.address, jobs, hear)
    return open_local(jobs or usable_cpus(), hear)


@contextmanager
def _foreign(executor: Executor, jobs: int | None) -> Iterator[OpenEngine]:
    def how_lost(error: BaseException) -> str:
        return "ended with their executor." if isinstance(error, BrokenExecutor) else ""

    yield OpenEngine(executor, at_once=jobs, how_lost=how_lost)


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
    keep: Callable[[Item, Result], Result] = lambda _, result: result,
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
        keep: makes of each item's result, as soon as there is one, what is kept of it.

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
                result = lost(items[place], how) if how else future.result()
                results[place] = keep(items[place], result)
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


# How many files at once

_MIB = 1 << 20
_PROCESS = 64 * _MIB
"""What a process needs for a small file."""
_PICKLE, _JSON, _TABLES = 8, 9, 12
"""Peak memory in multiples of the unpacked pickle, the JSON, and a bundle's elements.db. A million
events need 5.5 times their pickle and 11.8 times their tables; small files with deep call stacks
up to 10 times the pickle, most of which _PROCESS covers; JSON of 100 MB 7.3 to 7.9 times its
size."""
_PACKED = 10
"""How many times larger an unpacked snapshot usually is at most, if it does not state its size."""


def jobs_for(engine: Engine | Executor, sources: Sequence[Path], wanted: int | None) -> int | None:
    """Return how many files to work on at once, or None to let a cluster decide.

    Args:
        engine: where to work; a running cluster and a caller's executor know their own machines.
        sources: the files.
        wanted: the number that the user gave.
    """
    if wanted is not None:
        return min(wanted, len(sources))
    if isinstance(engine, Executor) or engine.address:
        return None
    return fit_jobs([memory_needed(path) for path in sources], usable_cpus(), available_memory())


def fit_jobs(needs: Sequence[int], cpus: int, memory: int | None) -> int:
    """Return how many jobs fit, whichever files run at the same time.

    Args:
        needs: the most bytes that each file will need.
        cpus: processors that may be used.
        memory: free bytes; None if unknown.
    """
    most = max(min(cpus, len(needs)), 1)
    if memory is None:
        return most
    together, fit = 0, 0
    for need in sorted(needs, reverse=True)[:most]:
        together += need
        if together > memory:
            break
        fit += 1
    return max(fit, 1)


def memory_needed(path: Path) -> int:
    """Estimate the peak memory of converting or rendering a file, in bytes, from its size."""
    try:
        size = path.stat().st_size
        if is_remote(path):
            # By its name: each look is a request, and there may be a thousand files.
            packed = path.suffix in (".gz", ".zst", ".zip")
            return _PROCESS + _PICKLE * size * (_PACKED if packed else 1)
        with open_regular(path) as file:
            head = file.read(64)
            if head[:2] == b"PK":
                return _PROCESS + _TABLES * _elements(path)
            if head[:2] == b"\x1f\x8b":
                file.seek(-4, os.SEEK_END)
                unpacked = int.from_bytes(file.read(4), "little")
                # The trailer has the size modulo 4 GiB, and only of the last part.
                unpacked = max(unpacked, size if unpacked >= size else _PACKED * size)
                return _PROCESS + size + _PICKLE * unpacked
            if head[:4] == b"\x28\xb5\x2f\xfd":
                return _PROCESS + size + _PICKLE * (_zstd_content(head) or _PACKED * size)
    except OSError:
        return _PROCESS
    return _PROCESS + (_JSON if head[:1] in (b"{", b"[") else _PICKLE) * size


def _elements(bundle: Path) -> int:
    """Return the bytes of a bundle's tables, unpacked."""
    try:
        with checked_members(bundle) as members:
            return members.size("elements.db")
    except SnapreportError:  # its reader says what is wrong with it
        return 0


def _zstd_content(head: bytes) -> int:
    """Return the unpacked size that a zstd frame states, 0 if it does not."""
    import zstandard

    try:
        return max(zstandard.frame_content_size(head), 0)
    except zstandard.ZstdError:
        return 0

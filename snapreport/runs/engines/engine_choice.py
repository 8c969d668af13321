"""Which engine does the work: ``local``, ``dask`` or ``ray``, where, and what all of them offer.

Each engine is an executor of ``concurrent.futures`` and no more is asked of it than ``submit()``,
so that anybody's executor does as well.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias

from snapreport.ground.errors import EngineError, reason_of
from snapreport.ground.machine import usable_cpus

Teller: TypeAlias = Callable[[int, str, float | None], None]
"""Called in a worker with a task's place, what is being done and the fraction done."""

Kind: TypeAlias = Literal["local", "dask", "ray"]
_KINDS: tuple[Kind, ...] = ("local", "dask", "ray")

KILLED = "killed by the system, most likely for want of memory; try it where more is free."
"""How the work of a process ended that nobody but the system would have killed."""


@dataclass(frozen=True)
class Engine:
    """Where to work."""

    kind: Kind
    address: str = ""
    """Of a cluster that is there; ``""`` for one that is started here and ended after the work."""


_PATIENCE = 10.0
"""Seconds in which a cluster has to answer."""

LOCAL = Engine("local")


@dataclass(frozen=True)
class OpenEngine:
    """An engine at work."""

    executor: Executor
    teller: Teller | None = None
    """How a worker tells of its progress; it is pickled. None where it does not."""
    at_once: int | None = None
    """Tasks to hand over at a time; None for all of them, where a cluster has a queue."""
    how_lost: Callable[[BaseException], str] = lambda _: ""
    """Tells from a future's error how its worker was lost; ``""`` where the task itself failed."""
    tries: int = 3
    """How often to hand over a task that workers are lost over, the last time alone."""


def parse_engine(text: str) -> Engine:
    """Return the engine that a user named, such as ``dask=tcp://10.0.0.5:8786``.

    Raises:
        EngineError: there is no such engine, or ``local`` was given an address.
    """
    kind, equals, address = text.strip().partition("=")
    for known in _KINDS:
        if kind == known and bool(equals) == bool(address) and not (address and known == "local"):
            return Engine(known, address)
    raise EngineError(
        f"{text} is not an engine; choose local, dask, dask=tcp://HOST:PORT, ray or ray=ADDRESS."
    )


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
        from snapreport.runs.engines.dask_cluster import open_dask

        return open_dask(engine.address, jobs, hear)
    if engine.kind == "ray":
        from snapreport.runs.engines.ray_cluster import open_ray

        return open_ray(engine.address, jobs)
    from snapreport.runs.engines.local_processes import open_local

    return open_local(jobs or usable_cpus(), hear)


def check_answers(address: str, what: str) -> None:
    """Refuse an address where nothing answers, for which libraries may wait ten minutes.

    Raises:
        EngineError: nothing does; what is no ``HOST:PORT`` is left to the library.
    """
    found = re.fullmatch(r"(?:\w+://)?\[?([^/\[\]]+?)\]?:(\d+)/?", address)
    if found is None or int(found[2]) > 65535:
        return
    try:
        socket.create_connection((found[1], int(found[2])), _PATIENCE).close()
    except OSError as error:
        raise EngineError(
            f"no {what} answers at {address}: {error.strerror or reason_of(error)}."
        ) from error


@contextmanager
def _foreign(executor: Executor, jobs: int | None) -> Iterator[OpenEngine]:
    def how_lost(error: BaseException) -> str:
        return "ended with their executor." if isinstance(error, BrokenExecutor) else ""

    yield OpenEngine(executor, at_once=jobs, how_lost=how_lost)

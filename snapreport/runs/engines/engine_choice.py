"""Which engine does the work, ``local``, ``dask`` or ``ray``, and where."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Executor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias

from snapreport.ground.errors import EngineError
from snapreport.ground.processes.machine import usable_cpus
from snapreport.runs.engines.engine_at_work import OpenEngine, Teller

Kind: TypeAlias = Literal["local", "dask", "ray"]
_KINDS: tuple[Kind, ...] = ("local", "dask", "ray")


@dataclass(frozen=True)
class Engine:
    """Where to work."""

    kind: Kind
    address: str = ""
    """Of a cluster that is there; ``""`` for one that is started here and ended after the work."""


LOCAL = Engine("local")


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


@contextmanager
def _foreign(executor: Executor, jobs: int | None) -> Iterator[OpenEngine]:
    def how_lost(error: BaseException) -> str:
        return "ended with their executor." if isinstance(error, BrokenExecutor) else ""

    yield OpenEngine(executor, at_once=jobs, how_lost=how_lost)

"""Dask: a cluster that is there, or one that is started on this machine for as long as it works."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from snapreport.api.runs.engines import OpenEngine, Teller
from snapreport.ground.errors import EngineError, reason_of
from snapreport.ground.processes import KILLED, interrupts_blocked, main_hidden, start_tracker
from snapreport.ground.records import dataclass

if TYPE_CHECKING:
    from distributed import LocalCluster


_PATIENCE = 10
"""Seconds in which a scheduler has to answer."""
_NO_LOG = 100
"""Above every level of logging."""
_RETRIES = 2
"""How often Dask itself begins again what a worker died of, or died before."""


class TaskCancelledError(BaseException):
    """Nobody waits for a task any more; no ``Exception``, so that no task takes it for its own."""


@contextmanager
def open_dask(address: str, jobs: int | None, hear: Teller | None) -> Iterator[OpenEngine]:
    """Work on a Dask cluster.

    Args:
        address: of its scheduler; ``""`` starts one, with so many workers.
        jobs: tasks at a time; None for all of them.
        hear: called with the progress of tasks.

    Raises:
        EngineError: Dask is not installed, or no scheduler answers.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise EngineError(
            "--engine dask needs Dask, which is not installed: pip install distributed"
        ) from error
    cluster: AbstractContextManager[LocalCluster | str]
    cluster = nullcontext(address) if address else _started(jobs or 1)
    with cluster as where:
        try:
            found = urlsplit(address if "//" in address else f"//{address}")
            if found.port:  # where nothing listens, Dask would try again and again
                socket.create_connection((found.hostname, found.port), _PATIENCE).close()
            client = Client(where, timeout=_PATIENCE, set_as_default=False)
        except (OSError, ValueError, TypeError, RuntimeError, ImportError) as error:
            why = getattr(error, "strerror", None) or reason_of(error)
            raise EngineError(f"no Dask scheduler answers at {address}: {why}.") from error
        with client:
            topic = f"snapreport-{os.urandom(6).hex()}"
            if hear is not None:
                client.subscribe_topic(topic, lambda event: hear(*event[1]))
            executor = client.get_executor(pure=False)
            try:
                teller = DaskTeller(topic if hear else "")
                yield OpenEngine(executor, teller, jobs, _how_lost, tries=2)
            except BaseException:
                if hear is not None:
                    client.unsubscribe_topic(topic)
                executor.shutdown(wait=False)  # cancels what waits; what runs is told by its teller
                raise


@contextmanager
def environment_kept() -> Iterator[None]:
    """Take back what a cluster of processes leaves in this one's environment.

    Dask sets there what its workers are to inherit, such as one thread for matrices; a program that
    the caller starts later would inherit it as well.
    """
    import dask

    names = (*dask.config.get("distributed.nanny.pre-spawn-environ"), "PYTHONHASHSEED")
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _started(jobs: int) -> Iterator[LocalCluster]:
    """Start a scheduler and workers on this machine, which no other machine reaches."""
    import dask
    from distributed import LocalCluster

    # Dask would stop a worker that comes to its share of the memory, though the others may not
    # need theirs.
    settings = {"distributed.scheduler.allowed-failures": _RETRIES}
    with main_hidden(), dask.config.set(settings), environment_kept():
        start_tracker()
        with interrupts_blocked():
            cluster = LocalCluster(
                n_workers=jobs,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                # Else each listens on every interface, the scheduler on a port that may be taken.
                dashboard_address="127.0.0.1:0",
                worker_dashboard_address="127.0.0.1:0",
                memory_limit=0,
                silence_logs=_NO_LOG,
            )
        with cluster:
            yield cluster


@dataclass(frozen=True)
class DaskTeller:
    """Tells the client of a task's progress, and ends the task where nobody waits for it."""

    topic: str
    """``""`` to tell nothing."""

    def __call__(self, place: int, what: str, fraction: float | None) -> None:
        """Send it by way of the scheduler; called in a worker.

        Raises:
            TaskCancelledError: the task was cancelled.
        """
        from distributed import get_worker

        worker = get_worker()
        task = worker.state.tasks.get(worker.get_current_task())
        if task is None or task.state == "cancelled":
            raise TaskCancelledError
        if self.topic:
            worker.log_event(self.topic, (place, what, fraction))


def _how_lost(error: BaseException) -> str:
    from distributed import KilledWorker

    return KILLED if isinstance(error, KilledWorker) else ""

"""Ray: a cluster that is there, or one that is started on this machine for as long as it works."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any, TypeVar

from snapreport.api.runs.engines import OpenEngine, check_answers
from snapreport.ground.errors import EngineError, reason_of
from snapreport.ground.processes import KILLED

Result = TypeVar("Result")

_STORE = 100 << 20
"""Bytes of shared memory for results, which are small; Ray takes no less than 75 MiB."""


@contextmanager
def open_ray(address: str, jobs: int | None) -> Iterator[OpenEngine]:
    """Work on a Ray cluster; how far a task is, it does not tell.

    Args:
        address: of the cluster, such as ``auto``; ``""`` starts one, with so many workers.
        jobs: tasks at a time; None for all of them.

    Raises:
        EngineError: Ray is not installed, or no cluster answers.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # we tell nobody what is done here
    try:
        import ray
    except ImportError as error:
        raise EngineError(
            "--engine ray needs Ray, which is not installed: pip install ray"
        ) from error
    check_answers(address, "Ray cluster")
    started = not ray.is_initialized()
    # Ray writes about lost workers to stdout, which is for results.
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):  # noqa: PTH123
        if started:
            _start(address, jobs)
        executor = RayExecutor()
        try:
            yield OpenEngine(executor, None, jobs, _how_lost)
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise
        finally:
            if started:
                ray.shutdown()


def _start(address: str, jobs: int | None) -> None:
    import ray

    logging.getLogger("ray").setLevel(logging.CRITICAL)
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    try:
        if address:
            ray.init(address=address, **quiet)
        else:
            ray.init(
                address="local",
                num_cpus=jobs,
                object_store_memory=_STORE,
                include_dashboard=False,
                _node_ip_address="127.0.0.1",
                **quiet,
            )
    except Exception as error:  # of any kind: for a node that starts too slowly, a bare one
        where = f"no Ray cluster answers at {address}" if address else "Ray cannot be started here"
        raise EngineError(f"{where}: {reason_of(error)}") from error


class RayExecutor(Executor):
    """An executor that calls each function in a task of Ray, on one processor."""

    def __init__(self) -> None:
        import ray

        # What is lost we begin again ourselves.
        self._task: Any = ray.remote(_call).options(num_cpus=1, max_retries=0)
        self._futures: weakref.WeakSet[Future[Any]] = weakref.WeakSet()

    def submit(
        self, function: Callable[..., Result], /, *args: Any, **kwargs: Any
    ) -> Future[Result]:
        """Call a function of a module in one of the workers."""
        future: Future[Result] = self._task.remote(function, args, kwargs).future()
        self._futures.add(future)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for all tasks, or end the workers in the middle of them."""
        import ray

        for future in list(self._futures):
            if cancel_futures and not future.done():
                with suppress(Exception):  # a cluster that is gone
                    ray.cancel(getattr(future, "object_ref"), force=True)  # noqa: B009 - theirs
            elif wait:
                future.exception()


def _call(function: Callable[..., Result], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Result:
    return function(*args, **kwargs)


def _how_lost(error: BaseException) -> str:
    from ray import exceptions

    if isinstance(error, exceptions.OutOfMemoryError):
        return "ended by Ray because memory ran out"
    if isinstance(error, exceptions.RayTaskError):  # the task's own
        return ""
    return KILLED if isinstance(error, exceptions.RayError) else ""

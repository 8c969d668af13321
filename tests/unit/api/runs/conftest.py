"""A Dask scheduler with two worker processes, started once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor

import pytest

from snapreport.api.runs.tasks import LOCAL, Engine

_QUIET = 50


@pytest.fixture(scope="package")
def dask_engine() -> Iterator[Engine]:
    import dask
    from distributed import LocalCluster

    from snapreport.api.runs.dask_cluster import environment_kept

    # One less than for the clusters that we start: a new worker imports Dask for seconds.
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        environment_kept(),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            memory_limit=0,
            silence_logs=_QUIET,
        ) as cluster,
    ):
        yield Engine("dask", cluster.scheduler_address)


@pytest.fixture(params=["local", "dask"])
def engine(request: pytest.FixtureRequest) -> Engine | Executor:
    """Each of the engines."""
    if request.param == "local":
        return LOCAL
    found: Engine = request.getfixturevalue(f"{request.param}_engine")
    return found

"""Processes for several files and for queries, forked from a Python that has imported our modules.

A process that is started anew, as ours are, imports them for half a second: longer than all that a
test has for it to do. Those of tests/commands/test_many_processes.py are started anew.
"""

from __future__ import annotations

from multiprocessing import forkserver, get_all_start_methods, get_context
from typing import Any

import pytest

from snapreport.ground import processes

READ_BEFORE = (
    "api.making", "api.rank_figures", "api.runs.many_files", "api.runs.tasks", "bundle.query",
    "diagnosis.conclude", "ground.native.library", "history.build", "read",
    "reporters.page_report",
)  # fmt: skip


def fork_workers(patch: pytest.MonkeyPatch) -> None:
    """Fork workers and queries' processes from now on, where the system has that.

    What a test changes in its environment, or patches, they do not have.
    """
    if "forkserver" in get_all_start_methods():
        patch.setattr(processes, "get_context", _forks)


def _forks(method: str) -> Any:
    if method == "fork":
        return get_context(method)
    context = get_context("forkserver")
    context.set_forkserver_preload(["numpy.ma", *(f"snapreport.{name}" for name in READ_BEFORE)])
    forkserver.ensure_running()
    return context

"""Commands in processes of their own that are forks of this Python, which has imported them.

To start a Python and import what a command needs takes longer than most commands do. A fork has its
own standard streams, signals and exit status as well; some tests start a Python anew nevertheless.
"""

from __future__ import annotations

import asyncio
import faulthandler
import functools
import importlib
import os
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import forkserver, resource_tracker
from typing import Any, NoReturn

from snapreport.__main__ import main
from snapreport.commands import cli
from tests.hostile.cost import report, warm


def start(
    arguments: Sequence[str], *, before: Callable[[], object] = lambda: None, **settings: Any
) -> subprocess.Popen[Any]:
    """Start ``snapreport`` with these arguments.

    Args:
        arguments: after ``snapreport``.
        before: what the process does first.
        settings: as of ``subprocess.Popen``.
    """
    return start_function(functools.partial(_run_main, arguments, before), **settings)


def start_function(
    work: Callable[[], object], *, env: Mapping[str, str] | None = None, **settings: Any
) -> subprocess.Popen[Any]:
    """Start a process that calls a function and ends; settings are those of ``Popen``."""
    _warm()
    with warnings.catch_warnings():  # of a fork beside threads: it uses nothing that ours do
        warnings.simplefilter("ignore", DeprecationWarning)
        return subprocess.Popen(
            ["never executed"],
            preexec_fn=functools.partial(become, work, env),
            # As Python has them: a closed pipe and a file that grows too large are errors.
            restore_signals=False,
            **{"text": True, **settings},
        )


def run(arguments: Sequence[str], **settings: Any) -> subprocess.CompletedProcess[Any]:
    """Run ``snapreport`` with these arguments to its end, as ``subprocess.run`` does."""
    with start(arguments, **settings) as process:
        out, errors = process.communicate(timeout=120)
    return subprocess.CompletedProcess([*arguments], process.returncode, out, errors)


def become(work: Callable[[], object], environment: Mapping[str, str] | None = None) -> NoReturn:
    """Do the work and end, as a Python does that was started for it with the streams 0 to 2."""
    status = 1
    try:
        faulthandler.disable()
        # One of the others is how Popen waits for the child to execute something.
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        _forget_helpers()
        asyncio._set_running_loop(None)  # that of a browser's tests
        if environment is not None:
            os.environ.clear()
            os.environ.update(environment)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
        work()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    for thread in threading.enumerate():  # as Python does
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    try:
        sys.stderr.flush()
        sys.stdout.flush()
    except OSError:
        status = 120  # as Python has it
    os._exit(status)


def _forget_helpers() -> None:
    """Start what multiprocessing has beside it anew: what there is belongs to the tests."""
    resource_tracker._resource_tracker._fd = None  # type: ignore[attr-defined]
    server: Any = forkserver._forkserver
    server._forkserver_address = server._forkserver_alive_fd = server._forkserver_pid = None


@functools.cache
def _warm() -> None:
    """Import what commands import late, all in one process instead of in each."""
    warm(report)
    for name in (
        "rich.console",
        "rich.progress",
        *(f"snapreport.commands.{each}" for each in cli.commands),
    ):
        importlib.import_module(name)


def _run_main(arguments: Sequence[str], before: Callable[[], object]) -> None:
    sys.argv = ["snapreport", *arguments]
    before()
    main()

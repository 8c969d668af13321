"""Commands on a terminal of their own, in a fork of this Python, which has imported all of them.

To start a Python and import what a command needs takes longer than most commands do.
"""

from __future__ import annotations

import os
import pty
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from snapreport.__main__ import main
from tests.hostile.cost import report, warm


def on_terminal(
    runs: Sequence[Sequence[str]], folder: Path, environment: Mapping[str, str]
) -> list[tuple[int, str]]:
    """Run ``snapreport`` with each of these arguments; return its status and what it wrote."""
    warm(report)
    return [_run(arguments, folder, environment) for arguments in runs]


def _run(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    child, terminal = pty.fork()
    if not child:
        _become(arguments, folder, environment)
    written = b""
    while True:
        try:
            more = os.read(terminal, 65536)
        except OSError:  # Linux's way to say that the other end was closed
            break
        if not more:
            break
        written += more
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), written.decode().replace("\r\n", "\n")


def _become(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
    """Be the command, and end as it does."""
    status = 1
    try:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
        sys.argv = ["snapreport", *arguments]
        main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)

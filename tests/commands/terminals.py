"""Commands on a terminal of their own, in forks of this Python, which has imported all of them."""

from __future__ import annotations

import fcntl
import os
import pty
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests import forked_commands


def on_terminal(
    runs: Sequence[Sequence[str]], folder: Path, environment: Mapping[str, str]
) -> list[tuple[int, str]]:
    """Run ``snapreport`` with each of these arguments; return its status and what it wrote."""
    return [_run(arguments, folder, environment) for arguments in runs]


def _run(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    ours, theirs = pty.openpty()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    with forked_commands.start(
        arguments,
        before=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        cwd=folder,
        env=environment,
        start_new_session=True,
        **streams,
    ) as process:
        os.close(theirs)
        written = read_terminal(ours)
    os.close(ours)
    return process.returncode, written.decode().replace("\r\n", "\n")


def read_terminal(terminal: int) -> bytes:
    """Return all that is written on a terminal until nobody has it open."""
    written = b""
    while True:
        try:
            more = os.read(terminal, 65536)
        except OSError:  # Linux's way to say that the other end was closed
            more = b""
        if not more:
            return written
        written += more

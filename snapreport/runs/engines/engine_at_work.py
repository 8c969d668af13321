"""What every engine offers: an executor of ``concurrent.futures``, and reports on its tasks.

Only ``submit()`` of the executor is used, so any executor will do.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TypeAlias

from snapreport.ground.errors import EngineError, reason_of

Teller: TypeAlias = Callable[[int, str, float | None], None]
"""Called in a worker with a task's place, what is being done and the fraction done."""

_PATIENCE = 10.0
"""Seconds in which a cluster has to answer."""


@dataclass(frozen=True)
class OpenEngine:
    """An engine at work."""

    executor: Executor
    teller: Teller | None = None
    """Called in workers to report progress, so it is pickled; None if they report none."""
    at_once: int | None = None
    """Tasks to hand over at a time; None for all of them, where a cluster has a queue."""
    how_lost: Callable[[BaseException], str] = lambda _: ""
    """Tells from a future's error how its worker was lost; ``""`` where the task itself failed."""
    tries: int = 3
    """How often to hand over a task that workers are lost over, the last time alone."""


def check_answers(address: str, what: str) -> None:
    """Refuse an address where nothing answers, for which libraries may wait ten minutes.

    Raises:
        EngineError: nothing answers; what is not ``HOST:PORT`` is left to the library.
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

"""Seconds of the processor that work takes, as the machine would take them that limits were set on.

Limits are at least four times what was measured there. A machine that is slower, or whose cores are
shared, takes longer for a fixed piece of work as well, and by that much its seconds are shortened.

    assert took(lambda: short_names(names), most=1) <= 1
"""

from __future__ import annotations

import re
import signal
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

TRIES = 3
"""Of work that seems to take too long; the best one counts."""

PIECE_S = 0.025
"""What the fixed piece of work takes where limits were set: an idle core of a server of 2020."""

_WORDS = [f"/home/user{i}/train_{i % 7}.py" for i in range(24_000)]


def slowness() -> float:
    """Return how many times longer than it should a fixed piece of work takes now, at least 1."""
    begun = time.process_time()
    _piece()
    return max(1.0, (time.process_time() - begun) / PIECE_S)


def _piece() -> int:
    """Do some of what we do: bytecode, patterns, texts and dicts, compressing."""
    seen = {word + "x": len(word) for word in _WORDS}
    text = re.sub(r"user(\d+)/\w+", r"\1", "\n".join(seen))
    total = sum(n * n for n in seen.values())
    return total + len(zlib.compress(text.encode()))


def took(work: Callable[[], object], *, most: float) -> float:
    """Return the seconds that work takes at best, counted only as far as need be.

    Args:
        work: what is measured, in this thread and all others.
        most: seconds that are no more than it may take; at ten times as many it is stopped.
    """
    best = float("inf")
    for _ in range(TRIES):
        begun = time.process_time()
        with _stopped_after(10 * most):
            work()
        seconds = time.process_time() - begun
        best = min(best, seconds if seconds <= most else seconds / slowness())
        if best <= most:
            break
    return best


class _SlowError(Exception):
    """Work was stopped."""


@contextmanager
def _stopped_after(seconds: float) -> Iterator[None]:
    """Stop what is done inside after some seconds of the processor."""

    def stop(*_: object) -> None:
        raise _SlowError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        with suppress(_SlowError):
            yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)

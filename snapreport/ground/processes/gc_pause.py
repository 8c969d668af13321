"""Turn the garbage collector off while millions of objects without cycles are created."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_off() -> Iterator[None]:
    """Turn the collector off for a while: it would visit all new objects again and again.

    This makes loading a snapshot 5 times faster, and writing a bundle twice as fast. It may be
    nested: the collector is turned on again only if it was on before.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()

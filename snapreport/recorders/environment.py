"""Settings that PyTorch's libraries read from the environment at their first use."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def set_for_now(values: Mapping[str, str]) -> Iterator[None]:
    """Have these in the environment during the body, unless the user set one of them.

    Afterwards they are gone again: child processes get what the program had.
    """
    if any(name in os.environ for name in values):
        yield
        return
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            os.environ.pop(name, None)

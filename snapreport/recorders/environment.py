"""Settings that PyTorch's libraries read from the environment at their first use."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def temporary_environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set these environment variables during the body, unless the user has set one of them.

    They are removed afterwards, so child processes get the program's own environment.
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

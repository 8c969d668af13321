"""Measurements of memory that is made more often, or kept longer, than needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Remade:
    """Allocations made just after one of the same call site and size was freed."""

    rows: NDArray[np.int64]
    """The later allocation of each pair; int64."""
    bytes: int
    """Block bytes of all of them."""
    made: int
    """Allocations made in the recording in all."""


@dataclass(frozen=True, eq=False)
class Transients:
    """What is live at the peak, and lives for a short time only."""

    rows: NDArray[np.int64]
    """The allocations live at the peak; int64."""
    bytes: int
    """Their block bytes."""
    longest: int
    """Events that each lives at most."""
    peak_falls: int
    """How far the peak falls without any short-lived allocation of their call sites."""


@dataclass(frozen=True, eq=False)
class HeldThrough:
    """What no optimizer needs, and is live from the beginning to the end of its step."""

    rows: NDArray[np.int64]
    """The allocations; int64."""
    most: int
    """Block bytes at most live through one optimizer step."""
    event: int
    """The first event of that optimizer step."""
    stages: int
    """Optimizer steps looked at."""
    peak_falls: int
    """How far the peak falls had they been freed as the optimizer's step began."""


@dataclass(frozen=True, eq=False)
class Pending:
    """Freed memory that waits for another stream."""

    rows: NDArray[np.int64]
    """The allocations that waited; int64."""
    most: int
    """Block bytes that waited at once, at most."""
    event: int
    """When that was first."""
    peak_falls: int
    """How far the peak of what is active falls had nothing waited."""
    byte_events: NDArray[np.int64]
    """Of each of ``rows``: its block bytes times the events that it waited; int64."""
    longest: int
    """Events that one waited at most."""

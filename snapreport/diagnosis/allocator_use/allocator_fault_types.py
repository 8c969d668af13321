"""Measurements of what is lost between the program and the driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

BurstKind = Literal["retry", "failed", "emptied", "other"]
"""To serve a request that then was served, or that failed all the same; by ``empty_cache()``; or
for a reason that the recording does not show."""


@dataclass(frozen=True)
class Burst:
    """Segments given back to the driver one right after the other."""

    kind: BurstKind
    first_event: int
    last_event: int
    count: int
    bytes: int
    stack: int
    """Of the first event; a stack id or NO_STACK."""
    got_again: int
    """Bytes got from the driver afterwards, before the next burst, but at most ``bytes``."""


@dataclass(frozen=True)
class Tightest:
    """The state when reserved memory was last raised beyond all before.

    What was free then did not serve the request.
    """

    event: int
    """The allocation for which it was raised; the allocated peak if it never was."""
    grew: bool
    """Whether it was raised in the recording, for a request of the large pool."""
    reserved: int
    active: int
    pieces: int
    """Inactive bytes in segments partly in use, of the request's pool, stream and kind; all such
    bytes if reserved memory was never raised."""
    whole: int
    """Bytes in segments that nothing used, likewise."""
    elsewhere: int
    """Inactive bytes of other pools, streams and kinds."""
    beyond: int
    """The most reserved less the most active: what better packing could save, at the very most."""


@dataclass(frozen=True)
class PrivatePool:
    """What one private pool holds after an event, in bytes."""

    name: str
    """PyTorch's two numbers, as ``1,0``."""
    reserved: int
    active: int

    @property
    def inactive(self) -> int:
        """Bytes that nobody else may use."""
        return self.reserved - self.active


@dataclass(frozen=True, eq=False)
class Slack:
    """Block bytes beyond what was asked for, over what is live at the allocated peak."""

    total: int
    unsplit: int
    """The part that is there because a larger free block was handed out whole."""
    divided: int
    """The part that ``roundup_power2_divisions`` added."""
    lower: NDArray[np.int64]
    """The least bytes of each class of requested sizes: a power of two; int64, shape (n,)."""
    count: NDArray[np.int64]
    """Allocations in each; likewise the next two."""
    requested: NDArray[np.int64]
    slack: NDArray[np.int64]

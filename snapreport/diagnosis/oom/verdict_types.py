"""Why a request for memory failed: the figures, and what they say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from snapreport.model.recording_facts import OomEvent

Cause = Literal[
    "full",
    "fragmented",
    "locked",
    "waiting",
    "other-stream",
    "giant",
    "foreign",
    "limit",
    "unclear",
]
"""Why a request failed, as ``CAUSES`` says in words."""


CAUSES: dict[Cause, str] = {
    "full": "too much was live",
    "fragmented": "enough was free, but in pieces",
    "locked": "enough was free, but in another pool",
    "waiting": "enough was freed, but another stream might still use it",
    "other-stream": "enough was free, but for another stream",
    "giant": "more was asked for than there is in all",
    "foreign": "others than PyTorch took it",
    "limit": "refused although the device had room",
    "unclear": "a free piece would have served it; the recording does not show why it did not",
}


@dataclass(frozen=True)
class PoolUse:
    """What one pool holds on one stream, in bytes."""

    pool: str
    """``default``, or ``private 1,0`` with PyTorch's two numbers."""
    stream: int
    """As in the recording; 0 is the default stream."""
    kind: str
    """``small`` serves requests up to 1 MiB, ``large`` the others; ``unknown`` if nothing tells."""
    reserved: int
    allocated: int
    pending: int
    """Freed by the program, but another stream may still use it."""
    inactive: int
    """Free for requests of this pool, stream and kind."""
    largest_hole: int
    returnable: int
    """The part of ``inactive`` that could go back to the driver: whole segments, or whole pages of
    expandable ones. Nothing of a private pool."""
    serves: bool
    """Whether the request that failed could have come from here."""


@dataclass(frozen=True)
class Removal:
    """Call sites without whose allocations the request would have been served."""

    sites: tuple[str, ...]
    bytes: int
    """Block bytes that they hold."""


@dataclass(frozen=True)
class OomVerdict(OomEvent):
    """A request that failed, and the state in which it did; all sizes in bytes."""

    reserved: int
    cause: Cause
    alone: bool
    """Whether what the cause names would have been enough by itself; of several that are enough
    only together, the cause is the largest."""
    stream: int
    pool: str
    """As in ``PoolUse``: for which pool the request was, as far as that can be told."""
    needed: int
    """What the driver would have had to give: whole segments or pages."""
    needed_most: int
    """The upper bound of that: which expandable segment would have grown is not recorded."""
    missing: int
    """needed - device_free; not above 0 where the device had room."""
    slack: int
    pending: int
    inactive: int
    pools: tuple[PoolUse, ...]
    """Most reserved first."""
    hole: int
    """The largest hole in segments of the request's pool, stream and kind."""
    pieces: int
    """Inactive bytes of the request's pool and stream, of both kinds, that could not be returned;
    likewise the next two."""
    locked: int
    """Of other pools: of private ones where the request was for the default one."""
    other_streams: int
    """Of the request's pool, on other streams."""
    returnable: int
    """Inactive bytes that the allocator could have given back to the driver, and had not."""
    foreign: int
    """By how much, at least, memory outside of PyTorch's allocator had grown: PyTorch had reserved
    more before than it could have reserved now. 0 where that does not show."""
    ceiling: int
    """reserved + device_free: all that the process could have had at that moment."""
    most_reserved: int
    """Up to then: a limit on the process cannot be lower."""
    expandable: bool
    """Whether the request would have come from an expandable segment."""
    removals: tuple[Removal, ...]
    """The smallest sets found, the least bytes first; all of one size."""
    checked: int
    """How many call sites were tried by themselves."""
    recovered: bool
    """Whether the program went on to allocate at least as much as the request."""

"""Why a request for memory failed: the figures and the cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from snapreport.model.recording_facts import OomEvent

Cause = Literal[
    "full",
    "fragmented",
    "stranded",
    "locked",
    "waiting",
    "other-stream",
    "giant",
    "foreign",
    "limit",
    "unclear",
]
"""Why a request failed; ``CAUSES`` has the words."""


CAUSES: dict[Cause, str] = {
    "full": "too much was live",
    "fragmented": "enough was free, but in pieces",
    "stranded": "enough was free, but in whole segments that a private pool keeps",
    "locked": "enough was free, but in another pool",
    "waiting": "enough was freed, but another stream might still use it",
    "other-stream": "enough was free, but for another stream",
    "giant": "the request was too large for the device",
    "foreign": "something outside PyTorch took it",
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
    """``small`` serves requests up to 1 MiB, ``large`` the others; or ``unknown``."""
    reserved: int
    allocated: int
    pending: int
    """Freed by the program, but another stream may still use it."""
    inactive: int
    """Free for requests of this pool, stream and kind."""
    largest_hole: int
    returnable: int
    """The part of ``inactive`` that could go back to the driver: whole segments, or whole pages of
    expandable ones. 0 for a private pool."""
    whole: int
    """The same, but for a private pool what it would give back if nothing used the pool."""
    serves: bool
    """Whether the failed request could have been served from here."""


@dataclass(frozen=True)
class Removal:
    """Call sites without which the request would have been served."""

    sites: tuple[str, ...]
    bytes: int
    """Block bytes that they hold."""


@dataclass(frozen=True)
class OomVerdict(OomEvent):
    """A request that failed, and the state at that moment; all sizes in bytes."""

    reserved: int
    cause: Cause
    alone: bool
    """Whether the bytes of this cause alone would have been enough. If several causes are enough
    only together, ``cause`` is the largest."""
    stream: int
    pool: str
    """The pool that the request was for, as far as is known; named as in ``PoolUse``."""
    needed: int
    """What the driver would have had to give: whole segments or pages."""
    needed_most: int
    """An upper bound of ``needed``: which expandable segment would have grown is not recorded."""
    missing: int
    """needed - device_free; 0 or less if the device had room."""
    slack: int
    pending: int
    inactive: int
    pools: tuple[PoolUse, ...]
    """Most reserved first."""
    hole: int
    """The largest hole in segments of the request's pool, stream and kind."""
    pieces: int
    """Inactive bytes of the request's pool and stream that could not be returned, small and large
    segments together, without ``stranded``."""
    stranded: int
    """Inactive bytes of the request's pool and stream in whole segments or pages that nothing used,
    if the pool is private: such a pool gives none back while it lives."""
    locked: int
    """Inactive bytes of other pools that could not be returned."""
    other_streams: int
    """Inactive bytes of the request's pool on other streams that could not be returned."""
    returnable: int
    """Inactive bytes that the allocator could have given back to the driver, but had not."""
    foreign: int
    """The least that memory outside PyTorch's allocator had grown: PyTorch could have had more
    earlier than at the failure. 0 if that does not show."""
    ceiling: int
    """reserved + device_free: all that the process could have had at that moment."""
    most_reserved: int
    """The most reserved up to the failure: a limit of the process cannot be lower."""
    expandable: bool
    """Whether the request would have come from an expandable segment."""
    limits: tuple[str, ...]
    """Recorded settings, as NAME:VALUE, because of which a request may fail on a free device."""
    removals: tuple[Removal, ...]
    """The smallest sets found, all of as many sites; those with the fewest bytes first."""
    checked: int
    """How many call sites were tried alone."""
    recovered: bool
    """Whether the program went on to allocate at least as much as the request."""

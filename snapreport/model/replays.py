"""The segments of a device over time, and what replays through the model of the allocator give."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.later import Later
from snapreport.ground.records import dataclass
from snapreport.ground.safe_text import Shown

SMALL, LARGE = range(2)
"""Kinds of segments: the pool of requests up to 1 MiB, and that of larger ones."""
LARGE_SEGMENT = 20 << 20
"""``large_segment_size_mb``, unless it is set: the segment of a request to the large pool below
10 MiB, and what an expandable one grows by."""


@dataclass(frozen=True, eq=False)
class SegmentLives(Shown):
    """Every segment that was there at some event; arrays of shape (n,), by start, then address.

    The segments after event s are those with ``start_event <= s < end_event``; no two overlap. An
    expandable segment is one run of mapped memory, as in PyTorch's own snapshots: a run that
    grows, shrinks or falls apart ends there, and what it became starts.
    """

    address: NDArray[np.int64]
    size: NDArray[np.int64]
    start_event: NDArray[np.int64]
    """-1 if from before the recording."""
    end_event: NDArray[np.int64]
    """n_events (the device's ``events``) if still there at the end."""
    stream: NDArray[np.int64]
    pool: NDArray[np.int32]
    """Rows of ``History.pools``, or NO_ID where nothing tells."""
    kind: NDArray[np.int8]
    """SMALL, LARGE, or NO_ID where nothing tells."""
    expandable: NDArray[np.bool_]
    family: NDArray[np.int32]
    """Lives of one id are one segment that changed, so they share stream, pool and kind."""
    final: NDArray[np.int32]
    """Row of the final segments, NO_ID if it ended or changed before."""

    def __len__(self) -> int:
        return len(self.address)

    def where(self, chosen: NDArray[np.bool_]) -> SegmentLives:
        """Return some of the rows."""
        return SegmentLives(*(getattr(self, column.name)[chosen] for column in fields(self)))


@dataclass(frozen=True, eq=False)
class AllocatorUse(Shown):
    """What the allocator did with its segments."""

    segments: SegmentLives
    fragmentation: Later[NDArray[np.int64]] = Later()
    """Inactive bytes in segments that hold a live block, after each event; shape (n_events + 1,),
    index 0 is the start. -1 where not known: without an allocator (profiler files), and where
    more is active than reserved, so segment events are missing."""
    most: Later[int] = Later()
    """The event of the most fragmentation, the first of several."""
    large_page: int = LARGE_SEGMENT
    """The bytes that expandable segments of the large pool get and give back at a time; a multiple
    of them where the size is not known."""


@dataclass(frozen=True)
class Between:
    """A figure that depends on something unknown: the least and the most that were found."""

    least: int
    most: int

    @property
    def one(self) -> bool:
        """Whether both are equal."""
        return self.least == self.most


@dataclass(frozen=True)
class FactualReplay:
    """The recording under its own settings, compared with what the allocator did."""

    settings: str
    """Those of the recording, as the environment variable would have them."""
    allocations: int
    """Made while it was recorded."""
    placed: int
    """How many of them the model puts at their recorded address."""
    segment_events: int
    """Segments that came, went, grew or shrank."""
    segment_events_met: int
    """Of them, those that the model has at the same place in their order, with the same address and
    size."""
    reserved_equal: bool
    """Whether the model's reserved curve is the recorded one, to the byte."""
    peak_reserved: int
    peak_reserved_model: int
    capacity: int | None
    """Bytes that the model let segments have together; None where no request needed a limit."""
    retries: int
    """Requests that gave segments back before they were served, or failed."""
    undecided: int
    """Runs of segments given back that may or may not be calls of ``empty_cache()``."""
    divergence: int | None
    """The first event at which the model did something else; None for none."""
    cause: str
    """The likely cause of the divergence, as a code of ``CAUSES``; ``""`` without one."""
    not_modelled: str = ""
    """The recorded settings that the model does not know, and why they matter, as the end of a
    sentence."""

    @property
    def exact(self) -> bool:
        """Whether the model did everything as the allocator did."""
        return self.divergence is None

    @property
    def explains(self) -> bool:
        """Whether it may predict what other settings do: it is exact, and knows every setting."""
        return self.exact and not self.not_modelled


CAUSES = {
    "other-allocator": "an allocator other than CUDA's made the recording",
    "events-missing": "segment or allocation events are missing from the recording",
    "block-range": "the size of a block from before the recording is not known exactly",
    "settings-changed": "the allocator's settings changed while the program ran",
    "setting-unknown": "a recorded setting is not modelled",
    "private-pool": "a private pool (CUDA graphs, MemPool) changed without a recorded event",
    "no-split-pool": "a MemPool made with no_split never splits its blocks, which is not modelled",
    "other-memory": "the memory available to the allocator changed, as when others use the card",
    "unknown": "the allocator followed a rule that is not modelled",
}
"""Why a replay diverges, by code: the end of a sentence."""


@dataclass(frozen=True)
class SettingOutcome:
    """What the model predicts for one setting, in bytes; none of it was measured.

    The ranges have two reasons. The driver chooses where new segments are: the ranges cover that.
    And the memory layout when the recording began is only known under the recorded setting: the
    ranges cover two layouts, the recorded one and the tidiest one. So for a recording that began
    late, a range under another setting is an estimate, and the truth may be outside of it.
    """

    settings: str
    """As the environment variable has them; ``default`` for the defaults."""
    recorded: bool
    """Whether it is the recorded one."""
    capacity: Between
    """The smallest that all segments together need so that every request is served."""
    peak: Between
    """Most bytes reserved where nothing limits them."""
    retries: Between
    """At the smallest capacity: how often the whole cache was given back to serve a request."""
    driver_calls: Between
    """At the smallest capacity: segments, or granules of expandable ones, that came and went."""
    serves: bool | None
    """Whether it serves every request within the capacity that was asked about: always, never, or
    None if that depends on the above, or if no capacity was asked about. For a recording that
    began late, it is never False under another setting."""


@dataclass(frozen=True, eq=False)
class ReservedCurve(Shown):
    """Bytes reserved over a recording under a setting, without a limit, by the model."""

    settings: str
    events: NDArray[np.int64]
    """Those after which another value holds, ascending, the start first; shape (n,)."""
    bytes: NDArray[np.int64]
    """The values. Where there were too many, the most of each run of events, and its last."""


@dataclass(frozen=True)
class OtherSettings:
    """The recording replayed under other settings, or why that was not done."""

    factual: FactualReplay
    floor: int
    """Bytes that live requests have together at most, each rounded to 512, a failed one with them:
    no setting needs less."""
    floor_event: int
    capacity: int | None
    """The capacity asked about; None for none."""
    refused: str
    """Why other settings were not replayed, as a sentence; "" if they were."""
    outcomes: tuple[SettingOutcome, ...]
    tried: int
    """Ways in which new segments may lie that each setting was tried with."""
    starts: int
    """States before the recording that each setting was tried with: 2 for a late start."""

    @property
    def hopeless(self) -> bool:
        """Whether no setting serves the program within the capacity."""
        return self.capacity is not None and self.floor > self.capacity


@dataclass(frozen=True, eq=False)
class SettingsStudy(Shown):
    """What a report says about other allocator settings."""

    found: OtherSettings
    """Without outcomes where they were refused, where nothing could have helped, or where they
    would take long and were not asked for."""
    curves: tuple[ReservedCurve, ...]
    """Of the outcomes, but for the recorded one."""

    @property
    def left_out(self) -> bool:
        """Whether a comparison was left out only because it would take long."""
        return not (self.found.outcomes or self.found.refused or self.found.hopeless)

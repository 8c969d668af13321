"""Whether a recording can be trusted: what it covers, what it lost, what is exact in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from snapreport.ground.object_display import Shown
from snapreport.model.diagnoses import Figure, Suggestion
from snapreport.model.recording_facts import Closing, CurvePeak
from snapreport.model.replay.replays import FactualReplay

LossState = Literal["lost", "missing", "suspected", "not known", "none"]
"""Older events were overwritten in the ring; were recorded but are not in the file, as when
recording was stopped and started again; may be lost; it is not known; there can be none."""

Mark = Literal["ok", "not ok", "unknown"]

Verdict = Literal["nothing", "no history", "doubtful", "earlier", "later", "window", "trusted"]
"""Nothing was allocated; the peak is not known; figures contradict each other; the peak may lie
before the first event, or after the last; it is that of the recording, which began late; good."""

StackKind = Literal["none", "python", "native", "both"]
"""Which frames the call stacks of a file hold."""


@dataclass(frozen=True)
class Window:
    """What a recording covers."""

    events: int
    first_time_us: int | None
    last_time_us: int | None
    stages: int
    cut_at_start: int
    """Stages that began before the first event."""
    cut_at_end: int
    """Stages that were still open at the end."""
    start_allocated: int
    """Bytes before the first event."""
    start_reserved: int | None
    """None where no allocator reserves memory (profiler files)."""
    unmatched: int
    """Frees in the recording of memory from before it."""
    unmatched_bytes: int
    """Requested bytes of those."""


@dataclass(frozen=True)
class Loss:
    """Whether events from before the first one are gone."""

    state: LossState
    signs: tuple[str, ...]
    """The evidence for the state, as clauses, the best first."""
    max_entries: int | None
    """The ring's size, where the file has it."""
    full: bool
    """Whether the ring is as full as it can be, or looks so: a larger one would help."""
    events_per_step: int | None = None
    """Events from one step of the program to the next, where stages tell."""
    step_name: str = ""
    """The stage that marks steps, without its number; ``""`` for none."""


@dataclass(frozen=True)
class MissingStacks:
    """Allocations that have no frames, for one reason."""

    reason: str
    """One of ``MISSING_REASONS``."""
    count: int
    """In the whole recording."""
    bytes: int
    """Block bytes of those, added up."""
    peak_count: int
    """Live at the allocated peak; at the end where no history was recorded."""
    peak_bytes: int


@dataclass(frozen=True)
class ReservedParts:
    """What reserved memory consists of after an event; every part is counted by itself."""

    event: int
    requested: int
    """Asked for by allocations that count as allocated."""
    slack: int
    """The rest of their blocks."""
    awaiting_free: int
    """Blocks whose free was requested, but that another stream may still use."""
    fragmented: int
    """Inactive, in segments that hold a live block."""
    returnable: int
    """Inactive, in segments without one: ``empty_cache()`` gives them back."""
    reserved: int
    """As the curve has it."""

    @property
    def difference(self) -> int:
        """What the parts add up to, minus ``reserved``: 0 where all is accounted for."""
        return (
            self.requested
            + self.slack
            + self.awaiting_free
            + self.fragmented
            + self.returnable
            - self.reserved
        )


@dataclass(frozen=True)
class Check:
    """One question about a recording, and its answer."""

    code: str
    """Stable, such as ``events``."""
    mark: Mark
    title: str
    """What was looked at, in a word or three."""
    text: str
    """The answer, in a sentence or two: the title of the finding, where there is one."""
    figures: tuple[Figure, ...] = ()
    findings: tuple[str, ...] = ()
    """Codes of the findings that it was answered from; they say what to do."""


@dataclass(frozen=True, eq=False)
class TrustFacts:
    """What a recording of one device covers, lost, and knows exactly."""

    window: Window
    loss: Loss
    missing: tuple[MissingStacks, ...]
    """By reason, most bytes at the peak first; none where every allocation has frames."""
    stack_kind: StackKind
    inferred_blocks: int
    """Allocations whose block size is known only within a range."""
    peaks: dict[str, CurvePeak]
    """Of each curve that is known; one without a width is exact."""
    closing: Closing | None
    """None where there is no final state to compare with."""
    at_peak: ReservedParts | None
    """None without a history or an allocator, and where segment events are missing."""
    at_end: ReservedParts | None
    unknown_actions: dict[str, int]
    """Events of unknown kinds, with how often."""
    anomalies: dict[str, int]
    """Events that fit nothing, by kind, with how often."""
    blocks_known: bool
    """Whether it is known how the allocator rounds."""
    oddities: dict[str, int]
    """Parts of the file that were left out, with how often."""
    replay: FactualReplay | None
    """Through a model of the allocator; None where there is nothing to replay."""


@dataclass(frozen=True, eq=False)
class Trust(Shown):
    """How far the figures of one device can be trusted."""

    verdict: Verdict
    sentence: str
    """The verdict in words."""
    facts: TrustFacts
    checks: tuple[Check, ...]
    fixes: tuple[Suggestion, ...]
    """How to record better the next time."""

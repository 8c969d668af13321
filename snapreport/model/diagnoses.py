"""What a diagnosis consists of: findings, with what to do about them, and how far to trust it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from snapreport.ground.later import Later
from snapreport.ground.records import dataclass
from snapreport.ground.safe_text import Shown

if TYPE_CHECKING:  # commands read the codes of findings before they need NumPy
    from snapreport.model.replays import FactualReplay

Severity = Literal["critical", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "note")
"""From worst: the program failed or will; something to act on; a note."""

Unit = Literal["bytes", "count", "event", "share", "time_us", "text"]
"""What a value counts; a share is a part of 1, time_us a duration in microseconds."""
Value = int | float | str | None
"""None where it cannot be known."""

TOPICS = ("memory", "recording", "growth", "churn", "allocator")

CODES = MappingProxyType(
    {
        # memory: what failed, or what held the most
        "oom": ("memory", "A request for memory failed."),
        "peak": ("memory", "What held the memory at the peak, and what would lower it."),
        "transient-peak": ("memory", "The peak is mostly memory that lives for a short time."),
        "uneven-split": ("memory", "One device holds far more than the others."),
        # recording: can the figures be trusted
        "nothing-allocated": ("recording", "Nothing was allocated."),
        "no-history": ("recording", "There is a final state, but no events that led to it."),
        "started-late": ("recording", "Much was allocated before recording began."),
        "dumped-early": ("recording", "The snapshot was written before the work was done."),
        "dumped-late": ("recording", "The snapshot was written long after the failure."),
        "ring-overflowed": ("recording", "The oldest events were overwritten."),
        "unmatched-frees": ("recording", "Frees of memory whose allocation was not recorded."),
        "missing-stacks": ("recording", "Allocations without a call stack."),
        "native-stacks-only": ("recording", "Call stacks hold only C++ frames."),
        "python-stacks-only": ("recording", "Call stacks hold only Python frames."),
        "inferred-sizes": ("recording", "Block sizes known only within a range."),
        "unknown-actions": ("recording", "Events of unknown kinds."),
        "allocator-internal": ("recording", "Allocations that the allocator made for itself."),
        "unknown-keys": ("recording", "Parts of the file that are not known."),
        "other-allocator": ("recording", "Memory of an allocator that is not CUDA's."),
        "odd-events": ("recording", "Events that do not fit together."),
        "rejected-requests": ("recording", "Requests that throw_on_cudamalloc_oom refused."),
        "skipped-actions": ("recording", "Kinds of events that the recording left out."),
        "no-times": ("recording", "Events without times."),
        "does-not-close": ("recording", "Events that do not add up to the final state."),
        "no-allocator": ("recording", "A profile: tensor sizes, no blocks."),
        "reserved-too-low": ("recording", "Segment events are missing."),
        # growth: from step to step of the program
        "leak": ("growth", "A call site keeps more memory with every step."),
        "growing-buffer": ("growth", "A buffer that every step replaces with a larger one."),
        "freed-later": (
            "growth",
            "Memory that grew with every step and was freed in the end.",
        ),
        "outlives-step": ("growth", "Memory made in a step that lives beyond it."),
        "graph-capture": ("growth", "Memory kept with each CUDA graph that is captured."),
        "kept-graphs": (
            "growth",
            "What calls keep for a backward pass that never comes.",
        ),
        "reference-cycles": ("growth", "Memory that only Python's garbage collector frees."),
        "earlier-attempt": ("growth", "Memory of an earlier attempt that is live in the next."),
        "settling-cache": ("growth", "Growth that stopped: a cache that is full."),
        "optimizer-state": ("growth", "Memory made in the first optimizer step and kept."),
        # churn: allocating more often than needed
        "churn": ("churn", "Memory freed and made again at once."),
        "held-across-stages": ("churn", "Memory kept through stages that do not make its kind."),
        "pending-free": ("churn", "Freed memory that waits for another stream."),
        # allocator: between the program and the driver
        "fragmentation": ("allocator", "Reserved memory in pieces too small to serve."),
        "locked-pool": ("allocator", "Reserved memory that only a private pool may use."),
        "unused-reserved": ("allocator", "Reserved memory that nobody uses."),
        "slack": ("allocator", "Blocks larger than what was asked for."),
        "pinned-rounding": ("allocator", "Pinned memory rounded up to powers of two."),
        "allocator-retries": ("allocator", "Cached memory given back to serve a request."),
        "segment-thrash": ("allocator", "Segments returned to the driver and fetched again."),
    }
)
"""Topic and one line for each kind of finding. The names are stable: people gate on them."""

SUGGESTION_CODES = MappingProxyType(
    {
        # the program
        "checkpoint": "Compute activations again in the backward pass instead of keeping them.",
        "smaller-batch": "Compute fewer samples at a time.",
        "accumulate": "Compute a batch in parts, and add up their gradients.",
        "chunked-loss": "Compute logits and loss for some tokens at a time.",
        "attention-kernel": "Never hold all attention weights at once.",
        "inference-mode": "Keep nothing for a backward pass that never comes.",
        "autocast-cache": "Stop autocast from keeping copies of weights.",
        "low-precision-weights": "Keep the weights themselves in half precision.",
        "fused-optimizer": "Update parameters without temporary tensors.",
        "low-bit-state": "Keep the optimizer's state in fewer bits.",
        "shard-state": "Spread the optimizer's state over the ranks.",
        "offload": "Keep the optimizer's state in the host's memory.",
        "offload-activations": "Keep what is saved for backward in the host's memory.",
        "free-earlier": "Free memory before it is in the way.",
        "split-evenly": "Move work from the fullest device to the others.",
        "ask-for-less": "Ask for less at a time.",
        "leak": "Drop what every step adds.",
        "break-cycle": "Break the circle of objects that refer to each other.",
        "drop-attempt": "Let go of one attempt before the next begins.",
        "largest-site": "Begin with the call site that raises the peak most.",
        "look-inside": "See the lines that the compiler hides.",
        "activation-budget": "Let the compiler keep less for the backward pass.",
        "plan": "Several changes that make room together.",
        "make-room": "Reduce what kept a failed request from being served.",
        # the allocator and the device
        "allocator-setting": "Change a setting of the allocator.",
        "return-cache": "Give unused segments back to the driver.",
        "kept-segments": "Make small blocks that keep large segments at another time.",
        "keep-cache": "Do not give segments back that are needed again.",
        "share-pool": "Let CUDA graphs share a pool.",
        "release-pool": "Free a private pool's memory, or make it usable.",
        "fewer-graphs": "Capture CUDA graphs for fewer shapes.",
        "wait-for-stream": "Make streams wait for one another, so that memory is free at once.",
        "raise-limit": "Raise the limit of the process.",
        "other-programs": "Find what else uses the device.",
        # the recording
        "record-again": "Record more, or better.",
    }
)
"""One line for each kind of suggestion. The names are stable, like those of findings."""


@dataclass(frozen=True)
class Figure:
    """One number that a finding rests on."""

    label: str
    value: Value
    unit: Unit = "bytes"
    meaning: str = ""
    """What it counts, for a newcomer; ``""`` if the label says it all."""
    most: int | None = None
    """The upper bound where the value is the lower bound of a range."""


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    title: str
    unit: Unit = "bytes"


@dataclass(frozen=True)
class Table:
    """Rows that a finding rests on: call sites, pools, events."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    """The most important first; each as long as ``columns``."""
    left_out: int = 0
    """How many rows more there are."""


@dataclass(frozen=True)
class Frees:
    """Bytes that a change would free: bounds that hold, and an estimate between them."""

    least: int
    expected: int
    most: int
    why_least: str = ""
    """What the bound rests on, as half a sentence; all three are ``""`` for an exact figure."""
    why_expected: str = ""
    why_most: str = ""

    def __post_init__(self) -> None:
        """Refuse an estimate that lies outside its bounds."""
        if not 0 <= self.least <= self.expected <= self.most:
            raise ValueError(f"{self.least}, {self.expected}, {self.most} do not go up from 0")

    @classmethod
    def exactly(cls, size: int) -> Frees:
        """Return a figure that is known to the byte."""
        return cls(size, size, size)


@dataclass(frozen=True)
class Suggestion:
    """One thing to change, offered because this recording supports it."""

    code: str
    """A key of ``SUGGESTION_CODES``."""
    text: str
    """A sentence in the imperative, and why it would help here."""
    change: str = ""
    """The setting or the lines of code to type; ``""`` if there are none."""
    frees: Frees | None = None
    """None if not known."""
    role: str = ""
    """The role of most of the memory that it acts on, ``""`` for none."""
    sites: tuple[str, ...] = ()
    """Call sites that it acts on, the largest first."""
    costs: str = ""
    """Time, accuracy or effort, in a sentence."""
    unless: str = ""
    """When it does not apply, in a sentence."""
    number: int = 0
    """Into how many parts something is cut; 0 if nothing is."""

    def __post_init__(self) -> None:
        """Refuse a code that is not in ``SUGGESTION_CODES``."""
        if self.code not in SUGGESTION_CODES:
            raise ValueError(f"{self.code!r} is not a kind of suggestion")

    @property
    def expected(self) -> int:
        """Bytes that it is expected to free, 0 if not known."""
        return self.frees.expected if self.frees else 0


@dataclass(frozen=True)
class View:
    """Where the page shows a finding."""

    tab: str = "stacks"
    """stacks, lines, live, stages, allocator, events or recording."""
    event: int | None = None
    curve: str | None = None
    search: str = ""
    oom: bool = False
    """Whether the event is a failed request to be pinned."""
    between: tuple[int, int] | None = None
    """It is about what was made after the first of these events and is live after the second."""


@dataclass(frozen=True)
class Finding(Shown):
    """Something that the recording shows, worded so that one can act on it."""

    code: str
    """A key of ``CODES``."""
    severity: Severity
    title: str
    """One plain line without a full stop."""
    explanation: Later[str] = Later()
    """What it is, why it matters and how it is known, in sentences that a newcomer understands."""
    subject: str = ""
    """Which one of its kind, such as a call site; equal in another recording of the program."""
    evidence: tuple[Figure, ...] = ()
    tables: Later[tuple[Table, ...]] = Later(())
    suggestions: Later[tuple[Suggestion, ...]] = Later(())
    view: View | None = None
    bytes: int = 0
    """How much memory is at stake: orders findings of one severity."""
    per_step: int = 0
    """How many bytes a step adds, where this is a leak."""

    def __post_init__(self) -> None:
        """Refuse a code that is not in ``CODES``."""
        if self.code not in CODES:
            raise ValueError(f"{self.code!r} is not a kind of finding")

    @property
    def topic(self) -> str:
        """One of ``TOPICS``."""
        return CODES[self.code][0]

    @property
    def id(self) -> str:
        """The code, or ``code/1a2b3c`` with a mark of the subject: the same in every run."""
        if not self.subject:
            return self.code
        return f"{self.code}/{blake2b(self.subject.encode(), digest_size=3).hexdigest()}"

    @property
    def paragraph(self) -> str:
        """Title and explanation in one, for a list of plain texts."""
        return f"{self.title}. {self.explanation}"

    @property
    def leads(self) -> bool:
        """Whether it is shown at the top: what to act on, and what held the peak."""
        return self.severity != "note" or self.code == "peak"

    def is_named_by(self, name: str) -> bool:
        """Say whether an id, a code or a topic names this finding."""
        return name in (self.id, self.code, self.topic)


@dataclass(frozen=True, eq=False)
class Diagnosis(Shown):
    """Everything found about one device, the worst first."""

    findings: tuple[Finding, ...]
    silenced: tuple[str, ...] = ()
    """Ids of findings that were left out because someone asked for it."""

    def without(self, names: Iterable[str]) -> Diagnosis:
        """Leave out the findings that ids, codes or topics name."""
        kept, gone = silence(self.findings, names)
        return Diagnosis(kept, self.silenced + gone)


def silence(
    findings: Iterable[Finding], names: Iterable[str]
) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """Return the findings that no id, code or topic names, and the ids of the others."""
    chosen = tuple(names)
    kept, gone = [], []
    for each in findings:
        if any(map(each.is_named_by, chosen)):
            gone.append(each.id)
        else:
            kept.append(each)
    return tuple(kept), tuple(gone)


def names_a_finding(name: str) -> bool:
    """Say whether a name is an id, a code or a topic that findings can have."""
    code, _, mark = name.partition("/")
    if mark:
        return code in CODES and re.fullmatch("[0-9a-f]{6}", mark) is not None
    return code == name and (name in CODES or name in TOPICS)


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort findings by severity; of one severity what failed and what held the peak come first.

    The rest is in the order of bytes at stake.
    """
    return tuple(
        sorted(
            findings,
            key=lambda each: (
                SEVERITIES.index(each.severity),
                each.code not in ("oom", "peak"),
                -each.bytes,
            ),
        )
    )


def by_severity(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Put the worst findings first; those of one severity keep their order."""
    return tuple(sorted(findings, key=lambda each: SEVERITIES.index(each.severity)))


# Facts about a recording: peaks, failed requests, how the events match the final state.


@dataclass(frozen=True)
class CurvePeak:
    """The most of one curve, at the first event that attains it."""

    bytes: int
    event: int
    time_us: int | None
    width: int = 0
    """The true peak lies between ``bytes`` and ``bytes + width``, perhaps at another event."""
    bound: str = ""
    """``most`` or ``least`` where the recording left out the events at which the curve falls, or
    does not show how large blocks are."""


@dataclass(frozen=True)
class OomEvent:
    """A failed request for memory."""

    event: int
    time_us: int | None
    size: int
    """The rounded request that failed."""
    device_free: int
    """Free bytes on the device, by the driver's count."""
    allocated: int
    reserved: int | None
    """None where no allocator reserves memory (profiler files)."""
    stack: int
    """Stack id or NO_STACK."""


@dataclass(frozen=True)
class Closing:
    """The end of the curves compared with the file's final segments, in bytes."""

    requested: int
    """Replayed minus stated, as in the next two; 0 if they agree."""
    allocated: int
    active: int

    @property
    def closes(self) -> bool:
        """Whether all three agree to the byte."""
        return self.requested == self.allocated == self.active == 0


@dataclass(frozen=True)
class OwnCounters:
    """PyTorch's own counters of a device, compared with ours; in bytes."""

    allocated_peak: int
    """``torch.cuda.max_memory_allocated()`` at the end, since its last reset."""
    reserved_peak: int
    when: str
    """When that peak was: ``inside`` the recording, ``before`` it (or equal to one then), or
    ``reset``: since a reset inside the recording."""
    agrees: bool
    """Whether our peak is consistent with it: equal if inside, no higher if before."""
    foreign_before: int | None
    """Device memory that was not PyTorch's when the recording began: other processes', and the
    CUDA context; None where the driver was not asked."""
    foreign_after: int | None
    """The same at the end of the recording."""


# Whether a recording can be trusted: what it covers, what it lost, what is exact in it.

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
    replay: Later[FactualReplay | None] = Later()
    """Through a model of the allocator; None where there is nothing to replay."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Trust(Shown):
    """How far the figures of one device can be trusted."""

    verdict: Verdict
    sentence: str
    """The verdict in words."""
    facts: TrustFacts
    checks: Later[tuple[Check, ...]] = Later()
    fixes: tuple[Suggestion, ...]
    """How to record better the next time."""

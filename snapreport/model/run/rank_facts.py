"""The figures of one rank that a run keeps: small, whatever the size of the recording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from snapreport.model.diagnoses import Severity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HolderKind: TypeAlias = Literal["site", "role", "stage"]
Layout: TypeAlias = tuple[tuple[str, int], ...]
"""Parallel dimensions and their sizes, in the order of ``Run.layout``."""


@dataclass(frozen=True, eq=False)
class Cells:
    """The most that two curves reach in equal cells of an axis; exact, not sampled.

    Cell ``i`` covers ``[(first + i) << shift, (first + i + 1) << shift)`` of the axis. Cells of
    every rank have edges at multiples of a power of two, so that two cells side by side make
    exactly one of the next ``shift``, and ranks can be brought to one width without loss. The
    first cell has what there was before the first event, too.
    """

    first: int
    shift: int
    allocated: NDArray[np.int64]
    """Bytes, shape (n_cells,); a curve keeps its value where nothing happens."""
    reserved: NDArray[np.int64] | None
    """None where no allocator reserves memory."""


@dataclass(frozen=True)
class Holder:
    """A call site, a role or a stage, and what it holds."""

    kind: HolderKind
    key: str
    """The same text on every rank: ``softmax nn_utils.py:6``, ``activation``, ``forward``."""
    bytes: int
    """Of a site or a role: block bytes at the allocated peak. Of a stage: the most allocated
    while it was open."""
    count: int
    """Allocations; of a stage how often it was open."""
    size: int
    """Bytes of the size that makes up most of ``bytes``; 0 for a stage."""
    of_size: int
    """How many allocations have that size."""


@dataclass(frozen=True)
class StepPeak:
    """One step of the training loop, as the recording has it."""

    number: int
    """As the program counted it, where it did; else from 1, as in the rank's own report."""
    allocated: int
    """The most while it ran, in bytes."""
    left: int
    """Allocated when it ended."""


@dataclass(frozen=True)
class FailedRequest:
    """A request for memory that failed."""

    event: int
    time_us: int | None
    """Since 1970; None where the file has no times."""
    size: int
    site: str
    """Which line asked; ``""`` where unknown."""


@dataclass(frozen=True)
class RankFinding:
    """A finding's title, without its text."""

    code: str
    severity: Severity
    title: str
    growth: int = 0
    """Bytes that it adds in a step."""


@dataclass(frozen=True, eq=False)
class DeviceFacts:
    """One device of one rank."""

    device: str
    """``cuda:0``."""
    kind: str
    """``cuda``, ``host`` or ``cpu``: memories of different kinds do not compare."""
    place: int
    """Of the device in the rank's own report, from 0."""
    opens: bool
    """Whether that report opens with it."""
    recorded: bool
    """Whether there is a history; else the peaks are the state at the end."""
    events: int
    capacity: int | None
    """Bytes of the card as the recorder noted them; else what it had for this process when a
    request failed. None where neither is known."""
    allocated: int
    """At the allocated peak."""
    allocated_width: int
    """The true peak lies between ``allocated`` and ``allocated + allocated_width``."""
    peak_event: int
    peak_time_us: int | None
    reserved: int | None
    """At the reserved peak; None without an allocator, or where segment events are missing."""
    by_event: Cells
    by_time: Cells | None
    """In microseconds since 1970; None where the file has no times."""
    holders: tuple[Holder, ...]
    """Sites and roles at the allocated peak, stages over all; of each kind largest first. Those
    left out for their size are one with the key ``""``, so that sites add up to ``allocated``."""
    steps: tuple[StepPeak, ...]
    """The last few hundred."""
    failed: tuple[FailedRequest, ...]
    """The first few dozen."""
    findings: tuple[RankFinding, ...]
    """In the order of the rank's report."""


@dataclass(frozen=True)
class RankName:
    """Who made a file, and when, as far as its name and its notes show."""

    rank: int | None = None
    dump: int | None = None
    """The training step after which the file was written: ``iteration_20`` gives 20."""
    host: str = ""
    coordinates: tuple[tuple[str, int], ...] = ()
    """Place in the parallel layout: ``(("tp", 0), ("pp", 3))``."""


@dataclass(frozen=True, eq=False)
class RankFacts:
    """One file of a run: a rank at one dump."""

    source: str
    """Its path below the run's folder, with ``/``."""
    label: str
    """A name that is unique in the run: ``rank 17``, or ``rank 17, step 20``."""
    name: RankName
    size: int
    """Bytes of the file."""
    sha256: str
    """Of the file, in hexadecimal; ``""`` where it could not be read."""
    devices: tuple[DeviceFacts, ...]
    """Those that were used, in the order of the file; () where nothing could be made of it."""
    warnings: tuple[str, ...] = ()
    error: str = ""
    """Why there are no figures; one line."""


@dataclass(frozen=True, eq=False)
class Run:
    """All files of a run in the order of dump and rank. Ranks are compared, never added."""

    title: str
    """As the user gave it; may be ``""``."""
    ranks: tuple[RankFacts, ...]
    layout: Layout = ()
    """Parallel dimensions and sizes in the order of ranks, as Megatron-LM orders them: the first
    changes from each rank to the next. With ``tp=8,pp=4,dp=2`` ranks 0 to 7 are one tensor group,
    rank 8 is of pipeline stage 1 and rank 32 of the second replica. () where unknown."""
    expected: int | None = None
    """How many ranks the run has, where the recorder noted it or the layout tells it."""


def place_in(layout: Layout, rank: int | None) -> tuple[tuple[str, int], ...]:
    """Return the place of a rank in the layout of a run; () where it has none."""
    if rank is None:
        return ()
    found = []
    for dimension, size in layout:
        rank, place = divmod(rank, size)
        found.append((dimension, place))
    return () if rank else tuple(found)

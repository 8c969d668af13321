"""A run: the figures that it keeps of each rank, and what is concluded from them.

The figures of a rank are small, whatever the size of its recording.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.records import dataclass
from snapreport.ground.units import format_count, plural
from snapreport.model.diagnoses import Severity

HolderKind: TypeAlias = Literal["site", "role", "stage"]
Layout: TypeAlias = tuple[tuple[str, int], ...]
"""Parallel dimensions and their sizes, in the order of ``Run.layout``."""


@dataclass(frozen=True, eq=False, slots=True)
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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class StepPeak:
    """One step of the training loop, as the recording has it."""

    number: int
    """As the program counted it, where it did; else from 1, as in the rank's own report."""
    allocated: int
    """The most while it ran, in bytes."""
    left: int
    """Allocated when it ended."""


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """A request for memory that failed."""

    event: int
    time_us: int | None
    """Since 1970; None where the file has no times."""
    size: int
    site: str
    """Which line asked; ``""`` where unknown."""


@dataclass(frozen=True, slots=True)
class RankFinding:
    """A finding's title, without its text."""

    code: str
    severity: Severity
    title: str
    growth: int = 0
    """Bytes that it adds in a step."""


@dataclass(frozen=True, eq=False, slots=True)
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


@dataclass(frozen=True, slots=True)
class RankName:
    """Who made a file, and when, as far as its name and its notes show."""

    rank: int | None = None
    dump: int | None = None
    """The training step after which the file was written: ``iteration_20`` gives 20."""
    host: str = ""
    coordinates: tuple[tuple[str, int], ...] = ()
    """Place in the parallel layout: ``(("tp", 0), ("pp", 3))``."""


@dataclass(frozen=True, eq=False, slots=True)
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
    forecast: str = ""
    """Says that it is a forecast; ``""`` for a recording."""


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

    @property
    def forecast(self) -> str:
        """What to say first if there are forecasts among the files; ``""`` if there are none."""
        said = {each.forecast for each in self.ranks if not each.error}
        if said <= {""}:
            return ""
        if len(said) == 1:
            return next(iter(said))
        count = sum(bool(each.forecast) for each in self.ranks)
        return (
            f"{format_count(count)} of {plural(len(self.ranks), 'file')} are forecasts: nothing was"
            " computed for them, and no card was used."
        )


def place_in(layout: Layout, rank: int | None) -> tuple[tuple[str, int], ...]:
    """Return the place of a rank in the layout of a run; () where it has none."""
    if rank is None:
        return ()
    found = []
    for dimension, size in layout:
        rank, place = divmod(rank, size)
        found.append((dimension, place))
    return () if rank else tuple(found)


MOST_CELLS = 512


def coarser(cells: Cells, shift: int) -> Cells:
    """Return the same curves in wider cells, without loss.

    Raises:
        ValueError: the cells would be narrower.
    """
    more = shift - cells.shift
    if more < 0:
        raise ValueError(f"cells {1 << cells.shift} wide cannot become {1 << shift} wide")
    if not more:
        return cells
    first, n = cells.first >> more, len(cells.allocated)
    count = ((cells.first + n - 1) >> more) - first + 1
    edges = np.maximum((np.arange(first, first + count, dtype=np.int64) << more) - cells.first, 0)
    return Cells(
        first,
        shift,
        np.maximum.reduceat(cells.allocated, edges),
        None if cells.reserved is None else np.maximum.reduceat(cells.reserved, edges),
    )


def one_shift(all_cells: Iterable[Cells], most: int = MOST_CELLS) -> int:
    """Return the shift of cells that are as wide as the widest of several ranks', or wider.

    Args:
        all_cells: of one axis; some, none empty.
        most: how many cells may lie between the first of all and the last.
    """
    spans = [
        (each.shift, each.first << each.shift, (each.first + len(each.allocated)) << each.shift)
        for each in all_cells
    ]
    first, last = min(first for _, first, _ in spans), max(end for _, _, end in spans) - 1
    return max(smallest_shift(first, last, most), *(shift for shift, _, _ in spans))


def smallest_shift(first: int, last: int, most: int) -> int:
    """Return the shift with which at most ``most`` cells cover places ``first`` to ``last``."""
    shift = 0
    while (last >> shift) - (first >> shift) >= most:
        shift += 1
    return shift


# Conclusions about a run: groups of ranks, odd ranks, and why.


@dataclass(frozen=True)
class Difference:
    """What a call site, a role or a stage holds on a rank or group, compared with the usual."""

    kind: HolderKind
    key: str
    bytes: int
    usual: int
    """Bytes; the median of what it is compared with."""
    size: int
    """Bytes of the commonest allocation; 0 where there is none."""
    of_size: int
    usual_size: int
    usual_of_size: int


@dataclass(frozen=True)
class Group:
    """Ranks that behave alike."""

    name: str
    """``ranks 8 to 15``, or with a layout ``pipeline stage 1``."""
    rows: tuple[int, ...]
    """Positions in ``RunFindings.rows``, those that are odd among them; of every dump."""
    allocated: int
    """Median of the allocated peaks, in bytes."""
    differences: tuple[Difference, ...]
    """From the other ranks; () for the only group."""
    sentence: str


@dataclass(frozen=True)
class Odd:
    """A rank that is unlike its group, or that failed."""

    row: int
    """Position in ``RunFindings.rows``; of several dumps the last of the rank, or the one that
    failed."""
    code: Literal["heavier", "lighter", "failed", "growth"]
    bytes: int
    """By which its peak, or its growth in a step, differs from the group's median."""
    differences: tuple[Difference, ...]
    """What accounts for it, largest first. Those of sites add up to the difference of the peaks
    to the byte: what no site of its own accounts for has the key ``""``."""
    parts_event: int | None
    """The event from which it differs from its group; None if not known."""
    parts_step: int | None
    """The number of the step from which it differs from its group; None if not known."""
    sentence: str
    group: int | None = None
    """Position in ``RunFindings.groups`` of what it is compared with."""


@dataclass(frozen=True)
class Imbalance:
    """How unlike the ranks along one dimension of the layout, or of a group, are."""

    name: str
    """``tp``, ``pp`` and so on; a group's name."""
    least: int
    """Bytes at the allocated peak, as ``most``."""
    most: int
    sentence: str


@dataclass(frozen=True)
class Replicated:
    """As many bytes of a role on each rank along a dimension whose ranks may hold copies."""

    dimension: str
    """``dp``."""
    copies: int
    """The dimension's size."""
    role: str
    bytes: int
    """On each rank, of the median group of ranks along it."""
    saved: int
    """Bytes that each rank would save if every copy but one were sharded away."""
    sentence: str


@dataclass(frozen=True)
class RunFindings:
    """The answer of a run's page; positions are those of ``rows``."""

    headline: str
    """One sentence: which ranks are unlike the others, and why."""
    rows: tuple[tuple[int, int], ...]
    """Each device that is compared: position in ``Run.ranks``, position in its ``devices``."""
    groups: tuple[Group, ...]
    odd: tuple[Odd, ...]
    """Most telling first."""
    imbalances: tuple[Imbalance, ...]
    missing: tuple[int, ...]
    """Numbers of ranks of which there is no file."""
    broken: tuple[int, ...]
    """Positions in ``Run.ranks`` of files that could not be read."""
    first_failure: tuple[int, int] | None
    """The earliest failed request of all: position in ``rows``, in the device's ``failed``."""
    growth: tuple[int | None, ...] = ()
    """Bytes that each row's rank gains in a step, in the recording or between the dumps; None where
    too few steps are known to tell."""
    replicated: tuple[Replicated, ...] = ()
    notes: tuple[str, ...] = ()
    """What limits the comparison, and why."""


# Two runs compared, rank by rank and group by group.


@dataclass(frozen=True)
class RankChange:
    """A device of a rank that both runs have."""

    name: str
    """``rank 17``."""
    base_row: int
    """Position in ``RunFindings.rows`` of the earlier run."""
    new_row: int
    """Position in ``RunFindings.rows`` of the later run."""
    base: int
    """Bytes at the allocated peak."""
    new: int
    differences: tuple[Difference, ...]
    """What accounts for the change: ``bytes`` now, ``usual`` before; sites add up to it."""
    odd: bool
    """Whether the change is unlike that of the rank's group."""

    @property
    def change(self) -> int:
        """Bytes by which the peak rose."""
        return self.new - self.base


@dataclass(frozen=True)
class GroupChange:
    """Ranks that behave alike in the run now."""

    name: str
    ranks: tuple[int, ...]
    """Positions in ``RunDiff.ranks``."""
    base: int
    """Median of the allocated peaks, in bytes."""
    new: int
    differences: tuple[Difference, ...]
    """As for a rank, but of the medians."""
    sentence: str

    @property
    def change(self) -> int:
        """Bytes by which the median peak rose."""
        return self.new - self.base


@dataclass(frozen=True)
class RunDiff:
    """How a run differs from an earlier one. Ranks are compared, never added."""

    headline: str
    ranks: tuple[RankChange, ...]
    """In the order of the run now."""
    groups: tuple[GroupChange, ...]
    only_base: tuple[str, ...]
    """Names of ranks with figures only in the base run."""
    only_new: tuple[str, ...]
    notes: tuple[str, ...] = ()

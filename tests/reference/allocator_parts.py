"""What the plain model of the allocator is made of: its rules, settings and blocks."""

from __future__ import annotations

from dataclasses import dataclass, field

from snapreport.ground.native.allocator_replay import AS_RECORDED

MIB = 1 << 20
NEVER = 1 << 62
TOP = 1 << 60
"""Above all addresses that were recorded."""


@dataclass(frozen=True)
class Rules:
    """What the allocator does by itself; a test breaks one after the other."""

    lowest_address_wins: bool = True
    best_fit: bool = True
    small_up_to: int = MIB
    """The most bytes that the small pool serves."""
    medium_segments: bool = True
    """Requests below 10 MiB get segments of 20 MiB."""
    large_remainder: int = MIB + 512
    """The least bytes that are split off a block of the large pool."""


@dataclass(frozen=True)
class Conf:
    """The settings, in bytes."""

    expandable: bool = False
    max_split: int = NEVER
    divisions: tuple[int, ...] = ()
    large_segment: int = 20 * MIB
    max_rounding: int = 20 * MIB
    gc_threshold: float = 0.0
    capacity: int = NEVER
    limit: int = NEVER
    """Set by ``set_per_process_memory_fraction()``."""
    room: int = 1 << 42
    """Addresses of an expandable segment."""
    policy: int = AS_RECORDED
    below: int = TOP
    """Where addresses that go down begin."""
    above: int = TOP
    """Where those that go up begin."""
    stop: bool = False
    """Whether the first request that cannot be served ends the replay."""


@dataclass(eq=False)
class Block:
    """A piece of a segment."""

    address: int
    size: int
    bin: Bin
    expandable: Range | None = None
    prev: Block | None = None
    next: Block | None = None
    allocated: bool = False
    pending: bool = False
    mapped: bool = True
    age_base: int = 0

    @property
    def free(self) -> bool:
        return not self.allocated and not self.pending

    @property
    def split(self) -> bool:
        return self.prev is not None or self.next is not None


@dataclass(eq=False)
class Range:
    """The addresses of an expandable segment."""

    base: int
    size: int
    granule: int
    mapped: int = 0


@dataclass(eq=False)
class Bin:
    """The free blocks of a pool's small or large half on one stream."""

    lane: int
    large: bool
    pool: tuple[int, int]
    free: list[tuple[int, int, Block]] = field(default_factory=list)
    """By size and address."""
    unmapped: list[tuple[int, Block]] = field(default_factory=list)
    """By address."""
    calls: list[int] = field(default_factory=lambda: [0])
    """Searches in this half of the pool; its streams share the list."""

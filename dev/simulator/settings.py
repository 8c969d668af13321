"""The allocator's settings, the constants of its source, and its size rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MIB = 1 << 20
MIN_BLOCK = 512
"""``kMinBlockSize``: every block is a multiple of this."""
SMALL_SIZE = MIB
"""``kSmallSize``: the largest rounded request that the small pool serves."""
SMALL_SEGMENT = 2 * MIB
"""``kSmallBuffer``: a segment of the small pool, and its granule when expandable."""
LARGE_SEGMENT = 20 * MIB
"""``large_segment_size_mb`` where none is set: a segment for requests below MIN_LARGE_ALLOC, and
the large pool's granule."""
MIN_LARGE_ALLOC = 10 * MIB
"""``kMinLargeAlloc``: from here on a segment is as large as the request."""
SEGMENT_ROUNDING = 2 * MIB
"""``kRoundLarge``."""
UNLIMITED = -1
"""``max_split_size`` where the user set none, as a snapshot shows it."""

DIVISION_KEYS = tuple(str(1 << power) for power in range(16))
"""Keys of ``roundup_power2_divisions``, in MiB."""
NO_DIVISIONS = (0,) * len(DIVISION_KEYS)


@dataclass(frozen=True)
class AllocatorSettings:
    """What ``PYTORCH_CUDA_ALLOC_CONF`` can change, and the size rules that follow."""

    expandable_segments: bool = False
    max_split_size: int = UNLIMITED
    """Bytes; a block at least this large is never split."""
    roundup_power2_divisions: tuple[int, ...] = NO_DIVISIONS
    """One per key of DIVISION_KEYS; 0 for off, otherwise a power of two."""
    garbage_collection_threshold: float = 0.0
    """Share of what the process may have, above which unused segments are given back; 0 for off.
    Nothing happens where the process has no limit of its own."""
    large_segment_size: int = LARGE_SEGMENT
    max_non_split_rounding: int = 0
    """How much larger than an oversize request a cached block may be; 0 for as much as a large
    segment."""
    also: tuple[str, ...] = ()
    """Further settings, as NAME:VALUE, that are recorded and change nothing here."""

    @property
    def rounding(self) -> int:
        """How much larger than an oversize request a cached block may be, in bytes."""
        return self.max_non_split_rounding or self.large_segment_size

    def segment_size(self, size: int) -> int:
        """Return how much to get from the driver for a rounded request.

        Source: ``DeviceCachingAllocator::get_allocation_size``.
        """
        if is_small(size):
            return SMALL_SEGMENT
        if size < MIN_LARGE_ALLOC:
            return self.large_segment_size
        return round_up(size, SEGMENT_ROUNDING)

    def round_size(self, requested: int) -> int:
        """Return the smallest block size that serves a request, in bytes.

        Source: ``DeviceCachingAllocator::round_size``.
        """
        if requested < MIN_BLOCK:
            return MIN_BLOCK
        interval = min(max(requested.bit_length() - 21, 0), len(DIVISION_KEYS) - 1)
        divisions = self.roundup_power2_divisions[interval]
        if divisions > 1 and requested > MIN_BLOCK * divisions:
            return _round_to_division(requested, divisions)
        return round_up(requested, MIN_BLOCK)

    def is_oversize(self, size: int) -> bool:
        """Whether blocks of this size are never split."""
        return self.max_split_size != UNLIMITED and size >= self.max_split_size

    def should_split(self, hole: int, size: int, *, small: bool) -> bool:
        """Whether a block of ``size`` bytes leaves the rest of a free hole to others.

        Source: ``DeviceCachingAllocator::should_split``.
        """
        remaining = hole - size
        if small or self.expandable_segments:
            return remaining >= MIN_BLOCK
        return not self.is_oversize(size) and remaining > SMALL_SIZE

    def as_snapshot(self) -> dict[str, Any]:
        """Return the ``allocator_settings`` of a snapshot."""
        return {
            "PYTORCH_CUDA_ALLOC_CONF": self._config_string(),
            "max_split_size": self.max_split_size,
            "garbage_collection_threshold": self.garbage_collection_threshold,
            "expandable_segments": self.expandable_segments,
            "pinned_num_register_threads": 1,
            "release_lock_on_cudamalloc": False,
            "pinned_use_cuda_host_register": False,
            "graph_capture_record_stream_reuse": False,
            "roundup_power2_divisions": dict(
                zip(DIVISION_KEYS, self.roundup_power2_divisions, strict=True)
            ),
        }

    def _config_string(self) -> str:
        parts = []
        if self.expandable_segments:
            parts.append("expandable_segments:True")
        if self.max_split_size != UNLIMITED:
            parts.append(f"max_split_size_mb:{self.max_split_size // MIB}")
        if any(self.roundup_power2_divisions):
            pairs = zip(DIVISION_KEYS, self.roundup_power2_divisions, strict=True)
            listed = ",".join(f"{key}:{value}" for key, value in pairs)
            parts.append(f"roundup_power2_divisions:[{listed}]")
        if self.garbage_collection_threshold:
            parts.append(f"garbage_collection_threshold:{self.garbage_collection_threshold}")
        if self.large_segment_size != LARGE_SEGMENT:
            parts.append(f"large_segment_size_mb:{self.large_segment_size // MIB}")
        if self.max_non_split_rounding:
            parts.append(f"max_non_split_rounding_mb:{self.max_non_split_rounding // MIB}")
        return ",".join([*parts, *self.also])


def round_up(size: int, unit: int) -> int:
    """Round up to a multiple of ``unit``."""
    return -(-size // unit) * unit


def is_small(size: int) -> bool:
    """Whether the small pool serves a rounded request."""
    return size <= SMALL_SIZE


def _round_to_division(size: int, divisions: int) -> int:
    """Round up to the next of ``divisions`` equal steps between two powers of two."""
    if size & (size - 1) == 0:
        return size
    floor = 1 << (size.bit_length() - 1)
    step = floor >> (divisions.bit_length() - 1)
    return round_up(size, step) if step else floor << 1

"""Where memory lies: which ranges of addresses belong together, and can be moved together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

GRANULE = 2 << 20
"""Segments are multiples of this, and lie at multiples of it nearly everywhere."""

Event = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """Mapped memory of one device: a segment, or a piece of an expandable one without holes."""

    start: int
    size: int
    stream: int
    pool: Any
    """Its id, as in the file; None where the file has none."""
    expandable: bool

    @property
    def end(self) -> int:
        """The first address behind it."""
        return self.start + self.size


class Mapping:
    """The mapped memory of a device at one moment."""

    def __init__(self, segments: Iterable[dict[str, Any]]) -> None:
        self._plain: dict[int, Run] = {}
        self._granules: dict[int, tuple[int, Any]] = {}
        """Stream and pool of each mapped granule of an expandable segment, by address."""
        for segment in segments:
            run = Run(
                segment["address"],
                segment["total_size"],
                segment["stream"],
                segment.get("segment_pool_id"),
                segment.get("is_expandable", False),
            )
            self._add(run)

    def undo(self, event: Event) -> None:
        """Go back over a segment event of the trace; others do nothing."""
        kind, _, change = event["action"].partition("_")
        if kind != "segment":
            return
        expandable = change in ("map", "unmap")
        run = Run(event["addr"], event["size"], event["stream"], event.get("pool_id"), expandable)
        if change in ("alloc", "map"):
            self._remove(run)
        else:
            self._add(run)

    def runs(self) -> list[Run]:
        """Return what is mapped, by address."""
        found = list(self._plain.values())
        pieces: list[Run] = []
        for start, owner in sorted(self._granules.items()):
            last = pieces[-1] if pieces else None
            if last is not None and (last.end, last.stream, last.pool) == (start, *owner):
                pieces[-1] = replace(last, size=last.size + GRANULE)
            else:
                pieces.append(Run(start, GRANULE, *owner, expandable=True))
        found += pieces
        return sorted(found, key=lambda run: run.start)

    def _add(self, run: Run) -> None:
        if run.expandable:
            for start in range(run.start, run.end, GRANULE):
                self._granules[start] = run.stream, run.pool
        else:
            self._plain[run.start] = run

    def _remove(self, run: Run) -> None:
        if run.expandable:
            for start in range(run.start, run.end, GRANULE):
                self._granules.pop(start, None)
        else:
            self._plain.pop(run.start, None)


class Regions:
    """Disjoint ranges that hold all addresses of a device, ever: each moves as a whole.

    Attributes:
        starts: the first address of each, in order.
        sizes: bytes.
    """

    def __init__(self, ranges: Iterable[tuple[int, int, bool]]) -> None:
        """Join ranges, (start, end, expandable), that overlap, or touch and are expandable."""
        self.starts: list[int] = []
        self.sizes: list[int] = []
        last = False
        for start, end, expandable in sorted(ranges):
            if self.starts:
                reached = self.starts[-1] + self.sizes[-1]
                if start < reached or (start == reached and expandable and last):
                    self.sizes[-1] = max(reached, end) - self.starts[-1]
                    last = last or expandable
                    continue
            self.starts.append(start)
            self.sizes.append(end - start)
            last = expandable

    def find(self, address: int) -> tuple[int, int]:
        """Return which region holds an address, and how far inside it lies; (-1, 0) for none."""
        index = bisect_right(self.starts, address) - 1
        if index < 0 or address >= self.starts[index] + self.sizes[index]:
            return -1, 0
        return index, address - self.starts[index]

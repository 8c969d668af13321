"""The allocator: a map of segments and their blocks, to scale."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from snapreport.commands.explorer.lines import Cell, Line, Run, fit_site, in_line, ink
from snapreport.commands.explorer.screen import Key, ListScreen, Table, Viewpoint, key
from snapreport.figures.segments import Heap, KeptSegment, heap_at, kept_segments
from snapreport.ground.units import format_bytes, format_count, format_share, plural
from snapreport.model.replays import LARGE, SMALL
from snapreport.reporters.words import amount, event_name


class Cells:
    """Bars of segments, in rows of ``width`` cells."""

    def __init__(self, heap: Heap, width: int, size: int) -> None:
        """``size``: bytes of a cell."""
        self.heap, self.width, self.bytes = heap, width, size
        self._rows = -(-heap.size // (width * size))
        self.segment: NDArray[np.int64] = np.repeat(np.arange(len(heap.size)), self._rows)
        """The segment of each row; int64, shape (n_rows,)."""
        self._first = np.cumsum(self._rows) - self._rows
        self._ends = heap.start + heap.bytes
        # Bytes in use, and bytes awaiting their free, before each block; the last is the total.
        self._used = np.concatenate([[0], np.cumsum(heap.bytes)])
        self._pending = np.concatenate([[0], np.cumsum(np.where(heap.pending, heap.bytes, 0))])

    def is_first(self, place: int) -> bool:
        """Say whether a row is the first of its segment."""
        return bool(self._first[self.segment[place]] == place)

    def place_of(self, segment: int, address: int) -> int:
        """Return the row that shows an address of a segment."""
        offset = address - int(self.heap.address[segment])
        return int(self._first[segment]) + offset // (self.width * self.bytes)

    def edges(self, place: int) -> NDArray[np.int64]:
        """Return the addresses at which the cells of a row begin, and the last one's end."""
        segment = int(self.segment[place])
        low = int(self.heap.address[segment])
        begin = low + (place - int(self._first[segment])) * self.width * self.bytes
        high = low + int(self.heap.size[segment])
        count = min(-(-(high - begin) // self.bytes), self.width)
        return np.minimum(begin + np.arange(count + 1, dtype=np.int64) * self.bytes, high)

    def amounts(self, place: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return how many bytes of each cell of a row are in use, and how many await their free."""
        edges = self.edges(place)
        whole = np.searchsorted(self._ends, edges, side="right")
        starts = np.append(self.heap.start, np.iinfo(np.int64).max)[whole]
        part = np.maximum(edges - starts, 0)  # of the block that contains an edge
        waits = np.append(self.heap.pending, False)[whole]
        used = self._used[whole] + part
        pending = self._pending[whole] + np.where(waits, part, 0)
        return np.diff(used), np.diff(pending)

    def row(self, place: int, block: int) -> tuple[Run, ...]:
        """Return a row's cells; those of one block are highlighted."""
        edges = self.edges(place)
        lit = np.zeros(len(edges) - 1, np.bool_)
        if block >= 0:
            lit = (self.heap.start[block] < edges[1:]) & (edges[:-1] < self._ends[block])
        figures = (*self.amounts(place), np.diff(edges), lit)
        return in_line(
            [
                (letter, "bar.cursor" if is_lit else role)
                for *sizes, is_lit in zip(*(each.tolist() for each in figures), strict=True)
                for letter, role in [_segment_cell(*sizes)]
            ]
        )


def _segment_cell(used: int, pending: int, size: int) -> Cell:
    """Return a cell, fuller the more is in use; only one entirely in use is full."""
    if not used:
        return "░", "inactive"
    role = "pending" if pending * 2 > used else "bar"
    if used == size:
        return ("▒" if role == "pending" else "█"), role
    return "▁▂▃▄▅▆▇"[min(used * 7 // size, 6)], role


_ROWS = 30
"""Before zooming all segments together take at most about this many rows, or one row each."""
_LEAST_CELL = 512
_MOST_ROWS = 200_000
"""Rows of all bars: zooming in ends there."""


def lay_segments(heap: Heap, width: int, zoom: int) -> Cells:
    """Lay out segments; ``zoom`` is how often a cell's bytes are halved, or doubled if negative."""
    total = int(heap.size.sum())
    size = _LEAST_CELL
    while total > size * width * _ROWS:
        size *= 2
    size = max(size >> zoom if zoom > 0 else size << -zoom, _LEAST_CELL)
    while total // (size * width) > _MOST_ROWS:
        size *= 2
    return Cells(heap, width, size)


_LABEL = 24
_KINDS = {SMALL: "small", LARGE: "large"}
_MOST_ZOOM = 12


class AllocatorScreen(ListScreen):
    """A bar for each segment; long bars continue in the next rows."""

    name = "allocator"
    title = "Allocator"
    short = "Map"
    KEYS: ClassVar[tuple[Key, ...]] = (
        *ListScreen.MOVES,
        key("left", "the block before", "go_block", "block", by=-1),
        key("right", "the next block", "go_block", "block", by=1),
        key("[", "the segment before", "go_segment", "segment", by=-1),
        key("]", "the next segment", "go_segment", "segment", by=1),
        key("+ =", "longer bars: fewer bytes per cell", "turn_zoom", "zoom", by=1),
        key("-", "shorter bars", "turn_zoom", "zoom", by=-1),
        key("(", "go to the event that allocates the block", "go_to_birth"),
        key("enter", "the block's call site in the call stacks", "open_tree", "stacks"),
    )

    zoom = 0
    block = -1
    """The selected block; -1 for none."""
    heap: Heap
    cells: Cells
    kept: dict[int, list[KeptSegment]]
    """By segment."""

    @classmethod
    def is_there(cls, view: Viewpoint) -> bool:
        """Say whether an allocator reserved memory."""
        return "reserved" in view.device.figures.curves

    def depends_on(self) -> object:
        """The device and event (not the curve), and the length of the bars."""
        return self.view.device.name, self.view.event, self.zoom, self.width

    def gather(self) -> None:
        """Lay out the segments of the moment, the cursor at the same address."""
        before = int(self.heap.address[self.segment]) if self.cursor < self.count() else None
        device = self.view.device
        self.heap = heap_at(device.file, device.figures, self.view.event)
        self.cells = lay_segments(self.heap, max(self.width - _LABEL - 1, 8), self.zoom)
        self.items = self.cells.segment
        self.kept = {}
        for each in kept_segments(self.heap):
            self.kept.setdefault(self._segment_at(each.address), []).append(each)
        self.block = -1
        if before is not None and len(self.heap.address):
            place = max(self._segment_at(before), 0)
            self.cursor = int(np.searchsorted(self.cells.segment, place))

    def _segment_at(self, address: int) -> int:
        return int(np.searchsorted(self.heap.address, address, side="right")) - 1

    @property
    def segment(self) -> int:
        """The segment with the cursor."""
        return int(self.cells.segment[self.cursor])

    def head(self) -> list[Line]:
        """Return the totals of all segments, and the scale."""
        now = self.view.moment.amounts
        waiting = now.active - now.allocated
        totals = ink(
            (plural(len(self.heap.address), "segment"), "title"),
            f" {amount(now.reserved)}: ",
            ("█ allocated ", "bar"),
            format_bytes(now.allocated),
            *((("  ▒ awaiting free ", "pending"), format_bytes(waiting)) if waiting else ()),
            ("  ░ inactive ", "inactive"),
            amount(now.inactive),
            f", {amount(now.fragmentation)} of it fragmented",
        )
        scale = f"{'address':>14} {'size':>9} a cell is {format_bytes(self.cells.bytes)}"
        return [totals, *self._kept_head(), ink((scale, "title"))]

    def _kept_head(self) -> list[Line]:
        if not self.kept:
            return []
        size = format_bytes(sum(each.kept for kept in self.kept.values() for each in kept))
        text = f"! {size} kept from going back by one or two small blocks, in"
        return [ink((f"{text} {plural(len(self.kept), 'segment')}", "warning"))]

    def row(self, place: int) -> Line:
        """Return a row of a segment's bar."""
        segment = int(self.cells.segment[place])
        label = ""
        if self.cells.is_first(place):
            address = f"{int(self.heap.address[segment]):x}"
            mark = "!" if segment in self.kept else " "
            label = f"{address:>14}{mark}{format_bytes(int(self.heap.size[segment])):>9}"
        role = "warning" if self.heap.private[segment] or segment in self.kept else "dim"
        bar = self.cells.row(place, self.block)
        return Line((Run(f"{label:<{_LABEL}} ", role), *bar))

    def text(self, place: int) -> str:
        """Return a segment's address."""
        return f"{int(self.heap.address[int(self.cells.segment[place])]):x}"

    def foot(self) -> list[Line]:
        """Return the segment's properties, and the selected block."""
        k, heap = self.segment, self.heap
        inside = heap.segment == k
        used = int(heap.bytes[inside].sum())
        size = int(heap.size[k])
        pools = self.view.device.file.pools
        pool = "pool not recorded"
        if heap.pool[k] >= 0:
            pool = f"private pool {pools[heap.pool[k]]}" if heap.private[k] else "default pool"
        kind = _KINDS.get(int(heap.kind[k]), "kind not known")
        form = ", expandable" if heap.expandable[k] else ""
        about = f"{int(heap.address[k]):#x}: {kind}{form}, {pool}, stream {int(heap.stream[k])}"
        held = f"  {format_count(int(inside.sum()))} blocks, {format_share(used, size)} in use"
        return [ink((about, "key"), (held, "dim")), *self._kept_foot(), self._block_line()]

    def _kept_foot(self) -> list[Line]:
        """Say which blocks keep the segment, or pages of it, and how many bytes they keep."""
        kept = self.kept.get(self.segment, [])
        if not kept:
            return []
        rows = np.array(sorted({row for each in kept for row in each.rows}), np.int64)
        held = format_bytes(int(self.view.device.allocations.block_size[rows].sum()))
        sites = list(dict.fromkeys(self.view.device.site_names(rows)))
        more = f" and {format_count(len(sites) - 1)} more" if len(sites) > 1 else ""
        size = format_bytes(sum(each.kept for each in kept))
        text = f"{size} kept by {plural(len(rows), 'block')} of {held}, made by "
        room = max(self.width - len(text) - len(more), 8)
        return [ink((text, "warning"), fit_site(sites[0], room), more)]

    def _block_line(self) -> Line:
        if self.block < 0:
            return ink(("← → select a block", "dim"))
        heap, rows = self.heap, self.view.device.allocations
        i = int(heap.row[self.block])
        held = format_bytes(int(heap.bytes[self.block]))
        state = "awaiting free" if heap.pending[self.block] else "allocated"
        text = f"{int(heap.start[self.block]):#x} {held} {state}"
        made = f" made at {event_name(int(rows.alloc_event[i]))}  "
        site = self.view.site_of(i)
        room = max(self.width - len(text) - len(made), 8)
        return ink((text, "key"), (made, "dim"), fit_site(site, room))

    # Moving.

    def go_block(self, by: int) -> None:
        """Select the next block, or the one before; the first time one near the cursor."""
        block = self.block + by
        if self.block < 0:
            # The first in the segment with the cursor, or behind it.
            block = int(np.searchsorted(self.heap.segment, self.segment)) if self.count() else 0
            block += min(by, 0)
        if 0 <= block < len(self.heap.row):
            self.block = block
            self.cursor = self.cells.place_of(
                int(self.heap.segment[block]), int(self.heap.start[block])
            )

    def move(self, by: int) -> None:
        """Move the cursor; no block is selected then."""
        super().move(by)
        self.block = -1

    def go_segment(self, by: int) -> None:
        """Go to the next segment, or to the one before."""
        if self.count():
            wanted = min(max(self.segment + by, 0), len(self.heap.address) - 1)
            self.cursor = int(np.searchsorted(self.cells.segment, wanted))
            self.block = -1

    def turn_zoom(self, by: int) -> None:
        """Halve or double the bytes per cell."""
        self.zoom = min(max(self.zoom + by, -_MOST_ZOOM), _MOST_ZOOM)

    def go_to_birth(self) -> None:
        """Go to the event that allocates the block."""
        if self.block >= 0:
            row = int(self.heap.row[self.block])
            self.view.go_to(int(self.view.device.allocations.alloc_event[row]))

    def open_tree(self) -> None:
        """Show the block's call site in the call stacks."""
        if self.block < 0:
            self.desk.say("select a block first, with ← or →")
            return
        site = self.view.site_of(int(self.heap.row[self.block]))
        self.desk.show("stacks", search=site.partition("  ")[2] or site)

    def as_table(self) -> Table:
        """Return every segment."""
        self.sync()
        heap = self.heap
        blocks = np.bincount(heap.segment, minlength=len(heap.address))
        columns = (map(hex, heap.address.tolist()), heap.size.tolist(), heap.used.tolist())
        titles = ("address", "size", "in use", "blocks")
        return titles, list(zip(*columns, blocks.tolist(), strict=True))

"""The allocator: segments and the blocks in them as a map, to scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from snapreport.explorer.parts.inking import Line, Run, fit_site, ink
from snapreport.explorer.parts.key_bindings import Key, key
from snapreport.explorer.parts.segment_cells import Cells, lay_segments
from snapreport.explorer.screens.screen_base import Desk, ListScreen
from snapreport.figures.heap import Heap, heap_at
from snapreport.figures.segments.kept_segments import KeptSegment, kept_segments
from snapreport.ground.units import format_bytes, format_count, format_share
from snapreport.model.segment_lives import LARGE, SMALL
from snapreport.reporters.words.summary_rows import amount, event_name, plural

if TYPE_CHECKING:
    from snapreport.explorer.parts.viewpoint import Viewpoint

_LABEL = 24
_KINDS = {SMALL: "small", LARGE: "large"}
_ZOOMS = range(-12, 13)


class AllocatorScreen(ListScreen):
    """A bar for each segment; long ones go on in the next rows."""

    name = "allocator"
    title = "Allocator"
    short = "Map"
    KEYS: ClassVar[tuple[Key, ...]] = (
        *ListScreen.MOVES,
        key("left", "the block before", "block_before", "block"),
        key("right", "the next block", "next_block", "block"),
        key("[", "the segment before", "segment_before", "segment"),
        key("]", "the next segment", "next_segment", "segment"),
        key("+ =", "longer bars: fewer bytes a cell", "zoom_in", "zoom"),
        key("-", "shorter bars", "zoom_out", "zoom"),
        key("(", "go to where the block's allocation is made", "go_to_birth"),
        key("enter", "the block's call site in the call stacks", "open_tree", "stacks"),
    )

    def __init__(self, desk: Desk) -> None:
        """Begin with bars that fill some pages at most."""
        super().__init__(desk)
        self.zoom = 0
        self.width = 80
        self.block = -1
        self.heap: Heap
        self.cells: Cells
        self.kept: dict[int, list[KeptSegment]] = {}

    @classmethod
    def is_there(cls, view: Viewpoint) -> bool:
        """Say whether an allocator reserved memory."""
        return "reserved" in view.device.figures.curves

    def depends_on(self) -> object:
        """The device and event, whatever is counted; and the bars' lengths."""
        return self.view.device.name, self.view.event, self.zoom, self.width

    def draw(self, width: int, height: int) -> list[Line]:
        """Return the map, laid out for the width."""
        self.width = width
        return super().draw(width, height)

    def gather(self) -> None:
        """Lay out the segments of the moment, the cursor at the same address."""
        before = self.heap.address[self.segment] if self._known_heap() else None
        device = self.view.device
        self.heap = heap_at(device.file, device.figures, self.view.event)
        self.cells = lay_segments(self.heap, max(self.width - _LABEL - 1, 8), self.zoom)
        self.kept = {}
        for each in kept_segments(self.heap):
            place = int(np.searchsorted(self.heap.address, each.address, side="right")) - 1
            self.kept.setdefault(place, []).append(each)
        self.block = -1
        if before is not None and len(self.heap.address):
            place = int(np.searchsorted(self.heap.address, before, side="right")) - 1
            self.cursor = int(np.searchsorted(self.cells.segment, max(place, 0)))

    def _known_heap(self) -> bool:
        return hasattr(self, "heap") and self.count() > 0 and self.cursor < self.count()

    @property
    def segment(self) -> int:
        """The segment with the cursor."""
        return int(self.cells.segment[self.cursor])

    def count(self) -> int:
        """Return how many rows the bars take."""
        return len(self.cells.segment)

    def head(self, width: int) -> list[Line]:
        """Return what all segments hold together, and the scale."""
        del width
        now = self.view.moment.amounts
        waiting = now.active - now.allocated
        parts: list[str | tuple[str, str]] = [
            (plural(len(self.heap.address), "segment"), "title"),
            f" {amount(now.reserved)}: ",
            ("█ allocated ", "bar"),
            format_bytes(now.allocated),
        ]
        if waiting:
            parts += [("  ▒ awaiting free ", "pending"), format_bytes(waiting)]
        parts += [("  ░ inactive ", "inactive"), amount(now.inactive)]
        parts += [f", {amount(now.fragmentation)} of it fragmented"]
        scale = f"{'address':>14} {'size':>9} a cell is {format_bytes(self.cells.bytes)}"
        return [ink(*parts), *self._kept_head(), ink((scale, "title"))]

    def _kept_head(self) -> list[Line]:
        every = [each for kept in self.kept.values() for each in kept]
        if not every:
            return []
        size = format_bytes(sum(each.kept for each in every))
        text = f"! {size} kept from going back by one or two small blocks, in"
        return [ink((f"{text} {plural(len(self.kept), 'segment')}", "warning"))]

    def row(self, place: int, width: int) -> Line:
        """Return a row of a segment's bar."""
        del width
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

    def foot(self, width: int) -> list[Line]:
        """Return what the segment is, and the block that is picked out."""
        if not self.count():
            return []
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
        told = [ink((about, "key"), (held, "dim"))]
        return [*told, *self._kept_foot(width), self._block_line(width)]

    def _kept_foot(self, width: int) -> list[Line]:
        """Say which blocks keep the segment, or pages of it, and what they keep."""
        kept = self.kept.get(self.segment, [])
        if not kept:
            return []
        rows = np.array(sorted({row for each in kept for row in each.rows}), np.int64)
        held = format_bytes(int(self.view.device.allocations.block_size[rows].sum()))
        sites = list(dict.fromkeys(self.view.device.site_names(rows)))
        more = f" and {format_count(len(sites) - 1)} more" if len(sites) > 1 else ""
        size = format_bytes(sum(each.kept for each in kept))
        text = f"{size} kept by {plural(len(rows), 'block')} of {held}, made by "
        return [
            ink((text, "warning"), fit_site(sites[0], max(width - len(text) - len(more), 8)), more)
        ]

    def _block_line(self, width: int) -> Line:
        if self.block < 0:
            return ink(("← → pick out a block", "dim"))
        heap, rows = self.heap, self.view.device.allocations
        i = int(heap.row[self.block])
        held = format_bytes(int(heap.bytes[self.block]))
        state = "awaiting free" if heap.pending[self.block] else "allocated"
        text = f"{int(heap.start[self.block]):#x} {held} {state}"
        made = f" made at {event_name(int(rows.alloc_event[i]))}  "
        site = self.view.device.site_names(np.array([i]))[0]
        room = max(width - len(text) - len(made), 8)
        return ink((text, "key"), (made, "dim"), fit_site(site, room))

    # Moving.

    def _pick(self, block: int) -> None:
        if 0 <= block < len(self.heap.row):
            self.block = block
            self.cursor = self.cells.place_of(
                int(self.heap.segment[block]), int(self.heap.start[block])
            )

    def next_block(self) -> None:
        """Pick out the next block."""
        self._pick(self._first_block() if self.block < 0 else self.block + 1)

    def block_before(self) -> None:
        """Pick out the block before."""
        self._pick(self._first_block() - 1 if self.block < 0 else self.block - 1)

    def _first_block(self) -> int:
        """Return the first block in the segment with the cursor, or behind it."""
        return int(np.searchsorted(self.heap.segment, self.segment)) if self.count() else 0

    def move(self, by: int) -> None:
        """Move the cursor; no block is picked out then."""
        super().move(by)
        self.block = -1

    def segment_before(self) -> None:
        """Go to the segment before."""
        self._go_segment(-1)

    def next_segment(self) -> None:
        """Go to the next segment."""
        self._go_segment(1)

    def _go_segment(self, by: int) -> None:
        if self.count():
            wanted = min(max(self.segment + by, 0), len(self.heap.address) - 1)
            self.cursor = int(np.searchsorted(self.cells.segment, wanted))
            self.block = -1

    def zoom_in(self) -> None:
        """Let a cell stand for half as much."""
        self.zoom = min(self.zoom + 1, _ZOOMS[-1])

    def zoom_out(self) -> None:
        """Let a cell stand for twice as much."""
        self.zoom = max(self.zoom - 1, _ZOOMS[0])

    def go_to_birth(self) -> None:
        """Go to the event at which the block's allocation is made."""
        if self.block >= 0:
            row = int(self.heap.row[self.block])
            self.view.go_to(int(self.view.device.allocations.alloc_event[row]))

    def open_tree(self) -> None:
        """Show the block's call site in the call stacks."""
        if self.block < 0:
            self.desk.say("pick out a block first, by ← or →")
            return
        site = self.view.device.site_names(self.heap.row[self.block : self.block + 1])[0]
        self.desk.show("stacks", search=site.partition("  ")[2] or site)

    def as_table(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return every segment."""
        self.sync()
        heap = self.heap
        used = np.zeros(len(heap.address), np.int64)
        np.add.at(used, heap.segment, heap.bytes)
        columns = (heap.address, heap.size, used, np.bincount(heap.segment, minlength=len(used)))
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return ("address", "size", "in use", "blocks"), [
            (f"{address:#x}", size, use, blocks) for address, size, use, blocks in rows
        ]

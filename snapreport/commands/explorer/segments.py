"""The allocator: a map of segments and their blocks, to scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from snapreport.commands.explorer.cells import Cells, Line, Run, fit_site, ink, lay_segments
from snapreport.commands.explorer.front_desk import Key, Table, key
from snapreport.commands.explorer.screen import ListScreen
from snapreport.figures.segments import Heap, KeptSegment, heap_at, kept_segments
from snapreport.ground.units import format_bytes, format_count, format_share, plural
from snapreport.model.replays import LARGE, SMALL
from snapreport.reporters.words import amount, event_name

if TYPE_CHECKING:
    from snapreport.commands.explorer.front_desk import Viewpoint


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
        before = self.heap.address[self.segment] if self.cursor < self.count() else None
        device = self.view.device
        self.heap = heap_at(device.file, device.figures, self.view.event)
        self.cells = lay_segments(self.heap, max(self.width - _LABEL - 1, 8), self.zoom)
        self.items = self.cells.segment
        self.kept = {}
        for each in kept_segments(self.heap):
            place = int(np.searchsorted(self.heap.address, each.address, side="right")) - 1
            self.kept.setdefault(place, []).append(each)
        self.block = -1
        if before is not None and len(self.heap.address):
            place = int(np.searchsorted(self.heap.address, before, side="right")) - 1
            self.cursor = int(np.searchsorted(self.cells.segment, max(place, 0)))

    @property
    def segment(self) -> int:
        """The segment with the cursor."""
        return int(self.cells.segment[self.cursor])

    def head(self) -> list[Line]:
        """Return the totals of all segments, and the scale."""
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
        site = self.view.device.site_names(np.array([i]))[0]
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
        site = self.view.device.site_names(self.heap.row[self.block : self.block + 1])[0]
        self.desk.show("stacks", search=site.partition("  ")[2] or site)

    def as_table(self) -> Table:
        """Return every segment."""
        self.sync()
        heap = self.heap
        blocks = np.bincount(heap.segment, minlength=len(heap.address))
        columns = (heap.address, heap.size, heap.used, blocks)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return ("address", "size", "in use", "blocks"), [
            (f"{address:#x}", size, use, blocks) for address, size, use, blocks in rows
        ]

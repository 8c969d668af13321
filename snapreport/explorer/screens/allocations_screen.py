"""Allocations: everything that is live at the moment, one by one or in groups."""

from __future__ import annotations

from operator import attrgetter
from typing import ClassVar

import numpy as np

from snapreport.explorer.parts.inking import Line, Run, fit, fit_site, heat, ink
from snapreport.explorer.parts.key_bindings import Key, key
from snapreport.explorer.parts.sending import Table
from snapreport.explorer.screens.screen_base import ListScreen
from snapreport.figures.grouping import metadata_keys
from snapreport.ground.units import format_bytes, format_count, format_share
from snapreport.model.answer_tables import KEYED, Group, LiveRows
from snapreport.model.roles import ROLES
from snapreport.model.stacks import short_name
from snapreport.reporters.words.plain_text import cut, location
from snapreport.reporters.words.summary_rows import event_name

EACH = "allocation"
WAYS = (EACH, "stack", "role", "category", "stage", "file", "function", "module", "size", "stream",
        "pool", "context", "layer", "forward",
        "metadata")  # fmt: skip
"""What a row is: an allocation, or a group by one of these properties or a key of the metadata."""
_WIDE = 90
"""From this width on there is room for a role beside the call site."""


class AllocationsScreen(ListScreen):
    """The allocations, largest first, and the call stack of the one with the cursor."""

    name = "live"
    title = "Allocations"
    short = "Live"
    KEYS: ClassVar[tuple[Key, ...]] = (
        *ListScreen.MOVES,
        key("enter", "show or hide its call stack", "turn_stack", "stack"),
        key("(", "go to the event that allocates it", "go_to_birth", "made"),
        key(")", "go to the event that requests its free", "go_to_free", "freed"),
        key("y", "group by the next property", "turn_way", "group", by=1),
        key("Y", "group by the property before", "turn_way", by=-1),
        *ListScreen.SEARCH,
    )

    by = EACH
    in_full = False
    """Whether the call stack is shown below the list."""
    live: LiveRows
    groups: tuple[Group, ...]
    _sites: list[str]

    def depends_on(self) -> object:
        """The moment, and what a row is."""
        return self.view.state, self.by

    def gather(self) -> None:
        """List what is live."""
        moment = self.view.moment
        if self.by == EACH:
            self.live = moment.live()
            self.items = self.live.rows
            self._sites = self.view.device.site_names(self.live.rows)
        else:
            self.items = self.groups = moment.by(self.by)

    def head(self) -> list[Line]:
        """Return the headings."""
        if self.by == EACH:
            titles = f"{'bytes':>10} {'requested':>10} {'made':>9} {'freed':>9}  "
            titles += "role and call site" if self.width > _WIDE else "call site"
        else:
            figures = f"{'bytes':>10} {'share':>7} {'count':>8} {'requested':>10}"
            titles = f"{figures}  by {self.by}"
        return [ink((titles, "title"))]

    def row(self, place: int) -> Line:
        """Return one allocation, or one group."""
        total = max(self.view.moment.bytes, 1)
        if self.by != EACH:
            group = self.groups[place]
            role = heat(group.bytes / total)
            share, count = format_share(group.bytes, total), format_count(group.count)
            figures = f"{format_bytes(group.bytes):>10} {share:>7} {count:>8}"
            rest = f" {format_bytes(group.requested):>10}  "
            cut = fit if self.by == "stack" else fit_site
            name = cut(group.name, max(self.width - 40, 8))
            return Line((Run(figures, role), Run(rest), Run(name, role)))
        rows, i = self.view.device.allocations, int(self.live.rows[place])
        held = int(self.live.bytes[place])
        role = heat(held / total)
        freed = int(rows.free_requested_event[i])
        ends = "-" if freed >= self.view.device.events else format_count(freed)
        figures = f"{format_bytes(held):>10} {format_bytes(int(rows.size[i])):>10}"
        events = f" {event_name(int(rows.alloc_event[i])):>9} {ends:>9}  "
        room = max(self.width - 44, 8)
        shown = fit(self.role(i), 20) + "  " if self.width > _WIDE else ""
        site = fit_site(self._sites[place], max(room - len(shown), 8))
        return Line((Run(figures, role), Run(events), Run(shown, "dim"), Run(site, role)))

    def text(self, place: int) -> str:
        """Return a call site and an address, or a group's name."""
        if self.by != EACH:
            return self.groups[place].name
        rows, i = self.view.device.allocations, int(self.live.rows[place])
        return f"{self._sites[place]} {int(rows.addr[i]):#x} {self.role(i)}"

    @property
    def chosen(self) -> int | None:
        """The allocation with the cursor, None among groups."""
        if self.by != EACH or not self.count():
            return None
        return int(self.live.rows[self.cursor])

    def foot(self) -> list[Line]:
        """Return the allocation's address, and its stack if that was asked for."""
        i = self.chosen
        if i is None:
            return []
        device = self.view.device
        rows = device.allocations
        address = f"{int(rows.addr[i]):#x}_{int(rows.version[i])}"
        about = ink(
            (address, "key"), f"  stream {int(rows.stream[i])}", (f"  {self.role(i)}", "dim")
        )
        if not self.in_full:
            return [about]
        return [about, *(ink(f"  {each}") for each in (*self.said(i), *self.frames(i)))]

    def said(self, allocation: int) -> list[str]:
        """Return what the file says of an allocation: its compiled graph, and lines of metadata."""
        device, rows = self.view.device, np.array([allocation])
        (graph,), (said,) = device.compile_contexts(rows), device.metadata(rows)
        return [f"compiled in {graph}"] * (graph is not None) + (said.split("\n") if said else [])

    def role(self, allocation: int) -> str:
        """Say what an allocation is for."""
        return ROLES[int(self.view.device.roles.role[allocation])]

    def frames(self, allocation: int) -> list[str]:
        """Return its call stack, innermost first."""
        stacks = self.view.device.file.stacks
        frames = stacks.frames
        shown = []
        for frame in stacks.path(int(self.view.device.allocations.stack[allocation])):
            place = location(frames.filenames[frame], frames.line(frame))
            shown.append(f"{cut(short_name(frames.names[frame]), 200)}  {place}")
        return shown or self.view.device.site_names(np.array([allocation]))

    def turn_stack(self) -> None:
        """Show or hide the call stack below the list; for a group, open the call stacks."""
        if self.by == EACH:
            self.in_full = not self.in_full
        elif self.by in ("file", "function", "module", "stack") and self.groups:
            name = self.groups[self.cursor].name.split(" < ")[0]
            self.desk.show("stacks", search=name)

    def go_to_birth(self) -> None:
        """Go to the event that allocated it."""
        i = self.chosen
        if i is not None:
            self._follow(i, int(self.view.device.allocations.alloc_event[i]))

    def go_to_free(self) -> None:
        """Go to the last event at which it is live."""
        i = self.chosen
        if i is not None:
            rows = self.view.device.allocations
            self._follow(i, int(rows.ends(self.view.curve)[i]) - 1)

    def _follow(self, allocation: int, event: int) -> None:
        self.view.go_to(event)
        self.sync()
        found = np.flatnonzero(self.live.rows == allocation)
        self.cursor = int(found[0]) if len(found) else self.cursor

    def turn_way(self, by: int) -> None:
        """Group by the next property, or by the one before."""
        keys = metadata_keys(self.view.device.file, self.view.device.history)
        ways = (*WAYS, *(KEYED + key for key in keys))
        self.by = ways[(ways.index(self.by) + by) % len(ways)]
        self.cursor = 0

    def in_link(self) -> dict[str, object]:
        """Name the search."""
        return {"tab": self.name, "search": self.sought}

    def as_table(self) -> Table:
        """Return every row."""
        self.sync()
        if self.by != EACH:
            cells = attrgetter("bytes", "count", "requested", "name")
            return ("bytes", "count", "requested", self.by), [cells(each) for each in self.groups]
        rows = self.view.device.allocations
        return ("bytes", "requested", "address", "made", "freed", "role", "call site"), [
            (
                held,
                int(rows.size[i]),
                f"{int(rows.addr[i]):#x}_{int(rows.version[i])}",
                int(rows.alloc_event[i]),
                int(rows.free_requested_event[i]),
                self.role(i),
                site,
            )
            for held, i, site in zip(
                self.live.bytes.tolist(), self.live.rows.tolist(), self._sites, strict=True
            )
        ]

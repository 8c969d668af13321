"""Two lists: what is live at the moment, and the trace entry by entry."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from snapreport.commands.explorer.cells import Line, Run, fit, fit_site, heat, ink
from snapreport.commands.explorer.front_desk import Key, Table, key
from snapreport.commands.explorer.screen import FilteredList, ListScreen
from snapreport.commands.explorer.tree_rows import find_events
from snapreport.figures.callsites import name_stacks
from snapreport.figures.grouping import metadata_keys
from snapreport.figures.moments import entry_at
from snapreport.ground.units import format_bytes, format_count, format_duration, format_share
from snapreport.model.answers import KEYED, Group, LiveRows
from snapreport.model.roles import ROLES
from snapreport.model.snapshot import short_name
from snapreport.reporters.plain_text import cut, location
from snapreport.reporters.words import event_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from snapreport.commands.explorer.front_desk import Viewpoint
    from snapreport.model.answers import TraceEntry


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


# Events: the trace entry by entry.


_ROLES = {"alloc": "more", "oom": "critical"}


class EventsScreen(FilteredList):
    """A row for each event that a filter lets through."""

    name = "events"
    title = "Events"
    short = "Events"
    PROMPT = "events: "
    KEYS: ClassVar[tuple[Key, ...]] = (
        *FilteredList.MOVES,
        key("enter", "go to the event: every screen shows it", "go_to", "go there"),
        key("i", "filter: alloc >=1MiB 0x7f.. forward", "ask_filter", "filter"),
        *FilteredList.SEARCH,
    )

    items: NDArray[np.int64]
    _at: object = None

    @classmethod
    def is_there(cls, view: Viewpoint) -> bool:
        """Say whether there is a trace."""
        return view.device.events > 0

    def depends_on(self) -> object:
        """The device and the filter; the moment only moves the cursor."""
        return self.view.device.name, self.filtered

    def gather(self) -> None:
        """List the events."""
        device = self.view.device
        self.items = find_events(device.history, device.file.stacks, self.filtered)
        self._at = None

    def sync(self) -> None:
        """Put the cursor on the moment if that has changed."""
        super().sync()
        if self._at != self.view.event:
            self._at = self.view.event
            place = int(np.searchsorted(self.items, self.view.event, side="right")) - 1
            self.cursor = max(place, 0)

    def head(self) -> list[Line]:
        """Return the headings, and the filter."""
        of = f"{format_count(self.count())} of {format_count(self.view.device.events)}"
        about = f"  {of}: {self.filtered}" if self.filtered else ""
        return [
            ink((f"{'event':>10} {'time':>10}  {'action':<16}{'size':>10}  call site", "title"),
                (about, "key"))
        ]  # fmt: skip

    def _entry(self, place: int) -> TraceEntry:
        entry = entry_at(self.view.device.history, int(self.items[place]))
        assert entry is not None, "the start is not an event"
        return entry

    def _site(self, entry: TraceEntry) -> str:
        device = self.view.device
        if entry.stack >= 0 and device.file.stacks.stack_node[entry.stack] >= 0:
            return name_stacks(device.file.stacks, [entry.stack])[0]
        if entry.allocation >= 0:
            return device.site_names(np.array([entry.allocation]))[0]
        return ""

    def row(self, place: int) -> Line:
        """Return an event; the current one is marked."""
        entry = self._entry(place)
        device = self.view.device
        time = device.times_of(self.items[place : place + 1])[0]
        first = device.figures.first_time_us
        when = "" if time is None or first is None else f"+{format_duration(max(time - first, 0))}"
        here = "▶" if entry.event == self.view.event else " "
        action = f"{entry.action:<16.16}"
        size = f"{format_bytes(entry.size):>10}"
        site = fit_site(self._site(entry), max(self.width - 53, 8))
        role = _ROLES.get(entry.action, "less" if entry.action.startswith("free") else "note")
        return ink(
            (here, "key"), f"{event_name(entry.event):>9} {when:>10}  ", (action, role),
            f"{size}  {site}",
        )  # fmt: skip

    def text(self, place: int) -> str:
        """Return an event's action and call site."""
        entry = self._entry(place)
        return f"{entry.action} {self._site(entry)}"

    def foot(self) -> list[Line]:
        """Return the event's address, or how much was free at a failed request."""
        entry = self._entry(self.cursor)
        if entry.action == "oom":
            where = f"{format_bytes(entry.addr)} free on the device"
        else:
            where = f"at {entry.addr:#x}"
        return [ink((f"{event_name(entry.event)}: {entry.action}", "key"), (f"  {where}", "dim"))]

    def matches(self) -> list[int]:
        """Return the rows that match, searched at once like the filter's texts."""
        if self._match is None:
            return []
        device = self.view.device
        found = find_events(device.history, device.file.stacks, "", self._match)
        places: list[int] = np.flatnonzero(np.isin(self.items, found)).tolist()
        return places

    def go_to(self) -> None:
        """Let every screen show the event."""
        if self.count():
            self.view.go_to(int(self.items[self.cursor]))

    def as_table(self) -> Table:
        """Return the visible events."""
        self.sync()
        end = min(self.top + self.page, self.count())
        entries = [self._entry(place) for place in range(self.top, end)]
        return ("event", "action", "size", "address", "call site"), [
            (each.event, each.action, each.size, f"{each.addr:#x}", self._site(each))
            for each in entries
        ]

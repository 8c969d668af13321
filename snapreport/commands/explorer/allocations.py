"""Two lists: what is live at the moment, and the trace entry by entry."""

from __future__ import annotations

import re
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from snapreport.commands.explorer.lines import Line, Run, fit, fit_site, heat, ink
from snapreport.commands.explorer.screen import FilteredList, Key, ListScreen, Table, Viewpoint, key
from snapreport.commands.explorer.tree_rows import passing_frames
from snapreport.figures.callsites import name_stacks
from snapreport.figures.grouping import metadata_keys
from snapreport.figures.moments import ACTIONS, ALLOC, OTHER, UNKNOWN, entry_at, trace_kinds
from snapreport.ground.patterns import Match
from snapreport.ground.units import format_bytes, format_count, format_duration, format_share
from snapreport.model.answers import (
    Group,
    LiveRows,
    TraceEntry,
)
from snapreport.model.asked import (
    KEYED,
)
from snapreport.model.history import DeviceHistory
from snapreport.model.roles import ROLES
from snapreport.model.snapshot import NO_ID, StackTable, marks_on_path, short_name
from snapreport.reporters.plain_text import cut, location
from snapreport.reporters.words import event_name

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
        rows = self.view.device.allocations
        stream = f"  stream {int(rows.stream[i])}"
        about = ink((self.address(i), "key"), stream, (f"  {self.role(i)}", "dim"))
        below = (*self.said(i), *self.frames(i)) if self.in_full else ()
        return [about, *(ink(f"  {each}") for each in below)]

    def said(self, allocation: int) -> list[str]:
        """Return what the file says of an allocation: its compiled graph, and lines of metadata."""
        device, rows = self.view.device, np.array([allocation])
        (graph,), (said,) = device.compile_contexts(rows), device.metadata(rows)
        return [f"compiled in {graph}"] * (graph is not None) + (said.split("\n") if said else [])

    def address(self, allocation: int) -> str:
        """Return an allocation's address and its number there, as PyTorch's own viewer does."""
        rows = self.view.device.allocations
        return f"{int(rows.addr[allocation]):#x}_{int(rows.version[allocation])}"

    def role(self, allocation: int) -> str:
        """Say what an allocation is for."""
        return ROLES[int(self.view.device.roles.role[allocation])]

    def frames(self, allocation: int) -> list[str]:
        """Return its call stack, innermost first."""
        stacks = self.view.device.file.stacks
        frames = stacks.frames
        shown = [
            f"{cut(short_name(frames.names[frame]), 200)}"
            f"  {location(frames.filenames[frame], frames.line(frame))}"
            for frame in stacks.path(int(self.view.device.allocations.stack[allocation]))
        ]
        return shown or [self.view.site_of(allocation)]

    def turn_stack(self) -> None:
        """Show or hide the call stack below the list; for a group, open the call stacks."""
        if self.by == EACH:
            self.in_full = not self.in_full
        elif self.by in ("file", "function", "module", "stack") and self.groups:
            name = self.groups[self.cursor].name.split(" < ")[0]
            self.desk.show("stacks", search=name)

    def go_to_birth(self) -> None:
        """Go to the event that allocated it."""
        self._follow(self.view.device.allocations.alloc_event)

    def go_to_free(self) -> None:
        """Go to the last event at which it is live."""
        self._follow(self.view.device.allocations.ends(self.view.curve) - 1)

    def _follow(self, events: NDArray[np.int64]) -> None:
        """Go to the event of the allocation with the cursor, which stays on it."""
        i = self.chosen
        if i is not None:
            self.view.go_to(int(events[i]))
            self.sync()
            found = np.flatnonzero(self.live.rows == i)
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
        shown = self.live.rows
        columns = (
            self.live.bytes.tolist(),
            rows.size[shown].tolist(),
            map(self.address, shown.tolist()),
            rows.alloc_event[shown].tolist(),
            rows.free_requested_event[shown].tolist(),
            map(self.role, shown.tolist()),
            self._sites,
        )
        titles = ("bytes", "requested", "address", "made", "freed", "role", "call site")
        return titles, list(zip(*columns, strict=True))


# Events: the trace entry by entry, searched by actions, sizes, addresses and texts as on the page.


_SIZE = r"(\d{1,18}(?:\.\d{1,9})?)(b|[kmgt](?:i?b)?)?"
_BOUND = re.compile(rf"(>=|<=|>|<|=)?{_SIZE}", re.IGNORECASE)
_RANGE = re.compile(rf"{_SIZE}(?:\.\.|-){_SIZE}", re.IGNORECASE)
_WORD = re.compile(r'"([^"]*)"?|(\S+)')
_MOST = 2**63 - 1
_MOST_TEXTS = 20
_NO_ADDRESS = ("oom", "snapshot")


def find_events(
    history: DeviceHistory, stacks: StackTable, typed: str, test: Match | None = None
) -> NDArray[np.int64]:
    """Return the events that match any of the search's actions and all of its other terms.

    Args:
        history: the device.
        stacks: the file's.
        typed: actions (``alloc``), sizes (``>=1MiB``, ``1M..4M``), addresses (``0x7f..``) and
            texts; quotes make anything a text.
        test: also require a frame whose function, file or ``file:line`` passes.
    """
    if not typed and test is None:
        return np.arange(history.events, dtype=np.int64)
    kinds = trace_kinds(history)
    kind, row = kinds.kind, kinds.row
    rows, other = history.allocations, history.other
    is_other, is_freed = kind == OTHER, (kind != OTHER) & (kind != UNKNOWN) & (kind != ALLOC)
    place = np.where(is_other, len(rows) + row, np.where(kind == UNKNOWN, -1, row))

    def each(own: NDArray[Any], others: NDArray[Any], unknown: int) -> NDArray[np.int64]:
        """Return a column of the allocations and the other entries for every event."""
        return np.concatenate([own, others, [unknown]])[place]

    size, addr = each(rows.size, other.size, 0), each(rows.addr, other.addr, -1)
    stack, freeing = (each(own, other.stack, NO_ID) for own in (rows.stack, rows.free_stack))
    # A stack may be empty; the last is for NO_STACK.
    is_freed &= np.append(stacks.stack_node >= 0, False)[freeing]
    stack[is_freed] = freeing[is_freed]
    places = {name: k for k, name in enumerate(dict.fromkeys((*ACTIONS, *other.action)))}
    action = kind.astype(np.int64)
    action[is_other] = np.array([places[name] for name in other.action], np.int64)[row[is_other]]

    keep = np.ones(len(kind), np.bool_)
    actions: list[int] = []
    texts: list[Match] = [] if test is None else [test]
    for quoted, word in _WORD.findall(typed):
        sizes = _sizes(word)
        if word in places:
            actions.append(places[word])
        elif sizes is not None:
            keep &= (size >= sizes[0]) & (size <= sizes[1])
        elif re.fullmatch(r"0x[0-9a-fA-F]{1,15}", word):
            has_one = ~np.isin(action, [places[each] for each in _NO_ADDRESS if each in places])
            keep &= has_one & _holds(addr, size, int(word, 16))
        elif quoted or word:
            texts.append(_part(quoted or word))
    if actions:
        keep &= np.isin(action, actions)
    for text in texts[:_MOST_TEXTS]:
        keep &= np.append(_stacks_with(stacks, text), False)[stack]
    return np.flatnonzero(keep)


def _part(text: str) -> Match:
    wanted = text.lower()
    return lambda other: wanted in other.lower()


def _stacks_with(stacks: StackTable, test: Match) -> NDArray[np.bool_]:
    """Say for each stack whether one of its frames passes."""
    hits = np.array(passing_frames(stacks.frames, test), np.int8)
    marked = np.append(marks_on_path(stacks.node_parent, hits[stacks.node_frame]), np.int8(0))
    passed: NDArray[np.bool_] = marked[stacks.stack_node] > 0
    return passed


def _holds(addr: NDArray[np.int64], size: NDArray[np.int64], wanted: int) -> NDArray[np.bool_]:
    """Say which memory contains an address, or is at one that begins with these hex digits."""
    held = (addr <= wanted) & (wanted < addr + np.maximum(size, 1))
    rest = addr.copy()
    while (longer := rest > wanted).any() and wanted:
        rest[longer] //= 16
    found: NDArray[np.bool_] = held | ((rest == wanted) & (wanted > 0))
    return found


def _sizes(word: str) -> tuple[int, int] | None:
    """Return the range of bytes that a word names, None for a text; a bare number is text."""
    found = _BOUND.fullmatch(word)
    if found:
        sign, count, unit = found.groups()
        if not sign and not unit:
            return None
        size = _bytes(count, unit)
        return {
            ">=": (size, _MOST),
            "<=": (0, size),
            ">": (size + 1, _MOST),
            "<": (0, size - 1),
        }.get(sign, (size, size))
    found = _RANGE.fullmatch(word)
    if not found or not (found[2] or found[4]):
        return None
    return _bytes(found[1], found[2] or found[4]), _bytes(found[3], found[4] or found[2])


def _bytes(count: str, unit: str | None) -> int:
    size: int = 1024 ** "bkmgt".index((unit or "b")[0].lower())
    return min(round(float(count) * size), _MOST - 1)


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
        titles = f"{'event':>10} {'time':>10}  {'action':<16}{'size':>10}  call site"
        return [ink((titles, "title"), (about, "key"))]

    def _entry(self, place: int) -> TraceEntry:
        entry = entry_at(self.view.device.history, int(self.items[place]))
        assert entry is not None, "the start is not an event"
        return entry

    def _site(self, entry: TraceEntry) -> str:
        device = self.view.device
        if entry.stack >= 0 and device.file.stacks.stack_node[entry.stack] >= 0:
            return name_stacks(device.file.stacks, [entry.stack])[0]
        return self.view.site_of(entry.allocation) if entry.allocation >= 0 else ""

    def row(self, place: int) -> Line:
        """Return an event; the current one is marked."""
        entry = self._entry(place)
        device = self.view.device
        time = device.times_of(self.items[place : place + 1])[0]
        first = device.figures.first_time_us
        when = "" if time is None or first is None else f"+{format_duration(max(time - first, 0))}"
        here = "▶" if entry.event == self.view.event else " "
        role = "less" if entry.action.startswith("free") else "note"
        role = {"alloc": "more", "oom": "critical"}.get(entry.action, role)
        site = fit_site(self._site(entry), max(self.width - 53, 8))
        return ink(
            (here, "key"),
            f"{event_name(entry.event):>9} {when:>10}  ",
            (f"{entry.action:<16.16}", role),
            f"{format_bytes(entry.size):>10}  {site}",
        )

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

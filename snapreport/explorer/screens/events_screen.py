"""Events: the trace entry by entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from snapreport.explorer.parts.event_filter import find_events
from snapreport.explorer.parts.inking import Line, fit_site, ink
from snapreport.explorer.parts.key_bindings import Key, key
from snapreport.explorer.parts.sending import Table
from snapreport.explorer.screens.screen_base import FilteredList
from snapreport.figures.callsites import name_stacks
from snapreport.figures.event_at import entry_at
from snapreport.ground.units import format_bytes, format_count, format_duration
from snapreport.reporters.words.summary_rows import event_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from snapreport.explorer.parts.viewpoint import Viewpoint
    from snapreport.model.answer_tables import TraceEntry

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

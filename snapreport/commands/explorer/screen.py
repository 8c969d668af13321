"""What all screens share: keys, the moment they show, the front desk that they ask, and lists.

A screen asks its front desk for another screen, a message, a typed line, or slow work in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from snapreport.api.device import Device, Moment
from snapreport.commands.explorer.lines import Line, clipped, filled, ink, width_of
from snapreport.commands.explorer.opening import OpenedFile
from snapreport.ground.cards import CardWanted
from snapreport.ground.errors import PatternError
from snapreport.ground.patterns import Match, compile_pattern
from snapreport.ground.records import dataclass
from snapreport.ground.safe_text import visible
from snapreport.ground.units import format_bytes, format_count, format_duration
from snapreport.reporters.words import event_name

_SHOWN = {
    "left": "←",
    "right": "→",
    "up": "↑",
    "down": "↓",
    "escape": "Esc",
    "pageup": "PgUp",
    "pagedown": "PgDn",
}
"""Keys that are not shown as the terminal names them."""


@dataclass(frozen=True)
class Key:
    """One action, and the keys that trigger it."""

    names: tuple[str, ...]
    """Each a letter as typed, or the terminal's name of another key."""
    what: str
    act: str
    """A method of the screen."""
    short: str = ""
    """For the line at the bottom; ``""`` to leave it out there."""
    given: dict[str, Any] = field(default_factory=dict)
    """The method's arguments."""

    @property
    def labels(self) -> list[str]:
        """How its keys are shown, such as ``←``, ``a`` and ``Ctrl+C``."""
        return [name if len(name) == 1 else _SHOWN.get(name, name.title()) for name in self.names]


def key(names: str, what: str, act: str, short: str = "", **given: Any) -> Key:
    """Make a binding; ``names`` has spaces between, ``given`` are the method's arguments."""
    return Key(tuple(names.split()), what, act, short, given)


def press_key(owner: object, keys: Iterable[Key], name: str) -> bool:
    """Call the owner's method for a key; False if the key has none."""
    found = next((each for each in keys if name in each.names), None)
    if found is not None:
        getattr(owner, found.act)(**found.given)
    return found is not None


COUNTED = ("allocated", "requested")
"""The curves that can be counted, as on the page."""


class Viewpoint:
    """A moment of one device; every screen shows it."""

    def __init__(
        self, opened: OpenedFile, device: str | None = None, card: CardWanted | None = None
    ) -> None:
        """Start at a device's peak; ``card`` is the card that it should fit on."""
        self.opened = opened
        self.card = card
        self.pair: tuple[Viewpoint, Viewpoint] | None = None
        """Both recordings, if there are two, including this one; otherwise None."""
        self.curve = COUNTED[0]
        self.look_at(opened.snapshot.device(device))

    def look_at(self, device: Device) -> None:
        """Show another device, at its peak."""
        self.device = device
        self.go_to(self.opening)

    @property
    def opening(self) -> int:
        """The event of the curve's peak; the end if no history was recorded."""
        return self.device.at(curve=self.curve).event

    @cached_property
    def moment(self) -> Moment:
        """The current moment."""
        return self.device.at(event=self.event, curve=self.curve)

    @property
    def state(self) -> tuple[str, str, int]:
        """What screens depend on: device, curve and event."""
        return self.device.name, self.curve, self.event

    def go_to(self, event: int) -> None:
        """Show another event, limited to the recording's range."""
        self.event = min(max(event, -1), self.device.events - 1)
        self.__dict__.pop("moment", None)

    def count(self, curve: str) -> None:
        """Count another curve; a moment at one curve's peak moves to the other's."""
        at_peak = self.event == self.opening
        self.curve = curve
        self.go_to(self.opening if at_peak else self.event)

    def site_of(self, allocation: int) -> str:
        """Return the call site of an allocation: ``function  file:line``."""
        return self.device.site_names(np.array([allocation]))[0]

    @property
    def name(self) -> str:
        """``at the peak (event 793)``, ``at event 12``, ``at the start``, as on the page."""
        event = f"event {event_name(self.event)}"
        if not self.device.figures.recorded:
            return "when the snapshot was written"
        if self.event == self.opening:
            return "at the peak" + (", which is the start" if self.event < 0 else f" ({event})")
        if self.event < 0:
            return "at the start"
        return f"at the end ({event})" if self.event == self.device.events - 1 else f"at {event}"

    @property
    def figures(self) -> str:
        """``4.45 GiB allocated, 5.10 GiB reserved, +12.1 ms``: the time since the first event."""
        moment, known = self.moment, self.device.figures
        parts = [f"{format_bytes(moment.bytes)} {self.curve}"]
        if moment.amounts.reserved is not None:
            parts.append(f"{format_bytes(moment.amounts.reserved)} reserved")
        if moment.time_us is not None and known.first_time_us is not None and known.recorded:
            parts.append(f"+{format_duration(max(moment.time_us - known.first_time_us, 0))}")
        return ", ".join(parts)


# The front desk, and the line that is typed there: a search, a file name, SQL.


_LONGEST = 10_000
"""Most letters that are accepted, in case of an accidental paste."""


@dataclass
class PromptLine:
    """Text being typed, its cursor, and its callbacks."""

    label: str
    text: str
    done: Callable[[str], None]
    changed: Callable[[str], object]
    cancelled: Callable[[], object]
    before: Sequence[str]
    """Earlier inputs, for the up and down keys."""

    def __post_init__(self) -> None:
        """Put the cursor at the end."""
        self.at = len(self.text)
        self._place = len(self.before)
        self.open = True

    def press(self, name: str) -> None:
        """Handle a key."""
        at, end = self.at, len(self.text)
        moves = {
            "left": max(at - 1, 0),
            "right": min(at + 1, end),
            "home": 0,
            "ctrl+a": 0,
            "end": end,
            "ctrl+e": end,
        }
        word = self.text[:at].rstrip().rfind(" ") + 1
        erased = {
            "backspace": (max(at - 1, 0), at),
            "ctrl+h": (max(at - 1, 0), at),
            "delete": (at, at + 1),
            "ctrl+d": (at, at + 1),
            "ctrl+u": (0, at),
            "ctrl+w": (word, at),
        }
        if name in moves:
            self.at = moves[name]
        elif name in erased:
            self._replace(*erased[name], "")
        elif name == "enter":
            self.open = False
            self.done(self.text)
        elif name == "escape":
            self.open = False
            self.cancelled()
        elif name in ("up", "down"):
            place = self._place + (-1 if name == "up" else 1)
            if 0 <= place < len(self.before):
                self._place = place
                self._replace(0, end, self.before[place])
        elif len(name) == 1 or name == "space":
            self.insert(" " if name == "space" else name)

    def insert(self, text: str) -> None:
        """Insert typed or pasted text; several lines become one."""
        room = _LONGEST - len(self.text)
        self._replace(self.at, self.at, " ".join(text.splitlines())[: max(room, 0)])

    def _replace(self, begin: int, end: int, new: str) -> None:
        self.text = self.text[:begin] + new + self.text[end:]
        self.at = begin + len(new)
        self.changed(self.text)

    def draw(self, width: int) -> Line:
        """Return the line, scrolled so that the cursor is visible."""
        room = max(width - width_of(self.label) - 1, 4)
        left, right = visible(self.text[: self.at]), visible(self.text[self.at :])
        while width_of(left) > room - 1:
            left = left[max(len(left) - room, 1) :]
        under = right[:1] or " "
        return ink((self.label, "key"), left, (under, "caret"), right[1:])


Work = Callable[[], Callable[[], None]]
"""Slow work; what it returns is then called in the program's own thread."""


class FrontDesk:
    """Where the screens of one recording ask, and what they share."""

    def __init__(self, view: Viewpoint, run: Callable[[Work], None]) -> None:
        """``run``: does work in a thread."""
        self.view = view
        self.in_background = run
        self.message = ""
        self.prompt: PromptLine | None = None
        self._typed: dict[str, list[str]] = {}

    def show(self, name: str, *, search: str = "") -> None:
        """Show a screen, and look for something in it."""
        raise NotImplementedError

    def zoom_to(self, first: int, end: int) -> None:
        """Show some events on the timeline."""
        raise NotImplementedError

    def say(self, text: str) -> None:
        """Show a message until the next key."""
        self.message = text

    def ask(
        self,
        label: str,
        done: Callable[[str], None],
        text: str = "",
        *,
        changed: Callable[[str], object] = lambda _: None,
        cancelled: Callable[[], object] = lambda: None,
    ) -> None:
        """Let the reader type a line."""
        typed = self._typed.setdefault(label, [])

        def finish(line: str) -> None:
            if line.strip() and line not in typed[-1:]:
                typed.append(line)
            done(line)

        self.prompt = PromptLine(label, text, finish, changed, cancelled, typed)


# The screens.


Table = tuple[Sequence[str], Sequence[Sequence[object]]]
"""Headings, and rows of plain values."""
FAR = 2**31
"""More rows or events than any list has."""


class Screen:
    """One way to look at a recording."""

    name: ClassVar[str]
    """The page's name for it, in links."""
    title: ClassVar[str]
    short: ClassVar[str]
    """The title if there is little room."""
    KEYS: ClassVar[tuple[Key, ...]] = ()

    def __init__(self, desk: FrontDesk) -> None:
        """Make a screen; it computes nothing before it is drawn."""
        self.desk, self.view = desk, desk.view

    @classmethod
    def is_there(cls, view: Viewpoint) -> bool:
        """Say whether the recording has what the screen shows."""
        return view is not None

    def draw(self, width: int, height: int) -> list[Line]:
        """Return up to ``height`` lines of ``width`` columns."""
        raise NotImplementedError

    def press(self, name: str) -> bool:
        """Handle a key; False if it does nothing here."""
        return press_key(self, self.KEYS, name)

    def leave(self) -> bool:
        """Go one step back within the screen; False if there is none."""
        return False

    def click(self, column: int, row: int, *, twice: bool) -> None:
        """Handle a mouse click."""

    def scroll(self, by: int) -> None:
        """Handle the mouse wheel; ``by`` is in lines."""

    def search(self, text: str) -> None:
        """Search for a text."""

    def clear_search(self) -> bool:
        """End the search; False if there was none."""
        return False

    def find(self, text: str) -> None:
        """Search for what a finding or a link names; lists with a filter use it as the filter."""
        self.search(text)

    def as_table(self) -> Table:
        """Return the screen's contents as a table: headings, and rows of plain values."""
        return (), []

    def in_link(self) -> dict[str, object]:
        """Return the keys of a link for the page that concern this screen."""
        return {"tab": self.name}


class ListScreen(Screen):
    """A list of rows with a cursor; a search goes from match to match."""

    MOVES: ClassVar[tuple[Key, ...]] = (
        key("up k", "the row before", "move", by=-1),
        key("down j", "the next row", "move", by=1),
        key("pageup ctrl+b", "a page back", "move_page", by=-1),
        key("pagedown space", "a page forward", "move_page", by=1),
        key("home g", "the first row", "move", by=-FAR),
        key("end G", "the last row", "move", by=FAR),
    )
    SEARCH: ClassVar[tuple[Key, ...]] = (
        key("/", "search: part of a name, a glob or a /regex/", "ask_search", "search"),
        key("n", "the next match", "go_match", by=1),
        key("N", "the match before", "go_match", by=-1),
    )

    items: Sized = ()
    """What ``gather`` found; one item per row."""
    cursor = 0
    top = 0
    """The first visible row."""
    page = 10
    """How many rows are visible."""
    width = 80
    """The columns for rows."""
    sought = ""
    _match: Match | None = None
    _known: object = None
    _begun = 0
    _head = 0

    # What each list defines.

    def gather(self) -> None:
        """Compute the ``items`` of the current moment."""

    def depends_on(self) -> object:
        """Return what ``gather`` depends on; it is called again when this value changes."""
        return self.view.state

    def count(self) -> int:
        """Return how many rows there are."""
        return len(self.items)

    def row(self, place: int) -> Line:
        """Return a row."""
        raise NotImplementedError

    def head(self) -> list[Line]:
        """Return the lines above the rows."""
        return []

    def foot(self) -> list[Line]:
        """Return the lines below the rows, about the selected row; called if there are any."""
        return []

    def text(self, place: int) -> str:
        """Return the text of a row that a search looks at."""
        return self.row(place).text

    # Drawing and moving.

    def sync(self) -> None:
        """Gather again if the moment has changed."""
        now = self.depends_on()
        if now != self._known:
            self._known = now
            self.gather()
        self.cursor = min(max(self.cursor, 0), max(self.count() - 1, 0))

    def draw(self, width: int, height: int) -> list[Line]:
        """Return the head, the visible rows, and the foot."""
        self.width = width
        self.sync()
        head = self.head()[: max(height - 1, 0)]
        foot = self.foot() if self.count() else []
        foot = foot[: max(height - len(head) - 3, 0)]
        self._head = len(head)
        self.page = max(height - len(head) - len(foot), 1)
        self.top = min(max(self.top, self.cursor - self.page + 1), self.cursor)
        self.top = min(self.top, max(self.count() - self.page, 0))
        end = min(self.top + self.page, self.count())
        rows = filled([self._marked(place) for place in range(self.top, end)], width, self.page)
        return [clipped(line, width) for line in (*head, *rows, *foot)][:height]

    def _marked(self, place: int) -> Line:
        line = self.row(place)
        is_here = place == self.cursor
        mark = "cursor" if is_here else "match" if self.is_match(place) else line.mark
        return Line(line.runs, mark)

    def move(self, by: int) -> None:
        """Move the cursor by some rows."""
        self.sync()
        self.cursor = min(max(self.cursor + by, 0), max(self.count() - 1, 0))

    def move_page(self, by: int) -> None:
        """Move the cursor by some pages."""
        self.move(by * self.page)

    def click(self, column: int, row: int, *, twice: bool) -> None:
        """Move the cursor to a row; a second click is Enter."""
        del column
        place = self.top + row - self._head
        if self._head <= row < self._head + self.page and 0 <= place < self.count():
            self.cursor = place
            if twice:
                self.press("enter")

    def scroll(self, by: int) -> None:
        """Scroll, and keep the cursor visible."""
        last = max(self.count() - self.page, 0)
        before = self.top
        self.top = min(max(self.top + by, 0), last)
        self.cursor = min(max(self.cursor, self.top), self.top + self.page - 1)
        if self.top == before:
            self.move(by)

    # Searching.

    def ask_search(self) -> None:
        """Let the reader type a search; matches show at once."""
        self._begun = self.cursor
        self.desk.ask(
            "/",
            lambda _: self.tell_matches(),
            changed=self.search,
            cancelled=self.clear_search,
        )

    def search(self, text: str) -> None:
        """Search for a text from the row where the search began."""
        self.sought = text.strip()
        self.compile_sought()
        if self._match is None:
            return
        self.sync()
        found = self.matches()
        if found:
            self.cursor = next((each for each in found if each >= self._begun), found[0])

    def compile_sought(self) -> None:
        """Compile what is sought; of a wrong pattern say so, unless it has just been begun."""
        self._match = None
        try:
            self._match = compile_pattern(self.sought) if self.sought else None
        except PatternError as error:
            if len(self.sought) > 3:
                self.desk.say(str(error))

    def is_match(self, place: int) -> bool:
        """Say whether a row matches."""
        return self._match is not None and self._match(self.text(place))

    def matches(self) -> list[int]:
        """Return the rows that match, in order."""
        return [place for place in range(self.count()) if self.is_match(place)]

    @property
    def here(self) -> int:
        """Where the cursor is among the matches."""
        return self.cursor

    def go_to_match(self, match: int) -> None:
        """Go to a match."""
        self.cursor = match

    def tell_matches(self) -> None:
        """Show how many matches there are."""
        if self._match is not None:
            found = self.matches()
            here = found.index(self.here) + 1 if self.here in found else 0
            of = format_count(len(found))
            self.desk.say(f"{self.sought}: match {here} of {of}" if found else "no match")

    def go_match(self, by: int) -> None:
        """Go to the next match, or to the one before, wrapping around."""
        self.sync()
        found = self.matches()
        if found:
            after = [each for each in found if (each - self.here) * by > 0]
            self.go_to_match((after or found)[0 if by > 0 else -1])
        self.tell_matches()

    def clear_search(self) -> bool:
        """End the search."""
        was = bool(self.sought)
        self.search("")
        return was


class FilteredList(ListScreen):
    """A list with a filter, from a reader, a finding or a link."""

    PROMPT: ClassVar[str]
    filtered = ""
    """The filter, as typed."""

    def ask_filter(self) -> None:
        """Let the reader type a filter."""
        self.desk.ask(self.PROMPT, self.find, self.filtered)

    def find(self, text: str) -> None:
        """List only what passes a filter."""
        self.filtered = text.strip()
        self.cursor, self._known = 0, None

    def in_link(self) -> dict[str, object]:
        """Name the filter."""
        return {"tab": self.name, "search": self.filtered}

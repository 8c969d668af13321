"""The base of all screens: keys, and lists of rows with a cursor."""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING, ClassVar

from snapreport.commands.explorer.cells import EMPTY, Line, clipped
from snapreport.commands.explorer.front_desk import Key, key, press_key
from snapreport.ground.errors import PatternError
from snapreport.ground.patterns import Match, compile_pattern
from snapreport.ground.units import format_count

if TYPE_CHECKING:
    from snapreport.commands.explorer.front_desk import FrontDesk, Table, Viewpoint


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
        self._reveal()
        end = min(self.top + self.page, self.count())
        lines = [clipped(self._marked(place), width) for place in range(self.top, end)]
        lines += [EMPTY] * (self.page - len(lines))
        return [clipped(line, width) for line in (*head, *lines, *foot)][:height]

    def _marked(self, place: int) -> Line:
        line = self.row(place)
        if place == self.cursor:
            return line.marked("cursor")
        return line.marked("match") if self.is_match(place) else line

    def _reveal(self) -> None:
        self.top = min(max(self.top, self.cursor - self.page + 1), self.cursor)
        self.top = min(self.top, max(self.count() - self.page, 0))

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
        try:
            self._match = compile_pattern(self.sought) if self.sought else None
        except PatternError as error:
            self._match = None
            if len(self.sought) > 3:
                self.desk.say(str(error))
            return
        self.sync()
        found = self.matches()
        if found:
            self.cursor = next((each for each in found if each >= self._begun), found[0])

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
        was = self.sought
        self.sought, self._match = "", None
        return bool(was)


class FilteredList(ListScreen):
    """A list with a filter, from a reader, a finding or a link."""

    PROMPT: ClassVar[str]
    filtered = ""
    """The filter, as typed."""

    def ask_filter(self) -> None:
        """Let the reader type a filter."""
        self.desk.ask(self.PROMPT, self.find, text=self.filtered)

    def find(self, text: str) -> None:
        """List only what passes a filter."""
        self.filtered = text.strip()
        self.cursor, self._known = 0, None

    def in_link(self) -> dict[str, object]:
        """Name the filter."""
        return {"tab": self.name, "search": self.filtered}

"""What screens have in common: keys, and lists of rows with a cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from snapreport.explorer.parts.inking import EMPTY, Line, clipped, ink
from snapreport.explorer.parts.key_bindings import Key, find_key, key
from snapreport.ground.errors import PatternError
from snapreport.ground.patterns import Match, compile_pattern
from snapreport.ground.units import format_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from snapreport.explorer.parts.viewpoint import Viewpoint


class Desk(Protocol):
    """Where a screen lies: what it asks of the whole."""

    view: Viewpoint

    def show(self, name: str, *, search: str = "") -> None:
        """Show another screen."""

    def say(self, text: str) -> None:
        """Tell the reader something at the foot, until the next key."""

    def ask(
        self,
        label: str,
        done: Callable[[str], None],
        *,
        text: str = "",
        changed: Callable[[str], None] | None = None,
        cancelled: Callable[[], object] | None = None,
        before: list[str] | None = None,
    ) -> None:
        """Let the reader type a line at the foot."""

    def zoom_to(self, first: int, end: int) -> None:
        """Show some events on the timeline."""

    def back(self) -> None:
        """Leave the screen for the one before."""

    def in_background(self, work: Callable[[], Callable[[], None]]) -> None:
        """Do what takes long beside the screen; what it returns is called when it is done."""


class Screen:
    """One way to look at a recording."""

    name: ClassVar[str]
    """The page's name for it, in links."""
    title: ClassVar[str]
    short: ClassVar[str]
    """The title where there is little room."""
    KEYS: ClassVar[tuple[Key, ...]] = ()

    def __init__(self, desk: Desk) -> None:
        """Make it; nothing is worked out before it is drawn."""
        self.desk = desk

    @property
    def view(self) -> Viewpoint:
        """The moment that all screens share."""
        return self.desk.view

    @classmethod
    def is_there(cls, view: Viewpoint) -> bool:
        """Say whether the recording has what the screen shows."""
        return view is not None

    def draw(self, width: int, height: int) -> list[Line]:
        """Return so many lines of so many columns."""
        raise NotImplementedError

    def press(self, name: str) -> bool:
        """Do what a key does here; False where it does nothing."""
        found = find_key(self.KEYS, name)
        if found is None:
            return False
        getattr(self, found.act)()
        return True

    def leave(self) -> bool:
        """Take one step back within the screen; False where there is none."""
        return False

    def click(self, column: int, row: int, *, twice: bool) -> None:
        """Take a click of the mouse."""

    def scroll(self, by: int) -> None:
        """Take a turn of the mouse's wheel, in lines."""

    def search(self, text: str) -> None:
        """Look for what is typed."""

    def clear_search(self) -> bool:
        """Forget what was looked for; False where nothing was."""
        return False

    def find(self, text: str) -> None:
        """Look for what a finding or a link names; lists that have a filter take it as one."""
        self.search(text)

    def as_table(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return what it shows as a table: headings, and rows of plain values."""
        return (), []

    def in_link(self) -> dict[str, object]:
        """Return what a link for the page says of the screen, besides the moment."""
        return {"tab": self.name}


class ListScreen(Screen):
    """A screen of rows, one of them with the cursor; a search goes from match to match."""

    MOVES: ClassVar[tuple[Key, ...]] = (
        key("up k", "the row before", "go_up"),
        key("down j", "the next row", "go_down"),
        key("pageup ctrl+b", "a page back", "page_up"),
        key("pagedown space", "a page on", "page_down"),
        key("home g", "the first row", "go_first"),
        key("end G", "the last row", "go_last"),
    )
    SEARCH: ClassVar[tuple[Key, ...]] = (
        key("/", "search: a part, a glob or a /regex/", "ask_search", "search"),
        key("n", "the next match", "next_match"),
        key("N", "the match before", "match_before"),
    )

    def __init__(self, desk: Desk) -> None:
        """Make it with the cursor on the first row."""
        super().__init__(desk)
        self.cursor = 0
        self.top = 0
        self.page = 10
        self.sought = ""
        self._match: Match | None = None
        self._known: object = None
        self._begun = 0
        self._head = 0

    # What a list says of itself.

    def gather(self) -> None:
        """Work out the rows of the present moment."""

    def depends_on(self) -> object:
        """Return what ``gather`` is worked out from; another value, and it is called again."""
        return self.view.state

    def count(self) -> int:
        """Return how many rows there are."""
        raise NotImplementedError

    def row(self, place: int, width: int) -> Line:
        """Return a row in so many columns."""
        raise NotImplementedError

    def head(self, width: int) -> list[Line]:
        """Return what stands above the rows."""
        del width
        return []

    def foot(self, width: int) -> list[Line]:
        """Return what stands below the rows, about the one with the cursor."""
        del width
        return []

    def text(self, place: int) -> str:
        """Return what a search looks at."""
        return self.row(place, 1000).text

    # Drawing and moving.

    def sync(self) -> None:
        """Gather anew where the moment has changed."""
        now = self.depends_on()
        if now != self._known:
            self._known = now
            self.gather()
        self.cursor = min(max(self.cursor, 0), max(self.count() - 1, 0))

    def draw(self, width: int, height: int) -> list[Line]:
        """Return head, the rows in sight, and foot."""
        self.sync()
        head, foot = self.head(width), self.foot(width)
        head = head[: max(height - 1, 0)]
        foot = foot[: max(height - len(head) - 3, 0)]
        self._head = len(head)
        self.page = max(height - len(head) - len(foot), 1)
        self._reveal()
        end = min(self.top + self.page, self.count())
        lines = [clipped(self._marked(place, width), width) for place in range(self.top, end)]
        lines += [EMPTY] * (self.page - len(lines))
        return [clipped(line, width) for line in (*head, *lines, *foot)][:height]

    def _marked(self, place: int, width: int) -> Line:
        line = self.row(place, width)
        if place == self.cursor:
            return line.marked("cursor")
        return line.marked("match") if self.is_match(place) else line

    def _reveal(self) -> None:
        last = max(self.count() - self.page, 0)
        if self.cursor < self.top:
            self.top = self.cursor
        elif self.cursor >= self.top + self.page:
            self.top = self.cursor - self.page + 1
        self.top = min(max(self.top, 0), last)

    def move(self, by: int) -> None:
        """Move the cursor by so many rows."""
        self.sync()
        self.cursor = min(max(self.cursor + by, 0), max(self.count() - 1, 0))

    def go_up(self) -> None:
        """Move to the row before."""
        self.move(-1)

    def go_down(self) -> None:
        """Move to the next row."""
        self.move(1)

    def page_up(self) -> None:
        """Move back by as many rows as are in sight."""
        self.move(-self.page)

    def page_down(self) -> None:
        """Move on by as many rows as are in sight."""
        self.move(self.page)

    def go_first(self) -> None:
        """Move to the first row."""
        self.cursor = 0

    def go_last(self) -> None:
        """Move to the last row."""
        self.sync()
        self.cursor = max(self.count() - 1, 0)

    def click(self, column: int, row: int, *, twice: bool) -> None:
        """Move the cursor to a row; a second click is Enter."""
        del column
        place = self.top + row - self._head
        if self._head <= row < self._head + self.page and 0 <= place < self.count():
            self.cursor = place
            if twice:
                self.press("enter")

    def scroll(self, by: int) -> None:
        """Scroll, and take the cursor along."""
        last = max(self.count() - self.page, 0)
        before = self.top
        self.top = min(max(self.top + by, 0), last)
        self.cursor = min(max(self.cursor, self.top), self.top + self.page - 1)
        if self.top == before:
            self.move(by)

    # Searching.

    def ask_search(self) -> None:
        """Let the reader type what to look for; matches show at once."""
        self._begun = self.cursor
        self.desk.ask(
            "/",
            lambda _: self.tell_matches(),
            changed=self.search,
            cancelled=self.clear_search,
        )

    def search(self, text: str) -> None:
        """Look for a text from where the search was begun."""
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
        """Say whether a row is what is looked for."""
        return self._match is not None and self._match(self.text(place))

    def matches(self) -> list[int]:
        """Return the rows that match."""
        return [place for place in range(self.count()) if self.is_match(place)]

    def tell_matches(self) -> None:
        """Say how many there are."""
        if self._match is not None:
            found = self.matches()
            here = found.index(self.cursor) + 1 if self.cursor in found else 0
            of = format_count(len(found))
            self.desk.say(f"{self.sought}: match {here} of {of}" if found else "no match")

    def next_match(self) -> None:
        """Go to the next match, around the end."""
        self._go_match(1)

    def match_before(self) -> None:
        """Go to the match before, around the beginning."""
        self._go_match(-1)

    def _go_match(self, by: int) -> None:
        self.sync()
        found = self.matches()
        if found:
            after = [each for each in found if (each - self.cursor) * by > 0]
            self.cursor = (after or found)[0 if by > 0 else -1]
        self.tell_matches()

    def clear_search(self) -> bool:
        """Forget what was looked for."""
        was = self.sought
        self.sought, self._match = "", None
        return bool(was)

    def leave(self) -> bool:
        """Nothing of a list is left step by step."""
        return False


def heading(*parts: str) -> Line:
    """Return a line in the style of headings."""
    return ink(("  ".join(parts), "title"))

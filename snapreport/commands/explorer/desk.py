"""What fills the terminal: one recording with its tabs and the way back, or two side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise, zip_longest
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import orjson

from snapreport.commands.explorer.allocations import AllocationsScreen, EventsScreen
from snapreport.commands.explorer.lines import (
    EMPTY,
    Line,
    Run,
    beside,
    clip,
    clipped,
    filled,
    ink,
    labelled,
    width_of,
)
from snapreport.commands.explorer.overview import OverviewScreen, RecordingScreen
from snapreport.commands.explorer.queries import QueryScreen
from snapreport.commands.explorer.screen import (
    COUNTED,
    FrontDesk,
    Key,
    Screen,
    Viewpoint,
    Work,
    key,
    press_key,
)
from snapreport.commands.explorer.segments import AllocatorScreen
from snapreport.commands.explorer.stages import LinesScreen, StagesScreen
from snapreport.commands.explorer.timeline import TimelineScreen
from snapreport.commands.explorer.tree import ChangeScreen, TreeScreen
from snapreport.ground.errors import SnapreportError
from snapreport.ground.files import write_atomically
from snapreport.ground.safe_text import plain_json
from snapreport.ground.units import format_bytes, format_count
from snapreport.reporters.markdown import code_span, escaped, table

SCREENS: tuple[type[Screen], ...] = (
    OverviewScreen,
    TimelineScreen,
    TreeScreen,
    LinesScreen,
    AllocationsScreen,
    StagesScreen,
    AllocatorScreen,
    EventsScreen,
    RecordingScreen,
    QueryScreen,
    ChangeScreen,
)
KEYS = (
    key("1 2 3 4 5 6 7 8 9", "a screen by its number", "show_numbered"),
    key(":", "SQL over the entire history", "show_query"),
    key("x", "with two files: their change as one tree", "show", name=ChangeScreen.name),
    key("tab", "the next screen", "turn", by=1),
    key("shift+tab", "the screen before", "turn", by=-1),
    key("v", "count allocated or requested bytes", "turn_curve"),
    key("D", "the next device", "next_device"),
    key("@", "go to an event by its number", "ask_event"),
    key("m", "copy what is shown as Markdown", "copy_view", form="Markdown"),
    key("J", "copy it as JSON", "copy_view", form="JSON"),
    key("W", "write it to a file: view.md or view.json", "ask_file"),
    key("L", "copy the link that shows this moment on the page", "copy_link"),
    key("escape", "clear the search; without one, back", "escape"),
    key("q", "back; from the first screen: quit", "back"),
)
"""What keys do on every screen."""


_MOST_ROWS = 40
"""Rows of a table in Markdown: the length of an issue comment is limited."""
_MOST_LETTERS = 70_000
"""Letters that go to the clipboard: terminals accept no more."""
_Kind = TypeVar("_Kind", bound=Screen)


class Desk(FrontDesk):
    """The screens of one recording, one of them shown."""

    def __init__(
        self,
        view: Viewpoint,
        run: Callable[[Work], None],
        quit_: Callable[[], None],
        copy: Callable[[str], None],
    ) -> None:
        """``run``: does work in a thread; ``copy``: puts text on the clipboard."""
        super().__init__(view, run)
        self._quit, self._copy = quit_, copy
        self.screens = [kind(self) for kind in SCREENS if kind.is_there(view)]
        self.shown: Screen = self.screens[0]
        self.before: list[Screen] = []
        self._tabs: list[tuple[int, int, Screen]] = []

    # What screens ask for.

    def show(self, name: str, *, search: str = "") -> None:
        """Show a screen, and look for something in it."""
        found = next((each for each in self.screens if each.name == name), None)
        if found is None:
            self.say(f"this recording has no screen {name}")
            return
        self._open(found)
        if search:
            found.find(search)

    def zoom_to(self, first: int, end: int) -> None:
        """Show some events on the timeline."""
        self._enter(TimelineScreen).zoom_to(first, end)

    def show_query(self) -> None:
        """Show the schema, and let the reader type a statement."""
        self._enter(QueryScreen).ask_sql()

    def _enter(self, kind: type[_Kind]) -> _Kind:
        """Show a screen that every recording has."""
        found = next(each for each in self.screens if isinstance(each, kind))
        self._open(found)
        return found

    def _open(self, screen: Screen) -> None:
        if screen is self.shown:
            return
        if screen in self.before:  # going back never loops
            del self.before[self.before.index(screen) :]
        else:
            self.before.append(self.shown)
        self.shown = screen

    def back(self) -> None:
        """Go back within the screen, then to the screen before; from the first one: quit."""
        if not self._step_back():
            self._quit()

    def escape(self) -> None:
        """Clear the search; without one go back, but never quit."""
        if not self.shown.clear_search():
            self._step_back()

    def _step_back(self) -> bool:
        """Go back within the screen, then to the screen before; False from the first one."""
        if self.shown.leave():
            return True
        if self.before:
            self.shown = self.before.pop()
            return True
        return False

    # Keys and the mouse.

    def press(self, name: str) -> bool:
        """Handle a key: in the prompt, on the screen, or everywhere."""
        self.message = ""
        if self.prompt is not None:
            prompt = self.prompt
            prompt.press(name)
            if not prompt.open and self.prompt is prompt:
                self.prompt = None
            return True
        if name.isdecimal() and name != "0" and len(name) == 1:
            if int(name) <= len(self.screens):
                self._open(self.screens[int(name) - 1])
            return True
        return self.shown.press(name) or press_key(self, KEYS, name)

    def paste(self, text: str) -> None:
        """Insert pasted text if the prompt is open."""
        if self.prompt is not None:
            self.prompt.insert(text)

    def turn(self, by: int) -> None:
        """Show the next screen, or the one before."""
        place = (self.screens.index(self.shown) + by) % len(self.screens)
        self._open(self.screens[place])

    def turn_curve(self) -> None:
        """Count the other curve."""
        self.view.count(COUNTED[COUNTED.index(self.view.curve) - 1])
        self.say(f"counting {self.view.curve} bytes")

    def next_device(self) -> None:
        """Show the next device of the file."""
        snapshot = self.view.opened.snapshot
        names = [str(device.device) for device in snapshot.devices]
        if len(names) < 2:
            self.say("this file has one device")
            return
        name = names[(names.index(self.view.device.name) + 1) % len(names)]
        self.view.look_at(snapshot.device(name))
        shown, before = self.shown.name, [each.name for each in self.before]
        self.screens = [kind(self) for kind in SCREENS if kind.is_there(self.view)]
        known = {each.name: each for each in self.screens}
        self.shown = known.get(shown, self.screens[0])
        self.before = [known[each] for each in before if each in known]

    def ask_event(self) -> None:
        """Let the reader type an event's number."""

        def go(typed: str) -> None:
            text = typed.strip().replace(",", "")
            if text.lstrip("-").isdecimal():
                self.view.go_to(int(text))
            elif text:
                self.say(f"{text} is not an event; type a number")

        self.ask("event ", go)

    # Sending what is shown: as Markdown, as JSON, and as a link for the page.

    @property
    def link(self) -> str:
        """The fragment of the page's address that shows this."""
        view, snapshot = self.view, self.view.opened.snapshot
        device = [str(each.device) for each in snapshot.devices].index(view.device.name)
        shown: dict[str, object] = {
            "device": None if device == snapshot.history.default_device else device,
            "curve": None if view.curve == COUNTED[0] else view.curve,
            "event": None if view.event == view.opening else view.event,
        }
        return encode_link(shown | self.shown.in_link())

    def _as_markdown(self) -> str:
        """Return the screen as Markdown; no name in it is markup, a mention or a link."""
        view = self.view
        titles, rows = self.shown.as_table()
        amounts = view.moment.amounts
        figures = [("allocated", amounts.allocated), ("requested", amounts.requested)]
        figures += [] if amounts.reserved is None else [("reserved", amounts.reserved)]
        file, device = escaped(view.opened.snapshot.history.title), escaped(view.device.name)
        blocks = [
            f"**{file}**, {device}: {format_bytes(view.moment.bytes)} {view.curve} {view.name}",
            " · ".join(f"{name} {format_bytes(size)}" for name, size in figures),
            f"{self.shown.title}:",
        ]
        if rows:
            left = [k for k, cell in enumerate(rows[0]) if isinstance(cell, str)]
            cells = [list(map(_cell, titles, row)) for row in rows[:_MOST_ROWS]]
            blocks.append(table([escaped(each) for each in titles], cells, left))
        if len(rows) > _MOST_ROWS:
            blocks.append(f"and {format_count(len(rows) - _MOST_ROWS)} more")
        if self.link:
            blocks.append(f"In the report: {code_span(f'#{self.link}')}")
        return "\n\n".join(blocks) + "\n"

    def _as_json(self) -> str:
        """Return the screen as JSON, sizes in bytes."""
        view = self.view
        titles, rows = self.shown.as_table()
        whole = {
            "file": view.opened.snapshot.history.source.name,
            "device": view.device.name,
            "event": view.event,
            "time_us": view.moment.time_us,
            "curve": view.curve,
            "bytes": view.moment.bytes,
            "amounts": view.moment.amounts,
            "screen": self.shown.title,
            "link": self.link,
            "rows": [dict(zip(titles, row, strict=True)) for row in rows],
        }
        text = orjson.dumps(whole, default=bytes.hex, option=orjson.OPT_INDENT_2)
        return plain_json(text).decode() + "\n"

    def copy_view(self, form: str) -> None:
        """Copy what is shown, as ``Markdown`` or ``JSON``."""
        text = self._as_json() if form == "JSON" else self._as_markdown()
        if len(text) > _MOST_LETTERS:
            self.say("that is too long for a clipboard; W writes it to a file")
            return
        self._copy(text)
        self.say(f"{form} is on the clipboard, if your terminal lets programs write to it")

    def copy_link(self) -> None:
        """Copy the link that shows the same on the page."""
        link = f"#{self.link}"
        self._copy(link)
        self.say(f"{link} (append it to the page's address)")

    def ask_file(self) -> None:
        """Let the reader type the name of a new file."""

        def write(typed: str) -> None:
            if not typed.strip():
                return
            path = Path(typed.strip()).expanduser()
            if not path.name:
                self.say("name a file, such as view.md or view.json.")
                return
            try:
                text = self._as_json() if path.suffix == ".json" else self._as_markdown()
                with write_atomically(path, force=False) as out:
                    out.write(text.encode())
            except SnapreportError as error:
                self.say(str(error))
            else:
                self.say(f"wrote {path}")

        self.ask("write to: ", write)

    # The mouse, and drawing.

    def click(self, column: int, row: int, *, twice: bool) -> None:
        """Handle a click: on a tab, or in the screen."""
        if row == 1:
            for begin, end, screen in self._tabs:
                if begin <= column < end:
                    self._open(screen)
        elif row > 2:
            self.shown.click(column, row - 3, twice=twice)

    def scroll(self, by: int) -> None:
        """Handle the mouse wheel."""
        self.shown.scroll(by)

    def draw(self, width: int, height: int) -> list[Line]:
        """Return ``height`` lines of ``width`` columns: heads, the screen, and the foot."""
        room = max(height - 4, 1)
        body = filled(self.shown.draw(width, room), width, room)
        heads = [self._title(width), self._tab_line(width), self._moment(width)]
        return filled([*heads, *body, self._foot(width)], width, height)

    def _title(self, width: int) -> Line:
        snapshot = self.view.opened.snapshot
        devices = len(snapshot.devices)
        device = self.view.device.name + (f" of {devices}, D: next" if devices > 1 else "")
        left = ink(
            (" snapreport ", "brand"),
            (" FORECAST " if snapshot.history.forecast else "", "warning"),
            (f" {snapshot.history.title}", "title"),
        )
        return beside(left, ink((f" {device} ", "dim")), width)

    def _tab_line(self, width: int) -> Line:
        letters = {QueryScreen.name: ":", ChangeScreen.name: "x"}
        marks = [letters.get(each.name, str(k)) for k, each in enumerate(self.screens, 1)]
        for end, names in (
            (" ", [each.title for each in self.screens]),
            ("", [each.short for each in self.screens]),
            ("", [each.short if each is self.shown else "" for each in self.screens]),
        ):
            pairs = zip(marks, names, strict=True)
            titles = [f" {mark} {name}".rstrip() + end for mark, name in pairs]
            if sum(map(width_of, titles)) <= width:
                break
        ends = pairwise(accumulate(map(width_of, titles), initial=0))
        self._tabs = [(*end, screen) for end, screen in zip(ends, self.screens, strict=True)]
        roles = ("tab.on" if screen is self.shown else "tab" for screen in self.screens)
        return ink(*zip(titles, roles, strict=True), mark="bar")

    def _moment(self, width: int) -> Line:
        view = self.view
        stages = " > ".join(
            stage.name
            for stage in view.device.stages
            if stage.start_event <= view.event < stage.end_event
        )
        left = ink((f" {view.name[0].upper()}{view.name[1:]}", "key"), f": {view.figures}")
        room = max(width - width_of(left.text) - 3, 0)
        text = f"  {clip(stages, room) if width_of(stages) > room else stages} " if room > 8 else ""
        return beside(left, ink((text if stages else "", "dim")), width)

    def _foot(self, width: int) -> Line:
        if self.prompt is not None:
            return self.prompt.draw(width)
        if self.message:
            return ink((self.message, "key"))
        right = ink((" ? keys  q back " if self.before else " ? keys  q quit ", "dim"), mark="bar")
        return beside(self._hints(width - width_of(right.text)), right, width)

    def _hints(self, room: int) -> Line:
        """Return the main keys in one line, as many as fit; keys with the same hint are joined."""
        shown: dict[str, str] = {}
        for each in self.shown.KEYS:
            if each.short:
                shown[each.short] = shown.get(each.short, " ") + each.labels[0]
        parts: list[tuple[str, str]] = []
        for short, labels in shown.items():
            room -= width_of(f"{labels} {short} ")
            if room < 0:
                break
            parts += [(labels, "key"), (f" {short} ", "dim")]
        return ink(*parts, mark="bar")


# How links, and cells of tables in Markdown, are written.


_PLAIN = "-_.!~*'(),:"
LINK_KEYS = ("device", "axis", "view", "curve", "event", "tab", "search", "stacks", "frames")
"""The keys of a fragment of the page's address, as in ``#event=12&tab=lines``, in the page's order.
The page has more keys, for things that the explorer does not have."""


def encode_link(values: Mapping[str, object]) -> str:
    """Return a fragment without its ``#``; None and ``""`` are the page's defaults."""
    return "&".join(
        f"{key}={quote(_linked(values[key]), safe=_PLAIN)}"
        for key in LINK_KEYS
        if values.get(key) not in (None, "")
    )


def _linked(value: object) -> str:
    """Write a value; of numbers enough digits to find the same pixel again, as the page does."""
    if isinstance(value, tuple):
        return ",".join(map(_linked, value))
    if not isinstance(value, float):
        return str(value)
    return str(int(value)) if value == int(value) else f"{value:.9g}"


_BYTES = frozenset(
    {"bytes", "requested", "cumulative", "median", "allocated", "reserved", "size", "in use",
     "start", "peak", "end", "change", "before", "after"}
)  # fmt: skip
"""Columns whose numbers are bytes."""


def _cell(title: str, cell: object) -> str:
    """Write a cell of a table in Markdown."""
    if cell is None:
        return "-"
    if isinstance(cell, int) and not isinstance(cell, bool):
        return format_bytes(cell) if title in _BYTES else format_count(cell)
    return code_span(str(cell)) if str(cell) else ""


# Everything on the screen: one recording, or two in panes, and the list of keys over them.


ALWAYS = (
    key("?", "this list", "open_help"),
    key("T", "dark, light, or the terminal's own colours", "keep"),
    key("ctrl+z", "suspend; fg brings it back", "keep"),
    key("Q ctrl+c ctrl+q", "quit at once", "quit"),
)
WITH_TWO = (
    key("{ }", "the other pane", "turn_pane"),
    key("s", "panes side by side, or one above the other", "turn_split"),
)


class KeyHelp:
    """A scrollable list of keys in groups."""

    def __init__(self, groups: Sequence[tuple[str, Sequence[Key]]]) -> None:
        """Take titles and keys."""
        self.groups = groups
        self.top = 0
        self._lines: list[Line] = []
        self._page = 10

    def press(self, name: str) -> bool:
        """Scroll; False for a key that closes it."""
        moves = {
            "down": 1, "j": 1, "up": -1, "k": -1, "pagedown": self._page, "space": self._page,
            "pageup": -self._page, "home": -(10**6), "end": 10**6,
        }  # fmt: skip
        if name not in moves:
            return False
        last = max(len(self._lines) - self._page, 0)
        self.top = min(max(self.top + moves[name], 0), last)
        return True

    def draw(self, width: int, height: int) -> list[Line]:
        """Return the list, in two columns if there is room."""
        two = width >= 130
        each = (width - 2) // 2 if two else width
        blocks = [self._block(title, keys, each) for title, keys in self.groups]
        if two:
            half = sum(map(len, blocks)) / 2
            left: list[Line] = []
            right: list[Line] = []
            for block in blocks:
                (left if len(left) < half and not right else right).extend(block)
            self._lines = [
                Line(clipped(one, each + 2).runs + other.runs)
                for one, other in zip_longest(left, right, fillvalue=EMPTY)
            ]
        else:
            self._lines = [line for block in blocks for line in block]
        self._page = max(height - 2, 1)
        self.top = min(self.top, max(len(self._lines) - self._page, 0))
        shown = self._lines[self.top : self.top + self._page]
        more = len(self._lines) > self._page
        foot = "↑↓ scroll, any other key closes this list" if more else "any key closes this list"
        head = ink((" Keys", "title"), mark="bar")
        body = filled(shown, width, self._page)
        return filled([head, *body, ink((f" {foot}", "dim"), mark="bar")], width, height)

    def _block(self, title: str, keys: Sequence[Key], width: int) -> list[Line]:
        lines = [ink((title, "title"))]
        for each in keys:
            label = "1 to 9" if each.names[0] == "1" else ", ".join(each.labels)
            lines += labelled(f"  {label}", each.what, 22, width - 2, "key")
        return [*lines, EMPTY]


class Panes:
    """One desk or two; keys go to the one in front."""

    def __init__(
        self,
        views: Sequence[Viewpoint],
        run: Callable[[Work], None],
        quit_: Callable[[], None],
        copy: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``run``: does work in a thread; ``copy``: puts text on the clipboard."""
        if len(views) > 1:
            for view in views:
                view.pair = views[0], views[1]
        self.desks = [Desk(view, run, quit_, copy) for view in views]
        self.active = 0
        self.side_by_side = True
        self.help: KeyHelp | None = None
        self.quit = quit_
        self._size = (80, 24)

    @property
    def desk(self) -> Desk:
        """The one that keys go to."""
        return self.desks[self.active]

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys that work on every screen."""
        return ALWAYS + (WITH_TWO if len(self.desks) > 1 else ())

    def press(self, name: str) -> bool:
        """Handle a key; False if it does nothing."""
        if name in ("ctrl+c", "ctrl+q"):
            self.quit()
            return True
        if self.help is not None:
            if not self.help.press(name):
                self.help = None
            return True
        if self.desk.prompt is None and press_key(self, self.keys, name):
            return True
        return self.desk.press(name)

    def keep(self) -> None:
        """Do nothing: the app handles this key before."""

    def open_help(self) -> None:
        """Show the keys of this screen."""
        shown = self.desk.shown
        groups = [(f"In {shown.title.lower()}", shown.KEYS), ("Everywhere", (*KEYS, *ALWAYS))]
        if len(self.desks) > 1:
            groups.append(("With two files", WITH_TWO))
        self.help = KeyHelp(groups)

    def turn_pane(self) -> None:
        """Move the focus to the other pane."""
        self.active = (self.active + 1) % len(self.desks)

    def turn_split(self) -> None:
        """Put the panes side by side, or one above the other."""
        self.side_by_side = not self.side_by_side

    # The mouse.

    def _pane_at(self, column: int, row: int) -> tuple[int, int, int]:
        """Return the pane at a position, and the position within it."""
        half = self._half
        if len(self.desks) == 1 or (column if self.side_by_side else row) <= half:
            return 0, column, row
        return (1, column - half - 1, row) if self.side_by_side else (1, column, row - half - 1)

    @property
    def _half(self) -> int:
        """How many columns or rows the first pane takes, up to the line between the panes."""
        return (self._size[0 if self.side_by_side else 1] - 1) // 2

    def click(self, column: int, row: int, *, twice: bool = False) -> None:
        """Handle a click."""
        if self.help is not None:
            self.help = None
            return
        self.active, column, row = self._pane_at(column, row)
        self.desk.click(column, row, twice=twice)

    def scroll(self, by: int, column: int, row: int) -> None:
        """Handle the mouse wheel."""
        if self.help is not None:
            self.help.press("down" if by > 0 else "up")
            return
        self.desks[self._pane_at(column, row)[0]].scroll(by)

    # Drawing.

    def draw(self, width: int, height: int) -> list[Line]:
        """Return ``height`` lines of ``width`` columns."""
        self._size = width, height
        if self.help is not None:
            return self.help.draw(width, height)
        if len(self.desks) == 1:
            return self.desk.draw(width, height)
        half = self._half
        if self.side_by_side:
            left, right = self._pane(0, half, height), self._pane(1, width - half - 1, height)
            rule = ["│"] * height
            rule[height // 2] = "◀▶"[self.active]
            return [
                Line((*one.runs, Run(between, "axis"), *other.runs))
                for one, between, other in zip(left, rule, right, strict=True)
            ]
        above, below = self._pane(0, width, half), self._pane(1, width, height - half - 1)
        text = "─" * (width // 2) + "▲▼"[self.active] + "─" * (width - width // 2 - 1)
        return [*above, clipped(ink((text, "axis")), width), *below]

    def _pane(self, pane: int, width: int, height: int) -> list[Line]:
        """Return a pane's lines with their marks applied, or pale in the pane behind."""
        lines = [clipped(line, width) for line in self.desks[pane].draw(width, height)]
        if pane == self.active:
            return [Line(line.marked) for line in lines]
        return [Line(tuple(Run(text, "pale") for text, _ in line.runs)) for line in lines]

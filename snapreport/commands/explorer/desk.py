"""What fills the terminal: one recording with its tabs and the way back, or two side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from snapreport.commands.explorer.allocations import AllocationsScreen, EventsScreen
from snapreport.commands.explorer.cells import (
    EMPTY,
    Line,
    Run,
    beside,
    clip,
    clipped,
    ink,
    width_of,
)
from snapreport.commands.explorer.front_desk import (
    COUNTED,
    MOST_LETTERS,
    FrontDesk,
    Key,
    KeyHelp,
    Viewpoint,
    Work,
    as_json,
    as_markdown,
    key,
    link_of,
    press_key,
    write_text,
)
from snapreport.commands.explorer.overview import OverviewScreen, RecordingScreen
from snapreport.commands.explorer.queries import QueryScreen
from snapreport.commands.explorer.screen import Screen
from snapreport.commands.explorer.segments import AllocatorScreen
from snapreport.commands.explorer.stages import LinesScreen, StagesScreen
from snapreport.commands.explorer.timeline import TimelineScreen
from snapreport.commands.explorer.tree import ChangeScreen, TreeScreen
from snapreport.ground.errors import SnapreportError

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
        self.show(TimelineScreen.name)
        if isinstance(self.shown, TimelineScreen):
            self.shown.zoom_to(first, end)

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
        if self.shown.leave():
            return
        if self.before:
            self.shown = self.before.pop()
        else:
            self._quit()

    def escape(self) -> None:
        """Clear the search; without one go back, but never quit."""
        if not self.shown.clear_search() and not self.shown.leave() and self.before:
            self.shown = self.before.pop()

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
            self._show_numbered(int(name))
            return True
        return self.shown.press(name) or press_key(self, KEYS, name)

    def paste(self, text: str) -> None:
        """Insert pasted text if the prompt is open."""
        if self.prompt is not None:
            self.prompt.insert(text)

    def _show_numbered(self, number: int) -> None:
        if number <= len(self.screens):
            self._open(self.screens[number - 1])

    def show_query(self) -> None:
        """Show the schema, and let the reader type a statement."""
        self.show(QueryScreen.name)
        if isinstance(self.shown, QueryScreen):
            self.shown.ask_sql()

    def turn(self, by: int) -> None:
        """Show the next screen, or the one before."""
        place = (self.screens.index(self.shown) + by) % len(self.screens)
        self._open(self.screens[place])

    def turn_curve(self) -> None:
        """Count the other curve."""
        place = COUNTED.index(self.view.curve) + 1
        self.view.count(COUNTED[place % len(COUNTED)])
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
        self.ask("event ", self._go_to_typed)

    def _go_to_typed(self, typed: str) -> None:
        text = typed.strip().replace(",", "")
        if text.lstrip("-").isdecimal():
            self.view.go_to(int(text))
        elif text:
            self.say(f"{text} is not an event; type a number")

    # Sending what is shown.

    @property
    def link(self) -> str:
        """The fragment of the page's address that shows this."""
        return link_of(self.view, self.shown.in_link())

    def _written(self, form: str) -> str:
        write = as_json if form == "JSON" else as_markdown
        return write(self.view, self.shown.title, self.shown.as_table(), self.link)

    def copy_view(self, form: str) -> None:
        """Copy what is shown, as ``Markdown`` or ``JSON``."""
        text = self._written(form)
        if len(text) > MOST_LETTERS:
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
        """Let the reader type a file's name."""
        self.ask("write to: ", self._write)

    def _write(self, typed: str) -> None:
        if not typed.strip():
            return
        path = Path(typed.strip()).expanduser()
        try:
            write_text(path, self._written("JSON" if path.suffix == ".json" else "Markdown"))
        except SnapreportError as error:
            self.say(str(error))
        else:
            self.say(f"wrote {path}")

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

    # Drawing.

    def draw(self, width: int, height: int) -> list[Line]:
        """Return ``height`` lines of ``width`` columns: heads, the screen, and the foot."""
        body = self.shown.draw(width, max(height - 4, 1))
        body = [*body, *[EMPTY] * (height - 4 - len(body))]
        lines = [self._title(width), self._tab_line(width), self._moment(width), *body]
        lines.append(self._foot(width))
        return [clipped(line, width) for line in lines][:height]

    def _title(self, width: int) -> Line:
        snapshot = self.view.opened.snapshot
        devices = len(snapshot.devices)
        device = f"{self.view.device.name}" + (f" of {devices}, D: next" if devices > 1 else "")
        left = ink((" snapreport ", "brand"), (f" {snapshot.history.title}", "title"))
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
        parts, at = [], 0
        self._tabs = []
        for text, screen in zip(titles, self.screens, strict=True):
            self._tabs.append((at, at + width_of(text), screen))
            at += width_of(text)
            parts.append((text, "tab.on" if screen is self.shown else "tab"))
        return ink(*parts, mark="bar")

    def _moment(self, width: int) -> Line:
        view = self.view
        stages = " > ".join(view.stage_path)
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
        room = width - width_of(right.text)
        return beside(hints_of(self.shown.KEYS, room), right, width)


def hints_of(keys: tuple[Key, ...], room: int) -> Line:
    """Return the main keys in one line, as many as fit; keys with the same hint are joined."""
    shown: dict[str, list[str]] = {}
    for each in keys:
        if each.short:
            shown.setdefault(each.short, []).append(each.label.split(" ", maxsplit=1)[0])
    parts: list[tuple[str, str]] = []
    for short, labels in shown.items():
        hint = f" {''.join(labels)}", f" {short} "
        room -= width_of("".join(hint))
        if room < 0:
            break
        parts += [(hint[0], "key"), (hint[1], "dim")]
    return ink(*parts, mark="bar")


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
        if len(self.desks) == 1:
            return 0, column, row
        width, height = self._size
        if self.side_by_side:
            half = (width - 1) // 2
            return (0, column, row) if column <= half else (1, column - half - 1, row)
        half = (height - 1) // 2
        return (0, column, row) if row <= half else (1, column, row - half - 1)

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
        first, second = self.desks
        if self.side_by_side:
            half = (width - 1) // 2
            left = first.draw(half, height)
            right = second.draw(width - half - 1, height)
            mark = "◀" if self.active == 0 else "▶"
            middle = height // 2
            return [
                Line(
                    (
                        *self._dimmed(one, 0, half).runs,
                        Run(mark if row == middle else "│", "axis"),
                        *self._dimmed(other, 1, width - half - 1).runs,
                    )
                )
                for row, (one, other) in enumerate(zip(left, right, strict=True))
            ]
        half = (height - 1) // 2
        above = [self._dimmed(line, 0, width) for line in first.draw(width, half)]
        below = [self._dimmed(line, 1, width) for line in second.draw(width, height - half - 1)]
        mark = "▲" if self.active == 0 else "▼"
        rule = ink(("─" * (width // 2) + mark + "─" * (width - width // 2 - 1), "axis"))
        return [*above, clipped(rule, width), *below]

    def _dimmed(self, line: Line, pane: int, width: int) -> Line:
        """Return a line of a pane, with its mark applied, or pale in the pane behind."""
        line = clipped(line, width)
        active = pane == self.active
        runs = (
            Run(text, f"{role}|{line.mark}" if active and line.mark else role if active else "pale")
            for text, role in line.runs
        )
        return Line(tuple(runs))

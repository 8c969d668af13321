"""What screens share: keys and their list, the moment looked at, the typed line, and sending.

A screen asks its front desk for another screen, a message, a typed line, or slow work in a thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import orjson

from snapreport.commands.explorer.cells import (
    EMPTY,
    Bars,
    EventScale,
    Line,
    Run,
    chart,
    clipped,
    fit,
    in_line,
    ink,
    width_of,
    wrap,
)
from snapreport.figures.curves import find_curves
from snapreport.figures.what_if import Heights
from snapreport.ground.errors import OutputError
from snapreport.ground.files import write_atomically
from snapreport.ground.safe_text import plain_json, visible
from snapreport.ground.units import format_bytes, format_count, format_duration
from snapreport.model.history import History
from snapreport.reporters.markdown import code_span, escaped, table
from snapreport.reporters.text import NARROWEST, STYLES, Page
from snapreport.reporters.words import event_name

if TYPE_CHECKING:
    from snapreport.api.device import Device, Moment
    from snapreport.commands.explorer.opening import OpenedFile
    from snapreport.ground.cards import CardWanted


# Key bindings: the names of keys, what they do, and the method that they call.


ARROWS = {
    "left": "←",
    "right": "→",
    "up": "↑",
    "down": "↓",
    "enter": "Enter",
    "escape": "Esc",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "home": "Home",
    "end": "End",
    "tab": "Tab",
    "shift+tab": "Shift+Tab",
    "ctrl+c": "Ctrl+C",
}
"""Keys other than letters, as the terminal names them and as they are shown."""


@dataclass(frozen=True)
class Key:
    """One action, and the keys that trigger it."""

    names: tuple[str, ...]
    """Each a letter as typed, or one of ``ARROWS``."""
    what: str
    act: str
    """A method of the screen."""
    short: str = ""
    """For the line at the bottom; ``""`` to leave it out there."""
    given: dict[str, Any] = field(default_factory=dict)
    """The method's arguments."""

    @property
    def label(self) -> str:
        """Such as ``← a``."""
        return " ".join(ARROWS.get(name, name) for name in self.names)


def key(names: str, what: str, act: str, short: str = "", **given: Any) -> Key:
    """Make a binding; ``names`` has spaces between, ``given`` are the method's arguments."""
    return Key(tuple(names.split()), what, act, short, given)


def press_key(owner: object, keys: Iterable[Key], name: str) -> bool:
    """Call the owner's method for a key; False if the key has none."""
    found = next((each for each in keys if name in each.names), None)
    if found is not None:
        getattr(owner, found.act)(**found.given)
    return found is not None


# The list of keys, shown over the current screen.


_LABEL = 22


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
        body = [*shown, *[EMPTY] * (self._page - len(shown))]
        lines = [head, *body, ink((f" {foot}", "dim"), mark="bar")]
        return [clipped(line, width) for line in lines][:height]

    def _block(self, title: str, keys: Sequence[Key], width: int) -> list[Line]:
        lines = [ink((title, "title"))]
        for each in keys:
            label = ", ".join(ARROWS.get(name, name) for name in each.names)
            if each.names[0] == "1":
                label = "1 to 9"
            texts = wrap(each.what, max(width - _LABEL - 3, 10))
            for k, text in enumerate(texts):
                shown = fit(f"  {label}" if k == 0 else "", _LABEL)
                lines.append(Line((Run(shown, "key"), Run(f" {text}"))))
        return [*lines, EMPTY]


# What all screens of a recording share: the device, the curve, and one moment.


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
        self.event = self.opening
        self.__dict__.pop("moment", None)

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

    @property
    def elapsed_us(self) -> int | None:
        """Microseconds since the first event, None if unknown."""
        now, first = self.moment.time_us, self.device.figures.first_time_us
        return None if now is None or first is None else now - first

    @property
    def stage_path(self) -> tuple[str, ...]:
        """The stages at this event, outermost first."""
        return tuple(
            stage.name
            for stage in self.device.stages
            if stage.start_event <= self.event < stage.end_event
        )

    @property
    def name(self) -> str:
        """``at the peak (event 793)``, ``at event 12``, ``at the start``, as on the page."""
        if not self.device.figures.recorded:
            return "when the snapshot was written"
        if self.event == self.opening:
            return "at the peak" + (
                ", which is the start" if self.event < 0 else f" (event {event_name(self.event)})"
            )
        if self.event < 0:
            return "at the start"
        event = f"event {event_name(self.event)}"
        return f"at the end ({event})" if self.event == self.device.events - 1 else f"at {event}"

    @property
    def figures(self) -> str:
        """``4.45 GiB allocated, 5.10 GiB reserved, 12.1 ms after the first event``."""
        moment = self.moment
        parts = [f"{format_bytes(moment.bytes)} {self.curve}"]
        reserved = moment.amounts.reserved
        if reserved is not None:
            parts.append(f"{format_bytes(reserved)} reserved")
        if self.elapsed_us is not None and self.device.figures.recorded:
            parts.append(f"+{format_duration(max(self.elapsed_us, 0))}")
        return ", ".join(parts)


# The input line at the bottom of the screen: a search, a file name, SQL.


LONGEST = 10_000
"""Most letters that are accepted, in case of an accidental paste."""


class PromptLine:
    """Text being typed, its cursor, and its callbacks."""

    def __init__(
        self,
        label: str,
        text: str = "",
        *,
        done: Callable[[str], None],
        changed: Callable[[str], None] | None = None,
        cancelled: Callable[[], object] | None = None,
        before: list[str] | None = None,
    ) -> None:
        """``before``: earlier inputs, for the up and down keys."""
        self.label = label
        self.text = text
        self.at = len(text)
        self._done, self._changed, self._cancelled = done, changed, cancelled
        self._before = before or []
        self._place = len(self._before)
        self.open = True

    def press(self, name: str) -> None:
        """Handle a key."""
        moves = {
            "left": max(self.at - 1, 0),
            "right": min(self.at + 1, len(self.text)),
            "home": 0,
            "ctrl+a": 0,
            "end": len(self.text),
            "ctrl+e": len(self.text),
        }
        if name in moves:
            self.at = moves[name]
        elif name == "enter":
            self.open = False
            self._done(self.text)
        elif name == "escape":
            self.open = False
            if self._cancelled is not None:
                self._cancelled()
        elif name in ("backspace", "ctrl+h"):
            self._replace(max(self.at - 1, 0), self.at, "")
        elif name in ("delete", "ctrl+d"):
            self._replace(self.at, self.at + 1, "")
        elif name == "ctrl+u":
            self._replace(0, self.at, "")
        elif name == "ctrl+w":
            kept = self.text[: self.at].rstrip()
            self._replace(kept.rfind(" ") + 1, self.at, "")
        elif name in ("up", "down"):
            self._recall(-1 if name == "up" else 1)
        elif len(name) == 1 or name == "space":
            self.insert(" " if name == "space" else name)

    def insert(self, text: str) -> None:
        """Insert typed or pasted text; several lines become one."""
        room = LONGEST - len(self.text)
        self._replace(self.at, self.at, " ".join(text.splitlines())[: max(room, 0)])

    def _recall(self, by: int) -> None:
        place = self._place + by
        if 0 <= place < len(self._before):
            self._place = place
            self._replace(0, len(self.text), self._before[place])

    def _replace(self, begin: int, end: int, new: str) -> None:
        self.text = self.text[:begin] + new + self.text[end:]
        self.at = begin + len(new)
        if self._changed is not None:
            self._changed(self.text)

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
        *,
        text: str = "",
        changed: Callable[[str], None] | None = None,
        cancelled: Callable[[], object] | None = None,
    ) -> None:
        """Let the reader type a line."""
        typed = self._typed.setdefault(label, [])

        def finish(line: str) -> None:
            if line.strip() and line not in typed[-1:]:
                typed.append(line)
            done(line)

        self.prompt = PromptLine(
            label, text, done=finish, changed=changed, cancelled=cancelled, before=typed
        )


# The current view as Markdown, as JSON, and as a link for the page.


MOST_ROWS = 40
"""Rows of a table in Markdown: the length of an issue comment is limited."""
MOST_LETTERS = 70_000
"""Letters that go to the clipboard: terminals accept no more."""
_BYTES = frozenset(
    {"bytes", "requested", "cumulative", "median", "allocated", "reserved", "size", "in use",
     "start", "peak", "end", "change", "before", "after"}
)  # fmt: skip
"""Columns whose numbers are bytes."""
LINK_KEYS = ("device", "axis", "view", "curve", "event", "tab", "search", "stacks", "frames")
"""The keys of a fragment of the page's address, as in ``#event=12&tab=lines``, in the page's order.
The page has more keys, for things that the explorer does not have."""
_PLAIN = "-_.!~*'(),:"

Table = tuple[Sequence[str], Sequence[Sequence[object]]]
"""Headings, and rows of plain values."""


def link_of(view: Viewpoint, screen: Mapping[str, object]) -> str:
    """Return the fragment of the page's address for a moment; ``screen``: the screen's own keys."""
    snapshot = view.opened.snapshot
    places = [str(device.device) for device in snapshot.devices]
    device = places.index(view.device.name)
    return encode_link(
        {
            "device": None if device == snapshot.history.default_device else device,
            "curve": None if view.curve == "allocated" else view.curve,
            "event": None if view.event == view.opening else view.event,
            **screen,
        }
    )


def encode_link(values: Mapping[str, object]) -> str:
    """Return a fragment without its ``#``; None and ``""`` are the page's defaults."""
    parts = [
        f"{key}={quote(_text(values[key]), safe=_PLAIN)}"
        for key in LINK_KEYS
        if values.get(key) not in (None, "")
    ]
    return "&".join(parts)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(_number(each) for each in value)
    return _number(value) if isinstance(value, float) else str(value)


def _number(value: float) -> str:
    """Write enough digits to find the same pixel again, as the page does."""
    return str(int(value)) if value == int(value) else f"{value:.9g}"


def as_markdown(view: Viewpoint, title: str, shown: Table, link: str) -> str:
    """Return a screen as Markdown; no name in it is markup, a mention or a link."""
    titles, rows = shown
    amounts = view.moment.amounts
    figures = [("allocated", amounts.allocated), ("requested", amounts.requested)]
    figures += [] if amounts.reserved is None else [("reserved", amounts.reserved)]
    held = f"{format_bytes(view.moment.bytes)} {view.curve} {view.name}"
    blocks = [
        f"**{escaped(view.opened.snapshot.history.title)}**, {escaped(view.device.name)}: {held}",
        " · ".join(f"{name} {format_bytes(size)}" for name, size in figures),
        f"{title}:",
    ]
    if rows:
        left = [k for k, cell in enumerate(rows[0]) if isinstance(cell, str)]
        cells = [
            [_cell(name, cell) for name, cell in zip(titles, row, strict=True)]
            for row in rows[:MOST_ROWS]
        ]
        blocks.append(table([escaped(each) for each in titles], cells, left))
    if len(rows) > MOST_ROWS:
        blocks.append(f"and {format_count(len(rows) - MOST_ROWS)} more")
    if link:
        blocks.append(f"In the report: {code_span(f'#{link}')}")
    return "\n\n".join(blocks) + "\n"


def _cell(name: str, cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, int) and not isinstance(cell, bool):
        return format_bytes(cell) if name in _BYTES else format_count(cell)
    return code_span(str(cell)) if str(cell) else ""


def as_json(view: Viewpoint, title: str, shown: Table, link: str) -> str:
    """Return a screen as JSON, sizes in bytes."""
    titles, rows = shown
    whole: dict[str, Any] = {
        "file": view.opened.snapshot.history.source.name,
        "device": view.device.name,
        "event": view.event,
        "time_us": view.moment.time_us,
        "curve": view.curve,
        "bytes": view.moment.bytes,
        "amounts": asdict(view.moment.amounts),
        "screen": title,
        "link": link,
        "rows": [dict(zip(titles, map(_plain, row), strict=True)) for row in rows],
    }
    return plain_json(orjson.dumps(whole, option=orjson.OPT_INDENT_2)).decode() + "\n"


def _plain(cell: object) -> object:
    return cell.hex() if isinstance(cell, bytes) else cell


def write_text(path: Path, text: str) -> None:
    """Write a text into a new file.

    Raises:
        OutputError: the file exists already, or cannot be written.
    """
    if not path.name:
        raise OutputError("name a file, such as view.md or view.json.")
    with write_atomically(path, force=False) as out:
        out.write(text.encode())


# Converts what the reporters write for a terminal into lines of a screen.


_COLOUR = re.compile(r"\x1b\[([0-9;]*)m")
_CODES = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "blue": "34"}
_ROLES = {
    ";".join(_CODES[word] for word in style.split()): name for name, style in STYLES.items() if name
}
_ROLES |= {"31": "heat4", "33": "heat3"}


def page_lines(width: int, write: Callable[[Page], None]) -> list[Line]:
    """Return what ``write`` writes on a page of ``width`` columns."""
    page = Page(max(width, NARROWEST), colour=True)
    write(page)
    return [_line(text) for text in page.render().decode().removesuffix("\n").split("\n")]


def _line(text: str) -> Line:
    """Return a line; only our own colours become roles, other escape sequences are shown."""
    parts = _COLOUR.split(text)
    roles = ["", *(_ROLES.get(code, "") for code in parts[1::2])]
    return ink(*zip(parts[::2], roles, strict=True))


# The screen while a file is being opened: the progress, then the first picture.


_WIDE = 40


class OpeningLines:
    """What is being done and its progress; once the file is read, its curve and peak."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        """``cancel``: stops the opening."""
        self._cancel = cancel
        self.what = "Opening"
        self.fraction: float | None = None
        self._device = ""
        self._curves: dict[str, Heights] = {}

    def tell(self, what: str, fraction: float | None) -> None:
        """Show progress."""
        self.what, self.fraction = what, fraction

    def picture(self, file: History) -> None:
        """Show the curves of a file that is read, while its figures are computed."""
        if file.devices:
            device = file.devices[file.default_device]
            curves = find_curves(device, file.layout != "profiler")
            self._curves = {name: Heights(values) for name, values in curves.items()}
            self._device = str(device.device)
        self.tell("Computing the figures", None)

    def press(self, name: str) -> bool:
        """Handle a key: some keys cancel."""
        if name in ("escape", "q", "Q", "ctrl+c", "ctrl+q"):
            self._cancel()
            return True
        return False

    def draw(self, width: int, height: int) -> list[Line]:
        """Return the lines."""
        lines = [ink((" snapreport ", "brand"), f"  {self.what}")]
        if self._curves and height > 6:
            lines += self._picture(width, height - 4)
        else:
            wide = min(_WIDE, max(width - 4, 1))
            done = 0 if self.fraction is None else round(self.fraction * wide)
            bar = ink("  ", ("█" * done, "bar"), ("░" * (wide - done), "axis"))
            lines += [EMPTY] * max(height // 2 - 3, 0)
            lines += [EMPTY if self.fraction is None else bar, EMPTY]
        lines += [EMPTY] * (height - 1 - len(lines))
        lines.append(ink(("  Esc", "key"), (" cancels", "dim")))
        return [clipped(line, width) for line in lines[:height]]

    def _picture(self, width: int, height: int) -> list[Line]:
        """Return the entire curve, as the timeline draws it, and its peak."""
        curve = self._curves["allocated"].values
        scale = EventScale(len(curve) - 1)
        first, end = scale.spans(np.linspace(*scale.whole, max(width - 4, 1) + 1))
        found = {name: each.most(first + 1, end + 1) for name, each in self._curves.items()}
        bars = Bars(found["allocated"], found["requested"], found.get("reserved"))
        peak = int(curve.argmax())
        title = f"  {self._device}: {format_bytes(int(curve[peak]))} allocated at the peak"
        high = max(int(each.values.max()) for each in self._curves.values())
        cells = chart(bars, height - 1, 0, max(high, 1))
        head = ink((title, "key"), (f", event {event_name(peak - 1)}", "dim"))
        return [head, *(Line(ink("  ").runs + in_line(row)) for row in cells)]

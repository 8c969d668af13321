"""The timeline: memory over events or time, with stages below it, and the cursor."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from snapreport.commands.explorer.chart import (
    Bars,
    EventScale,
    Heights,
    Scale,
    TimeScale,
    bars_of,
    chart,
    grid,
    stage_bands,
    ticks,
    with_cursor,
)
from snapreport.commands.explorer.lines import (
    Cell,
    Line,
    Run,
    beside,
    clipped,
    fit,
    in_line,
    ink,
)
from snapreport.commands.explorer.screen import FAR, Key, Screen, Table, key
from snapreport.ground.units import format_bytes, format_count, format_duration
from snapreport.model.snapshot import NO_TIME
from snapreport.reporters.words import event_name

_LABELS = 9
"""Columns of the labels of the y axis."""
_JUMP = 15
_LEAST_ROWS = 5
_LEAST_X = 4.0
_PAN = 0.12
_LEAST_BYTES = 4096


class TimelineScreen(Screen):
    """Bars that show the most that was allocated in their columns, to the byte."""

    name = "timeline"
    title = "Timeline"
    short = "Time"
    KEYS: ClassVar[tuple[Key, ...]] = (
        key("enter", "what is live at this moment, by call stack", "open_tree", "live here"),
        key("left", "a column back", "step", "column", by=-1),
        key("right", "a column forward", "step", "column", by=1),
        key("b", f"{_JUMP} columns back", "step", f"{_JUMP}", by=-_JUMP),
        key("f", f"{_JUMP} columns forward", "step", f"{_JUMP}", by=_JUMP),
        key("[", "a quarter of the view back", "step_quarter", "quarter", by=-1),
        key("]", "a quarter of the view forward", "step_quarter", "quarter", by=1),
        key("+ =", "zoom in, the cursor in the middle", "zoom", "zoom", factor=0.5),
        key("-", "zoom out", "zoom", "zoom", factor=2.0),
        key("0", "show everything", "show_all", "all"),
        key("up w", "raise the bottom of the y axis", "move_foot", "y", by=1),
        key("down s", "lower it", "move_foot", "y", by=-1),
        key("r", "the y axis from 0 again", "move_foot", by=-FAR),
        key("a", "move the view back", "pan", by=-_PAN),
        key("d", "move the view forward", "pan", by=_PAN),
        key(",", "the event before", "step_event", "event", by=-1),
        key(".", "the next event", "step_event", "event", by=1),
        key("p", "go to the peak", "go_to_peak", "peak"),
        key("o", "go to the next failed request", "go_to_oom"),
        key("home", "go to the start", "go", event=-1),
        key("end", "go to the end", "go", event=FAR),
        key("t", "events or time along the axis", "turn_axis", "time"),
    )

    axis = "events"
    low = 0
    """Bytes at the bottom of the y axis."""
    width = 60
    """Columns of the chart."""
    window = (0.0, 1.0)
    """The visible range, in the units of the axis."""
    _device = ""
    _scale: Scale
    _heights: dict[str, Heights]
    _drawn: tuple[object, list[tuple[Run, ...]]] = (None, [])

    @property
    def whole(self) -> tuple[float, float]:
        """The window that shows everything, in the units of the current axis."""
        self.sync()
        return self._scale.whole

    def sync(self) -> None:
        """Use the curves of the device if it has changed."""
        device = self.view.device
        if device.name == self._device:
            return
        self._device = device.name
        self._heights = {
            name: Heights(device.curve(name))
            for name in ("allocated", "requested", "reserved")
            if name in device.figures.curves
        }
        if not self._has_times():
            self.axis = "events"
        self._measure()
        self.show_all()

    def _has_times(self) -> bool:
        return bool((self.view.device.times != NO_TIME).any())

    def _measure(self) -> None:
        times = self.view.device.times
        self._scale = TimeScale(times) if self.axis == "time" else EventScale(len(times))

    @property
    def high(self) -> int:
        """Bytes at the top: the highest peak of all curves."""
        peaks = self.view.device.peaks
        return max(*(peak.bytes for peak in peaks.values()), self.low + _LEAST_BYTES)

    def edges(self) -> NDArray[np.float64]:
        """Return the left edges of columns and the last right one; float64, shape (width + 1,)."""
        return np.linspace(*self.window, self.width + 1)

    def spans(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the events of each column, ``first <= event < end``."""
        self.sync()
        return self._scale.spans(self.edges())

    def bars(self) -> Bars:
        """Return the most of each curve in each column."""
        return bars_of(self._heights, self.spans())

    def column_of(self, event: int) -> int:
        """Return the column of an event; outside the view it is -1 or ``width``."""
        self.sync()
        x0, x1 = self.window
        begin, end = self._scale.x_of(event), self._scale.x_of(event + 1)
        if begin < x0 < end:
            return 0
        if not x0 <= begin < x1:
            return -1 if begin < x0 else self.width
        return int(np.searchsorted(self.edges(), begin, side="right")) - 1

    # Drawing.

    def draw(self, width: int, height: int) -> list[Line]:
        """Return the chart with its axes, marks, and stages below."""
        self.width = max(width - _LABELS - 1, 4)
        self.sync()
        bands = stage_bands(self.view.device.stages, self._scale, self.window, self.width)
        stages = [Line((Run(" " * (_LABELS + 1)), *in_line(row))) for row in bands]
        stages = stages[: max(height - 4 - _LEAST_ROWS, 0)]
        rows = max(height - 5 - len(stages), 1)
        self._show_cursor()
        cursor = self.column_of(self.view.event)
        labels = grid(rows, self.low, self.high)
        lines = [beside(self._about(), self._legend(), width), self._marks()]
        for row, runs in enumerate(self._chart(rows, labels)):
            label = labels.get(row, "")
            edge = Run(fit(label, _LABELS, right=True), "dim"), Run("┤" if label else "│", "axis")
            lines.append(Line(edge + with_cursor(runs, cursor)))
        axis, below = ticks(self.axis, self.window, self.width)
        lines.append(Line((Run(" " * _LABELS + "└", "axis"), *axis.runs)))
        lines.append(Line((Run(" " * (_LABELS + 1)), *below.runs)))
        lines += stages
        lines.append(self._entry())
        return [clipped(line, width) for line in lines[:height]]

    def _chart(self, rows: int, labels: dict[int, str]) -> list[tuple[Run, ...]]:
        """Return the rows of bars, cached because moving the cursor does not change them."""
        wanted = self._device, self.axis, self.window, self.width, rows, self.low
        if self._drawn[0] != wanted:
            cells = chart(self.bars(), rows, self.low, self.high)
            for row in labels:
                cells[row] = [cell if cell[0] != " " else ("·", "axis") for cell in cells[row]]
            self._drawn = wanted, [in_line(line) for line in cells]
        return self._drawn[1]

    def _about(self) -> Line:
        first, end = self.spans()
        events = int(end[-1]) - max(int(first[0]), 0)
        each = (self.window[1] - self.window[0]) / self.width
        unit = f"{each:,.3g}" if self.axis == "events" else format_duration(round(each))
        last = format_count(max(int(end[-1]) - 1, 0))
        of = f"{event_name(int(first[0]))} to {last} of {format_count(self._scale.events)}"
        return ink((f"events {of}, {unit} a column" if events else "no events", "dim"))

    def _legend(self) -> Line:
        if self.low:
            return ink((f"  y from {format_bytes(self.low)}, r: from 0", "key"))
        parts: list[tuple[str, str]] = [("  █", "bar"), (" requested ", "dim")]
        parts += [("▒", "slack"), (" slack", "dim")]
        if "reserved" in self._heights:
            parts += [(" ⠒⠒", "reserved"), (" reserved", "dim")]
        return ink(*parts) if self.width > 60 else ink()

    def _marks(self) -> Line:
        """Return the line with the marks of the peak and of failed requests."""
        cells: list[Cell] = [(" ", "")] * self.width
        figures = self.view.device.figures
        for oom in figures.ooms:
            column = self.column_of(oom.event)
            if 0 <= column < self.width:
                cells[column] = ("✖", "critical")
        peak = figures.peaks["allocated"]
        column = self.column_of(peak.event)
        if figures.recorded and 0 <= column < self.width:
            if cells[column][0] == " ":  # a failed request is more important
                cells[column] = ("▼", "peak")
            text = f" peak {format_bytes(peak.bytes)}"
            begin = column + 1
            if begin + len(text) > self.width:
                text = f"peak {format_bytes(peak.bytes)} "
                begin = column - len(text)
            if begin >= 0 and all(cell[0] == " " for cell in cells[begin : begin + len(text)]):
                cells[begin : begin + len(text)] = [(letter, "peak") for letter in text]
        return Line((Run(" " * (_LABELS + 1)), *in_line(cells)))

    def _entry(self) -> Line:
        """Return what happened at the cursor's event."""
        entry = self.view.moment.entry()
        if entry is None:
            return ink(("before the first event", "dim"))
        site = self.view.site_of(entry.allocation) if entry.allocation >= 0 else ""
        text = f"{event_name(entry.event)}: {entry.action} {format_bytes(entry.size)}"
        return ink((text, "key"), f"  {site}")

    # Moving the cursor.

    def go(self, event: int) -> None:
        """Go to an event: -1 is the start, and what lies beyond the end is the last one."""
        self.view.go_to(event)
        self._show_cursor()

    def _show_cursor(self) -> None:
        """Move the view if the moment is outside it."""
        column = self.column_of(self.view.event)
        if not 0 <= column < self.width:
            self.zoom(1.0)

    def _set(self, x0: float, x1: float) -> None:
        low, high = self.whole
        span = min(max(x1 - x0, _LEAST_X), high - low)
        start = min(max((x0 + x1 - span) / 2, low), high - span)
        self.window = (low, high) if span >= high - low else (start, start + span)

    def step(self, by: int) -> None:
        """Move by some columns, to the highest event there; at its edges the view follows."""
        column = self.column_of(self.view.event) + by
        inside = min(max(column, 0), self.width - 1)
        if column != inside:
            self._shift((column - inside) / self.width)
        self._go_to_column(inside)

    def _shift(self, by: float) -> None:
        """Move the view by a share of its width."""
        x0, x1 = self.window
        self._set(x0 + by * (x1 - x0), x1 + by * (x1 - x0))

    def _go_to_column(self, column: int) -> None:
        before = self.view.event
        was = self.column_of(before)
        first, end = (int(each[column]) for each in self.spans())
        if first + 1 < end and self._scale.x_of(first) < self.edges()[column]:
            first += 1  # only events that begin here, not the one still in effect
        event = self._heights[self.view.curve].first(first + 1, end + 1) - 1
        # If columns are narrower than events, each step is at least one event.
        if column > was:
            event = max(event, before + 1)
        elif column < was:
            event = min(event, before - 1)
        self.go(event)

    def step_quarter(self, by: int) -> None:
        """Move by some quarters of the view."""
        self.step(by * max(self.width // 4, 1))

    def step_event(self, by: int) -> None:
        """Move by some events."""
        self.go(self.view.event + by)

    def go_to_peak(self) -> None:
        """Go to the curve's peak."""
        self.go(self.view.opening)

    def go_to_oom(self) -> None:
        """Go to the next failed request, and from the last to the first."""
        events = [oom.event for oom in self.view.device.figures.ooms]
        if not events:
            self.desk.say("no request failed in this recording")
            return
        self.go(next((event for event in events if event > self.view.event), events[0]))

    # Moving the view.

    def zoom(self, factor: float) -> None:
        """Show ``factor`` times the range, with the cursor in the middle."""
        x0, x1 = self.window
        half = (x1 - x0) * factor / 2
        event = self.view.event
        middle = (self._scale.x_of(event) + self._scale.x_of(event + 1)) / 2
        self._set(middle - half, middle + half)

    def show_all(self) -> None:
        """Show everything."""
        self.window = self.whole
        self.low = 0

    def zoom_to(self, first: int, end: int) -> None:
        """Show some events, and a little around them."""
        self.sync()
        x0, x1 = self._scale.x_of(first), self._scale.x_of(end)
        around = (x1 - x0) * 0.05
        self._set(x0 - around, x1 + around)

    def pan(self, by: float) -> None:
        """Move the view by a share of its width."""
        self._shift(by)
        column = self.column_of(self.view.event)
        if not 0 <= column < self.width:  # the cursor stays visible
            self._go_to_column(0 if column < 0 else self.width - 1)

    def move_foot(self, by: int) -> None:
        """Raise the bottom of the y axis by a tenth of its range, or lower it by as much."""
        low = self.low + by * max((self.high - self.low) // 10, 1)
        self.low = max(min(low, self.high - _LEAST_BYTES), 0)

    def turn_axis(self) -> None:
        """Switch the axis between events and time; the same events stay visible."""
        if not self._has_times():
            self.desk.say("this recording has no times")
            return
        whole = self.window == self.whole
        first, end = self.spans()
        self.axis = "time" if self.axis == "events" else "events"
        self._measure()
        if whole:
            self.window = self._scale.whole
        else:  # a column has at least one event
            self._set(self._scale.x_of(int(first[0])), self._scale.x_of(int(end[-1])))

    def open_tree(self) -> None:
        """Show what is live at the cursor."""
        self.desk.show("stacks")

    def click(self, column: int, row: int, *, twice: bool) -> None:
        """Move the cursor to a column; a second click shows what is live there."""
        del row
        column -= _LABELS + 1
        if 0 <= column < self.width:
            first, end = (int(each[column]) for each in self.spans())
            if not first <= self.view.event < end:
                self._go_to_column(column)
            if twice:
                self.open_tree()

    def scroll(self, by: int) -> None:
        """Zoom in or out."""
        self.zoom(0.8 if by < 0 else 1.25)

    def in_link(self) -> dict[str, object]:
        """Name the axis and the visible range."""
        is_whole = self.window == self.whole and not self.low
        return {
            "axis": "time" if self.axis == "time" else None,
            "view": None if is_whole else (*self.window, float(self.low), float(self.high)),
        }

    def as_table(self) -> Table:
        """Return the visible columns: their events, and the most of each curve."""
        first, end = self.spans()
        bars = self.bars()
        reserved = bars.reserved if "reserved" in self.view.device.peaks else None
        columns = [
            [None] * self.width if values is None else values.tolist()
            for values in (first, end - 1, bars.allocated, bars.requested, reserved)
        ]
        titles = ("first event", "last event", *Bars._fields)
        return titles, list(zip(*columns, strict=True))

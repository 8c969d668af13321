"""Two lists: the memory of each annotated stage, and what is live by source line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import ClassVar

from snapreport.commands.explorer.lines import (
    Line,
    change_role,
    fit,
    fit_place,
    heat,
    ink,
    source_line,
)
from snapreport.commands.explorer.screen import FilteredList, Key, ListScreen, Table, Viewpoint, key
from snapreport.ground.errors import PatternError
from snapreport.ground.units import format_bytes, format_count
from snapreport.model.answers import LineUse, sizes_of
from snapreport.model.findings import StageUse
from snapreport.reporters.document import Size
from snapreport.reporters.words import amount, event_name, event_range, stage_name

_WIDE = 100
"""From this width on there is room for events."""


class StagesScreen(ListScreen):
    """A row for each stage, with the stages inside it below."""

    name = "stages"
    title = "Stages"
    short = "Stages"
    KEYS: ClassVar[tuple[Key, ...]] = (
        *ListScreen.MOVES,
        key("enter", "go to the stage's peak", "go_to_peak", "its peak"),
        key("z", "zoom the timeline to the stage", "zoom", "zoom to it"),
        key("h", "hide or show the stages inside it", "fold", "fold"),
        *ListScreen.SEARCH,
    )

    items: Sequence[int] = ()
    """Numbers of the visible stages."""
    folded: frozenset[int] = frozenset()

    @classmethod
    def is_there(cls, view: Viewpoint) -> bool:
        """Say whether there are stages."""
        return bool(view.device.stages)

    @property
    def stages(self) -> tuple[StageUse, ...]:
        """Every stage, in the order of their starts."""
        return self.view.device.stages

    def depends_on(self) -> object:
        """The device, and which stages are folded."""
        return self.view.device.name, self.folded

    def gather(self) -> None:
        """List the stages that are not inside a folded one."""
        hidden: set[int] = set()
        for number, stage in enumerate(self.stages):
            if stage.parent is not None and (stage.parent in hidden or stage.parent in self.folded):
                hidden.add(number)
        self.items = [number for number in range(len(self.stages)) if number not in hidden]

    @property
    def chosen(self) -> StageUse:
        """The stage with the cursor."""
        return self.stages[self.items[self.cursor]]

    def head(self) -> list[Line]:
        """Return the headings."""
        figures = f"{'start':>10} {'peak':>10} {'end':>10} {'change':>11}"
        events = f"  {'events':<19}" if self.width >= _WIDE else ""
        return [ink((f"{figures}{events}  stage", "title"))]

    def row(self, place: int) -> Line:
        """Return a stage; those that contain the moment are marked."""
        number = self.items[place]
        stage = self.stages[number]
        amounts = (stage.start_bytes, stage.peak_bytes, stage.end_bytes)
        figures = " ".join(f"{amount(each):>10}" for each in amounts)
        events = ""
        if self.width >= _WIDE:
            events = f"  {fit(event_range(stage.start_event, stage.end_event), 19)}"
        on = stage.start_event <= self.view.event < stage.end_event
        fold = "▸" if number in self.folded else " "
        name = f"  {'  ' * min(stage.depth, 8)}{fold}{stage_name(stage)}"
        change = f" {Size(stage.change, is_change=True)!s:>11}", change_role(stage.change or 0)
        return ink(figures, change, (events, "dim"), (name, "key" if on else ""))

    def text(self, place: int) -> str:
        """Return a stage's name."""
        return self.stages[self.items[place]].name

    def foot(self) -> list[Line]:
        """Return what the stage allocated."""
        stage = self.chosen
        made = "-" if stage.allocations is None else f"{stage.allocations:,}"
        peak = "-" if stage.peak_event is None else event_name(stage.peak_event)
        text = f"  events {event_range(stage.start_event, stage.end_event)}, peak at event {peak}"
        bytes_ = amount(stage.allocated_bytes)
        return [ink((stage.name, "key"), (f"{text}, {made} allocations of {bytes_}", "dim"))]

    def go_to_peak(self) -> None:
        """Go to the peak of the stage."""
        event = self.chosen.peak_event
        if event is None:
            self.desk.say("this stage was not recorded")
        else:
            self.view.go_to(event)

    def zoom(self) -> None:
        """Show the stage on the timeline."""
        stage = self.chosen
        self.go_to_peak()
        self.desk.zoom_to(stage.start_event, max(stage.end_event, stage.start_event + 1))

    def fold(self) -> None:
        """Hide or show the stages inside."""
        self.folded = self.folded ^ {self.items[self.cursor]}

    def as_table(self) -> Table:
        """Return every stage."""
        titles = ("stage", "depth", "first event", "end event", "start", "peak", "end", "change")
        cells = attrgetter(
            *("name", "depth", "start_event", "end_event"),
            *("start_bytes", "peak_bytes", "end_bytes", "change"),
        )
        return titles, [cells(each) for each in self.stages]


# Lines: what is live by source line, as a line-by-line memory tracer prints it.


ORDERS = ("bytes", "median", "count", "total", "location")
_FIGURES_WIDTH = 56


class LinesScreen(FilteredList):
    """A row for each line that holds memory."""

    name = "lines"
    title = "Lines"
    short = "Lines"
    PROMPT = "files: "
    KEYS: ClassVar[tuple[Key, ...]] = (
        *FilteredList.MOVES,
        key("enter", "the line in the call stacks", "open_tree", "stacks"),
        key("i", "count only these files: model.py, *.cu, -torch", "ask_filter", "files"),
        key("o", "order by the next column", "turn_order", "order"),
        *FilteredList.SEARCH,
    )

    items: tuple[LineUse, ...] = ()
    order = ORDERS[0]

    def depends_on(self) -> object:
        """The moment, the files, and the order."""
        return self.view.state, self.filtered, self.order

    def gather(self) -> None:
        """Add up the lines of the moment."""
        terms = [term.strip() for term in self.filtered.split(",") if term.strip(" -")]
        include = [term for term in terms if not term.startswith("-")]
        exclude = [term[1:].strip() for term in terms if term.startswith("-")]
        try:
            found = self.view.moment.lines(include, exclude)
        except PatternError as error:
            self.desk.say(f"{error} Nothing is filtered.")
            found = self.view.moment.lines()
        if self.order == "location":
            found = tuple(sorted(found, key=lambda each: (each.filename, each.line or 0)))
        elif self.order != ORDERS[0]:
            found = tuple(sorted(found, key=lambda each: -int(getattr(each, self.order))))
        self.items = found

    def head(self) -> list[Line]:
        """Return the headings, with a mark on the column that the rows are sorted by."""
        titles = {
            "bytes": "bytes",
            "cumulative": "cumulative",
            "median": "median",
            "count": "count",
            "total": "allocated",
            "location": "line",
        }
        titles[self.order] += "↓"
        *figures, line = titles.values()
        about = f"  files: {self.filtered}" if self.filtered else ""
        return [ink((f"{_in_columns(figures)}  {line}", "title"), (about, "key"))]

    def row(self, place: int) -> Line:
        """Return a line's figures and its place."""
        line = self.items[place]
        held, *rest = map(format_bytes, (line.bytes, line.cumulative, line.median, line.total))
        rest.insert(2, format_count(line.count))
        role = heat(line.bytes / max(self.view.moment.bytes, 1))
        room = max(self.width - _FIGURES_WIDTH, 8)
        where = fit_place(line.location, min(room, len(line.location)))
        function = f"  {line.function}" if line.function and room > len(where) + 4 else ""
        return ink(
            (f"{held:>10} ", role), f"{_in_columns(rest)}  ", (where, role), (function, "dim")
        )

    def text(self, place: int) -> str:
        """Return a line's place and function."""
        line = self.items[place]
        return f"{line.location} {line.function}"

    def foot(self) -> list[Line]:
        """Return the line's source text if its file is on this machine."""
        line = self.items[self.cursor]
        source = self.view.opened.sources.line(line.filename, line.line or 0)
        sizes = sizes_of(line)
        both = f"  {' and '.join(map(format_bytes, sizes))}" if len(sizes) == 2 else ""
        about = ink((line.function or line.location, "key"), (f"  {line.location}{both}", "dim"))
        return [about, source_line(source)]

    def open_tree(self) -> None:
        """Show the line in the call stacks."""
        if self.items:
            self.desk.show("stacks", search=self.items[self.cursor].location)

    def turn_order(self) -> None:
        """Order by the next column."""
        self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]

    def as_table(self) -> Table:
        """Return every line."""
        self.sync()
        titles = ("bytes", "cumulative", "median", "count", "allocated", "function", "line")
        names = ("bytes", "cumulative", "median", "count", "total", "function", "location")
        return titles, [attrgetter(*names)(each) for each in self.items]


def _in_columns(figures: Iterable[str]) -> str:
    return " ".join(each.rjust(10) for each in figures)

"""Two lists: the memory of each annotated stage, and what is live by source line."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar

from snapreport.commands.explorer.cells import Line, Run, fit, fit_place, heat, ink
from snapreport.commands.explorer.front_desk import Key, Table, key
from snapreport.commands.explorer.screen import FilteredList, ListScreen
from snapreport.ground.errors import PatternError
from snapreport.ground.units import format_bytes, format_count, format_signed_bytes
from snapreport.model.answers import LineUse, sizes_of
from snapreport.model.findings import StageUse
from snapreport.reporters.words import amount, event_name, event_range, stage_name

if TYPE_CHECKING:
    from snapreport.commands.explorer.front_desk import Viewpoint


_WIDE = 100
"""From this width on there is room for events."""
_FIGURES = attrgetter(
    "name", "depth", "start_event", "end_event", "start_bytes", "peak_bytes", "end_bytes", "change"
)


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
        change = "-" if stage.change is None else format_signed_bytes(stage.change)
        amounts = (stage.start_bytes, stage.peak_bytes, stage.end_bytes)
        figures = " ".join(f"{amount(each):>10}" for each in amounts)
        events = ""
        if self.width >= _WIDE:
            events = f"  {fit(event_range(stage.start_event, stage.end_event), 19)}"
        on = stage.start_event <= self.view.event < stage.end_event
        fold = "▸" if number in self.folded else " "
        name = f"  {'  ' * min(stage.depth, 8)}{fold}{stage_name(stage)}"
        role = "more" if (stage.change or 0) > 0 else "less" if (stage.change or 0) < 0 else ""
        return ink(figures, (f" {change:>11}", role), (events, "dim"), (name, "key" if on else ""))

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
        return titles, [_FIGURES(each) for each in self.stages]


# Lines: what is live by source line, as a line-by-line memory tracer prints it.


ORDERS = ("bytes", "median", "count", "total", "location")
_FIGURES_WIDTH = 56
_CELLS = attrgetter("bytes", "cumulative", "median", "count", "total", "function", "location")


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
        """Return the headings; the column that orders is marked."""
        titles = ("bytes", "cumulative", "median", "count", "allocated", "line")
        marks = [
            f"{title}↓" if order == self.order else title
            for title, order in zip(
                titles, ("bytes", "", "median", "count", "total", "location"), strict=True
            )
        ]
        figures = " ".join(title.rjust(10) for title in marks[:5])
        about = f"  files: {self.filtered}" if self.filtered else ""
        return [ink((f"{figures}  {marks[5]}", "title"), (about, "key"))]

    def row(self, place: int) -> Line:
        """Return a line's figures and its place."""
        line = self.items[place]
        amounts = (line.bytes, line.cumulative, line.median)
        figures = [format_bytes(each).rjust(10) for each in amounts]
        figures += [format_count(line.count).rjust(10), format_bytes(line.total).rjust(10)]
        role = heat(line.bytes / max(self.view.moment.bytes, 1))
        room = max(self.width - _FIGURES_WIDTH, 8)
        where = fit_place(line.location, min(room, len(line.location)))
        runs = [Run(f"{figures[0]} ", role), Run(f"{' '.join(figures[1:])}  "), Run(where, role)]
        if line.function and room > len(where) + 4:
            runs.append(Run(ink(f"  {line.function}").text, "dim"))
        return Line(tuple(runs))

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
        return [about, ink(("  │ ", "dim"), source) if source else ink()]

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
        return titles, [_CELLS(each) for each in self.items]

"""Lines: what is live by source line, as a line-by-line memory tracer prints it."""

from __future__ import annotations

from operator import attrgetter
from typing import ClassVar

from snapreport.explorer.parts.inking import Line, Run, fit_place, heat, ink
from snapreport.explorer.parts.key_bindings import Key, key
from snapreport.explorer.parts.sending import Table
from snapreport.explorer.screens.screen_base import FilteredList
from snapreport.ground.errors import PatternError
from snapreport.ground.units import format_bytes, format_count
from snapreport.model.answer_tables import LineUse, sizes_of

ORDERS = ("bytes", "median", "count", "total", "location")
_FIGURES = 56
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
        room = max(self.width - _FIGURES, 8)
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

"""Query: SQL over the entire history, with the schema at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import ClassVar

from snapreport.api.loading import open_database
from snapreport.bundle.query import QueryProcess
from snapreport.commands.explorer.lines import Line, columns, ink, width_of
from snapreport.commands.explorer.screen import Key, ListScreen, Table, key
from snapreport.ground.errors import SnapreportError
from snapreport.ground.safe_text import visible
from snapreport.ground.units import format_count
from snapreport.model.answers import QUERY_MEMORY, QUERY_SECONDS, Cell

MOST_ROWS = 10_000
_WIDEST = 60


class QueryScreen(ListScreen):
    """The schema, or the answer to the last statement."""

    name = "query"
    title = "Query"
    short = "SQL"
    KEYS: ClassVar[tuple[Key, ...]] = (
        *ListScreen.MOVES,
        key("i enter", "type SQL; ↑ and ↓ bring back earlier statements", "ask_sql", "SQL"),
        key("h", "switch between the schema and the answer", "turn_schema", "schema"),
        key("left", "columns to the left", "go_column", "columns", by=-1),
        key("right", "columns to the right", "go_column", "columns", by=1),
        key("X", "end a query that takes long", "cancel"),
        *ListScreen.SEARCH,
    )

    schema: Sequence[str] = ()
    titles: tuple[str, ...] = ()
    rows: Sequence[tuple[Cell, ...]] = ()
    asked = ""
    running = False
    first_column = 0
    in_schema = True
    _widths: Sequence[int] = ()
    _process: QueryProcess | None = None

    def depends_on(self) -> object:
        """Only the file: a query is about all of it."""
        return self.view.opened

    def gather(self) -> None:
        """Ask for the schema."""
        self._ask(lambda database: partial(setattr, self, "schema", database.schema().splitlines()))

    def _ask(self, question: Callable[[QueryProcess], Callable[[], None]]) -> None:
        """Query the database in a thread."""
        if self.running:
            self.desk.say("a query is running; X ends it")
            return
        self.running = True

        def work() -> Callable[[], None]:
            try:
                if self._process is None:
                    path = self.view.opened.bundle
                    self._process = open_database(path, seconds=QUERY_SECONDS, memory=QUERY_MEMORY)
                answer = question(self._process)
            except SnapreportError as error:
                answer = partial(self.desk.say, str(error))

            def done() -> None:
                self.running = False
                answer()

            return done

        self.desk.in_background(work)

    def run(self, sql: str) -> None:
        """Run a statement, and show its answer."""
        if not sql.strip():
            return
        self.asked = sql

        def question(database: QueryProcess) -> Callable[[], None]:
            titles: tuple[str, ...] = ()
            rows: list[tuple[Cell, ...]] = []
            for answer in database.run(sql):
                titles, rows = answer.columns, list(islice(answer.rows, MOST_ROWS + 1))
            return partial(self._show, titles, rows)

        self._ask(question)

    def _show(self, titles: tuple[str, ...], rows: list[tuple[Cell, ...]]) -> None:
        more = len(rows) > MOST_ROWS
        self.titles, self.rows = titles, rows[:MOST_ROWS]
        self.cursor = self.first_column = 0
        self.in_schema = False
        cells = [[_text(cell) for cell in row] for row in self.rows]
        self._widths = [
            min(max(map(width_of, column)), _WIDEST) for column in zip(titles, *cells, strict=True)
        ]
        count = format_count(len(self.rows))
        self.desk.say(f"the first {count} rows" if more else f"{count} rows")

    def count(self) -> int:
        """Return how many rows there are."""
        return len(self.schema) if self.in_schema else len(self.rows)

    def head(self) -> list[Line]:
        """Return the statement, and the columns' names."""
        state = " …running" if self.running and self.asked else ""
        asked = ink(("sql> ", "key"), self.asked or "i: type a statement", (state, "warning"))
        if self.in_schema:
            return [asked, ink(("Tables and columns", "title"))]
        return [asked, self._columns([visible(each) for each in self.titles], "title")]

    def _columns(self, cells: Sequence[str], role: str = "") -> Line:
        """Return a row from the first visible column on; texts are aligned left."""
        first = self.first_column
        row = self.rows[0][first:] if self.rows else ()
        lefts = [k for k, cell in enumerate(row) if isinstance(cell, (str, bytes))]
        return columns(cells[first:], self._widths[first:], lefts, role)

    def row(self, place: int) -> Line:
        """Return a line of the schema, or a row of the answer."""
        if self.in_schema:
            text = self.schema[place]
            code, dash, comment = text.partition("--")
            return ink(code, (dash + comment, "dim"))
        return self._columns([_text(cell) for cell in self.rows[place]])

    def text(self, place: int) -> str:
        """Return the text of a row."""
        if self.in_schema:
            return self.schema[place]
        return " ".join(_text(cell) for cell in self.rows[place])

    def ask_sql(self) -> None:
        """Let the reader type a statement."""
        self.desk.ask("sql> ", self.run)

    def turn_schema(self) -> None:
        """Switch between the schema and the answer."""
        if self.titles or not self.in_schema:
            self.in_schema = not self.in_schema
            self.cursor = 0

    def go_column(self, by: int) -> None:
        """Scroll by columns to the left or right."""
        self.first_column = min(max(self.first_column + by, 0), max(len(self.titles) - 1, 0))

    def cancel(self) -> None:
        """End the running query, whatever it does."""
        if self.running and self._process is not None:
            self._process.end_statement()

    def in_link(self) -> dict[str, object]:
        """The page has no SQL."""
        return {}

    def as_table(self) -> Table:
        """Return the answer."""
        return self.titles, [tuple(row) for row in self.rows]


def _text(cell: Cell) -> str:
    if cell is None:
        return "NULL"
    if isinstance(cell, bytes):
        return f"x'{cell[:32].hex()}'"
    return visible(str(cell))

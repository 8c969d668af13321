"""A newcomer at an open page, who has a mouse, a keyboard and what is on the screen."""

from __future__ import annotations

from dataclasses import dataclass

from playwright.sync_api import Locator, Page, ViewportSize

VIEWPORT: ViewportSize = {"width": 1440, "height": 900}


@dataclass
class Newcomer:
    """Clicks and types as one does by hand, and counts it; scrolling and pointing count as none.

    Playwright clicks only on what is in sight and what nothing covers. Nothing here calls the
    page's own script.
    """

    page: Page
    clicks: int = 0
    """A drag is one, and what is picked from a list is two."""
    keys: int = 0
    """A text typed into a field is one."""

    @property
    def actions(self) -> int:
        """Clicks and keys together."""
        return self.clicks + self.keys

    def click(self, what: Locator | str, *, left: bool = False) -> None:
        """Click in the middle of something, or at its left end, or on the button of that name."""
        if isinstance(what, str):
            what = self.page.get_by_role("button", name=what, exact=True).locator("visible=true")
        if left:
            what.click(position={"x": 4, "y": 4})
        else:
            what.click()
        self.clicks += 1

    def tab(self, name: str) -> None:
        """Open a tab below the timeline."""
        self.click(self.page.get_by_role("tab", name=name, exact=True).locator("visible=true"))

    def press(self, *keys: str) -> None:
        """Press keys, wherever the focus is."""
        for key in keys:
            self.page.keyboard.press(key)
            self.keys += 1

    def type(self, text: str) -> None:
        """Type where the focus is."""
        self.page.keyboard.type(text)
        self.keys += 1

    def colour(self, by: str) -> None:
        """Choose what the strips are coloured by."""
        choice = self.page.get_by_label("Colour by").locator("visible=true")
        choice.select_option(label=by)
        self.clicks += 2

    def only(self, group: int = 0) -> None:
        """Keep one group of the legend: its button appears beside the pointer."""
        row = self.page.locator(".legend:visible ul:not(.also) li").nth(group)
        row.hover()
        self.click(row.get_by_role("button", name="only"))

    def point(self, x: float, y: float = 0.5) -> tuple[float, float]:
        """A place of the picture, by its shares of width and height, from the top left."""
        box = self.page.locator(".strips:visible").bounding_box()
        assert box is not None
        return box["x"] + box["width"] * x, box["y"] + box["height"] * y

    def click_picture(self, x: float, y: float = 0.97) -> None:
        """Click into the picture, at first low, where strips are."""
        self.page.mouse.click(*self.point(x, y))
        self.clicks += 1

    def drag_axis(self, start: float, end: float) -> None:
        """Drag along the axis from one share of its width to another."""
        (x0, y), (x1, _) = self.point(start, 1), self.point(end, 1)
        self.page.mouse.move(x0, y + 14)
        self.page.mouse.down()
        self.page.mouse.move((x0 + x1) / 2, y + 14)
        self.page.mouse.move(x1, y + 14)
        self.page.mouse.up()
        self.clicks += 1

    def ask(self, question: str) -> None:
        """Choose one of the questions about two moments, by the word on its button."""
        self.click(self.page.locator(".kinds:visible button").filter(has_text=question))

    def rows(self, part: str = "") -> list[Row]:
        """Scroll through the first list of the open tab, or of a part of it, and read it."""
        grid = self.page.locator(f".panel:visible {part} :is([role=grid], [role=treegrid])").first
        grid.locator(".view [role=row]").first.wait_for()
        found: dict[int, Row] = {}
        self._scroll(grid, -20_000)
        while True:
            rendered = {row["number"]: Row(grid, **row) for row in grid.evaluate(_ROWS)}
            if rendered.keys() <= found.keys():
                return [found[number] for number in sorted(found)]
            found |= rendered
            self._scroll(grid, 150)

    def click_row(self, row: Row, button: str = "") -> None:
        """Click on a row, or on a button in it."""
        shown = row.grid.locator(f".view [data-row='{row.number}']")
        if not shown.count():
            self._scroll(row.grid, -20_000)
        while not shown.count():
            self._scroll(row.grid, 150)
        if button:
            self.click(shown.get_by_role("button", name=button, exact=True))
        else:
            self.click(shown.get_by_role("gridcell").first)

    def _scroll(self, grid: Locator, by: int) -> None:
        grid.hover()
        self.page.mouse.wheel(0, by)
        self.page.wait_for_timeout(60)  # a wheel turns what is below the pointer a frame later


@dataclass(frozen=True)
class Row:
    """A row of a list, as it was read."""

    grid: Locator
    number: int
    cells: dict[str, str]
    """What is shown, by column."""
    told: dict[str, str]
    """What is told when one points at it."""

    def exact(self, column: str) -> int:
        """The bytes of a cell."""
        return int(self.told[column].split()[0].replace(",", ""))


_ROWS = """(grid) => {
  const titles = [...grid.querySelectorAll("[role=columnheader]")].map((head) =>
    head.textContent.replace(/[^\\w ,]/g, "").trim())
  return [...grid.querySelectorAll(".view [role=row]")].map((row) => {
    const cells = [...row.querySelectorAll("[role=gridcell]")]
    const by = (of) => Object.fromEntries(cells.map((cell, k) => [titles[k], of(cell)]))
    return {
      number: Number(row.dataset.row),
      cells: by((cell) => cell.innerText.trim()),
      told: by((cell) => cell.querySelector("[title]")?.title ?? ""),
    }
  })
}"""

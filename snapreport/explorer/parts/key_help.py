"""The list of keys, shown over the current screen."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from snapreport.explorer.parts.inking import EMPTY, Line, Run, clipped, fit, ink, wrap
from snapreport.explorer.parts.key_bindings import ARROWS, Key

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

"""The change between two recordings, each at its own moment, as one tree with signs."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from snapreport.compare.tree_change import find_tree_change
from snapreport.explorer.parts.inking import Line, Run, ink
from snapreport.explorer.parts.key_bindings import Key
from snapreport.explorer.parts.tree_rows import TreeRows
from snapreport.explorer.screens.tree_screen import TreeScreen
from snapreport.ground.units import format_bytes, format_signed_bytes

if TYPE_CHECKING:
    from snapreport.explorer.parts.viewpoint import Viewpoint
    from snapreport.model.stacks import FrameTable


class ChangeScreen(TreeScreen):
    """What the second recording holds more or less of than the first, by call stack."""

    name = "change"
    title = "Change"
    short = "Diff"
    KEYS: ClassVar[tuple[Key, ...]] = TreeScreen.KEYS
    NUMBERS: ClassVar[tuple[str, ...]] = ("change", "before", "after")

    @classmethod
    def is_there(cls, view: Viewpoint) -> bool:
        """Say whether there are two recordings."""
        return view.pair is not None

    @property
    def pair(self) -> tuple[Viewpoint, Viewpoint]:
        """The first recording and the second, each at its own moment."""
        assert self.view.pair is not None, "there are two"
        return self.view.pair

    def depends_on(self) -> object:
        """Both moments, and which tree."""
        before, after = self.pair
        return (before.state, after.state), self.upward, self.folded

    def gather(self) -> None:
        """Merge the two trees."""
        trees = [each.moment.tree(upward=self.upward, folded=self.folded) for each in self.pair]
        tables = [each.device.file.stacks.frames for each in self.pair]
        self.change = find_tree_change(trees[0], tables[0], trees[1], tables[1])
        self._tables = tables
        self._take(TreeRows(self.change))

    def frames_of(self, node: int) -> FrameTable:
        """Return the table with a node's frame."""
        return self._tables[int(self.change.side[node])]

    def shown_of(self, node: int) -> FrameTable:
        """Return the same table as it is shown."""
        return self.pair[int(self.change.side[node])].device.tree_frames

    def head(self) -> list[Line]:
        """Return what is compared with what."""
        before, after = self.pair
        base, new = before.moment.bytes, after.moment.bytes
        sides = f"{before.opened.path.name} {before.name} → {after.opened.path.name} {after.name}"
        total = format_signed_bytes(new - base)
        headings = f"{'change':>11} {'before':>10} {'after':>10}  "
        return [
            ink(
                (f" {total}", "more" if new > base else "less"), (f" {after.curve}: {sides}", "dim")
            ),
            ink((headings, "title"), (f"{self._about()}", "dim")),
        ]

    def numbers(self, node: int) -> tuple[int, ...]:
        """Return a node's change, and what each recording holds there."""
        base, new = int(self.change.base[node]), int(self.change.new[node])
        return new - base, base, new

    def figures(self, node: int) -> tuple[tuple[Run, ...], str]:
        """Return a node's change and what both hold, and the role of its frame."""
        change, base, new = self.numbers(node)
        role = "more" if change > 0 else "less" if change < 0 else "dim"
        shown = f"{format_signed_bytes(change):>11} "
        rest = f"{format_bytes(base):>10} {format_bytes(new):>10}  "
        return (Run(shown, role), Run(rest, "dim")), "" if change else "dim"

    def own(self, node: int) -> str:
        """Say if only one recording has a path."""
        tree = self.change
        if not tree.base_count[node]:
            return "only after"
        return "" if tree.new_count[node] else "only before"

    def in_link(self) -> dict[str, object]:
        """Nothing: a page shows one recording."""
        return {}

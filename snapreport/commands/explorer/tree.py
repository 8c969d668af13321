"""Call stacks as a tree: what is live at the moment, or what changed between two recordings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from snapreport.commands.explorer.lines import (
    EMPTY,
    Line,
    Run,
    change_role,
    fit,
    fit_place,
    heat,
    ink,
    source_line,
)
from snapreport.commands.explorer.screen import (
    FAR,
    FrontDesk,
    Key,
    ListScreen,
    Table,
    Viewpoint,
    key,
)
from snapreport.commands.explorer.tree_rows import ROOT, Side, TreeRows
from snapreport.diagnosis.compare.two_recordings import find_tree_change
from snapreport.ground.units import format_bytes, format_count, format_share, format_signed_bytes
from snapreport.model.findings import CallTree
from snapreport.model.snapshot import FrameTable
from snapreport.reporters.plain_text import cut, location

_FIGURES = 28
_MOST_OPENED = 500
"""With more matches than this, their branches are not opened, as on the page."""


class TreeScreen(ListScreen):
    """The call tree of the current moment."""

    name = "stacks"
    title = "Call stacks"
    short = "Stacks"
    KEYS: ClassVar[tuple[Key, ...]] = (
        *ListScreen.MOVES[:4],
        key("enter", "open or close the row", "toggle", "open"),
        key("right", "open it, and go to its first child", "go_child"),
        key("left", "to its parent", "go_parent"),
        key("[", "to the sibling before", "go_sibling", "sibling", by=-1),
        key("]", "to the next sibling", "go_sibling", "sibling", by=1),
        key("e", "open the row and all below it", "turn_below", "expand", wanted=True),
        key("c", "close the row and all below it", "turn_below", "collapse", wanted=False),
        key("E", "open everything", "turn_all", wanted=True),
        key("C", "close everything", "turn_all", wanted=False),
        key("r home g", "to the root", "move", by=-FAR),
        key("end G", "to the last row", "move", by=FAR),
        key("f", "focus: the row becomes the root", "focus", "focus"),
        key("b", "back from the focus", "unfocus"),
        key("h", "hide or show library-internal frames", "fold", "hide"),
        key("u", "from the allocation outwards, or from the outermost frame", "turn", "turn"),
        *ListScreen.SEARCH,
    )

    NUMBERS: ClassVar[tuple[str, ...]] = ("bytes", "count")
    """Headings of a node's numbers when the tree is copied or saved as a table."""

    def __init__(self, desk: FrontDesk) -> None:
        """Start with the same tree as the page."""
        super().__init__(desk)
        self.upward: bool = False
        self.folded: bool = True
        self.sides: dict[tuple[bool, bool], Side] = {}
        self.rows: TreeRows
        self.tree: CallTree
        self.items: NDArray[np.int64] = np.zeros(0, np.int64)
        self._deepest = 0
        self._matching: set[int] = set()
        self._found: list[int] = []

    @property
    def side(self) -> Side:
        """What is open in the current tree."""
        return self.sides.setdefault((self.upward, self.folded), Side())

    def view_of(self, node: int) -> Viewpoint:
        """Return the recording with a node's frame."""
        del node
        return self.view

    def tables_of(self, node: int) -> tuple[FrameTable, FrameTable]:
        """Return the table with a node's frame: as recorded, and as it is shown."""
        device = self.view_of(node).device
        return device.file.stacks.frames, device.tree_frames

    @property
    def root(self) -> int:
        """The node in focus."""
        return self.rows.node_of(self.side.top)

    @property
    def node(self) -> int:
        """The node with the cursor."""
        return int(self.items[self.cursor]) if self.count() else ROOT

    def depends_on(self) -> object:
        """The moment, and which tree."""
        return self.view.state, self.upward, self.folded

    def gather(self) -> None:
        """Build the tree of the moment; open nodes stay open, and the cursor stays on its row."""
        self.tree = self.view.moment.tree(upward=self.upward, folded=self.folded)
        self._take(TreeRows(self.tree))

    def _take(self, rows: TreeRows) -> None:
        self.rows = rows
        if not self.side.touched:
            self.side.opened = self._opening()
        self._search_again()
        self._lay_out(self.side.chosen)

    def _opening(self) -> set[int]:
        # From the allocation outwards the call sites are the answer; their callers come next.
        return self.rows.keys_of([self.root]) if self.upward else self.rows.heaviest(self.root)

    def _lay_out(self, chosen: int | None) -> None:
        """Lay out the rows, the cursor on the node with a key, or on the root."""
        self._show_open()
        self.cursor = 0
        self._put_on(self.root if chosen is None else self.rows.node_of(chosen))

    def _show_open(self) -> None:
        self.items = self.rows.in_sight(self.root, self.side.opened)
        self._deepest = int(self.rows.depth[self.items].max()) - int(self.rows.depth[self.root])

    def _put_on(self, node: int) -> bool:
        """Put the cursor on a node; False if it is not in sight."""
        place = np.flatnonzero(self.items == node)
        if len(place):
            self.cursor = int(place[0])
        return bool(len(place))

    def _key(self, node: int) -> int:
        return int(self.rows.key[node])

    # Rows.

    def head(self) -> list[Line]:
        """Return the headings, and the focus."""
        headings = f"{'bytes':>10} {'share':>7} {'count':>7}  "
        room = max(self.width - _FIGURES, 8)
        return [ink((headings, "title"), (fit(self._about(), room), "dim"))]

    def _about(self) -> str:
        """Say which tree it is, the focus, and the number of matches."""
        way = "from the allocation outwards" if self.upward else "from the outermost frame"
        folded = "library frames hidden" if self.folded else "all frames"
        about = f"{way}, {folded}"
        if self.root != ROOT:
            about = f"focus: {self._name(self.root)}, {about}"
        if self.sought:
            about = f"{format_count(len(self._found))} matching {self.sought}, {about}"
        return about

    def row(self, place: int) -> Line:
        """Return a node: its bytes, share of the moment, count, and frame."""
        node = int(self.items[place])
        figures, role = self.figures(node)
        room = max(self.width - sum(len(run.text) for run in figures), 8)
        depth = int(self.rows.depth[node] - self.rows.depth[self.root])
        each = 2 if self._deepest * 2 <= room // 3 else 1
        indent = " " * min(depth * each, room // 2)
        mark = "  " if not self.rows.children[node] else "▾ " if self._is_open(node) else "▸ "
        left = max(room - len(indent) - 2, 8)
        return Line((*figures, Run(indent + mark, "dim"), *self._frame_runs(node, left, role)))

    def numbers(self, node: int) -> tuple[int, ...]:
        """Return a node's numbers, by NUMBERS."""
        return int(self.tree.bytes[node]), int(self.tree.count[node])

    def figures(self, node: int) -> tuple[tuple[Run, ...], str]:
        """Return a node's bytes, share and count, and the role of its frame."""
        (held, count), total = self.numbers(node), int(self.tree.bytes[ROOT])
        role = heat(held / max(total, 1))
        share = format_share(held, total)
        text = f"{format_bytes(held):>10} {share:>7} {format_count(count):>7}  "
        return (Run(text, role),), role

    def own(self, node: int) -> str:
        """Say how many of a node's bytes belong to none of its children."""
        own = int(self.tree.own_bytes[node])
        return f"{format_bytes(own)} of its own" if own and not self.upward else ""

    def _is_open(self, node: int) -> bool:
        return self._key(node) in self.side.opened or node == self.root

    def _frame_runs(self, node: int, room: int, role: str) -> tuple[Run, ...]:
        name, place = self._name(node), self._place(node)
        matched = "found" if self._key(node) in self._matching else role
        least = min(len(place), 16) + 2 if place else 0
        shown = fit(name, min(len(name), max(room - least, 8))) if name else ""
        left = room - len(shown) - 2
        runs = [Run(ink(shown).text, matched)]
        if place and left >= 5:
            runs.append(Run("  " + fit_place(place, min(left, len(place))), "dim"))
        return tuple(runs)

    def _name(self, node: int) -> str:
        frame = int(self.rows.tree.frame[node])
        if frame >= 0:
            return cut(self.tables_of(node)[1].names[frame], 300)
        return "all that is live" if node == ROOT else f"({self.rows.tree.label[node]})"

    def _place(self, node: int) -> str:
        frame = int(self.rows.tree.frame[node])
        if frame < 0:
            return ""
        frames = self.tables_of(node)[1]
        return location(frames.filenames[frame], frames.line(frame))

    def text(self, place: int) -> str:
        """Return a row's frame."""
        node = int(self.items[place])
        return f"{self._name(node)}  {self._place(node)}"

    def foot(self) -> list[Line]:
        """Return the selected frame in full, and its source text if the file is here."""
        node = self.node
        frame = int(self.rows.tree.frame[node])
        if frame < 0:
            return [ink((self._name(node), "dim")), EMPTY]
        frames = self.tables_of(node)[0]
        source = self.view.opened.sources.line(frames.filenames[frame], int(frames.lines[frame]))
        place, own = f"  {self._place(node)}", f"  {self.own(node)}"
        return [ink((self._name(node), "key"), (place, "dim"), own), source_line(source)]

    # Opening and closing.

    def toggle(self) -> None:
        """Open or close the row; a branch without a fork opens at once."""
        if self._is_open(self.node):
            self._set_opened(self.side.opened - {self._key(self.node)})
        else:
            self._open_branch()

    def _open_branch(self) -> None:
        self._set_opened(self.side.opened | self.rows.keys_of(self.rows.chain(self.node)))

    def go_child(self) -> None:
        """Go to the first child."""
        if self.rows.children[self.node]:
            if not self._is_open(self.node):
                self._open_branch()
            self.cursor += 1

    def go_parent(self) -> None:
        """Go to the parent."""
        self._put_on(int(self.rows.tree.parent[self.node]))

    def go_sibling(self, by: int) -> None:
        """Go to the next sibling, or to the one before."""
        node, parent = self.node, int(self.rows.tree.parent[self.node])
        if node != self.root and node + by in self.rows.child_range(parent):
            self._put_on(node + by)

    def turn_below(self, *, wanted: bool) -> None:
        """Open or close the row and all below it."""
        below = self.rows.keys_of(self.rows.below(self.node))
        opened = self.side.opened
        self._set_opened(opened | below if wanted else opened - below)

    def turn_all(self, *, wanted: bool) -> None:
        """Open everything in focus, or close everything."""
        below = self.rows.keys_of(self.rows.below(self.root))
        self._set_opened(self.side.opened | below if wanted else set())

    def _set_opened(self, keys: set[int]) -> None:
        """Lay out again, with the cursor on its node or the nearest visible ancestor."""
        path = self.rows.path(self.node)
        self.side.opened, self.side.touched = keys, True
        self._show_open()
        for node in (*reversed(path), self.root):
            if self._put_on(node):
                break

    # Focus, direction, folding.

    def focus(self) -> None:
        """Show only the row and what is below it."""
        if self.node != self.root:
            self.side.back.append(self.side.top)
            self._set_top(self._key(self.node))

    def unfocus(self) -> None:
        """Go back to the tree before the focus."""
        if not self.leave():
            self.desk.say("nothing is in focus")

    def leave(self) -> bool:
        """Go back from the focus."""
        side = self.side
        if not side.back:
            return False
        was = side.top
        self._set_top(side.back.pop())
        self._go_to_node(self.rows.node_of(was))
        return True

    def _set_top(self, top: int | None) -> None:
        self.side.top = top
        self.side.opened.add(self._key(self.root))
        if not self.side.touched:
            self.side.opened |= self._opening()
        self._search_again()
        self._lay_out(None)

    def fold(self) -> None:
        """Hide or show library-internal frames."""
        self._keep_place()
        self.folded = not self.folded
        self.sync()

    def turn(self) -> None:
        """Reverse the direction of the tree."""
        self._keep_place()
        self.upward = not self.upward
        self.sync()

    def _keep_place(self) -> None:
        self.side.chosen = self._key(self.node)

    def sync(self) -> None:
        """Keep the cursor on its row while the moment changes."""
        wanted = self.depends_on()
        known = self._known
        if isinstance(known, tuple) and known != wanted and known[1:] == (self.upward, self.folded):
            self._keep_place()
        super().sync()

    # Searching.

    def search(self, text: str) -> None:
        """Search for frames, open the matches, and go to the first one."""
        self.sync()
        self.sought = text.strip()
        self._search_again()
        if self._found:
            self._go_to_node(self._found[0])

    def _search_again(self) -> None:
        self.compile_sought()
        self._found = []
        if self._match is not None:
            self._found = self.rows.matching(self.root, self.tables_of, self._match)
        self._matching = self.rows.keys_of(self._found)
        if len(self._found) <= _MOST_OPENED:
            self._reveal_nodes(self._found)

    def _reveal_nodes(self, nodes: Sequence[int]) -> None:
        around = {each for node in nodes for each in self.rows.path(node)[:-1]}
        self.side.opened |= self.rows.keys_of(sorted(around))

    def _go_to_node(self, node: int) -> None:
        self._reveal_nodes([node])
        self._lay_out(self._key(node))

    def is_match(self, place: int) -> bool:
        """Say whether a row matches."""
        return self._key(int(self.items[place])) in self._matching

    @property
    def here(self) -> int:
        """The place of the row among all rows of the tree, closed ones too."""
        return int(self.rows.rank[self.node])

    def matches(self) -> list[int]:
        """Return the places of the matches among all rows."""
        places: list[int] = self.rows.rank[np.array(self._found, np.int64)].tolist()
        return places

    def go_to_match(self, match: int) -> None:
        """Open the branches around a match, and go to it."""
        self._go_to_node(int(np.flatnonzero(self.rows.rank == match)[0]))

    def in_link(self) -> dict[str, object]:
        """Name the tree and the search."""
        stacks = "up" if self.upward else None
        return {"search": self.sought, "stacks": stacks, "frames": None if self.folded else "all"}

    def as_table(self) -> Table:
        """Return the visible rows."""
        self.sync()
        depth = self.rows.depth - self.rows.depth[self.root]
        return ("depth", *self.NUMBERS, "function", "place"), [
            (int(depth[node]), *self.numbers(node), self._name(node), self._place(node))
            for node in self.items.tolist()
        ]


# The change between two recordings, each at its own moment, as one tree with signs.


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
        self._take(TreeRows(self.change))

    def view_of(self, node: int) -> Viewpoint:
        """Return the recording with a node's frame."""
        return self.pair[int(self.change.side[node])]

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
        role = change_role(change) or "dim"
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

"""The call stacks, frames and strings that a page needs, renumbered without gaps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.safe_text import shown
from snapreport.model.stacks import StackTable
from snapreport.model.tree_paths import with_ancestors
from snapreport.native.sorting import distinct, unique


class Strings:
    """Distinct strings in the order of their first use, made safe to show."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self._ids: dict[str, int] = {}

    def id(self, text: str) -> int:
        """Return the row of a string, which is added if new."""
        if text not in self._ids:
            self._ids[text] = len(self.values)
            self.values.append(shown(text))
        return self._ids[text]

    def renumber(self, texts: list[str], ids: NDArray[np.int32]) -> NDArray[np.int64]:
        """Turn rows of another table into rows of this one; negative ids stay as they are."""
        used, place = distinct(ids)
        table = {int(i): self.id(texts[i]) for i in used if i >= 0}
        new = np.array([table.get(int(i), int(i)) for i in used], dtype=np.int64)
        return new[place]


class StackSubset:
    """Some stacks of a table, with only their nodes and frames."""

    def __init__(
        self, stacks: StackTable, used: NDArray[np.int64], sites: NDArray[np.int32]
    ) -> None:
        """``used``: stack ids, ascending and distinct; ``sites``: frame ids to keep, or -1."""
        self._stacks = stacks
        self.used = used
        """Old ids of the stacks, ascending and distinct."""
        nodes = stacks.stack_node[used]
        self._nodes = with_ancestors(stacks.node_parent, nodes[nodes >= 0])
        frames = np.concatenate([stacks.node_frame[self._nodes], sites[sites >= 0]])
        self.frames = unique(frames).astype(np.int64)
        """Old ids of the frames, ascending; a frame's new id is its index here."""

    def renumber(self, stack_ids: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the new ids of stacks; negative ids, and those outside the subset, become -1."""
        return _position(self.used, np.asarray(stack_ids, dtype=np.int64))

    def renumber_frames(self, frame_ids: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the new ids of frames; negative ids, and those outside the subset, become -1."""
        return _position(self.frames, np.asarray(frame_ids, dtype=np.int64))

    def columns(self, strings: Strings) -> dict[str, NDArray[np.int64]]:
        """Return the tables as columns; names and files go into ``strings``."""
        stacks, frames = self._stacks, self._stacks.frames
        names = [strings.id(frames.names[f]) for f in self.frames]
        files = [strings.id(frames.filenames[f]) for f in self.frames]
        code = [frames.code(int(f)) for f in self.frames]
        codes = np.array([strings.id(text) if text else -1 for text in code], np.int64)
        return {
            **({"frame_code": codes} if any(code) else {}),
            "frame_name": np.array(names, dtype=np.int64),
            "frame_file": np.array(files, dtype=np.int64),
            "frame_line": frames.lines[self.frames],
            "node_parent": _position(self._nodes, stacks.node_parent[self._nodes]),
            "node_frame": _position(self.frames, stacks.node_frame[self._nodes]),
            "stack_node": _position(self._nodes, stacks.stack_node[self.used]),
        }


def _position(table: NDArray[np.int64], ids: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return the index of each id in a sorted table, -1 if it is not there."""
    if not len(table):
        return np.full(len(ids), -1, dtype=np.int64)
    last = int(table[-1])
    if int(table[0]) >= 0 and last < len(ids):  # enough ids for a table: no search needed
        place = np.full(last + 2, -1, dtype=np.int64)
        place[table] = np.arange(len(table))
        return place[np.where((ids >= 0) & (ids <= last), ids, last + 1)]
    at = np.minimum(np.searchsorted(table, ids), len(table) - 1)
    return np.where(table[at] == ids, at, -1)

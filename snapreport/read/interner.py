"""Gives each distinct frame, call stack and text one id while a snapshot is read."""

from __future__ import annotations

import re
from array import array
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.errors import NotASnapshotError
from snapreport.ground.later import expression
from snapreport.ground.safe_text import CleanTexts
from snapreport.model.snapshot import (
    GENERATED,
    GRADIENT_OF,
    NO_ID,
    NO_STACK,
    SOURCE,
    TRACE,
    UNKNOWN_LINE,
    FrameTable,
    StackTable,
)
from snapreport.read.fields import check_key, take
from snapreport.read.parsed import Allowance

# The profiler has no separate file and line: "train.py(43): training_step".
_PROFILER_FRAME = expression(r"(.+\.py)\((\d{1,9})\): (.+)", re.DOTALL)
_PLAIN_KEYS = {"name", "filename", "line"}
# As traceback.format_stack() has it, which is what anomaly mode notes.
_TRACEBACK_FRAME = expression(
    r'File "([^"\n]{1,4000})", line (\d{1,9}), in ([^\n]{1,1000})'
    r"(?:\n {4}(\S[^\n]{0,1000}))?"
)
# Libraries and programs, which PyTorch names under TORCH_SYMBOLIZE_MODE=fast.
_BINARY = expression(r"\.(so(\.\d+)*|dylib|dll|pyd|exe)$|(^|[\\/])python[\d.]*$")
_LONGEST_END = 64
_UNNAMED = "??"
_LONGEST_TRACE = 20_000
# A file made to be slow to read could have any number of stacks with the same ends.
_MOST_ALIKE = 64
_LINE_LIMIT = 2**63
_FLAT = frozenset((str, int, float, bool, type(None)))
_UNSEEN = -1


class StringInterner:
    """Ids for texts, in order of first appearance."""

    def __init__(self, texts: CleanTexts, *without: str) -> None:
        """Make an empty table of the file's texts; ``without`` are values that mean no text."""
        self.texts = texts
        self.strings: list[str] = []
        self._ids: dict[object, int] = dict.fromkeys((None, "", *without), NO_ID)

    def intern(self, text: object) -> int:
        """Return the id of a text, NO_ID for none."""
        known = self._ids.get(text)
        if known is None:
            known = self._ids[text] = len(self.strings)
            self.strings.append(self.texts.clean(text))
        return known


class StackInterner:
    """Ids for frames and stacks by value, through object identity where the file shares objects.

    A pickle shares its frame dicts but not its lists: 12,665 lists for 178 stacks are normal.
    So a list is looked up by its identity first, then compared with lists met before, and only
    then read frame by frame. Identity is valid only while the raw objects exist.
    """

    def __init__(self, texts: CleanTexts, allowance: Allowance) -> None:
        """Make empty tables for a file with these texts; its tracebacks have so many frames."""
        self._texts = texts
        self._allowance = allowance
        self._names: list[str] = []
        self._filenames: list[str] = []
        self._lines: list[int] = []
        self._extra: dict[int, dict[str, str]] = {}
        self._frame_of_object: dict[int, int] = {}
        self._frame_of_value: dict[tuple[Any, ...], int] = {}
        self._stack_of_object: dict[int, int] = {id(None): NO_STACK}
        self._alike: dict[tuple[int, int, int, int], list[tuple[Any, int]]] = {}
        self._is_flat = True
        # Keyed by the frame ids as int32: a fourth of the memory of Python integers.
        self._stack_of_frames: dict[bytes, int] = {}
        self._frame_of_place: dict[int, tuple[Sequence[Any], NDArray[np.int32]]] = {}
        self._traced_of_text: dict[str, tuple[str, str, str, str] | None] = {}
        self._forwards: dict[bytes, int] = {}
        self._forward_of_object: dict[int, int] = {id(None): NO_STACK}
        self._forward_of_lines: dict[tuple[str, ...], int] = {}
        self._frames_of_line: dict[str, array[int]] = {}

    def intern(self, frames: Any) -> int:
        """Return the stack id of a list of frame dicts, innermost first; NO_STACK for None."""
        known = self._stack_of_object.get(id(frames))
        if known is None:
            known = self._stack_of_object[id(frames)] = self._by_frames(frames)
        return known

    def intern_places(
        self, frames: Sequence[Any], places: NDArray[np.int32], length: NDArray[np.int64]
    ) -> list[int]:
        """Do as ``intern()`` for many stacks whose frames are named by their places in a list.

        Args:
            frames: frame dicts; the caller keeps the list and does not change it.
            places: int32, those of all stacks one after the other, each innermost first.
            length: int64, shape (n_stacks,), how many of them each stack has.
        """
        known = self._frame_of_place.get(id(frames))
        if known is None:
            known = (frames, np.full(len(frames), _UNSEEN, np.int32))
            self._frame_of_place[id(frames)] = known
        ids = known[1][places]
        unseen = places[ids == _UNSEEN].tolist()
        if unseen:
            for place in dict.fromkeys(unseen):
                known[1][place] = self._frame(frames[place])
            ids = known[1][places]
        joined, end = ids.tobytes(), np.cumsum(length) * ids.itemsize
        begin = end - length * ids.itemsize
        stacks = zip(begin.tolist(), end.tolist(), strict=True)
        return [self._numbered(joined[low:high]) for low, high in stacks]

    def intern_field(self, rows: Sequence[dict[str, Any]], key: str) -> NDArray[np.int32]:
        """Return the id of the stack that each row has in a field; NO_STACK where it has none."""
        return np.array([self.intern(frames) for frames in take(rows, key)], np.int32)

    def number_forwards(self, rows: Sequence[dict[str, Any]]) -> NDArray[np.int32]:
        """Return the number of the forward call stack of each row; NO_STACK where it has none.

        Raises:
            NotASnapshotError: as ``number_lines()``.
        """
        known, lists = self._forward_of_object, [row.get("forward_frames") for row in rows]
        for lines in lists:
            if id(lines) not in known:
                known[id(lines)] = self.number_lines(lines)
        return np.array([known[id(lines)] for lines in lists], np.int32)

    def join(self, stacks: NDArray[np.int32], forward: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the ids of stacks with the forward call stacks behind them outside of them.

        Args:
            stacks: int32, shape (n,): stack ids, or NO_STACK.
            forward: int32, shape (n,): from ``number_forwards()``.
        """
        rows = np.flatnonzero(forward != NO_STACK)
        if not len(rows):
            return stacks
        key = (stacks[rows].astype(np.int64) + 1) * len(self._forwards) + forward[rows]
        _, first, place = np.unique(key, return_index=True, return_inverse=True)
        forwards, known = list(self._forwards), list(self._stack_of_frames)
        number = np.empty(len(first), np.int32)
        for k in np.argsort(first).tolist():  # in order of first appearance
            own = int(stacks[rows[first[k]]])
            frames = forwards[int(forward[rows[first[k]]])]
            inner = b"" if own == NO_STACK else known[own]
            self._allowance.take((len(inner) + len(frames)) // 4, "frames of forward call stacks")
            number[k] = self._numbered(inner + frames)
        joined: NDArray[np.int32] = stacks.copy()
        joined[rows] = number[place]
        return joined

    def number_lines(self, lines: Any) -> int:
        """Return a number for the lines of ``forward_frames``, outermost first; NO_STACK if none.

        Raises:
            NotASnapshotError: they are not texts, or repeat more frames than the file can have.
        """
        if not isinstance(lines, (list, tuple)) or any(type(line) is not str for line in lines):
            raise NotASnapshotError("has 'forward_frames' that are not a list of texts.")
        known = self._forward_of_lines.get(tuple(lines))
        if known is None:
            frames: array[int] = array("i")
            for line in lines:
                own = self._frames_of_line.get(line)
                if own is None:
                    own = self._frames_of_line[line] = array("i", self._traceback_frames(line))
                self._allowance.take(len(own) + 1, "frames of forward call stacks")
                frames += own
            frames.reverse()
            known = NO_STACK
            if frames:
                known = self._forwards.setdefault(frames.tobytes(), len(self._forwards))
            self._forward_of_lines[tuple(lines)] = known
        return known

    def _traceback_frames(self, text: str) -> Iterator[int]:
        """Yield the ids of the frames in a part of a traceback, outermost first."""
        for file, line, function, code in _TRACEBACK_FRAME.findall(self._texts.clean(text)):
            extra = {SOURCE: code} if code else {}
            yield self._number_frame(GRADIENT_OF + function, file, int(line), extra)

    def _by_frames(self, frames: Any) -> int:
        if not isinstance(frames, (list, tuple)):
            raise NotASnapshotError(f"has 'frames' of type {type(frames).__name__}, not a list.")
        if not frames:
            return self._by_value(frames)
        # Lists with the same frame at both ends and in the middle are compared whole: that is
        # quick, because equal frames are mostly the same object.
        ends = (len(frames), id(frames[0]), id(frames[len(frames) // 2]), id(frames[-1]))
        alike = self._alike.get(ends)
        if alike is None:
            alike = self._alike[ends] = []
        for known_frames, known in alike:
            if known_frames == frames:
                return known
        known = self._by_value(frames)
        # Lists within lists could take exponential time to compare.
        if self._is_flat and len(alike) < _MOST_ALIKE:
            alike.append((frames, known))
        return known

    def _by_value(self, frames: Any) -> int:
        try:  # nearly always every frame was met before, and this takes a fifth of the time
            ids = array("i", map(self._frame_of_object.__getitem__, map(id, frames)))
        except KeyError:
            ids = array("i", map(self._frame, frames))
        return self._numbered(ids.tobytes())

    def _numbered(self, ids: bytes) -> int:
        return self._stack_of_frames.setdefault(ids, len(self._stack_of_frames))

    def _frame(self, frame: Any) -> int:
        known = self._frame_of_object.get(id(frame))
        if known is not None:
            return known
        if not isinstance(frame, dict):
            raise NotASnapshotError(f"has a frame of type {type(frame).__name__}, not a dict.")
        name, filename, line = frame.get("name", ""), frame.get("filename", ""), frame.get("line")
        if type(line) is not int or not 0 <= line < _LINE_LIMIT:
            line = UNKNOWN_LINE
        if filename == "none":
            parts = _PROFILER_FRAME.fullmatch(name) if isinstance(name, str) else None
            name, filename, line = (
                (parts[3], parts[1], int(parts[2])) if parts else (name, "", UNKNOWN_LINE)
            )
        clean = self._texts.clean
        extra: dict[str, str] = {}
        if self._is_flat and not _FLAT.issuperset(map(type, frame.values())):
            self._is_flat = False
        if len(frame) > 3:
            for key in frame:
                check_key(key, "frame")
            extra = {
                clean(key): clean(value)
                for key, value in frame.items()
                if key not in _PLAIN_KEYS and value is not None
            }
        if isinstance(name, (dict, list)) or isinstance(filename, (dict, list)):
            raise NotASnapshotError("has a frame whose name or file is not text.")
        whole = clean(name), clean(filename)
        if whole[0] == _UNNAMED or _BINARY.search(whole[1][-_LONGEST_END:]):
            # Machine code, whose line is an offset: known by its function, as where PyTorch looks
            # symbols up in its slower way, and names no file.
            whole, line = (whole[0], _UNNAMED), UNKNOWN_LINE
        if TRACE in extra and (traced := self._traced(extra[TRACE])):
            # The line of the model that this generated line was made from.
            extra[GENERATED] = f"{whole[0]} ({whole[1]}:{line})"
            file, at, function, code = traced
            whole, line = (function, file), int(at)
            if code:
                extra[SOURCE] = code
        known = self._number_frame(*whole, line, extra)
        self._frame_of_object[id(frame)] = known
        return known

    def _traced(self, text: str) -> tuple[str, str, str, str] | None:
        """Return the innermost frame of a traceback: file, line, function and code."""
        if text not in self._traced_of_text:
            found = _TRACEBACK_FRAME.findall(text[-_LONGEST_TRACE:])
            self._traced_of_text[text] = found[-1] if found else None
        return self._traced_of_text[text]

    def _number_frame(self, name: str, filename: str, line: int, extra: dict[str, str]) -> int:
        # Texts and one number: nobody can construct equal hashes for these.
        value = (name, filename, line, *sorted(extra.items()))
        known = self._frame_of_value.get(value)
        if known is None:
            known = self._frame_of_value[value] = len(self._names)
            self._names.append(name)
            self._filenames.append(filename)
            self._lines.append(line)
            if extra:
                self._extra[known] = extra
        return known

    def table(self) -> StackTable:
        """Return all frames and stacks met so far, as a prefix tree."""
        lines = np.array(self._lines, np.int64)
        frames = FrameTable(self._names, self._filenames, lines, self._extra)
        return StackTable(frames, *prefix_tree(self._stack_of_frames))


# Call stacks as a prefix tree, from the outermost frame on.


def prefix_tree(stacks: Collection[bytes]) -> tuple[NDArray[np.int32], ...]:
    """Build the tree for all stacks at once.

    A stack adds one node for each frame beyond those it shares with an earlier stack. So the tree
    follows from how many frames each stack shares, and with which stack first.

    Args:
        stacks: the frame ids of each as int32, innermost first; all different.

    Returns:
        Parent, frame and depth of each node, int32, shape (n_nodes,), as in ``StackTable``; and the
        node of each stack's innermost frame, int32, shape (n_stacks,). Nodes are in the order of
        their first appearance, stack by stack from the outermost frame.
    """
    length = np.fromiter(map(len, stacks), np.int64, len(stacks)) // 4
    frames = np.frombuffer(b"".join(stacks), np.int32)
    n = len(length)
    end = np.cumsum(length)
    shared = np.zeros(n, np.int64)
    owner = np.zeros(n, np.int64)  # the first stack with these shared frames
    group = np.zeros(n, np.int64)  # stacks with the same outer frames have the same number
    first_of = np.zeros(n, np.int64)  # the first stack of the group
    among = np.arange(n)  # stacks that still share frames with another
    most = int(frames.max(initial=0)) + 1
    level = 0
    while len(among):
        ahead = _equal_levels(frames, length, end, among, first_of[among], level)
        if ahead:
            level += ahead
            shared[among[first_of[among] != among]] = level
            continue
        level += 1
        among = among[length[among] >= level]
        key = group[among] * most + frames[end[among] - level]
        _, first, own, count = np.unique(
            key, return_index=True, return_inverse=True, return_counts=True
        )
        group[among] = own
        leader = first_of[among] = among[first[own]]
        follows = leader != among
        shared[among[follows]] = level
        owner[among[follows]] = leader[follows]
        among = among[count[own] > 1]

    added = length - shared
    start = np.cumsum(added) - added
    n_nodes = int(added.sum())
    depth = np.arange(n_nodes) - np.repeat(start - shared - 1, added)
    parent = np.arange(n_nodes) - 1
    # The owner added the node at this depth, as no earlier stack shares it.
    branch = np.where(shared > 0, start[owner] + shared - 1 - shared[owner], -1)
    parent[start[added > 0]] = branch[added > 0]
    innermost = np.where(added > 0, start + added - 1, branch)
    frame = frames[np.repeat(end, added) - depth]
    return tuple(each.astype(np.int32) for each in (parent, frame, depth, innermost))


_AHEAD = 64
_FRAMES_AHEAD = 1 << 15


def _equal_levels(
    frames: NDArray[np.int32],
    length: NDArray[np.int64],
    end: NDArray[np.int64],
    among: NDArray[np.int64],
    leader: NDArray[np.int64],
    level: int,
) -> int:
    """Return for how many levels from here on all stacks of ``among`` equal their group's first.

    In a deep recursion those are most levels. With many stacks, few levels are compared at once.
    """
    most = min(_AHEAD, max(_FRAMES_AHEAD // len(among), 1), int(length[among].min()) - level)
    if most <= 0:
        return 0
    levels = np.arange(level + 1, level + 1 + most)
    same = frames[end[among, None] - levels] == frames[end[leader, None] - levels]
    alike = same.all(axis=0)
    return most if alike.all() else int(alike.argmin())

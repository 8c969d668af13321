"""Writes the dicts of a long list, event by event, round by round, from ready-made pieces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pickle import APPENDS, MARK, SETITEMS
from typing import Any

from dev.benchmarks.workloads.opcodes import BATCH, NEW_LIST, Framer, Memo, integer, reference
from dev.benchmarks.workloads.rounds import Use

DRAWN = ("addr", "size", "time_us", "frames")
"""The keys whose values differ from round to round, in the order that PyTorch writes them."""


@dataclass(frozen=True)
class Form:
    """A dict as opcodes, cut where the values of DRAWN go."""

    before: tuple[bytes, bytes, bytes, bytes]
    """What stands before each of them; empty before one that the dict does not have."""
    frames: bytes
    """The list of frames in full."""
    after: bytes
    until_list: int
    """How many objects are remembered before the list of frames is."""
    memos: int
    """How many are remembered in all, the list of frames not counted."""


class Line:
    """A dict to be written once in each round.

    Args:
        use: what it is, and the rows of the address and size that it gets.
        time: row of the round's times; -1 if it stays without a time.
    """

    def __init__(self, use: Use, time: int) -> None:
        self.event = _ordered(use.event)
        self.place, self.size, self.time = use.place, use.size, time
        self.frames: list[Any] | None = use.event.get("frames")
        self.key = 0 if self.frames is None else id(self.frames)
        """Equal for the dicts of a round that share their list of frames."""
        self.form: Form | None = None


class Lines:
    """Writes the items of one list, many rounds of them."""

    def __init__(self, framer: Framer, memo: Memo) -> None:
        self._framer, self._memo = framer, memo
        self._count = 0
        self._numbers: tuple[list[int], list[int], list[int]] = ([], [], [])
        self._coded: tuple[list[bytes], ...] = ()

    def begin(self, addresses: list[int], sizes: list[int], times: list[int]) -> None:
        """Begin a round with what was drawn for it: the rows that the lines name."""
        self._numbers = (addresses, sizes, times)
        # The last entry is for a line whose row is -1.
        self._coded = tuple([*map(integer, column), b""] for column in self._numbers)

    def write(self, lines: Iterable[Line]) -> None:
        """Append dicts."""
        memo, write = self._memo, self._framer.write
        addresses, sizes, times = self._coded
        count = self._count
        for line in lines:
            if count % BATCH == 0:
                write(APPENDS + MARK if count else MARK)
            count += 1
            form = line.form
            if form is None:  # its words and frames may be new too
                write(memo.value(self._filled(line)))
                line.form = self._form(line)
                continue
            frames = b""
            memos = form.memos
            if line.key:
                index = memo.lists.get(line.key)
                if index is None:
                    memo.lists[line.key] = memo.next + form.until_list
                    frames = form.frames
                    memos += 1
                else:
                    frames = reference(index)
            memo.next += memos
            a, b, c, d = form.before
            address, size, time = addresses[line.place], sizes[line.size], times[line.time]
            write(b"".join((a, address, b, size, c, time, d, frames, form.after)))
        self._count = count

    def close(self) -> None:
        """End the list's items."""
        if self._count:
            self._framer.write(APPENDS)

    def _filled(self, line: Line) -> dict[str, Any]:
        """Return the dict of a line in this round."""
        event = dict(line.event)
        rows = (line.place, line.size, line.time)
        for key, row, column in zip(DRAWN, rows, self._numbers, strict=False):
            if row >= 0 and key in event:
                event[key] = column[row]
        return event

    def _form(self, line: Line) -> Form:
        """Cut a dict whose words and frames were all written before."""
        memo = self._memo
        begin = memo.next
        rows = (line.place, line.size, line.time, 0)
        before = [b""] * len(DRAWN)
        frames, until_list = b"", 0
        piece = memo.new_dict() + MARK
        for key, value in line.event.items():
            piece += memo.word(key)
            if key not in DRAWN or rows[DRAWN.index(key)] < 0:
                piece += memo.value(value, key)
                continue
            before[DRAWN.index(key)], piece = piece, b""
            if key == "frames":
                until_list = memo.next - begin
                frames = NEW_LIST + memo.frames(value)
        memos, memo.next = memo.next - begin, begin
        a, b, c, d = before
        return Form((a, b, c, d), frames, piece + SETITEMS, until_list, memos)


def _ordered(event: dict[str, Any]) -> dict[str, Any]:
    """Return a dict with the keys of DRAWN in that order; as it is, wherever PyTorch made it."""
    own = [key for key in event if key in DRAWN]
    wanted = [key for key in DRAWN if key in event]
    if own == wanted:
        return event
    rest = {key: value for key, value in event.items() if key not in DRAWN}
    return {**rest, **{key: event[key] for key in wanted}}

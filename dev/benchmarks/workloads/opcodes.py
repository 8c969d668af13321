"""Pickle opcodes, written as the files of PyTorch have them, piece by piece.

Protocol 4 in frames of 64 KiB. As there, the words that PyTorch uses again and again are written
once and then referred to, while names, files and compile contexts are written anew each time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pickle import (
    APPEND,
    APPENDS,
    BINFLOAT,
    BINGET,
    BININT,
    BININT1,
    BININT2,
    BINUNICODE,
    EMPTY_DICT,
    EMPTY_LIST,
    EMPTY_TUPLE,
    FRAME,
    LONG1,
    LONG_BINGET,
    MARK,
    MEMOIZE,
    NEWFALSE,
    NEWTRUE,
    NONE,
    PROTO,
    SETITEMS,
    SHORT_BINUNICODE,
    STOP,
    TUPLE1,
    TUPLE2,
    TUPLE3,
)
from typing import Any, BinaryIO

FRAME_BYTES = 1 << 16
BATCH = 1000
"""How many items of a list are appended at once."""

NEW_LIST = EMPTY_LIST + MEMOIZE
NEW_DICT = EMPTY_DICT + MEMOIZE

# Their values are objects of their own in every dict of a recording, even where they are equal.
FRESH_KEYS = frozenset(("compile_context", "user_metadata", "name", "filename", "stage"))


def integer(value: int) -> bytes:
    """Return the shortest opcode for an integer, as Python's pickler picks it."""
    if 0 <= value < 1 << 8:
        return BININT1 + bytes((value,))
    if 0 <= value < 1 << 16:
        return BININT2 + value.to_bytes(2, "little")
    if -(1 << 31) <= value < 1 << 31:
        return BININT + value.to_bytes(4, "little", signed=True)
    length = (value.bit_length() >> 3) + 1
    return LONG1 + bytes((length,)) + value.to_bytes(length, "little", signed=True)


def reference(index: int) -> bytes:
    """Return the opcode that gets an object written before."""
    if index < 1 << 8:
        return BINGET + bytes((index,))
    return LONG_BINGET + index.to_bytes(4, "little")


def string(text: str) -> bytes:
    """Return the opcodes that write a text and remember it."""
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) < 1 << 8:
        return SHORT_BINUNICODE + bytes((len(encoded),)) + encoded + MEMOIZE
    return BINUNICODE + len(encoded).to_bytes(4, "little") + encoded + MEMOIZE


def filled(items: list[bytes]) -> bytes:
    """Return the opcodes that put items, written already, into the list before them."""
    if len(items) == 1:
        return items[0] + APPEND
    return b"".join(
        MARK + b"".join(items[i : i + BATCH]) + APPENDS for i in range(0, len(items), BATCH)
    )


class Framer:
    """Writes pieces in frames: each ends where a piece does, once it has 64 KiB."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._pieces: list[bytes] = []
        self._size = 0
        out.write(PROTO + b"\x04")

    def write(self, piece: bytes) -> None:
        """Take whole opcodes with their arguments."""
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size >= FRAME_BYTES:
            self._flush()

    def close(self) -> None:
        """End the pickle."""
        self.write(STOP)
        self._flush()

    def _flush(self) -> None:
        if self._pieces:
            self._out.write(FRAME + self._size.to_bytes(8, "little"))
            self._out.write(b"".join(self._pieces))
        self._pieces, self._size = [], 0


class Memo:
    """Turns values into opcodes, and knows which number each remembered object has."""

    def __init__(self) -> None:
        self.next = 0
        """The number of the object that is remembered next."""
        self.lists: dict[int, int] = {}
        """Number of each list of frames that may be met again, by its ``id()``."""
        self._words: dict[str, int] = {}
        self._frames: dict[int, tuple[int, Any]] = {}
        """By ``id()``: the number, and the frame itself, so that the id stays its own."""

    def word(self, text: str) -> bytes:
        """Return a text that is written once only."""
        index = self._words.get(text)
        if index is not None:
            return reference(index)
        self._words[text] = self.next
        self.next += 1
        return string(text)

    def fresh(self, text: str) -> bytes:
        """Return a text as an object of its own; Python has only one that is empty."""
        if not text:
            return self.word(text)
        self.next += 1
        return string(text)

    def new_dict(self) -> bytes:
        """Begin a dict."""
        self.next += 1
        return NEW_DICT

    def new_list(self) -> bytes:
        """Begin a list."""
        self.next += 1
        return NEW_LIST

    def frames(self, frames: list[dict[str, Any]]) -> bytes:
        """Return what fills a list of frames; each frame is written once only."""
        return filled([self._frame(frame) for frame in frames]) if frames else b""

    def _frame(self, frame: Any) -> bytes:
        if not isinstance(frame, dict):  # forward_frames has texts
            return self.value(frame)
        known = self._frames.get(id(frame))
        if known is not None:
            return reference(known[0])
        self._frames[id(frame)] = (self.next, frame)
        return self.value(frame)

    def pairs(self, items: Iterable[tuple[str, Any]]) -> bytes:
        """Return keys and values, without what makes them a dict."""
        return b"".join(self.word(key) + self.value(value, key) for key, value in items)

    def value(self, value: Any, key: str = "") -> bytes:
        """Return any value that a snapshot can have.

        Args:
            value: made of dicts, lists, tuples, texts, numbers, booleans and None.
            key: under which it stands in a dict, which says how PyTorch writes it.

        Raises:
            TypeError: it has another type.
        """
        if isinstance(value, str):
            return self.fresh(value) if key in FRESH_KEYS else self.word(value)
        if isinstance(value, bool):
            return NEWTRUE if value else NEWFALSE
        if isinstance(value, int):
            return integer(value)
        if isinstance(value, float):
            return BINFLOAT + struct.pack(">d", value)
        if value is None:
            return NONE
        if isinstance(value, tuple):
            return self._tuple(value)
        if isinstance(value, dict):
            begin = self.new_dict()
            return begin + (MARK + self.pairs(value.items()) + SETITEMS if value else b"")
        if isinstance(value, list):
            if key == "frames":
                return self.shared_list(value)
            begin = self.new_list()
            items = [self.value(each) for each in value]
            return begin + (filled(items) if items else b"")
        raise TypeError(f"a snapshot has no {type(value).__name__}")

    def shared_list(self, frames: list[dict[str, Any]]) -> bytes:
        """Return a list of frames: in full the first time, then a reference."""
        index = self.lists.get(id(frames))
        if index is not None:
            return reference(index)
        self.lists[id(frames)] = self.next
        return self.new_list() + self.frames(frames)

    def _tuple(self, value: tuple[Any, ...]) -> bytes:
        ends = {1: TUPLE1, 2: TUPLE2, 3: TUPLE3}
        if not value:
            return EMPTY_TUPLE
        if len(value) not in ends:
            raise TypeError("a snapshot has no tuple of more than three")
        items = b"".join(self.value(each) for each in value)
        self.next += 1
        return items + ends[len(value)] + MEMOIZE

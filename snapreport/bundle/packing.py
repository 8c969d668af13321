"""Writes a zip whose members are deflated in pieces, on several threads at once.

The module zipfile deflates in one thread, and takes long to import. A deflate stream can consist
of pieces that are made independently: each ends on a whole byte and has the 32 KiB before it as its
dictionary. The result is an ordinary zip, the same on every machine.
"""

from __future__ import annotations

import contextlib
import functools
import os
import struct
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import BinaryIO

PIECE = 1 << 19
"""Bytes that are deflated on their own: the same everywhere, as it affects the output."""

_WINDOW = 1 << 15
_LAST = b"\x03\x00"
"""An empty block of deflate that is marked as the last."""
_MOST_THREADS = 4
_MOST_WAITING = 48
"""Pieces that may wait for a thread; with more, the caller deflates one, which bounds memory."""
_SEE_ZIP64 = 0xFFFFFFFF
_LIMIT = _SEE_ZIP64
"""Sizes and positions from this number on are written in zip64 fields."""
_FIRST_DAY = 1 << 5 | 1  # 1 January 1980, as a zip writes it
_FILE_MODE = 0o644 << 16


class Packer:
    """Takes members as they are made, deflates them meanwhile, and writes the zip at the end."""

    def __init__(self) -> None:
        self._members: list[_Member] = []
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._errors: list[BaseException] = []
        self._stopped = False
        # The caller makes members meanwhile, and then helps.
        self._count = min(max((os.cpu_count() or 1) - 1, 1), _MOST_THREADS)
        self._threads: list[threading.Thread] = []
        self._finished = False

    def __enter__(self) -> Packer:  # noqa: PYI034  (Python 3.10 has no Self)
        for _ in range(self._count):
            # A daemon: if a signal comes before it is in our list, nothing would end it.
            thread = threading.Thread(target=self._work, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # a limit on threads: the caller then does all the work
                break
            self._threads.append(thread)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopped = self._stopped or kind is not None
        self._finish()

    def add(self, name: str, parts: Iterable[bytes], level: int) -> None:
        """Add a member; each part of it is deflated while the next one is made."""
        member = _Member(name, level)
        self._members.append(member)
        for part in parts:
            for task in member.tasks(part):
                self._tasks.put(task)
                if self._tasks.qsize() > _MOST_WAITING:
                    self._help()

    def write(self, out: BinaryIO, first: Sequence[str] = ()) -> None:
        """Wait for all members, and write the zip.

        Args:
            out: where to write.
            first: names of the members that come before the others, in order.
        """
        self._finish()
        if self._errors:
            raise self._errors[0]
        place, directory = 0, b""
        rank = {name: place for place, name in enumerate(first)}
        for member in sorted(self._members, key=lambda each: rank.get(each.name, len(rank))):
            directory += member.entry(place)
            for part in (member.header(), *member.pieces, _LAST):
                out.write(part)
                place += len(part)
            member.pieces.clear()
        out.write(directory)
        out.write(_end(len(self._members), len(directory), place))

    def _finish(self) -> None:
        if self._finished:
            return
        for _ in range(len(self._threads) + 1):
            self._tasks.put(None)
        self._work()
        for thread in self._threads:
            thread.join()
        self._finished = True

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            self._do(task)

    def _help(self) -> None:
        with contextlib.suppress(Empty):
            task = self._tasks.get_nowait()
            if task is not None:
                self._do(task)

    def _do(self, task: Callable[[], None]) -> None:
        if self._stopped:
            return
        try:
            task()
        except BaseException as error:  # raised again by write()
            self._errors.append(error)
            self._stopped = True


class _Member:
    """One file of the zip; its header and entry are right once all its tasks are done."""

    def __init__(self, name: str, level: int) -> None:
        self.name, self._name, self._level = name, name.encode("ascii"), level
        self._size = self._crc = 0
        self._window = b""
        self.pieces: list[bytes] = []

    def tasks(self, part: bytes) -> Iterator[Callable[[], None]]:
        """Take the next part of the content, and yield tasks to be done in any order."""
        self._size += len(part)
        self._crc = zlib.crc32(part, self._crc)
        for start in range(0, len(part), PIECE):
            piece = memoryview(part)[start : start + PIECE]
            self.pieces.append(b"")
            yield functools.partial(self._deflate, len(self.pieces) - 1, piece, self._window)
            self._window = bytes(piece[-_WINDOW:])

    def _deflate(self, index: int, piece: memoryview, window: bytes) -> None:
        packer = zlib.compressobj(
            self._level,
            zlib.DEFLATED,
            -zlib.MAX_WBITS,
            zlib.DEF_MEM_LEVEL,
            zlib.Z_DEFAULT_STRATEGY,
            window,
        )
        self.pieces[index] = packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH)

    def header(self) -> bytes:
        """Return the header, which comes before the deflated bytes."""
        fields, extra = self._fields([self._size, sum(map(len, self.pieces)) + len(_LAST)])
        return b"PK\x03\x04" + fields + self._name + extra

    def entry(self, place: int) -> bytes:
        """Return the member's entry in the directory, given the place of its header."""
        numbers = [self._size, sum(map(len, self.pieces)) + len(_LAST), place]
        fields, extra = self._fields(numbers)
        made_on_unix = b"\x14\x03"  # so that unzip applies the file mode
        tail = struct.pack("<HHHII", 0, 0, 0, _FILE_MODE, _SEE_ZIP64 if extra else place)
        return b"PK\x01\x02" + made_on_unix + fields + tail + self._name + extra

    def _fields(self, numbers: list[int]) -> tuple[bytes, bytes]:
        """Return the fields that header and entry share, and the zip64 field if one is needed.

        Args:
            numbers: the size, the deflated size and, in an entry, the place of the header.
        """
        size, packed, extra = numbers[0], numbers[1], b""
        if max(numbers) >= _LIMIT:
            extra = struct.pack(f"<HH{len(numbers)}Q", 1, 8 * len(numbers), *numbers)
            size = packed = _SEE_ZIP64
        version, deflated = 45 if extra else 20, 8
        fields = (version, 0, deflated, 0, _FIRST_DAY, self._crc, packed, size)
        return struct.pack("<5H3I2H", *fields, len(self._name), len(extra)), extra


def _end(members: int, length: int, place: int) -> bytes:
    """Return the end of a zip: its number of members, and the length and place of its directory."""
    large = b""
    if place >= _LIMIT:
        record = struct.pack("<Q2H2I4Q", 44, 45, 45, 0, 0, members, members, length, place)
        locator = struct.pack("<IQI", 0, place + length, 1)
        large = b"PK\x06\x06" + record + b"PK\x06\x07" + locator
        place = _SEE_ZIP64
    return large + b"PK\x05\x06" + struct.pack("<4H2IH", 0, 0, members, members, length, place, 0)

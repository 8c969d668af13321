"""Writes and reads the zip of a bundle, with its manifest, ``elements.db`` and strips.

Its members are deflated in pieces, on several threads at once; the module zipfile deflates in one.
A deflate stream can consist of pieces that are made independently: each ends on a whole byte and
has the 32 KiB before it as its dictionary. Rows whose writer marked where their fields begin are
deflated by the native library, several times as fast. The result is an ordinary zip, the same on
every machine.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import struct
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, BinaryIO

import orjson

from snapreport.bundle.database import database_parts, default_first, write_database
from snapreport.bundle.database_reader import read_database
from snapreport.bundle.members import (
    MANIFEST,
    MOST_MANIFEST,
    Members,
    check_manifest,
    make_manifest,
    open_members,
    parse_manifest,
    source_of,
    strips_name,
)
from snapreport.bundle.strips import strips_text
from snapreport.ground.errors import BundleError, InputError, reason_of
from snapreport.ground.files import BEGIN, foreign_zip, open_regular
from snapreport.ground.native.library import Marked, deflated
from snapreport.ground.progress import Progress, silent
from snapreport.ground.safe_text import plain_json
from snapreport.model.history import Drawn, History

_DATABASE = "elements.db"
_INDENT = orjson.OPT_INDENT_2


def write_bundle(
    history: History,
    out: BinaryIO,
    warnings: list[dict[str, str]] | None = None,
    progress: Progress = silent,
    drawn: Sequence[Drawn] | None = None,
) -> None:
    """Write a bundle; equal histories give equal bytes.

    Args:
        history: what to store.
        out: where to write.
        warnings: ``code`` and ``text`` of each, for programs that read only the manifest.
        progress: called with what is being done.
        drawn: what the strips show of each device, if ``history.cut`` leaves something out; the
            database is always complete.
    """
    with Packer() as packer:  # it deflates each member while the next one is made
        for name, parts, level in _members(history, warnings or [], progress, drawn):
            packer.add(name, parts, level)
        packer.write(out, [MANIFEST, _DATABASE])


def _members(
    history: History,
    warnings: list[dict[str, str]],
    progress: Progress,
    drawn: Sequence[Drawn] | None,
) -> Iterator[tuple[str, Iterable[bytes | Marked], int]]:
    """Yield each member's name, its content and the level of deflate that suits it."""
    manifest = orjson.dumps(make_manifest(history, warnings, drawn), option=_INDENT)
    yield MANIFEST, [plain_json(manifest)], 9
    first_id = 0
    order = default_first(history)
    for done, index in enumerate(order):
        progress("Laying out strips", done / len(order))
        device = history.devices[index]
        strips = strips_text(device, first_id, None if drawn is None else drawn[index])
        yield strips_name(history, index), strips, 4
        first_id += len(device.allocations)
    if not order:
        yield "allocations.json", [b"[]"], 4
    progress(f"Writing {_DATABASE}", None)  # meanwhile a thread deflates the strips
    yield _DATABASE, database_parts(history), 6


def viewer_files(history: History, progress: Progress = silent) -> dict[str, bytes]:
    """Return the two files of a bundle that SnapViewer opens, for the default device."""
    files = {_DATABASE: write_database(history), "allocations.json": b"[]"}
    progress("Laying out strips", None)
    if history.devices:
        device = history.devices[history.default_device]
        files["allocations.json"] = b"".join(part.data for part in strips_text(device))
    return files


def read_bundle(path: Path, progress: Progress = silent) -> History:
    """Read a bundle's history.

    Raises:
        InputError: the file cannot be read.
        BundleError: it is damaged, not a bundle, or of a newer format.
    """
    progress("Reading bundle", None)
    with checked_members(path) as members:
        manifest = _read_manifest(members)
        history = read_database(members.unpack(_DATABASE), source_of(manifest))
        check_manifest(manifest, history, members.names)
        return history


def read_manifest(path: Path) -> dict[str, Any]:
    """Return a bundle's manifest, if its zip is intact.

    Raises:
        InputError, BundleError: as ``read_bundle()``.
    """
    with checked_members(path) as members:
        return _read_manifest(members)


def read_elements(path: Path) -> bytes:
    """Return a bundle's ``elements.db`` as it is, unchecked.

    Raises:
        InputError: the file cannot be read.
        BundleError: it is damaged, not a bundle, or of a newer format.
    """
    with checked_members(path) as members:
        source_of(_read_manifest(members))
        return members.unpack(_DATABASE)


def _read_manifest(members: Members) -> dict[str, Any]:
    if "run.db" in members.names:
        raise BundleError(
            "holds the figures of a run, not a snapshot; use render, summary, check, diff or"
            " export parquet with it."
        )
    return parse_manifest(members.unpack(MANIFEST, MOST_MANIFEST))


@contextmanager
def checked_members(path: Path) -> Iterator[Members]:
    """Open a bundle's zip, and turn what a damaged one raises into an error that names the file.

    Raises:
        InputError: the file cannot be read, or is a pipe or device.
        NotABundleError: it is somebody's other zip.
        BundleError: it is damaged, or beyond the limits.
    """
    try:
        with open_members(path) as members:
            yield members
    except BundleError as error:
        with open_regular(path) as file:
            foreign = foreign_zip(file.read(BEGIN))
        raise type(error)(f"{path} {foreign or error}") from error.__cause__
    except InputError as error:
        raise InputError(f"{path} {error}") from error.__cause__
    except (
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        EOFError,
        NotImplementedError,
        OverflowError,
        RuntimeError,
    ) as error:
        raise BundleError(
            f"{path} is a damaged zip ({reason_of(error)}); copy or convert it again."
        ) from error
    except (KeyError, TypeError, ValueError) as error:
        raise BundleError(
            f"{path} is not a complete snapreport bundle ({reason_of(error)});"
            " convert the snapshot again."
        ) from error
    except OSError as error:
        if error.errno == errno.EINVAL:  # a directory that points before the start of the file
            raise BundleError(f"{path} is a damaged zip; copy or convert it again.") from error
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error


# The zip, deflated in pieces.

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

    def add(self, name: str, parts: Iterable[bytes | Marked], level: int) -> None:
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

    def tasks(self, part: bytes | Marked) -> Iterator[Callable[[], None]]:
        """Take the next part of the content, and yield tasks to be done in any order."""
        if isinstance(part, Marked):
            self._count(part.data)
            self._window = part.data[-_WINDOW:]
            self.pieces.append(b"")
            yield functools.partial(self._deflate_marked, len(self.pieces) - 1, part)
            return
        self._count(part)
        for start in range(0, len(part), PIECE):
            piece = memoryview(part)[start : start + PIECE]
            self.pieces.append(b"")
            yield functools.partial(self._deflate, len(self.pieces) - 1, piece, self._window)
            self._window = bytes(piece[-_WINDOW:])

    def _count(self, part: bytes) -> None:
        self._size += len(part)
        self._crc = zlib.crc32(part, self._crc)

    def _deflate_marked(self, index: int, part: Marked) -> None:
        self.pieces[index] = deflated(part)

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

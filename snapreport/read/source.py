"""Opens an input file, mapped or unpacked as its first bytes require."""

from __future__ import annotations

import hashlib
import mmap
import stat
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from snapreport.ground.errors import InputError, NotASnapshotError, NotEnoughMemoryError
from snapreport.ground.files import as_text
from snapreport.ground.latest_recording import name_a_file
from snapreport.ground.processes.unpacking_limit import MAX_UNPACKED, most_unpacked
from snapreport.ground.remote.store_copies import local_copy
from snapreport.ground.units import format_bytes
from snapreport.model.snapshot import Source
from snapreport.read.limits import MOST_RULES, UNPACKED_ALWAYS
from snapreport.read.memory_need import require_memory

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_PART = 1 << 24
# Bytes that one byte of zstd can unpack to: a block of 128 KiB takes four.
_ZSTD_MOST = 1 << 15
_ZSTD_LEAST_PART = 1 << 10


@contextmanager
def open_source(path: Path) -> Iterator[tuple[Callable[[], Source], bytes | mmap.mmap]]:
    """Yield a function that returns a file's identity, to be called last, and its unpacked bytes.

    Raises:
        InputError: it is missing, a folder, or not readable.
        NotASnapshotError: it is empty, or a damaged gzip or zstd file.
        NotEnoughMemoryError: unpacked it is too large for this machine, or larger than allowed.
    """
    try:
        status = path.stat()
        mode = status.st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            # Opening a pipe would wait for its other end, and a device has no length.
            raise InputError("is a pipe or device; save its content to a file first.")
        with local_copy(path) as here, here.open("rb") as file:
            if status.st_size == 0:
                raise NotASnapshotError(
                    "is empty; was the program still writing it? Record it again."
                )
            with (
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
                _digest(mapped) as digest,
            ):

                def source() -> Source:
                    return Source(as_text(path.name), len(mapped), digest())

                if mapped[:2] == _GZIP:
                    yield source, _unpack_gzip(mapped)
                elif mapped[:4] == _ZSTD:
                    yield source, _unpack_zstd(mapped)
                else:
                    yield source, mapped
    except FileNotFoundError as error:
        raise InputError("does not exist; check the path.") from error
    except IsADirectoryError as error:
        raise InputError(name_a_file(path)) from error
    except PermissionError as error:
        raise InputError("cannot be read: permission denied.") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot be read: {reason}.") from error


@contextmanager
def _digest(data: mmap.mmap) -> Iterator[Callable[[], str]]:
    """Compute the SHA-256 of the data in a thread, and yield a function that waits for it."""
    found: list[str] = []
    cancelled = threading.Event()  # a refused file needs no digest

    def take() -> None:
        digest = hashlib.sha256()
        with memoryview(data) as view:
            for start in range(0, len(view), _PART):
                if cancelled.is_set():
                    return
                with view[start : start + _PART] as part:
                    digest.update(part)
        found.append(digest.hexdigest())

    thread = threading.Thread(target=take)
    try:
        thread.start()
    except RuntimeError:  # a limit on threads
        take()

    def result() -> str:
        if thread.ident is not None:
            thread.join()
        return found[0]

    try:
        yield result
    finally:
        cancelled.set()
        if thread.ident is not None:
            thread.join()  # it must release the data before they are unmapped


def read_short(path: Path) -> str:
    """Return the text of a file of rules or budgets.

    Raises:
        InputError: it cannot be read, or is too long to be one.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_RULES + 1)
        if len(data) <= MOST_RULES:
            return data.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InputError(f"{path} cannot be read: {reason}.") from error
    raise InputError(f"{path} cannot be read: it is larger than {format_bytes(MOST_RULES)}.")


class _Unpacked:
    """The bytes unpacked so far, whose number is limited."""

    def __init__(self, packed: int) -> None:
        self._most = most_unpacked(packed, UNPACKED_ALWAYS)
        self._parts: list[bytes] = []
        self._length = 0
        self._checked = 0

    @property
    def left(self) -> int:
        """How many more bytes may be added."""
        return self._most - self._length

    def add(self, part: bytes) -> None:
        self._length += len(part)
        if self._length > self._most:
            raise NotEnoughMemoryError(
                f"unpacks to more than {format_bytes(self._most)}, far more than a snapshot of its"
                f" size does; if you trust it, set {MAX_UNPACKED} to more, such as 50GiB."
            )
        self._parts.append(part)
        # The file need not state its unpacked size, or may state a wrong one.
        if self._length > 2 * self._checked:
            self._checked = self._length
            require_memory(2 * self._length)  # the parts, and the whole made of them

    def whole(self) -> bytes:
        return b"".join(self._parts)


def _unpack_gzip(packed: mmap.mmap) -> bytes:
    import gzip

    unpacked = _Unpacked(len(packed))
    said = int.from_bytes(packed[-4:], "little")  # of the last member, modulo 4 GiB
    require_memory(min(said, len(packed) * 1032))  # the most that deflate can do
    try:
        with gzip.open(packed) as stream:
            while part := stream.read(_PART):
                unpacked.add(part)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise NotASnapshotError(f"is a damaged gzip file ({error}); copy it again.") from error
    return unpacked.whole()


def _unpack_zstd(packed: mmap.mmap) -> bytes:
    import zstandard

    unpacked = _Unpacked(len(packed))
    try:
        said = zstandard.frame_content_size(packed[:18])  # the longest header; -1 if unknown
        require_memory(min(said, len(packed) * _ZSTD_MOST))
    except zstandard.ZstdError:
        pass  # reported below
    position = 0
    try:
        while position < len(packed):  # one frame each
            frame = zstandard.ZstdDecompressor().decompressobj()
            step = _ZSTD_LEAST_PART
            while not frame.eof:
                part = packed[position : position + step]
                if not part:  # a stream reader would end silently here
                    raise NotASnapshotError("is a zstd file that is cut off; copy it again.")
                unpacked.add(frame.decompress(part))
                position += len(part)
                # Larger steps as it goes on, but never one that could unpack to far too much.
                step = max(_ZSTD_LEAST_PART, min(2 * step, unpacked.left // _ZSTD_MOST, _PART))
            position -= len(frame.unused_data)
    except zstandard.ZstdError as error:
        raise NotASnapshotError(f"is a damaged zstd file ({error}); copy it again.") from error
    return unpacked.whole()

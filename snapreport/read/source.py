"""The bytes of an input file: mapped or unpacked, told apart by what they begin with."""

from __future__ import annotations

import hashlib
import io
import mmap
import os
import stat
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from snapreport.errors import InputError, NotASnapshotError
from snapreport.model.snapshot import Source
from snapreport.read.memory import require_memory

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


@contextmanager
def open_source(path: Path) -> Iterator[tuple[Callable[[], Source], bytes | mmap.mmap]]:
    """Give a file's identity, to be asked for last, and its content, unpacked if it was packed.

    Raises:
        InputError: missing, a folder, or not readable.
        NotASnapshotError: empty, or a damaged gzip or zstd file.
        NotEnoughMemoryError: unpacked it is too large for this machine.
    """
    try:
        status = path.stat()
        mode = status.st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            # Opening a pipe would wait for its other end, and a device has no length.
            raise InputError("is a pipe or device; save its content to a file first.")
        with path.open("rb") as file:
            if status.st_size == 0:
                raise NotASnapshotError(
                    "is empty; was the program still writing it? Record it again."
                )
            with (
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
                _digest(mapped) as digest,
            ):

                def source() -> Source:
                    return Source(_shown_name(path), len(mapped), digest())

                if mapped[:2] == _GZIP:
                    yield source, _unpack_gzip(mapped)
                elif mapped[:4] == _ZSTD:
                    yield source, _unpack_zstd(mapped)
                else:
                    yield source, mapped
    except FileNotFoundError as error:
        raise InputError("does not exist; check the path.") from error
    except IsADirectoryError as error:
        raise InputError("is a folder; name the snapshot file in it.") from error
    except PermissionError as error:
        raise InputError("cannot be read: permission denied.") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot be read: {reason}.") from error


@contextmanager
def _digest(data: mmap.mmap) -> Iterator[Callable[[], str]]:
    """Take the SHA-256 of the data in a thread of its own, and give what waits for its digits."""
    found: list[str] = []

    def take() -> None:
        found.append(hashlib.sha256(data).hexdigest())

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
        if thread.ident is not None:
            thread.join()  # it must let go of the data before they are unmapped


def _shown_name(path: Path) -> str:
    """Return a file's name; bytes in it that are no UTF-8 become replacement characters."""
    return os.fsencode(path.name).decode(errors="replace")


def _unpack_gzip(packed: mmap.mmap) -> bytes:
    import gzip

    said = int.from_bytes(packed[-4:], "little")  # of the last member, modulo 4 GiB
    require_memory(min(said, len(packed) * 1032))  # deflate cannot do better
    try:
        with gzip.open(io.BytesIO(packed)) as stream:
            return stream.read()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise NotASnapshotError(f"is a damaged gzip file ({error}); copy it again.") from error


def _unpack_zstd(packed: mmap.mmap) -> bytes:
    import zstandard

    try:
        said = zstandard.frame_content_size(packed[:18])  # the longest header; -1 if unknown
        require_memory(min(said, len(packed) * 40_000))
    except zstandard.ZstdError:
        pass  # what is wrong with it is said below
    parts: list[bytes] = []
    rest: memoryview | bytes = memoryview(packed)
    try:
        while len(rest):  # one frame each
            frame = zstandard.ZstdDecompressor().decompressobj()
            parts.append(frame.decompress(rest))
            if not frame.eof:  # a stream reader would end here without a word
                raise NotASnapshotError("is a zstd file that is cut off; copy it again.")
            rest = frame.unused_data
    except zstandard.ZstdError as error:
        raise NotASnapshotError(f"is a damaged zstd file ({error}); copy it again.") from error
    finally:
        if isinstance(rest, memoryview):
            rest.release()
    return b"".join(parts)

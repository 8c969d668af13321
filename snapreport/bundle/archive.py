"""Writes and reads the zip of a bundle, with its manifest, ``elements.db`` and strips."""

from __future__ import annotations

import errno
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from snapreport.bundle.database import default_first, write_database
from snapreport.bundle.manifest import (
    MANIFEST,
    check_manifest,
    make_manifest,
    parse_manifest,
    source_of,
    strips_name,
)
from snapreport.bundle.packing import Packer
from snapreport.bundle.strips_text import strips_text
from snapreport.ground.errors import BundleError, InputError, reason_of
from snapreport.ground.files import open_regular
from snapreport.ground.foreign_files import BEGIN, foreign_zip
from snapreport.ground.progress import Progress, silent
from snapreport.ground.safe_text import plain_json
from snapreport.model.cut import Drawn
from snapreport.model.history import History

if TYPE_CHECKING:
    from snapreport.bundle.members import Members

_DATABASE = "elements.db"
_INDENT = orjson.OPT_INDENT_2


def is_zip(path: Path) -> bool:
    """Say whether a file begins like a zip."""
    try:
        with open_regular(path) as file:
            return file.read(4) in (b"PK\x03\x04", b"PK\x05\x06")
    except OSError:
        return False


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
) -> Iterator[tuple[str, Iterable[bytes], int]]:
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
    yield _DATABASE, [write_database(history)], 5


def viewer_files(history: History, progress: Progress = silent) -> dict[str, bytes]:
    """Return the two files of a bundle that SnapViewer opens, for the default device."""
    files = {_DATABASE: write_database(history), "allocations.json": b"[]"}
    progress("Laying out strips", None)
    if history.devices:
        device = history.devices[history.default_device]
        files["allocations.json"] = b"".join(strips_text(device))
    return files


def read_bundle(path: Path, progress: Progress = silent) -> History:
    """Read a bundle's history.

    Raises:
        InputError: the file cannot be read.
        BundleError: it is damaged, not a bundle, or of a newer format.
    """
    from snapreport.bundle.database_reader import read_database

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
    from snapreport.bundle.members import MOST_MANIFEST

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
    import zipfile  # slow to import, and not needed for converting

    from snapreport.bundle.members import open_members

    try:
        with open_members(path) as members:
            yield members
    except BundleError as error:
        raise type(error)(f"{path} {_foreign(path) or error}") from error.__cause__
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


def _foreign(path: Path) -> str:
    with open_regular(path) as file:
        return foreign_zip(file.read(BEGIN))

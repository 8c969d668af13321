"""List every distinct string in a file: a report, a bundle, an export or a snapshot."""

from __future__ import annotations

import zlib
from pathlib import Path

import orjson

from snapreport.bundle import is_zip
from snapreport.ground.errors import InputError, NotASnapshotError, naming
from snapreport.ground.files import is_file, is_folder, open_regular
from snapreport.ground.latest_recording import name_a_file
from snapreport.ground.processes.unpacking_limit import most_unpacked
from snapreport.ground.progress import Progress, silent
from snapreport.ground.units import format_bytes
from snapreport.names.bundle_strings import bundle_strings, elements_strings
from snapreport.names.page_strings import page_strings
from snapreport.names.protobuf_strings import PERFETTO, PPROF, message_strings
from snapreport.names.table_strings import csv_strings, parquet_strings
from snapreport.names.tally import Given, Tally
from snapreport.read import read_objects
from snapreport.read.limits import UNPACKED_ALWAYS

_PAGES = (".html", ".htm")
_TEXTS = (".md", ".markdown", ".txt", ".log")
_PICTURES = (".svg",)
_TABLES = (".csv",)
_TRACES = (".perfetto-trace", ".pftrace")
_PROFILES = (".pb", ".pprof")
_READ = (*_PAGES, *_TEXTS, *_PICTURES, *_TABLES, *_TRACES, *_PROFILES)
_GZIP, _ZSTD, _PARQUET, _SQLITE = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1", b"SQLite format 3\0"
_PNG = b"\x89PNG"


def list_strings(path: Path, progress: Progress = silent) -> list[Given]:
    """List every string that a file gives away, by kind.

    Args:
        path: a page, Markdown, text, SVG, CSV, a pprof profile or a Perfetto trace, each recognized
            by its extension, also with ``.gz`` after it; a bundle, Parquet, ``elements.db`` or
            other JSON of ours; the folder of ``export snapviewer``; or a snapshot as it is, which
            gives away more than its report would.
        progress: called with what is being done.

    Raises:
        InputError: it cannot be read, or is not from snapreport; the message names the file.
        BundleError, NotASnapshotError, UnsafePickleError: as ``load()``.
    """
    tally = Tally()
    if is_folder(path) and is_file(path / "elements.db"):
        for each in sorted(path.iterdir()):
            if each.name not in ("elements.db", "allocations.json"):
                tally.add("member", each.name)
            _file(each, tally, progress)
    else:
        _file(path, tally, progress)
    return tally.given()


def _file(path: Path, tally: Tally, progress: Progress) -> None:
    ending, packed = _ending(path)
    if ending in _READ:
        data = _content(path)
        with naming(path):
            _named_kind(ending, _unpacked(data) if packed and data[:2] == _GZIP else data, tally)
        return
    if is_zip(path):
        progress("Reading bundle", None)
        bundle_strings(path, tally)
        return
    begin = _content(path, 16)
    if begin[:4] == _PARQUET:
        with naming(path):
            parquet_strings(path, tally)
    elif begin == _SQLITE:
        with naming(path):
            elements_strings(_content(path), tally)
    else:
        _objects(path, begin, tally, progress)


def _ending(path: Path) -> tuple[str, bool]:
    """Return a name's extension in lower case, without ``.gz``, and whether it had ``.gz``."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        return (suffixes[-2] if len(suffixes) > 1 else ""), True
    return (suffixes[-1] if suffixes else ""), False


def _named_kind(ending: str, data: bytes, tally: Tally) -> None:
    if ending in _TRACES or ending in _PROFILES:
        if not data:
            raise InputError("is empty; export it again.")
        message_strings(data, PERFETTO if ending in _TRACES else PPROF, tally)
        return
    text = data.decode("utf-8-sig", "replace")
    if ending in _PAGES or ending in _PICTURES:
        page_strings(text, tally, picture=ending in _PICTURES)
    elif ending in _TABLES:
        csv_strings(text, tally)
    else:
        for line in text.splitlines():
            tally.add("line", line.strip())


def _objects(path: Path, begin: bytes, tally: Tally, progress: Progress) -> None:
    """Count the strings of a snapshot, or of JSON that is something else."""
    known = begin[:1] == b"\x80" or begin[:2] == _GZIP or begin[:4] == _ZSTD
    json = begin.lstrip()[:1] in (b"{", b"[")
    if begin and not known and not json:
        kind = "is a bitmap image" if begin[:4] == _PNG else "is not a kind of file that it reads"
        raise InputError(
            f"{path} {kind}; strings reads reports, bundles, snapshots and their exports, SVG,"
            " CSV, JSON and text."
        )
    try:
        tally.walk(read_objects(path, progress)[0])
    except NotASnapshotError:
        if not json:
            raise
        try:
            tally.walk(orjson.loads(_content(path)))  # a report's figures, a profile, strips
        except orjson.JSONDecodeError as error:
            raise InputError(f"{path} is damaged JSON ({error}); write it again.") from error


def _content(path: Path, most: int = -1) -> bytes:
    if is_folder(path):
        raise InputError(f"{path} {name_a_file(path)}")
    try:
        with open_regular(path) as file:
            return file.read(most)
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist; check the path.") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error


def _unpacked(data: bytes) -> bytes:
    unpacker = zlib.decompressobj(31)
    most = most_unpacked(len(data), UNPACKED_ALWAYS)
    try:
        unpacked = unpacker.decompress(data, most + 1)
    except zlib.error as error:
        raise InputError(f"is a damaged gzip file ({error}); copy it again.") from error
    if len(unpacked) > most:
        raise InputError(f"unpacks to more than {format_bytes(most)}, which none of ours does.")
    if unpacker.unused_data:
        raise InputError("unpacks to several files, which none of ours does.")
    if not unpacker.eof:
        raise InputError("is a gzip file that is cut off; copy it again.")
    return unpacked

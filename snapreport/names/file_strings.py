"""List every distinct string in a file, and which of them should not be in public.

The file is a report, a bundle, an export or a snapshot; all but bundles are read as ``strings``
and ``read`` do.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

from snapreport.bundle import read_elements
from snapreport.bundle.archive import checked_members
from snapreport.bundle.members import MANIFEST, MOST_MANIFEST, Members
from snapreport.bundle.query import Database
from snapreport.bundle.tables import ELEMENTS, LONGEST_VALUE
from snapreport.ground.errors import BundleError, InputError, NotASnapshotError, QueryError, naming
from snapreport.ground.files import is_file, is_folder, is_zip, name_a_file, open_regular
from snapreport.ground.processes import most_unpacked
from snapreport.ground.progress import Progress, silent
from snapreport.ground.records import dataclass
from snapreport.ground.units import format_bytes
from snapreport.names.personal_data import Known, find_private, find_users, is_hash
from snapreport.names.strings import (
    PERFETTO,
    PPROF,
    Given,
    Tally,
    csv_strings,
    message_strings,
    page_strings,
    parquet_strings,
)
from snapreport.read import read_objects
from snapreport.read.parsed import UNPACKED_ALWAYS

_PAGES = (".html", ".htm")
_TEXTS = (".md", ".markdown", ".txt", ".log")
_PICTURES = (".svg",)
_TABLES = (".csv",)
_TRACES = (".perfetto-trace", ".pftrace")
_PROFILES = (".pb", ".pprof")
_READ = (*_PAGES, *_TEXTS, *_PICTURES, *_TABLES, *_TRACES, *_PROFILES)
_GZIP, _ZSTD, _PARQUET, _SQLITE = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1", b"SQLite format 3\0"


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
        _bundle_strings(path, tally)
        return
    begin = _content(path, 16)
    if begin[:4] == _PARQUET:
        with naming(path):
            parquet_strings(path, tally)
    elif begin == _SQLITE:
        with naming(path):
            _elements_strings(_content(path), tally)
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


_PNG = b"\x89PNG"


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


# A bundle: its members, its tables, and anything else in the zip.

_OURS = re.compile(r"manifest\.json|elements\.db|allocations(\.\d+)?\.json")
_STRIP_KEYS = {b'"elem"', b'"size"', b'"timesteps"', b'"offsets"', b'"color"'}
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"')
_CHUNK = 1 << 24


def _bundle_strings(path: Path, tally: Tally) -> None:
    """Count every string of a bundle.

    Raises:
        InputError: the file cannot be read.
        BundleError: it is damaged, not a bundle, or of a newer format.
    """
    data = read_elements(path)
    with naming(path):
        _elements_strings(data, tally)
    with checked_members(path) as members:
        for comment in members.comments:
            tally.add("zip comment", comment)
        for name in members.names:
            if not _OURS.fullmatch(name):
                tally.add("member", name)
            if name == MANIFEST:
                tally.walk(orjson.loads(members.unpack(name, MOST_MANIFEST)))
            elif name != "elements.db":
                _json_texts(members, name, tally)


def _json_texts(members: Members, name: str, tally: Tally) -> None:
    """Count the texts in quotes; strips have only numbers and our own keys."""
    found: set[bytes] = set()
    before = b""
    for chunk in members.parts(name, length=_CHUNK):
        part = before + chunk
        found.update(_TEXT.findall(part))
        before = part[part.rfind(b"{") :][-4096:]
    for text in found - _STRIP_KEYS:
        tally.add(name, text[1:-1].decode("utf-8", "replace"))


def _elements_strings(data: bytes, tally: Tally) -> None:
    """Count every string of an ``elements.db``.

    Raises:
        BundleError: it is damaged.
    """
    database = Database(data, longest=LONGEST_VALUE)
    try:
        frames: set[str] = set()
        ours = " ".join(ELEMENTS.read_text("utf-8").split())
        for name, kind, sql in _rows(database, "SELECT name, type, sql FROM sqlite_schema"):
            if sql is not None and " ".join(str(sql).split()) not in ours:
                tally.add("schema", str(sql))
            if kind == "table":
                _table(database, str(name), tally, frames)
        lines: set[str] = set()
        for (stack,) in _rows(database, "SELECT DISTINCT callstack FROM stacks"):
            lines.update(str(stack or "").split("\n"))
        for line in lines - frames:
            tally.add("stack", line)
    except QueryError as error:
        raise BundleError(f"has a damaged elements.db ({error})") from error


_KINDS = {
    ("frames", "name"): "function",
    ("frames", "filename"): "file",
    ("strings", "text"): "metadata",
    ("annotations", "name"): "stage",
    ("events", "action"): "action",
    ("roles", "role"): "role",
    ("roles", "evidence"): "evidence",
}


def _table(database: Database, table: str, tally: Tally, frames: set[str]) -> None:
    (answer,) = database.run(f"SELECT * FROM {_quoted(table)} LIMIT 0")  # noqa: S608
    for column in answer.columns:
        if (table, column) in (("stacks", "callstack"), ("meta", "value")):
            continue  # frames have their own table; values are walked with their keys below
        name = _quoted(column)
        texts = _rows(
            database,
            f"SELECT {name}, count(*) FROM {_quoted(table)}"  # noqa: S608
            f" WHERE typeof({name}) IN ('text', 'blob') GROUP BY 1",
        )
        for text, count in texts:
            if isinstance(text, bytes):
                text = text.decode("utf-8", "replace")
            if (table, column) == ("frames", "extra"):
                tally.walk(_json(str(text)), "frame field")
            else:
                tally.add(_KINDS.get((table, column), f"{table}.{column}"), str(text), int(count))
    if table == "frames":
        rows = "SELECT filename, coalesce(line, '?'), name FROM frames"
        frames.update(f"{file}:{line}:{name}" for file, line, name in _rows(database, rows))
    if (table, "value") == ("meta", answer.columns[-1]):
        for key, value in _rows(database, "SELECT key, value FROM meta"):
            tally.walk({str(key): _json(str(value))}, "meta")


def _json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _rows(database: Database, sql: str) -> Iterator[tuple[Any, ...]]:
    for answer in database.run(sql):
        yield from answer.rows


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# What should not be in public: homes, users, hosts, addresses, links and keys.


@dataclass(frozen=True, order=True)
class Leak:
    """A part of a string that reveals a person or a place, or is a secret."""

    what: str
    """``home directory``, ``user name``, ``host name``, ``e-mail address``, ``URL``, ``token``."""
    found: str
    """The text that gives it away; for a token, only its first letters."""
    why: str
    """Why it counts as one."""
    kind: str
    """The kind of the string that contains it."""
    text: str


def find_leaks(given: Iterable[Given], known: Known) -> list[Leak]:
    """Return the parts of strings that should not be public, each part of each string once.

    Args:
        given: as from ``list_strings()``.
        known: names to look for, besides those of users whose homes are found.
    """
    # An identifier of speedscope's format, which nothing fetches.
    schema = ("$schema", "https://www.speedscope.app/file-format-schema.json")
    rows = [row for row in given if (row.kind, row.text) != schema]
    plain = [(row, _plain(row)) for row in rows]
    users = known.users | find_users(text for _, text in plain)
    hashes = {row.text for row in rows if row.kind == "hash"}
    known = Known(frozenset(users), known.hosts)
    found = set()
    for row, text in plain:
        for what, part, why in _leaks(text, known, hashes):
            found.add(Leak(what, part, why, row.kind, row.text))
    return sorted(found)


def _plain(row: Given) -> str:
    """Return a string without the escapes that Markdown needs."""
    if row.kind != "line":
        return row.text
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", row.text.replace("\u200b", ""))


def _leaks(text: str, known: Known, hashes: Collection[str]) -> Iterator[tuple[str, str, str]]:
    for part in find_private(text, known):
        found = text[part.begin : part.end]
        if part.what != "token":
            yield part.what, found, part.why
        elif found not in hashes and not (text in hashes and is_hash(text)):
            yield part.what, f"{found[:6]}…", part.why

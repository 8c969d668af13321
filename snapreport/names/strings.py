"""Count the strings of each format that snapreport writes, by kind: a page, a message, a table."""

from __future__ import annotations

import base64
import csv
import io
import re
import zlib
from collections import Counter
from collections.abc import Collection, Mapping
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from snapreport.ground.errors import InputError
from snapreport.ground.processes import most_unpacked
from snapreport.ground.protobuf import contents
from snapreport.ground.records import dataclass
from snapreport.ground.templates import (
    LOADER,
    STARTER,
    built,
    built_packed,
    style_beside,
    templates_folder,
)


@dataclass(frozen=True, order=True)
class Given:
    """A distinct string in a file."""

    kind: str
    """Such as ``file``, ``function``, ``stage``, ``setting``, or else where it is."""
    text: str
    count: int
    """How often it occurs; 1 in tables that hold every string once."""


class Tally:
    """Counts strings by kind."""

    def __init__(self) -> None:
        self._found: Counter[tuple[str, str]] = Counter()

    def add(self, kind: str, text: str, count: int = 1) -> None:
        """Count a string; an empty one gives nothing away."""
        if text:
            self._found[kind, text] += count

    def given(self) -> list[Given]:
        """Return every string, by kind and text."""
        rows = sorted(self._found.items())
        return [Given(kind, text, count) for (kind, text), count in rows]

    def walk(self, value: Any, kind: str = "text") -> None:
        """Count every string in dicts and lists, including all keys."""
        seen: set[int] = set()
        waiting: list[tuple[Any, str]] = [(value, kind)]
        while waiting:
            item, kind = waiting.pop()
            if isinstance(item, str):
                self.add(kind, item)
            elif isinstance(item, bytes):
                self.add(kind, item.decode("utf-8", "replace"))
            elif isinstance(item, Mapping):
                if id(item) in seen:
                    continue
                seen.add(id(item))
                for key, below in item.items():
                    if isinstance(key, str):
                        self.add("key", key)
                    if not isinstance(below, (int, float)):
                        waiting.append((below, _kind(kind, key, item)))
            elif isinstance(item, (list, tuple)):
                if id(item) in seen:
                    continue
                seen.add(id(item))
                waiting += [(below, kind) for below in item if not isinstance(below, (int, float))]


def _is_number(text: str) -> bool:
    """Say whether a text has no letter, and so gives nothing away."""
    return not any(char.isalpha() for char in text)


# The kinds of values by their keys; other values have their key's name as their kind.
_KINDS = {
    "filename": "file",
    "file": "file",
    "files": "file",
    "strings": "text",
    "settings": "setting",
    "allocator_settings": "setting",
    "recorder": "recording",
    "recording": "recording",
    "snapreport": "recording",
    "external_annotations": "stage",
    "stages": "stage",
    "oddities": "oddity",
    "sha256": "hash",
    "user_metadata": "metadata",
}
_WHOLE = {"setting", "recording", "oddity"}
"""Everything below these keys is of their kind."""


def _kind(outer: str, key: Any, item: Mapping[Any, Any]) -> str:
    if outer in _WHOLE:
        return outer
    if key == "name":
        if "filename" in item:
            return "function"
        return "stage" if "stage" in item or outer == "stage" else "name"
    name = str(key)
    return _KINDS.get(name, name)


# A page: its text, its attributes, and the data packed in it.

_TEXTS_OF_PAGE = 32
"""Bytes of packed texts for each letter of the page: as many as readers allow."""
_PART, _AT_ONCE = 1 << 20, 1 << 16
"""Bytes that are unpacked, and values that are looked at, in one go."""
_MARKUP = re.compile(r"<(!--|[!?/]|(?=[a-zA-Z]))")
_NAME = re.compile(r"[^\s/]+")
_END_OF_SCRIPT = {
    tag: re.compile(rf"</{tag}(?=[\s/>])", re.IGNORECASE) for tag in ("script", "style")
}
_SILENT = {"class", "id", "for", "d", "points", "transform", "type", "name", "role"}
_SILENT_IN_A_PICTURE = {"d", "points", "transform"}
_NAMESPACE = ("xmlns", "http://www.w3.org/2000/svg")  # an identifier, which nothing fetches
_HASH = re.compile(r"[0-9a-f]{64}")


def page_strings(text: str, tally: Tally, picture: bool = False) -> None:
    """Count every string of a page, except those of the templates that pages are made from.

    Args:
        text: the page.
        tally: counts the strings.
        picture: whether it is an SVG, such as a page saves.

    Raises:
        InputError: the data packed in it cannot be unpacked, or are more than a page has.
    """
    _Page(text, tally, _SILENT_IN_A_PICTURE if picture else _SILENT).read()


class _Page:
    """Reads a page from its begin to its end, once.

    Not with Python's ``HTMLParser``: for each ``<`` whose end is missing that searches all the rest
    again. A page of ours closes what it opens; where one does not, its rest is text.
    """

    def __init__(self, text: str, tally: Tally, silent: Collection[str]) -> None:
        self._text = text
        self._tally = tally
        self._silent = silent
        self._hash = False
        self._folded = False  # whether what is read was packed in the page
        self._first: bytearray | None = None  # of the payload; the rest comes after the scripts
        self._texts = _TEXTS_OF_PAGE * len(text)
        self._left = most_unpacked(len(text), 0)  # a page is never small
        folder = templates_folder()
        self._ours = "\n".join(
            " ".join(path.read_text("utf-8").split()) for path in sorted(folder.glob("*.j2"))
        )

    def read(self) -> None:
        """Count its strings."""
        self._read()
        self._end_of_payload(bytearray())

    def _read(self) -> None:
        at = 0
        while (found := _MARKUP.search(self._text, at)) is not None:
            self._data(self._text[at : found.start()])
            at = self._markup(found)
        self._data(self._text[at:])

    def _markup(self, found: re.Match[str]) -> int:
        """Read what begins with a ``<``; return where it ends."""
        text, begin, sign = self._text, found.end(), found[1]
        if sign == "!--":
            return self._until("-->", begin, "comment")
        if sign in ("!", "?"):
            return self._until(">", begin, "comment")
        end = _end_of_tag(text, begin)
        if end < 0:
            return self._rest("page text", found.start())
        if sign:  # an end tag
            return end + 1
        inside = text[begin:end]
        name = _NAME.match(inside)
        tag = name[0].lower() if name else ""
        attributes = _attributes(inside[len(tag) :])
        self._start(tag, attributes)
        if tag not in ("script", "style"):
            return end + 1
        closing = _END_OF_SCRIPT[tag].search(text, end + 1)
        if closing is None:
            return self._rest(tag, end + 1)
        self._script(tag, text[end + 1 : closing.start()], attributes)
        return closing.start()

    def _until(self, ending: str, begin: int, kind: str) -> int:
        end = self._text.find(ending, begin)
        if end < 0:
            return self._rest(kind, begin)
        content = self._text[begin:end]
        if content.lower() != "doctype html":
            self._add(kind, content)
        return end + len(ending)

    def _rest(self, kind: str, begin: int) -> int:
        self._lines(kind, self._text[begin:])
        return len(self._text)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._hash = tag == "code" and attributes.get("title") == "SHA-256"
        for name, value in attributes.items():
            if (name, value) == _NAMESPACE:
                continue
            if name not in self._silent and value and not _is_number(value):
                self._add("attribute", value)

    def _data(self, data: str) -> None:
        data = unescape(data)
        if self._hash and _HASH.fullmatch(data):
            self._tally.add("hash", data)
        else:
            self._add("page text", data)

    def _end_of_payload(self, later: bytearray) -> None:
        if self._first is not None:
            self._check_texts(int.from_bytes(self._first[:4], "little"))
            _payload(self._first, later, self._tally)
        self._first = None

    def _add(self, kind: str, text: str) -> None:
        text = " ".join(text.split())
        if text and not _is_number(text) and text not in self._ours:
            self._tally.add(kind, text)

    def _script(self, tag: str, data: str, attributes: dict[str, str]) -> None:
        name = attributes.get("id")
        if name == "payload":
            self._end_of_payload(bytearray())
            self._first = self._unpack(data)
        elif name == "later":
            self._end_of_payload(self._unpack(data))
        elif name == "folded" and not self._folded:
            unfolded = self._unpack(data)
            self._check_texts(len(unfolded))
            page, self._text, self._folded = self._text, unfolded.decode("utf-8", "replace"), True
            self._read()
            self._text, self._folded = page, False
        elif name == "summary":
            self._tally.walk(_json(data))
        elif name == "app":
            if data not in [built_packed(f"{each}.js") for each in ("app", "compare", "run")]:
                code = self._unpack(data)
                self._check_texts(len(code))
                self._lines("script", code.decode("utf-8", "replace"))
        elif data not in _own_scripts(tag):
            self._lines(tag, data)

    def _unpack(self, data: str) -> bytearray:
        """Unpack what a script holds; all of them together may become only so large."""
        unpacked = bytearray()
        try:
            unpacker = zlib.decompressobj(31)
            rest = base64.b64decode(data, validate=True)
            while rest and not unpacker.eof:
                part = unpacker.decompress(rest, _PART)
                self._left -= len(part)
                if self._left < 0:
                    raise InputError("has far more data packed in it than a page of ours.")
                unpacked += part
                rest = unpacker.unconsumed_tail
            unpacked += unpacker.flush()  # a few bytes at most
        except (ValueError, zlib.error) as error:
            raise _damaged(error) from error
        return unpacked

    def _check_texts(self, size: int) -> None:
        self._texts -= size
        if self._texts < 0:
            raise InputError("has far more text packed in it than a page of ours.")

    def _lines(self, kind: str, text: str) -> None:
        for line in text.splitlines():
            self._tally.add(kind, line.strip())


_STOP = re.compile(r"[>\"']")


def _end_of_tag(text: str, at: int) -> int:
    """Return where the ``>`` of a tag is, -1 if there is none; quotes can hold others."""
    while (found := _STOP.search(text, at)) is not None:
        if found[0] == ">":
            return found.start()
        at = text.find(found[0], found.end()) + 1
        if at == 0:
            break
    return -1


_ATTRIBUTE = re.compile(
    r"""([^\s"'<>/=]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?""",
)


def _attributes(inside: str) -> dict[str, str]:
    """Return the attributes of a tag; one without a value has an empty one."""
    found = _ATTRIBUTE.finditer(inside)
    return {each[1].lower(): unescape(each[2] or each[3] or each[4] or "") for each in found}


def _own_scripts(tag: str) -> tuple[str, ...]:
    if tag == "style":
        return built("style.css"), style_beside("diff.css"), style_beside("run.css")
    return STARTER, LOADER


def _damaged(error: object) -> InputError:
    return InputError(f"has damaged data packed in it ({error}); render it again.")


def _json(data: str | memoryview) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _damaged(error) from error


def _payload(packed: bytearray, later: bytearray, tally: Tally) -> None:
    """Count the strings of the payload, and those of its table by the columns that use them.

    Args:
        packed: a header and columns, as ``reporters/payload.py`` packs them.
        later: more columns.
        tally: counts the strings.
    """
    body = memoryview(packed)
    length = int.from_bytes(body[:4], "little")
    header = _json(body[4 : 4 + length])
    strings = header.pop("strings", []) if isinstance(header, dict) else None
    if not isinstance(strings, list):
        raise InputError("has data packed in it that snapreport did not write.")
    try:
        areas = (body[(4 + length + 7) & ~7 :], memoryview(later))
        used = _used(header, areas, len(strings))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(error) from error
    for i, text in enumerate(strings):
        kinds = [kind for kind, rows in used.items() if rows[i]] or ["text"]
        for kind in kinds:
            tally.walk(text, kind)
    tally.walk(header)


_TYPES = {"u8": "u1", "u16": "u2", "u32": "u4", "i8": "i1", "i16": "i2", "i32": "i4"}
_COLUMNS = {
    "frame_name": "function",
    "frame_file": "file",
    "category": "category",
    "compile_context": "compile context",
    "metadata": "metadata",
    # Of the page of a run.
    "label": "rank",
    "host": "host",
    "source": "file",
    "place": "layout",
    "link": "link",
    "key": "call site",
    "site": "call site",
    "title": "finding",
}


def _used(
    header: dict[str, Any], areas: tuple[memoryview, memoryview], strings: int
) -> dict[str, NDArray[np.bool_]]:
    """Return which strings of the table are used as what: their ids are in columns.

    Args:
        header: says where each column is; no two share bytes, and the lowest bytes of all of its
            values come first.
        areas: the columns, and those that come later.
        strings: how many the table has.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: there is no such column.
    """
    used = {kind: np.zeros(strings, bool) for kind in _COLUMNS.values()}
    tables = [header["columns"], *(device["columns"] for device in header.get("devices", []))]
    tables += [header.get(name, {}) for name in ("holders", "failed", "findings")]
    left = [len(area) for area in areas]
    columns = [(name, table[name]) for table in tables for name in _COLUMNS if name in table]
    for name, entry in columns:
        late = bool(entry.get("later"))
        typed = np.dtype("<" + _TYPES[entry["type"]])
        length, offset = int(entry["length"]), int(entry["offset"])
        size = length * typed.itemsize
        left[late] -= size
        inside = length >= 0 and 0 <= offset <= len(areas[late])
        if not inside or left[late] < 0 or entry["delta"]:
            raise ValueError("columns that no page has")
        raw = np.frombuffer(areas[late], np.uint8, size, offset)
        places = raw.reshape(typed.itemsize, length)
        for begin in range(0, length, _AT_ONCE):
            ids = places[:, begin : begin + _AT_ONCE].T.copy().view(typed)
            used[_COLUMNS[name]][ids[(ids >= 0) & (ids < strings)]] = True
    return used


# A pprof profile or a Perfetto trace, as our exporters write them.

_NUMBERS = ""
"""A field of packed numbers."""

# Fields by their numbers: a message, the kind of a text, or numbers. We write no other fields, so
# any other is listed as it is.
_Message = Mapping[int, Any]
_PAIR: _Message = {}
PPROF: _Message = {
    1: _PAIR,
    2: {1: _NUMBERS, 2: _NUMBERS},
    3: _PAIR,
    4: {4: _PAIR},
    5: _PAIR,
    6: "text",
    11: _PAIR,
    13: _NUMBERS,
}
PERFETTO: _Message = {
    1: {
        6: {1: _PAIR},
        11: {4: _PAIR},
        12: {2: {2: "name"}, 3: {2: "key"}, 29: {2: "text"}},
        60: {2: "track", 8: {7: "text"}},
    }
}


def message_strings(data: bytes, message: _Message, tally: Tally) -> None:
    """Count every string of a message, and of those within it.

    Args:
        data: the encoded message.
        message: ``PPROF`` or ``PERFETTO``.
        tally: counts the strings.

    Raises:
        InputError: it is not a message.
    """
    for field, content in contents(memoryview(data)):
        within = message.get(field)
        if isinstance(within, str):
            if within != _NUMBERS:
                tally.add(within, bytes(content).decode("utf-8", "replace"))
        elif within is None:
            tally.add(f"unknown field {field}", bytes(content).decode("utf-8", "replace"))
        else:
            message_strings(bytes(content), within, tally)


# A table: CSV, and Parquet if pyarrow is installed.


def csv_strings(text: str, tally: Tally) -> None:
    """Count the headings and the cells of a table, each cell by its column's heading.

    Raises:
        InputError: it is not a table.
    """
    before = csv.field_size_limit(1 << 26)
    try:
        rows = csv.reader(io.StringIO(text, newline=""))
        heading = next(rows, [])
        for name in heading:
            tally.add("column", name)
        cells: Counter[tuple[int, str]] = Counter()
        for row in rows:
            cells.update((i, cell) for i, cell in enumerate(row) if not _is_number(cell))
    except csv.Error as error:
        raise InputError(f"is damaged CSV ({error}); write it again.") from error
    finally:
        csv.field_size_limit(before)
    for (i, cell), count in cells.items():
        tally.add(heading[i] if i < len(heading) else "cell", cell, count)


def parquet_strings(path: Path, tally: Tally) -> None:
    """Count the names of columns, their texts, and the notes about the file.

    Raises:
        InputError: it is damaged, or pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq
    except ImportError as error:
        raise InputError(
            "is Parquet, which needs pyarrow; install it with pip install pyarrow."
        ) from error
    try:
        with pq.ParquetFile(path) as file:
            tally.add("made by", file.metadata.created_by or "")
            notes = dict(file.metadata.metadata or {})
            notes.pop(b"ARROW:schema", None)  # the schema once more, encoded
            table = file.read()
        notes.update(table.schema.metadata or {})
        for key, value in notes.items():
            tally.add("key", key.decode("utf-8", "replace"))
            tally.add("note", value.decode("utf-8", "replace"))
        for name, column in zip(table.column_names, table.columns, strict=True):
            tally.add("column", name)
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
                continue
            for row in pc.value_counts(column.cast(pa.string())).to_pylist():
                tally.add(name, row["values"] or "", row["counts"])
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"is damaged Parquet ({error}); export it again.") from error

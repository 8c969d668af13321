"""List every string in a report page: its text, its attributes, and the data packed in it."""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Collection
from html.parser import HTMLParser
from typing import Any

import numpy as np
import orjson

from snapreport.ground.errors import InputError
from snapreport.ground.templates import (
    LOADER,
    STARTER,
    built,
    built_packed,
    style_beside,
    templates_folder,
)
from snapreport.names.tally import Tally, is_number

_MOST_UNPACKED = 1 << 30
_TYPES = {"u8": "u1", "u16": "u2", "u32": "u4", "i8": "i1", "i16": "i2", "i32": "i4", "f64": "f8"}
_SILENT = {"class", "id", "for", "d", "points", "transform", "type", "name", "role"}
_SILENT_IN_A_PICTURE = {"d", "points", "transform"}
_NAMESPACE = ("xmlns", "http://www.w3.org/2000/svg")  # an identifier, which nothing fetches
_HASH = re.compile(r"[0-9a-f]{64}")
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


def page_strings(text: str, tally: Tally, picture: bool = False) -> None:
    """Count every string of a page, except those of the templates that pages are made from.

    Args:
        text: the page.
        tally: counts the strings.
        picture: whether it is an SVG, such as a page saves.

    Raises:
        InputError: the data packed in it cannot be unpacked.
    """
    parser = _Page(tally, _SILENT_IN_A_PICTURE if picture else _SILENT)
    parser.feed(text)
    parser.close()


class _Page(HTMLParser):
    def __init__(self, tally: Tally, silent: Collection[str]) -> None:
        super().__init__(convert_charrefs=True)
        self._tally = tally
        self._silent = silent
        self._hash = False
        self._inside: dict[str, str | None] | None = None
        self._tag = ""
        self._data: list[str] = []
        self._first: bytes | None = None  # of the payload; the rest comes after the scripts
        folder = templates_folder()
        self._ours = "\n".join(
            " ".join(path.read_text("utf-8").split()) for path in sorted(folder.glob("*.j2"))
        )

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "style"):
            self._tag, self._inside, self._data = tag, dict(attrs), []
        self._hash = tag == "code" and ("title", "SHA-256") in attrs
        for name, value in attrs:
            if (name, value) == _NAMESPACE:
                continue
            if name not in self._silent and value and not is_number(value):
                self._add("attribute", value)

    def handle_endtag(self, tag: str) -> None:
        if self._inside is not None and tag == self._tag:
            self._end_of_script("".join(self._data), self._inside)
            self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is not None:
            self._data.append(data)
        elif self._hash and _HASH.fullmatch(data):
            self._tally.add("hash", data)
        else:
            self._add("page text", data)

    def handle_comment(self, data: str) -> None:
        self._add("comment", data)

    def handle_decl(self, decl: str) -> None:
        if decl.lower() != "doctype html":
            self._add("comment", decl)

    handle_pi = unknown_decl = handle_comment

    def close(self) -> None:
        super().close()
        if self._inside is not None:
            # The element was never closed, and some versions of Python do not give its rest.
            self._lines(self._tag, "".join(self._data) + self.rawdata)
            self._inside = None
        self._end_of_payload(b"")

    def _end_of_payload(self, later: bytes) -> None:
        if self._first is not None:
            _payload(self._first, later, self._tally)
        self._first = None

    def _add(self, kind: str, text: str) -> None:
        text = " ".join(text.split())
        if text and not is_number(text) and text not in self._ours:
            self._tally.add(kind, text)

    def _end_of_script(self, data: str, attributes: dict[str, str | None]) -> None:
        name = attributes.get("id")
        if name == "payload":
            self._end_of_payload(b"")
            self._first = _unpack(data)
        elif name == "later":
            self._end_of_payload(_unpack(data))
        elif name == "summary":
            self._tally.walk(_json(data))
        elif name == "app":
            if data not in (built_packed("app.js"), built_packed("run.js")):
                self._lines("script", _unpack(data).decode("utf-8", "replace"))
        elif data not in self._own_scripts():
            self._lines(self._tag, data)

    def _own_scripts(self) -> tuple[str, ...]:
        if self._tag == "style":
            return built("style.css"), style_beside("diff.css"), style_beside("run.css")
        return STARTER, LOADER

    def _lines(self, kind: str, text: str) -> None:
        for line in text.splitlines():
            self._tally.add(kind, line.strip())


def _unpack(data: str) -> bytes:
    try:
        unpacker = zlib.decompressobj(31)
        unpacked = unpacker.decompress(base64.b64decode(data, validate=True), _MOST_UNPACKED)
        if unpacker.unconsumed_tail:
            raise InputError("unpacks to more than 1 GiB, as no page of ours does.")
    except (binascii.Error, zlib.error) as error:
        raise InputError(f"has damaged data packed in it ({error}); render it again.") from error
    return unpacked


def _json(data: str | bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InputError(f"has damaged data packed in it ({error}); render it again.") from error


def _payload(body: bytes, later: bytes, tally: Tally) -> None:
    """Count the strings of the payload, and those of its table by the columns that use them."""
    length = int.from_bytes(body[:4], "little")
    header = _json(body[4 : 4 + length])
    if not isinstance(header, dict):
        raise InputError("has data packed in it that snapreport did not write.")
    columns = body[(4 + length + 7) & ~7 :]
    strings = header.pop("strings", [])
    try:
        used = _used(header, columns, later)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"has damaged data packed in it ({error}); render it again.") from error
    for i, text in enumerate(strings):
        for kind, ids in used.items():
            if i in ids:
                tally.add(kind, str(text))
        if not any(i in ids for ids in used.values()):
            tally.add("text", str(text))
    tally.walk(header)


def _used(header: dict[str, Any], columns: bytes, later: bytes) -> dict[str, set[int]]:
    used: dict[str, set[int]] = {kind: set() for kind in _COLUMNS.values()}
    tables = [header["columns"], *(device["columns"] for device in header.get("devices", []))]
    for table in (*tables, *(header.get(name, {}) for name in ("holders", "failed", "findings"))):
        for name, kind in _COLUMNS.items():
            if name in table:
                area = later if table[name].get("later") else columns
                used[kind].update(np.unique(_column(table[name], area)).tolist())
    return used


def _column(entry: dict[str, Any], area: bytes) -> np.ndarray[Any, np.dtype[Any]]:
    """Return a column that ``reporters/page/payload.py`` packed, all lowest bytes first."""
    typed = np.dtype("<" + _TYPES[entry["type"]])
    length = int(entry["length"])
    raw = np.frombuffer(area, np.uint8, length * typed.itemsize, int(entry["offset"]))
    values = raw.reshape(typed.itemsize, length).T.copy().view(typed).reshape(length)
    return np.cumsum(values) if entry["delta"] else values

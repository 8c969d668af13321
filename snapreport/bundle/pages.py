"""Read integers out of the pages of an SQLite table at once, without an object for each cell.

SQLite hands out one Python object a cell, which for a million events is most of the work of
reading a bundle. Its pages say the same: a tree of pages, and in its leaves the rows, each a
header with one type a column and then the numbers, big-endian and as short as they can be.
Whatever is unusual here is left to SQLite, which either reads it or says what is wrong. Where
``pages.c`` was compiled it reads the rows, with the same outcome.

The file may be a stranger's. No place is below 0, and one beyond the file is an IndexError of
NumPy's. A page comes once in a level of the tree, its cells lie behind their list and in the page
itself, and there are no more of them than it has bytes for: so rows are never more than the file
can hold, however its pages point to one another.

Source: https://www.sqlite.org/fileformat2.html, sections 1.3, 1.6 and 2.1.
"""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from snapreport.libraries import open_library
from snapreport.sorting import unique

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAGIC = b"SQLite format 3\0"
_INTERIOR, _LEAF = 5, 13
_WIDTHS = np.array([0, 1, 2, 3, 4, 6, 8, 0, 0, 0], np.uint8)
"""Bytes of a number, by its type; 0 is NULL, 7 a float, and 8 and 9 are the numbers 0 and 1."""
_NULL, _FLOAT, _ONE, _LAST_TYPE = 0, 7, 9, 9
_ENCODING, _UTF_8 = 56, 1
"""Where the file says how its texts are written, and what it says there."""
_MOST_TEXTS, _LENGTH_BITS = 64, 6
"""As in ``pages.c``: distinct texts, and bits of what it says of each that are its length."""
_AT_ONCE = 1 << 12
"""Rows that are looked at together: few enough for the processor's cache."""
_DEEPEST = 16
"""Levels of a tree: far more than its page numbers can fill."""
_LEAF_HEADER, _INTERIOR_HEADER = 8, 12
"""Bytes of a page before the list of its cells, each of which is named in two bytes."""
_LEAST_BRANCH = 2 + 4 + 1
"""Bytes for a child: in the list, its page, and a key."""
_LEAST_ROW = 2 + 1 + 1 + 1
"""Bytes for a row: in the list, its length, its id, its header's length; and one a column."""


@dataclass(frozen=True, eq=False)
class Rows:
    """A table of integers, in the order of its ids."""

    ids: NDArray[np.int64]
    """int64, shape (n,), ascending."""
    values: NDArray[np.int64]
    """int64, shape (n_columns, n); 0 for NULL. Of the column that is the id, always NULL."""
    missing: NDArray[np.bool_]
    """bool, shape (n_columns, n): the cell is NULL."""
    texts: tuple[str, ...] = ()
    """The distinct texts of a column that holds texts: its numbers are places here."""


class _Unusual(Exception):  # noqa: N818  (it never leaves this module)
    """There is something here that SQLite has to look at."""


def read_rows(data: bytes, root: int, width: int, text: int | None = None) -> Rows | None:
    """Read a table that holds integers alone, or one column of few distinct texts besides.

    Args:
        data: an SQLite file.
        root: the number of the table's first page, ``rootpage`` in ``sqlite_schema``.
        width: how many columns it has.
        text: the column that holds texts, which only ``pages.c`` reads.

    Returns:
        None where the table is not as one that was written at once; SQLite may read it all the
        same.
    """
    try:
        file = _File(data)
        leaves = file.leaves(root)
        rows = int(file.u16[leaves + 3].sum(dtype=np.int64))
        if rows * (_LEAST_ROW + width) > len(data):  # they have no room, and are not worth ours
            raise _Unusual
        library = _library()
        if library is not None:
            return _read_compiled(library, file, leaves, rows, width, text)
        return None if text is not None else _read(file, leaves, width)
    except (_Unusual, IndexError, UnicodeDecodeError):
        return None


@functools.cache
def _library() -> ctypes.CDLL | None:
    """Return the library made from ``pages.c``, None where there is none to use."""
    pointer, number = ctypes.c_void_p, ctypes.c_uint64
    sizes_and_leaves = (pointer, number, number, pointer, number, number)
    found = (pointer, pointer, pointer, number)
    texts = (number, pointer, pointer)
    shapes = {"snapreport_rows": (ctypes.c_int32, *sizes_and_leaves, *found, *texts)}
    path = Path(__file__).with_name("_pages.so")
    library: ctypes.CDLL | None = open_library(ctypes.CDLL, path, "snapreport_rows_version", shapes)
    return library


class _File:
    """The bytes of a database, as numbers at any place."""

    def __init__(self, data: bytes) -> None:
        if len(data) < 1024 or data[:16] != _MAGIC:
            raise _Unusual
        size = int.from_bytes(data[16:18], "big")
        self.page_size = 65536 if size == 1 else size
        if self.page_size < 512 or len(data) % self.page_size:
            raise _Unusual
        self.pages = len(data) // self.page_size
        self.u8: NDArray[np.uint8] = np.frombuffer(data, np.uint8)
        self.u16: NDArray[Any] = self._at_any_place(">u2")
        self.u32: NDArray[Any] = self._at_any_place(">u4")
        self.i64: NDArray[Any] = self._at_any_place(">i8")

    def _at_any_place(self, kind: str) -> NDArray[Any]:
        dtype = np.dtype(kind)
        view: NDArray[Any] = np.ndarray(
            (len(self.u8) - dtype.itemsize + 1,), dtype, self.u8, strides=(1,)
        )
        return view

    def leaves(self, root: int) -> NDArray[np.int64]:
        """Return where the leaves of a tree begin, in the order of their rows."""
        level = np.array([root], np.int64)
        for _ in range(_DEEPEST):
            if len(level) > self.pages or int(level.min()) < 2 or int(level.max()) > self.pages:
                raise _Unusual
            if len(unique(level)) != len(level):
                raise _Unusual
            place = (level - 1) * self.page_size
            kinds = self.u8[place]
            if (kinds == _LEAF).all():
                return place
            if (kinds != _INTERIOR).any():
                raise _Unusual
            children = [
                np.append(self.u32[cells], self.u32[page + 8])
                for page in place.tolist()
                for cells in [
                    self.cells(np.array([page], np.int64), _INTERIOR_HEADER, _LEAST_BRANCH)
                ]
            ]
            level = np.concatenate(children).astype(np.int64)
        raise _Unusual

    def cells(self, pages: NDArray[np.int64], header: int, least: int) -> NDArray[np.int64]:
        """Return where the cells of pages begin, in the order of their keys.

        Args:
            pages: where the pages begin.
            header: bytes of each before the list of its cells.
            least: bytes that a cell has at least, with those for it in the list.
        """
        counts = self.u16[pages + 3].astype(np.int64)
        if (counts > (self.page_size - header) // least).any():
            raise _Unusual
        first = np.cumsum(counts) - counts
        page = np.repeat(pages, counts)
        within = np.arange(len(page)) - np.repeat(first, counts)
        inside = self.u16[page + header + 2 * within].astype(np.int64)
        if (inside < header + 2 * np.repeat(counts, counts)).any():
            raise _Unusual
        if (inside >= self.page_size).any():
            raise _Unusual
        found: NDArray[np.int64] = page + inside
        return found

    def varints(self, place: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return numbers of up to eight bytes of seven bits, and where what follows them is."""
        value = np.zeros(len(place), np.int64)
        going, place = np.ones(len(place), np.bool_), place.copy()
        for _ in range(8):
            byte = self.u8[place[going]]
            value[going] = value[going] << 7 | (byte & 0x7F)
            place[going] += 1
            going[going] = byte >= 0x80
            if not going.any():
                return value, place
        raise _Unusual


def _read_compiled(
    library: ctypes.CDLL,
    file: _File,
    leaves: NDArray[np.int64],
    n: int,
    width: int,
    text: int | None,
) -> Rows:
    """Do as ``_read``, where the leaves say that they have ``n`` rows; and read texts."""
    if text is not None and int(file.u32[_ENCODING]) != _UTF_8:
        raise _Unusual
    ids, values = np.empty(n, np.int64), np.empty((width, n), np.int64)
    missing = np.empty((width, n), np.bool_)
    texts, n_texts = np.empty(_MOST_TEXTS, np.uint64), np.zeros(1, np.uint64)
    read: int = library.snapreport_rows(
        file.u8.ctypes.data,
        len(file.u8),
        file.page_size,
        leaves.ctypes.data,
        len(leaves),
        width,
        ids.ctypes.data,
        values.ctypes.data,
        missing.ctypes.data,
        n,
        width if text is None else text,
        texts.ctypes.data,
        n_texts.ctypes.data,
    )
    if not read:
        raise _Unusual
    places = [divmod(place, 1 << _LENGTH_BITS) for place in texts[: int(n_texts[0])].tolist()]
    known = tuple(file.u8[at : at + length].tobytes().decode() for at, length in places)
    return Rows(ids, values, missing, known)


def _read(file: _File, leaves: NDArray[np.int64], width: int) -> Rows:
    """Read the rows in some leaves; ``_Unusual`` or IndexError where they are not as ours."""
    cells = file.cells(leaves, _LEAF_HEADER, _LEAST_ROW + width)
    n = len(cells)
    length, place = file.varints(cells)
    ids, place = file.varints(place)
    if (np.diff(ids) <= 0).any():
        raise _Unusual
    values = np.empty((width, n), np.int64)
    missing = np.empty((width, n), np.bool_)
    columns = np.arange(1, width + 1)
    for low in range(0, n, _AT_ONCE):
        rows = slice(low, low + _AT_ONCE)
        begin = place[rows, None]
        kinds = file.u8[begin + columns]
        # A header of one byte for itself and one for each column; what is longer is no number.
        if (file.u8[begin] != width + 1).any() or (kinds > _LAST_TYPE).any():
            raise _Unusual
        if (kinds == _FLOAT).any():
            raise _Unusual
        widths = _WIDTHS[kinds]
        ends = np.cumsum(widths, axis=1, dtype=np.int64)
        ends += begin + width + 1
        # What does not fit a page goes on elsewhere; then its cell does not end with its row.
        inside = (cells[rows] // file.page_size) == ((ends[:, -1] - 1) // file.page_size)
        if (ends[:, -1] - begin[:, 0] != length[rows]).any() or not inside.all():
            raise _Unusual
        # The eight bytes that end where the number does; those before it are shifted out.
        number = file.i64[ends - 8].astype(np.int64)
        spare = 64 - 8 * widths.astype(np.int64)
        number = np.where(widths == 0, kinds == _ONE, number << (spare & 63) >> (spare & 63))
        values[:, rows] = number.T
        missing[:, rows] = (kinds == _NULL).T
    return Rows(ids, values, missing)

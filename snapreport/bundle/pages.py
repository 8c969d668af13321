"""Reads integers from the pages of an SQLite table at once, without an object for each cell.

SQLite returns one Python object per cell, which for a million events is most of the work of
reading a bundle. The pages hold the same: a tree of pages whose leaves have the rows, each a
header with one type per column, and then the numbers, big-endian and as short as possible.
The native library reads the rows; anything unusual is left to SQLite, which either reads it or
says what is wrong.

The file may be a stranger's. No place is negative, and one beyond the file raises NumPy's
IndexError. A page comes once in a level of the tree, its cells lie after their list and within
the page, and no more of them than fit. So there are never more rows than the file can hold,
however its pages point to one another.

Source: https://www.sqlite.org/fileformat2.html, sections 1.3, 1.6 and 2.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.native.leaves import read_leaves
from snapreport.native.sorting import unique

_MAGIC = b"SQLite format 3\0"
_INTERIOR, _LEAF = 5, 13
_ENCODING, _UTF_8 = 56, 1
"""The place of the file's text encoding, and its value for UTF-8."""
_DEEPEST = 16
"""Levels of a tree: far more than its page numbers can fill."""
_HEADER = 12
"""Bytes of an interior page before the list of its cells, which has two bytes for each."""
_LEAST_BRANCH = 2 + 4 + 1
"""Least bytes of a child: its place in the list, its page, and a key."""
_LEAST_ROW = 2 + 1 + 1 + 1
"""Least bytes of a row without columns: its place in the list, length, id and header's length."""


@dataclass(frozen=True, eq=False)
class Rows:
    """A table of integers, in the order of its ids."""

    ids: NDArray[np.int64]
    """int64, shape (n,), ascending."""
    values: NDArray[np.int64]
    """int64, shape (n_columns, n); 0 for NULL. The column that is the id is always NULL."""
    missing: NDArray[np.bool_]
    """bool, shape (n_columns, n): the cell is NULL."""
    texts: tuple[str, ...] = ()
    """The distinct texts of the column of texts, whose values are places here."""


class _Unusual(Exception):  # noqa: N818  (it never leaves this module)
    """The file has an unusual form, and SQLite has to read it."""


def read_rows(data: bytes, root: int, width: int, text: int | None = None) -> Rows | None:
    """Read a table of integers, which may have one column of few distinct texts.

    Args:
        data: an SQLite file.
        root: the number of the table's first page, ``rootpage`` in ``sqlite_schema``.
        width: how many columns it has.
        text: the column that holds texts.

    Returns:
        None if the table's pages have an unusual form; SQLite may still read it.
    """
    try:
        file = _File(data)
        leaves = file.leaves(root)
        rows = int(file.u16[leaves + 3].sum(dtype=np.int64))
        if rows * (_LEAST_ROW + width) > len(data):  # more than the file can hold
            raise _Unusual
        if text is not None and int(file.u32[_ENCODING]) != _UTF_8:
            raise _Unusual
        found = read_leaves(file.u8, file.page_size, leaves, (width, rows), text)
        if found is None:
            return None
        ids, values, missing, texts = found
        return Rows(ids, values, missing, tuple(each.decode() for each in texts))
    except (_Unusual, IndexError, UnicodeDecodeError):
        return None


class _File:
    """The bytes of a database, which can be read as numbers at any place."""

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
                for cells in [self._cells(page)]
            ]
            level = np.concatenate(children).astype(np.int64)
        raise _Unusual

    def _cells(self, page: int) -> NDArray[np.int64]:
        """Return where the cells of an interior page begin, in the order of their keys."""
        count = int(self.u16[page + 3])
        if count > (self.page_size - _HEADER) // _LEAST_BRANCH:
            raise _Unusual
        inside = self.u16[page + _HEADER + 2 * np.arange(count)].astype(np.int64)
        if (inside < _HEADER + 2 * count).any() or (inside >= self.page_size).any():
            raise _Unusual
        found: NDArray[np.int64] = page + inside
        return found

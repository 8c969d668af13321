"""Rows in the leaves of an SQLite table, cell by cell: what ``native.leaves`` returns.

Source: https://www.sqlite.org/fileformat2.html, sections 1.6 and 2.1.
"""

from __future__ import annotations

_WIDTHS = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 8: 0, 9: 0}
_MOST_TEXTS, _FIRST_TEXT, _LAST_TEXT = 64, 13, 127

Row = tuple[int, list[int | bytes | None]]


class UnusualError(Exception):
    """There is something that is left to SQLite."""


def read_leaves(
    data: bytes, page_size: int, leaves: list[int], width: int, text: int | None
) -> list[Row]:
    """Return the id and the cells of each row.

    Raises:
        UnusualError, IndexError: there is anything but integers, and few short texts.
    """
    rows: list[Row] = []
    texts = set()
    for page in leaves:
        cells = int.from_bytes(data[page + 3 : page + 5], "big")
        if cells > (page_size - 8) // (5 + width):
            raise UnusualError
        for i in range(cells):
            place = page + 8 + 2 * i
            inside = int.from_bytes(data[place : place + 2], "big")
            if not 8 + 2 * cells <= inside < page_size:
                raise UnusualError
            row = _row(data, page + inside, page + page_size, width, text)
            if rows and row[0] <= rows[-1][0]:
                raise UnusualError
            rows.append(row)
            if text is not None:
                texts.add(row[1][text])
    if len(texts) > _MOST_TEXTS:
        raise UnusualError
    return rows


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for i in range(8):
        value = value << 7 | data[place + i] & 0x7F
        if data[place + i] < 0x80:
            return value, place + i + 1
    raise UnusualError


def _row(data: bytes, place: int, page_end: int, width: int, text: int | None) -> Row:
    length, place = _varint(data, place)
    number, begin = _varint(data, place)
    if data[begin] != width + 1:
        raise UnusualError
    end = begin + width + 1
    kinds, cells = [data[begin + 1 + column] for column in range(width)], []
    for column, kind in enumerate(kinds):
        if column == text:
            if not (_FIRST_TEXT <= kind <= _LAST_TEXT and kind % 2):
                raise UnusualError
            size = (kind - _FIRST_TEXT) // 2
        elif kind in _WIDTHS:
            size = _WIDTHS[kind]
        else:
            raise UnusualError
        content = data[end : end + size]
        if len(content) < size:
            raise UnusualError
        end += size
        cell: int | bytes | None = content
        if column != text:
            cell = {0: None, 8: 0, 9: 1}.get(kind, int.from_bytes(content, "big", signed=True))
        cells.append(cell)
    if end - begin != length or end > page_end:  # what does not fit a page goes on elsewhere
        raise UnusualError
    return number, cells

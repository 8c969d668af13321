"""Databases made by hand to run something, to take for ever, or to tell of what cannot be."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

import apsw

Change = Callable[[bytes], bytes]
"""Makes a hostile ``elements.db`` of a sound one."""

_PAGE = 4096


def changed(data: bytes, *statements: str) -> bytes:
    """Run SQL on a database, definitions in ``sqlite_schema`` included.

    Raises:
        apsw.Error: it cannot be run.
    """
    connection = apsw.Connection(":memory:")
    try:
        connection.deserialize("main", data)
        connection.pragma("foreign_keys", False)
        connection.pragma("writable_schema", True)
        for sql in statements:
            connection.execute(sql)
        return connection.serialize("main")
    finally:
        connection.close()


def _sql(*statements: str) -> Change:
    return lambda data: changed(data, *statements)


def _redefined(table: str, old: str, new: str) -> Change:
    """Change a table's definition without its rows."""
    version = "PRAGMA schema_version = 77"
    sql = f"UPDATE sqlite_schema SET sql = replace(sql, '{old}', '{new}') WHERE name = '{table}'"
    return _sql(sql, version)


def _replaced(table: str, *statements: str) -> Change:
    return _sql(f"DROP TABLE {table}", *statements)


def _other_encoding(data: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "other.db"
        path.write_bytes(data)
        old = apsw.Connection(str(path))
        new = apsw.Connection(":memory:")
        new.execute("PRAGMA encoding = 'UTF-16le'")
        for kind, name, sql in old.execute("SELECT type, name, sql FROM sqlite_schema"):
            new.execute(sql)
            if kind == "table":
                rows = old.execute(f"SELECT * FROM {name}").fetchall()
                marks = ", ".join("?" * len(rows[0])) if rows else ""
                new.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        old.close()
        result = new.serialize("main")
        new.close()
        return result


def root_page(data: bytes, table: str) -> int:
    """Return the number of the page that a table begins at."""
    connection = apsw.Connection(":memory:")
    connection.deserialize("main", data)
    sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
    page = connection.execute(sql, (table,)).get
    connection.close()
    assert isinstance(page, int)
    return page


def _inner(child: int, last: int, count: int, begin: int = 0) -> bytes:
    """Return an inner page of a table: ``count`` times the same child, and a last one."""
    page = bytearray(_PAGE)
    place, pointers = _PAGE, []
    for i in range(count):
        place -= 5
        struct.pack_into(">IB", page, place, child, i % 100 + 1)
        pointers.append(place)
    header = struct.pack(">BHHHBI", 5, 0, count, place, 0, last)
    page[begin : begin + 12] = header
    struct.pack_into(f">{count}H", page, begin + 12, *pointers)
    return bytes(page)


def _with_pages(data: bytes, *more: bytes) -> bytearray:
    result = bytearray(data + b"".join(more))
    struct.pack_into(">I", result, 28, len(result) // _PAGE)
    return result


def endless_table(table: str) -> Change:
    """Let the pages of a table name the same pages again and again: 500**4 times its rows."""

    def change(data: bytes) -> bytes:
        root = root_page(data, table)
        pages = len(data) // _PAGE
        old = data[(root - 1) * _PAGE : root * _PAGE]
        more = [old, *(_inner(pages + level, pages + level, 500) for level in (1, 2, 3))]
        result = _with_pages(data, *more)
        last = pages + len(more)
        result[(root - 1) * _PAGE : root * _PAGE] = _inner(last, last, 500)
        return bytes(result)

    return change


def _circle(data: bytes) -> bytes:
    root = root_page(data, "allocation_rows")
    result = bytearray(data)
    result[(root - 1) * _PAGE : root * _PAGE] = _inner(root, root, 500)
    return bytes(result)


def _record(*cells: str | int | None) -> bytes:
    """Return a row as SQLite stores it: short texts, small numbers and NULL."""
    kinds, body = b"", b""
    for cell in cells:
        if cell is None:
            kinds += b"\0"
        elif isinstance(cell, int):
            kinds, body = kinds + b"\1", body + bytes([cell])
        else:
            kinds, body = kinds + bytes([13 + 2 * len(cell)]), body + cell.encode()
    return bytes([len(kinds) + 1]) + kinds + body


def _endless_schema(data: bytes) -> bytes:
    """Let the table of definitions name one harmless index without end."""
    data = changed(data, "CREATE TABLE x(a UNIQUE)", "PRAGMA writable_schema = 0")
    pages = len(data) // _PAGE
    connection = apsw.Connection(":memory:")
    connection.deserialize("main", data)
    last = connection.execute("SELECT max(rootpage) FROM sqlite_schema").get
    connection.close()
    # The page of definitions, as a page of its own: all its places stay, its header moves.
    old = bytearray(data[:_PAGE])
    cells = struct.unpack_from(">H", old, 103)[0]
    size = 8 if old[100] == 13 else 12
    head = bytes(old[100 : 100 + size + 2 * cells])
    leaf = bytearray(_PAGE)
    content = struct.unpack_from(">H", old, 105)[0]
    leaf[content:] = old[content:]
    leaf[: len(head)] = head
    record = _record("index", "sqlite_autoindex_x_1", "x", int(last), None)
    cell = bytes([len(record), 101]) + record
    again = bytearray(_PAGE)
    again[-len(cell) :] = cell
    struct.pack_into(">BHHHBH", again, 0, 13, 0, 1, _PAGE - len(cell), 0, _PAGE - len(cell))
    inner = (_inner(pages + level, pages + level, 500) for level in (2, 3, 4))
    more = [bytes(leaf), bytes(again), *inner]
    result = _with_pages(data, *more)
    root = bytearray(_inner(pages + 1, pages + len(more), 1, begin=100))
    root[:100] = result[:100]
    result[:_PAGE] = root
    return bytes(result)


def _zeroed(page: int) -> Change:
    def change(data: bytes) -> bytes:
        begin = (page - 1) * _PAGE
        return data[:begin] + bytes(_PAGE) + data[begin + _PAGE :]

    return change


def _byte(offset: int, value: int) -> Change:
    return lambda data: data[:offset] + bytes([value]) + data[offset + 1 :]


_LONG = 300_000
_CHAIN = f"""
    WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < {_LONG})
    INSERT INTO call_nodes
    SELECT n + i, CASE i WHEN 0 THEN NULL ELSE n + i - 1 END, 0, i + 1
    FROM c, (SELECT count(*) AS n FROM call_nodes)
"""
_STACKS = """
    WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 5000)
    INSERT INTO stacks SELECT n + i, m, 1, '' FROM c,
    (SELECT count(*) AS n FROM stacks), (SELECT max(id) AS m FROM call_nodes)
"""
_DEVICES = """
    WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 20000)
    INSERT INTO devices SELECT n + i, 'cuda', i + 10, 0, NULL, NULL FROM c,
    (SELECT count(*) AS n FROM devices)
"""
_ANOMALIES = """
    INSERT OR IGNORE INTO meta SELECT 'anomalies.' || id, '{}' FROM devices
    UNION ALL SELECT 'requested_before.' || id, '[]' FROM devices
"""
_ROWS = "UPDATE allocation_rows SET"
_KINDS = "UPDATE allocation_kinds SET"

REFUSED: dict[str, Change] = {
    "trigger on a table": _sql(
        "CREATE TRIGGER t AFTER INSERT ON strings BEGIN SELECT load_extension('evil'); END"
    ),
    "view in a table's place": _replaced(
        "strings", "CREATE VIEW strings AS SELECT 0 AS id, load_extension('evil') AS text"
    ),
    "recursive view in a table's place": _replaced(
        "strings",
        "CREATE VIEW strings AS WITH RECURSIVE c(id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM c)"
        " SELECT id, 'x' AS text FROM c",
    ),
    "virtual table in a table's place": _sql(
        "DROP TABLE pools",
        "INSERT INTO sqlite_schema VALUES ('table', 'pools', 'pools', 0,"
        " 'CREATE VIRTUAL TABLE pools USING fts5(id, first, second)')",
    ),
    "no table": _sql("DROP TABLE blocks"),
    "column missing": _redefined("allocation_kinds", "stream INTEGER NOT NULL,", ""),
    "column of another type": _redefined("strings", "text TEXT", "text BLOB"),
    "column with a default": _redefined(
        "strings", "text TEXT NOT NULL", "text TEXT NOT NULL, more TEXT DEFAULT 1"
    ),
    "default of a megabyte": _replaced(
        "strings",
        f"CREATE TABLE strings (id INTEGER PRIMARY KEY, text TEXT DEFAULT '{'x' * 2**20}')",
    ),
    "generated column": _replaced(
        "strings",
        "CREATE TABLE strings (id INTEGER PRIMARY KEY,"
        " text TEXT AS (printf('%.*c', 100000000, 'x')))",
    ),
    "without row ids": _replaced(
        "strings", "CREATE TABLE strings (id INTEGER PRIMARY KEY, text TEXT) WITHOUT ROWID"
    ),
    "check with a function": _redefined(
        "strings", "text TEXT NOT NULL", 'text TEXT NOT NULL CHECK (load_extension("x"))'
    ),
    "rows of a view that are not its own": _sql(
        "UPDATE sqlite_schema SET sql = replace(sql, 'k.size + k.slack', 'k.size') "
        "WHERE name = 'allocations'"
    ),
    "differences beyond 64 bits": _sql(f"{_ROWS} free_after = 9223372036854775807"),
    "index over an expression": _sql("CREATE INDEX i ON allocation_rows(kind, abs(addr))"),
    "two tables in one": _sql(
        "UPDATE sqlite_schema SET rootpage ="
        " (SELECT rootpage FROM sqlite_schema WHERE name = 'allocation_rows') WHERE name = 'events'"
    ),
    "table begins at the definitions": _sql(
        "UPDATE sqlite_schema SET rootpage = 1 WHERE name = 'strings'"
    ),
    "table begins behind the end": _sql(
        "UPDATE sqlite_schema SET rootpage = 99999 WHERE name = 'strings'"
    ),
    "definition is no SQL": _sql("UPDATE sqlite_schema SET sql = 'x' WHERE name = 'strings'"),
    "endless allocations": endless_table("allocation_rows"),
    "endless frames": endless_table("frames"),
    "endless blocks": endless_table("blocks"),
    "endless definitions": _endless_schema,
    "pages in a circle": _circle,
    "definitions of zeros": _zeroed(1),
    "table of zeros": lambda data: _zeroed(root_page(data, "allocation_rows"))(data),
    "write-ahead log": lambda data: _byte(18, 2)(_byte(19, 2)(data)),
    "page size of 1": lambda data: _byte(16, 0)(_byte(17, 1)(data)),
    "unknown encoding": _byte(59, 7),
    "cut off": lambda data: data[: len(data) // 2],
    "nothing but a beginning": lambda data: data[:100],
    "empty": lambda _: b"",
    "no device's rows": _sql(f"{_KINDS} device = 99"),
    "devices mixed": _sql(f"{_KINDS} device = id % 2"),
    "ids from 1": _sql("UPDATE strings SET id = id + 1000"),
    "ids from 1 of stacks": _sql("UPDATE stacks SET id = id + 100000"),
    "text for a number": _sql(f"{_KINDS} size = 'many'"),
    "float for a number": _sql(f"{_KINDS} size = 1.5"),
    "bytes for a number": _sql(f"{_ROWS} addr = zeroblob(5000000) WHERE id = 0"),
    "bytes for a text": _sql("UPDATE frames SET name = zeroblob(10)"),
    "text that is no UTF-8": _sql("UPDATE frames SET name = CAST(x'ff00fe' AS TEXT)"),
    "negative size": _sql(f"{_KINDS} size = -1"),
    "sizes beyond 64 bits": _sql(f"{_KINDS} size = 9223372036854775807"),
    "block smaller than itself": _sql(f"{_KINDS} block_range = -1"),
    "version beyond 32 bits": _sql(f"{_ROWS} version = 4294967296"),
    "freed before it is made": _sql(f"{_ROWS} requested_after = -1, free_after = 0"),
    "births out of order": _sql(f"{_ROWS} alloc_after = 0 WHERE id % 2"),
    "stack behind the last": _sql(f"{_KINDS} stack = 1000000"),
    "stack before the first": _sql(f"{_KINDS} stack = -5"),
    "kind behind the last": _sql(f"{_ROWS} kind = 1000000"),
    "no spans": _sql("DELETE FROM allocation_spans"),
    "stack by way of 32 bits": _sql(f"{_KINDS} stack = 4294967296"),
    "events without end": _sql("UPDATE devices SET events = 4611686018427387904"),
    "an event too many": _sql("UPDATE devices SET events = events + 1"),
    "negative count of events": _sql("UPDATE devices SET events = -1"),
    "unknown kind of device": _sql("UPDATE devices SET kind = 'tpu'"),
    "20000 devices": _sql(_DEVICES, _ANOMALIES),
    "node is its own parent": _sql("UPDATE call_nodes SET parent = id"),
    "node of another depth": _sql("UPDATE call_nodes SET depth = 1000000000"),
    "node without a frame": _sql("UPDATE call_nodes SET frame = -1"),
    "stacks deeper than the file": _sql(_CHAIN, _STACKS),
    "stacks of one long name": _sql("UPDATE frames SET name = hex(zeroblob(50000))", _STACKS),
    "unknown state of a block": _sql("UPDATE blocks SET state = 'lost'"),
    "block of no segment": _sql("UPDATE blocks SET segment = 99999"),
    "block holds what is not there": _sql("UPDATE blocks SET allocation = 99999"),
    "unknown kind of segment": _sql("UPDATE segments SET kind = 'x'"),
    "no settings": _sql("DELETE FROM meta WHERE key = 'settings'"),
    "settings are no JSON": _sql("UPDATE meta SET value = '{' WHERE key = 'settings'"),
    "settings are a list": _sql("UPDATE meta SET value = '[]' WHERE key = 'settings'"),
    "settings in more levels than JSON is written in": _sql(
        f"""UPDATE meta SET value = '{'{"a":' * 300}1{"}" * 300}' WHERE key = 'settings'"""
    ),
    "deep settings": _sql(
        f"UPDATE meta SET value = '{'[' * 50_000}{']' * 50_000}' WHERE key = 'settings'"
    ),
    "oddities are no counts": _sql(
        "UPDATE meta SET value = '{\"a\": \"b\"}' WHERE key ='oddities'"
    ),
    "left-out events of an unknown kind": _sql(
        "UPDATE meta SET value = '[\"alloc\", \"oom\"]' WHERE key LIKE 'skipped%'"
    ),
    "left-out events are lists": _sql("UPDATE meta SET value = '[[]]' WHERE key LIKE 'skipped%'"),
    **{
        f"another allocator of kind {kind}": _sql(
            f"""UPDATE meta SET value = '{{"kind": {kind}, "evidence": "x", "known": true}}'"""
            " WHERE key LIKE 'other_allocator%'"
        )
        for kind in ("5", '"new"', "[]", "null")
    },
    "layout is a number": _sql("UPDATE meta SET value = '1' WHERE key = 'layout'"),
    "no such default device": _sql("UPDATE meta SET value = '7' WHERE key = 'default_device'"),
    "default device is true": _sql("UPDATE meta SET value = 'true' WHERE key = 'default_device'"),
    "requested before by another": _sql(
        "UPDATE meta SET value = '[-1]' WHERE key LIKE 'requested_before%'"
    ),
    "requested before is true": _sql(
        "UPDATE meta SET value = '[true]' WHERE key LIKE 'requested_before%'"
    ),
    "frame with a list": _sql("UPDATE frames SET extra = '[1]'"),
    "pool is a text": _sql("UPDATE pools SET first = 'x'"),
}
"""What has to be refused, by what is wrong with it; the base has rows in every table named."""

ACCEPTED: dict[str, Change] = {
    "UTF-16": _other_encoding,
    "vacuumed": _sql("PRAGMA writable_schema = 0", "VACUUM"),
    "somebody's own table": _sql("CREATE TABLE mine (a, b)", "INSERT INTO mine VALUES (1, 2)"),
    "somebody's own view": _sql("CREATE VIEW mine AS SELECT load_extension('evil')"),
    "a table named nearly like ours": _sql('CREATE TABLE "allocations " (a)'),
    "another allocs": _sql("DROP VIEW allocs", "CREATE VIEW allocs AS SELECT load_extension(1)"),
}
"""What is odd and harmless, and has to give the same history."""

"""Hostile bundles: those made by hand, cut off at every byte, and mutated by the thousand."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import apsw
import orjson

import snapreport
from snapreport.bundle import write_bundle
from snapreport.history.build import build_history
from snapreport.read import read_snapshot
from tests.hostile import databases, zips
from tests.hostile.families import Family, Inputs, run_family

SAMPLES = Path(__file__).resolve().parent.parent.parent / "sample_snapshots"

Mutate = Callable[[random.Random, bytes, bytes], bytes]
"""Makes a bundle of one and, for what is swapped, of another."""

_VALUES = (
    "NULL", "-1", "0", "1", "2", "127", "255", "4096", "2147483647", "2147483648", "4294967296",
    "9007199254740993", "4611686018427387904", "9223372036854775807", "-9223372036854775808",
    "1e308", "-0.5", "'x'", "''", "x'ff00'", "zeroblob(1000)", "'</script>'", "abs(random())",
    "id + 1", "id - 1", "-id", "rowid * 1000", "size", "device", "random()", "random() % 100",
)  # fmt: skip
_DEFINITIONS = (
    "ALTER TABLE {t} RENAME COLUMN {c} TO other",
    "ALTER TABLE {t} RENAME TO other",
    "ALTER TABLE {t} DROP COLUMN {c}",
    "ALTER TABLE {t} ADD COLUMN more DEFAULT {v}",
    "ALTER TABLE {t} ADD COLUMN more AS (abs({c}))",
    "CREATE INDEX i ON {t}({c})",
    "CREATE UNIQUE INDEX i ON {t}({c})",
    "CREATE TRIGGER r BEFORE DELETE ON {t} BEGIN SELECT {v}; END",
    "CREATE VIEW v AS SELECT {c} FROM {t}",
    "CREATE TABLE copy AS SELECT * FROM {t}",
    "DROP TABLE {t}",
    "DROP VIEW allocs",
    "UPDATE sqlite_schema SET sql = replace(sql, 'INTEGER', 'TEXT') WHERE name = '{t}'",
    "UPDATE sqlite_schema SET sql = replace(sql, 'NOT NULL', '') WHERE name = '{t}'",
    "UPDATE sqlite_schema SET sql = replace(sql, '{c}', 'rowid') WHERE name = '{t}'",
    "UPDATE sqlite_schema SET rootpage = rootpage + 1 WHERE name = '{t}'",
    "UPDATE sqlite_schema SET type = 'view' WHERE name = '{t}'",
    "UPDATE sqlite_schema SET name = '{t}x' WHERE name = '{t}'",
    "UPDATE sqlite_schema SET sql = {v} WHERE name = '{t}'",
    "DELETE FROM sqlite_schema WHERE name = '{t}'",
    "PRAGMA user_version = 7",
)
_ROWS = (
    "UPDATE {t} SET {c} = {v} WHERE rowid % 7 = 3",
    "UPDATE {t} SET {c} = {v} WHERE rowid = (SELECT rowid FROM {t} ORDER BY random() LIMIT 1)",
    "UPDATE {t} SET {c} = {v}",
    "UPDATE {t} SET {c} = {d}",
    "UPDATE {t} SET {c} = {c} + 1",
    "UPDATE {t} SET {c} = (SELECT max({c}) FROM {t})",
    "DELETE FROM {t} WHERE rowid % 5 = 1",
    "DELETE FROM {t} WHERE rowid = (SELECT max(rowid) FROM {t})",
    "DELETE FROM {t}",
    "INSERT INTO {t} SELECT * FROM {t}",
    "INSERT OR REPLACE INTO {t} SELECT * FROM {t} WHERE rowid % 2",
)
_META = (
    "UPDATE meta SET value = '{j}' WHERE key = (SELECT key FROM meta ORDER BY random() LIMIT 1)",
    "DELETE FROM meta WHERE key = (SELECT key FROM meta ORDER BY random() LIMIT 1)",
    "UPDATE meta SET key = key || 'x' WHERE key = 'settings'",
)
_JSON = ("null", "[]", "{}", "-1", "0", "1e999", "[[[]]]", '{"a":{"b":[1,null,"x"]}}', '"x"', "x")


def small_bundle(name: str = "private_pool.json") -> bytes:
    """Return the bundle of a sample, with rows in every table."""
    history = build_history(read_snapshot(SAMPLES / name))
    if not history.strings:
        history = replace(history, strings=["forward", "compiled"])
    out = io.BytesIO()
    write_bundle(history, out)
    return out.getvalue()


def attempt(source: Path, output: Path) -> None:
    """Load a bundle, write its report as Markdown, and ask its tables."""
    snapshot = snapreport.load(source)
    snapreport.render(source, output, format="md")
    snapshot.query("SELECT count(*) FROM allocations")


def attempt_whole(source: Path, output: Path) -> None:
    """Render a bundle as a page."""
    snapreport.render(source, output, format="html")


def families(share: float = 1.0) -> Iterator[Family]:
    """Run every family.

    Args:
        share: of the random inputs, and of the truncations; 1 for all.
    """
    base, other = small_bundle(), small_bundle("two_streams.pickle")
    for warm in (attempt, attempt_whole):  # import what it takes, before the forks
        _warm_up(base, warm)

    def run(name: str, inputs: Inputs) -> Family:
        return run_family(name, inputs, attempt, ".zip")

    def mutated(mutate: Mutate, count: int) -> Inputs:
        def make() -> Iterator[tuple[str, bytes]]:
            for seed in range(max(int(count * share), 1)):
                yield f"seed {seed}", mutate(random.Random(seed), base, other)

        return make

    def truncated() -> Iterator[tuple[str, bytes]]:
        step = max(round(1 / share), 1) if share else len(base)
        for length in range(0, len(base), step):
            yield f"{length} bytes", base[:length]

    yield run("bundles: zips made by hand", lambda: _made(zips.REFUSED | zips.ACCEPTED, base))
    made = databases.REFUSED | databases.ACCEPTED
    yield run("bundles: databases made by hand", lambda: _made_databases(made, base))
    yield run("bundles: every truncation of one", truncated)
    yield run("bundles: bytes of the zip changed", mutated(_flip_zip, 2000))
    yield run("bundles: members swapped, doubled, dropped", mutated(_shuffle, 1000))
    yield run("bundles: bytes of the database changed", mutated(_flip_database, 2500))
    yield run("bundles: definitions changed by SQL", mutated(_change_definitions, 1000))
    yield run("bundles: rows changed by SQL", mutated(_change_rows, 2500))
    yield run("bundles: manifest bent", mutated(_bend_manifest, 500))
    yield run_family(
        "bundles: rows changed, rendered as a page",
        mutated(_change_row, 200),
        attempt_whole,
        ".zip",
    )


def _warm_up(base: bytes, warm: Callable[[Path, Path], None]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "warm.zip"
        source.write_bytes(base)
        warm(source, Path(folder) / "output")


def _made(changes: dict[str, zips.Change], base: bytes) -> Iterator[tuple[str, bytes]]:
    for name, change in changes.items():
        yield name, change(base)


def _made_databases(changes: dict[str, zips.Change], base: bytes) -> Iterator[tuple[str, bytes]]:
    members = zips.members_of(base)
    for name, change in changes.items():
        yield name, zips.zipped(members | {"elements.db": change(members["elements.db"])})


def flipped(rng: random.Random, data: bytes, most: int = 8) -> bytes:
    """Change, insert, remove, repeat or zero a few bytes."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, most)):
        place = rng.randrange(len(changed))
        kind = rng.random()
        if kind < 0.4:
            changed[place] ^= 1 << rng.randrange(8)
        elif kind < 0.7:
            changed[place] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
        elif kind < 0.8:
            changed[place : place + 4] = rng.choice((b"\0" * 4, b"\xff" * 4, b"\x7f\xff\xff\xff"))
        elif kind < 0.9:
            length, source = rng.randint(1, 64), rng.randrange(len(changed))
            changed[place : place + length] = changed[source : source + length]
        elif kind < 0.95:
            del changed[place : place + rng.randint(1, 16)]
        else:
            changed[place:place] = rng.randbytes(rng.randint(1, 16))
    return bytes(changed)


def _flip_zip(rng: random.Random, base: bytes, _other: bytes) -> bytes:
    if rng.random() < 0.5:
        return flipped(rng, base)
    # The headers and the directory alone: there is more to be said wrongly.
    place = rng.choice((base.rindex(b"PK\x05\x06"), base.index(b"PK\x01\x02"), 0))
    end = min(place + 160, len(base))
    return base[:place] + flipped(rng, base[place:end], 3) + base[end:]


def _shuffle(rng: random.Random, base: bytes, other: bytes) -> bytes:
    members = list(zips.members_of(base).items())
    more = list(zips.members_of(other).items())
    for _ in range(rng.randint(1, 3)):
        kind = rng.randrange(6)
        place = rng.randrange(len(members)) if members else 0
        if kind == 0 and members:
            del members[place]
        elif kind == 1 and members:
            members[place] = (members[place][0], dict(more).get(members[place][0], b""))
        elif kind == 2:
            members.insert(place, rng.choice(more))
        elif kind == 3 and members:
            name = rng.choice(("../x", "elements.db", "manifest.json", "ELEMENTS.DB", "a/b", "/a"))
            members[place] = (name, members[place][1])
        elif kind == 4 and len(members) > 1:
            first, second = rng.sample(range(len(members)), 2)
            names = members[first][0], members[second][0]
            members[first] = (names[0], members[second][1])
            members[second] = (names[1], members[first][1])
        else:
            rng.shuffle(members)
    return zips.zipped([(name, data) for name, data in members], rng.choice((0, 8, 8, 12)))


def _with_database(base: bytes, data: bytes) -> bytes:
    return zips.zipped(zips.members_of(base) | {"elements.db": data}, 0)


def _flip_database(rng: random.Random, base: bytes, _other: bytes) -> bytes:
    data = zips.members_of(base)["elements.db"]
    if rng.random() < 0.7:
        return _with_database(base, flipped(rng, data))
    # The headers of pages: where rows begin, what follows, which pages are meant.
    page = rng.randrange(len(data) // 4096) * 4096
    return _with_database(
        base, data[:page] + flipped(rng, data[page : page + 120], 3)[:120].ljust(120, b"\0")
        + data[page + 120 :]
    )  # fmt: skip


def _change_definitions(rng: random.Random, base: bytes, _other: bytes) -> bytes:
    return _by_sql(rng, base, _DEFINITIONS, rng.randint(1, 2))


def _change_rows(rng: random.Random, base: bytes, _other: bytes) -> bytes:
    return _by_sql(rng, base, (*_ROWS, *_ROWS[:4], *_META), rng.randint(1, 3))


def _change_row(rng: random.Random, base: bytes, _other: bytes) -> bytes:
    return _by_sql(rng, base, _ROWS[:2], 1)


def _by_sql(rng: random.Random, base: bytes, kinds: tuple[str, ...], count: int) -> bytes:
    """Run a few statements, of those that SQLite takes."""
    data = zips.members_of(base)["elements.db"]
    tables = _columns(data)
    for _ in range(count):
        table = rng.choice(list(tables))
        words = {
            "{t}": table,
            "{c}": rng.choice(tables[table]),
            "{d}": rng.choice(tables[table]),
            "{v}": rng.choice(_VALUES),
            "{j}": rng.choice(_JSON),
        }
        sql = rng.choice(kinds)
        for word, value in words.items():
            sql = sql.replace(word, value)
        sql = sql.replace("random()", str(rng.randrange(-(2**40), 2**40)))
        try:
            data = databases.changed(data, sql)
        except apsw.Error:
            continue
    return _with_database(base, data)


def _columns(data: bytes) -> dict[str, list[str]]:
    connection = apsw.Connection(":memory:")
    connection.deserialize("main", data)
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    found = {
        str(name): [str(row[1]) for row in connection.execute(f"PRAGMA table_info({name})")]
        for (name,) in tables
    }
    connection.close()
    return found


_BENT: list[object] = [None, -1, 0, 1, 2**53, "", "x", [], {}, 1.5, True, [[]], "../x", 2**63]


def _bend_manifest(rng: random.Random, base: bytes, _other: bytes) -> bytes:
    members = zips.members_of(base)
    if rng.random() < 0.3:
        members["manifest.json"] = flipped(rng, members["manifest.json"])
        return zips.zipped(members)
    manifest = orjson.loads(members["manifest.json"])
    value = manifest
    while True:
        key = rng.choice(list(value) if isinstance(value, dict) else list(range(len(value))))
        if isinstance(value[key], (dict, list)) and value[key] and rng.random() < 0.8:
            value = value[key]
            continue
        if rng.random() < 0.3:
            del value[key]
        else:
            value[key] = rng.choice(_BENT)
        break
    members["manifest.json"] = orjson.dumps(manifest)
    return zips.zipped(members)

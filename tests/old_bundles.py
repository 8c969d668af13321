"""Bundles that older versions wrote, kept to be read for ever: ``python -m tests.old_bundles``.

That keeps bundles of this version, unless there are some already, and writes down anew what this
version reads in all of them; read the difference before you commit it. A kept bundle never changes.
"""

from __future__ import annotations

import re
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import orjson
from click.testing import CliRunner

import snapreport
from snapreport.commands import cli
from tests.conftest import REPOSITORY
from tests.docs.made_runs import make_runs

FOLDER = REPOSITORY / "tests" / "fixtures" / "bundles" / "format-1"
LAYOUT = FOLDER / "layout.json"
SAMPLES = (
    "cpu_profile.pickle",
    "expandable_segments.pickle.zst",
    "out_of_memory.pickle.gz",
    "private_pool.json",
    "state_only.pickle",
    "three_devices.pickle",
    "truncated_ring.pickle",
    "two_streams.pickle",
)
OF_A_FILE = ("source", "layout", "settings", "default")
OF_A_DEVICE = (
    "device", "capacity", "events", "allocations", "recorded", "first_time_us", "last_time_us",
    "reserved_from", "start", "peak", "end", "most_fragmented", "peaks", "statistics", "sizes",
    "ooms", "closing", "inferred_blocks", "anomalies",
)  # fmt: skip
"""The figures, without what is inferred or said of them: later versions may know better."""
OF_A_RANK = (
    "name", "file", "rank", "dump", "device", "events", "allocated", "peak_event", "reserved",
)  # fmt: skip


def kept() -> list[Path]:
    """Return every kept bundle, the oldest version's first."""
    return sorted(FOLDER.glob("*/*.zip"))


def figures_of(bundle: Path) -> dict[str, Any]:
    """Return what ``summary --json`` says of a bundle, except for what is inferred."""
    done = CliRunner().invoke(cli, ["summary", str(bundle), "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    said = orjson.loads(done.stdout)
    if "rows" in said:
        return {"ranks": [{key: row[key] for key in OF_A_RANK} for row in said["rows"]]}
    devices = [
        {key: device[key] for key in OF_A_DEVICE}
        | {"sites": [[site["name"], site["bytes"], site["count"]] for site in device["sites"]]}
        for device in said["devices"]
    ]
    return {key: said[key] for key in OF_A_FILE} | {"devices": devices}


def figures_beside(bundle: Path) -> Path:
    """Return where the figures of a kept bundle are."""
    return bundle.with_suffix(".json")


def layout_of(bundle: Path) -> dict[str, Any]:
    """Return the members of a bundle, the keys of its JSON, and how its tables are defined."""
    with zipfile.ZipFile(bundle) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    databases = {name: data for name, data in members.items() if name.endswith(".db")}
    return {
        "members": sorted(members),
        **{
            name: keys_of(orjson.loads(data))
            for name, data in members.items()
            if name not in databases
        },
        **{name: _definitions(data) for name, data in databases.items()},
    }


def keys_of(value: Any) -> Any:
    """Return the keys of objects, with those below them; of a list, those of its first item."""
    if isinstance(value, dict):
        return {key: keys_of(each) for key, each in sorted(value.items())}
    if isinstance(value, list):
        return [keys_of(each) for each in value[:1]]
    return type(value).__name__


def opened(database: bytes) -> apsw.Connection:
    """Open a database in memory."""
    connection = apsw.Connection(":memory:")
    connection.deserialize("main", database)
    return connection


def _definitions(data: bytes) -> dict[str, str | list[str]]:
    connection = opened(data)
    made = connection.execute(
        "SELECT name, sql FROM sqlite_schema WHERE sql NOT NULL ORDER BY name"
    )
    plain = {
        str(name): " ".join(re.sub(r"--[^\n]*", "", str(sql)).split())
        for name, sql in made.fetchall()
    }
    keys = connection.execute("SELECT key FROM meta ORDER BY key").fetchall()
    return {**plain, "keys of meta": [str(key) for (key,) in keys]}


def write_all(folder: Path, samples: Sequence[str] = SAMPLES) -> list[Path]:
    """Write a bundle of each of some samples, and of a run, as this version does."""
    folder.mkdir(parents=True)
    written = [
        snapreport.convert(
            REPOSITORY / "sample_snapshots" / name, folder / f"{name.split('.')[0]}.zip"
        )
        for name in samples
    ]
    with tempfile.TemporaryDirectory() as name:
        make_runs(Path(name))
        run = snapreport.load_run(Path(name) / "deepspeed")
        written.append(run.save(folder / "run.zip"))
    return written


def write_json(path: Path, value: Any) -> None:
    """Write JSON in as many lines as a reader of differences likes."""
    path.write_bytes(orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n")


def main() -> None:
    """Keep bundles of this version, and write down what is read in all."""
    ours = FOLDER / snapreport.__version__
    if not ours.exists():
        write_all(ours)
    write_json(LAYOUT, {name: layout_of(ours / f"{name}.zip") for name in ("three_devices", "run")})
    for bundle in kept():
        write_json(figures_beside(bundle), figures_of(bundle))


if __name__ == "__main__":
    main()

"""Format 1 is kept: old bundles are read as ever, and what is written is what they hold."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import orjson
import pytest

import snapreport
from snapreport.bundle.archive import read_bundle
from snapreport.bundle.database import write_database
from tests import old_bundles

PROMISE = "docs/bundles.md says what format 1 promises, and docs/versions.md how a format changes"
# What is inferred anew whenever a bundle is read.
INFERRED = {"role", "role_evidence", "role_confidence"}


def name_of(bundle: Path) -> str:
    return f"{bundle.parent.name}/{bundle.stem}"


@pytest.mark.parametrize("bundle", old_bundles.kept(), ids=name_of)
def test_an_old_bundle_gives_the_figures_that_it_gave(bundle: Path) -> None:
    told = orjson.loads(old_bundles.figures_beside(bundle).read_bytes())
    assert old_bundles.figures_of(bundle) == told, (
        f"{bundle} is read as something else than before; {PROMISE}. If the old figures were wrong,"
        " say so in CHANGELOG.md and run: python -m tests.old_bundles"
    )


def rows_of(database: bytes) -> dict[str, list[Any]]:
    """Return the rows of every table of ``elements.db`` and of its views, if not inferred."""
    connection = old_bundles.opened(database)
    names = connection.execute("SELECT name FROM sqlite_schema WHERE sql NOT NULL").fetchall()
    rows = {}
    for (name,) in names:
        if name in ("roles", "allocation_kinds"):  # the kinds are counted by role, too
            continue
        unlike = INFERRED | {"kind"} if name == "allocation_rows" else INFERRED
        columns = connection.execute(f"SELECT name FROM pragma_table_info('{name}')").fetchall()
        asked = ", ".join(f'"{column}"' for (column,) in columns if column not in unlike)
        rows[str(name)] = sorted(connection.execute(f'SELECT {asked} FROM "{name}"'), key=repr)
    return rows


@pytest.mark.parametrize(
    "bundle", [each for each in old_bundles.kept() if each.stem != "run"], ids=name_of
)
def test_an_old_bundle_that_is_written_again_has_the_same_rows(bundle: Path) -> None:
    with zipfile.ZipFile(bundle) as archive:
        old = rows_of(archive.read("elements.db"))
    new = rows_of(write_database(read_bundle(bundle)))
    assert old.keys() == new.keys()
    for table, rows in old.items():
        assert new[table] == rows, f"{table}; {PROMISE}"
    assert len(old["allocations"]) + len(old["blocks"]) > 0


def test_what_is_written_is_laid_out_as_format_1(tmp_path: Path) -> None:
    made = old_bundles.write_all(tmp_path / "now", ["three_devices.pickle"])
    written = {path.stem: path for path in made}
    for name, told in orjson.loads(old_bundles.LAYOUT.read_bytes()).items():
        now = old_bundles.layout_of(written[name])
        for part, layout in told.items():
            assert now.get(part) == layout, (
                f"{part} of {name} is not what format 1 has. A new member, key, table or view: run"
                f" python -m tests.old_bundles. Anything else is a new format: {PROMISE}."
            )
        assert now.keys() == told.keys()


def test_what_a_later_version_may_add_is_ignored(tmp_path: Path) -> None:
    bundle = next(each for each in old_bundles.kept() if each.stem == "expandable_segments")
    with zipfile.ZipFile(bundle) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = orjson.loads(members["manifest.json"])
    manifest["later"] = manifest["devices"][0]["later"] = {"more": 1}
    members["manifest.json"] = orjson.dumps(manifest)
    connection = old_bundles.opened(members["elements.db"])
    connection.execute(
        "INSERT INTO meta VALUES ('later', '1'); CREATE TABLE later (id INTEGER PRIMARY KEY, more);"
        "INSERT INTO later VALUES (0, 'x'); CREATE VIEW latest AS SELECT more FROM later;"
        "UPDATE events SET action = 'later' WHERE action = 'snapshot';"
        "UPDATE roles SET role = 'later'"
    )
    members["elements.db"] = connection.serialize("main")
    members["later.json"] = b"[]"
    later = tmp_path / "later.zip"
    with zipfile.ZipFile(later, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    assert old_bundles.figures_of(later) == orjson.loads(
        old_bundles.figures_beside(bundle).read_bytes()
    )


def test_each_version_kept_bundles_of_every_kind() -> None:
    """A release is made with bundles of its own: docs/releasing.md."""
    expected = {name.split(".")[0] for name in old_bundles.SAMPLES} | {"run"}
    kept = old_bundles.kept()
    for folder in {bundle.parent for bundle in kept}:
        assert {bundle.stem for bundle in kept if bundle.parent == folder} == expected
        for bundle in folder.glob("*.zip"):
            with zipfile.ZipFile(bundle) as archive:
                manifest = orjson.loads(archive.read("manifest.json"))
            assert (manifest["format"], manifest["snapreport"]) == (1, folder.name)
    assert snapreport.__version__ in {bundle.parent.name for bundle in kept}, (
        "this version has no bundles yet; run: python -m tests.old_bundles"
    )

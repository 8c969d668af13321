"""Writes and reads the zip of a run: ``manifest.json`` and ``run.db``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import orjson

from snapreport.bundle.archive import checked_members, is_zip
from snapreport.bundle.manifest import MANIFEST, parse_manifest
from snapreport.bundle.of_run.run_reading import DATABASE, read_run_database
from snapreport.bundle.of_run.run_writing import write_run_database
from snapreport.bundle.packing import Packer
from snapreport.ground.errors import BundleError, SnapreportError
from snapreport.ground.safe_text import plain_json
from snapreport.ground.version import __version__
from snapreport.model.run.rank_facts import Run

FORMAT = 1


def is_run_bundle(path: Path) -> bool:
    """Say whether a file is the zip of a run; False for a damaged one, which its reader reports."""
    if not is_zip(path):
        return False
    try:
        with checked_members(path) as members:
            return DATABASE in members.names
    except SnapreportError:
        return False


def write_run_bundle(run: Run, out: BinaryIO) -> None:
    """Write a run; equal runs give equal bytes."""
    manifest = {"format": FORMAT, "kind": "run", "snapreport": __version__, **_facts(run)}
    with Packer() as packer:
        text = plain_json(orjson.dumps(manifest, option=orjson.OPT_INDENT_2))
        packer.add(MANIFEST, [text], 9)
        packer.add(DATABASE, [write_run_database(run)], 6)
        packer.write(out, [MANIFEST, DATABASE])


def read_run_bundle(path: Path) -> Run:
    """Read a run back.

    Raises:
        InputError: the file cannot be read.
        BundleError: it is damaged, not a run, or of a newer format.
    """
    from snapreport.bundle.members import MOST_MANIFEST

    with checked_members(path) as members:
        manifest = parse_manifest(members.unpack(MANIFEST, MOST_MANIFEST))
        if manifest.get("kind") != "run":
            raise BundleError("is not the bundle of a run.")
        run = read_run_database(members.unpack(DATABASE))
        for key, fact in _facts(run).items():
            if manifest.get(key) != fact:
                raise BundleError(
                    f"has a {MANIFEST} that disagrees with its {DATABASE} ({key}); one of them was"
                    " changed: make it again from the snapshots."
                )
        return run


def _facts(run: Run) -> dict[str, Any]:
    """Return the facts that the database also holds."""
    return {
        "title": run.title,
        "ranks": len(run.ranks),
        "expected": run.expected,
        "layout": dict(run.layout),
        "files": [
            {"source": each.source, "size": each.size, "sha256": each.sha256, "error": each.error}
            for each in run.ranks
        ],
    }

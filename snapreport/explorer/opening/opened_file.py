"""A file that the explorer has open."""

from __future__ import annotations

import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

import orjson

from snapreport.api.loading import Snapshot, load_named
from snapreport.bundle import is_zip
from snapreport.explorer.opening.bundle_cache import (
    BundleCache,
    cache_folder,
    key_of,
    names_beside,
    remove,
)
from snapreport.explorer.opening.converting import Cancelled, convert_beside
from snapreport.explorer.opening.source_text import Sources
from snapreport.ground.errors import InputError
from snapreport.ground.progress import Progress, silent
from snapreport.model.name_treatment import NamesWanted


@dataclass(frozen=True, eq=False)
class OpenedFile:
    """A recording, and where it is."""

    path: Path
    """As the reader named it."""
    bundle: Path
    """The file itself, or the bundle made from it."""
    snapshot: Snapshot
    sources: Sources


def open_file(
    path: Path,
    *,
    keep: bool = True,
    progress: Progress = silent,
    cancelled: threading.Event | None = None,
    folder: Path | None = None,
) -> OpenedFile:
    """Open a bundle, or a snapshot by way of a bundle.

    Args:
        path: the file.
        keep: whether the bundle of a snapshot is kept in the user's cache; otherwise it is
            removed when this program ends.
        progress: called with what is being done.
        cancelled: set by another thread to cancel.
        folder: the cache's folder; None for the user's.

    Raises:
        Cancelled: it was set.
        SnapreportError: as ``load()``.
    """
    wanted = cancelled or threading.Event()

    def report(what: str, fraction: float | None) -> None:
        if wanted.is_set():
            raise Cancelled
        progress(what, fraction)

    bundle = path if is_zip(path) else _bundle_of(path, keep, report, wanted, folder)
    report("Reading the bundle", None)
    snapshot = load_named(bundle, NamesWanted(keep_paths=True), report)
    return OpenedFile(path, bundle, snapshot, Sources(_names(bundle)))


def _bundle_of(
    path: Path, keep: bool, progress: Progress, cancelled: threading.Event, folder: Path | None
) -> Path:
    """Return the kept bundle of a snapshot; make it if there is none."""
    if not path.is_file():  # a pipe can be read only once
        raise InputError(f"{path} is not a file; the explorer opens snapshots and bundles.")
    cache = BundleCache((folder or cache_folder()) if keep else _until_the_end())
    key = key_of(path, progress)
    found = cache.find(key)
    if found is not None:
        return found
    try:
        workplace = cache.workplace()
    except OSError:  # no home, or one that cannot be written to
        cache = BundleCache(_until_the_end())
        workplace = cache.workplace()
    try:
        progress("Reading the snapshot", None)
        made = workplace / "made.zip"
        convert_beside(path, made, progress, cancelled)
        return cache.keep(made, key)
    finally:
        remove(workplace)


_folders: list[tempfile.TemporaryDirectory[str]] = []


def _until_the_end() -> Path:
    """Return a folder that is removed when the program ends."""
    _folders.append(tempfile.TemporaryDirectory(prefix="snapreport-"))
    return Path(_folders[-1].name)


def _names(bundle: Path) -> dict[str, str]:
    try:
        found = orjson.loads(names_beside(bundle).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}

"""Bundles that are kept in the user's cache, so that a pickle opens at once the second time.

A bundle is named after a hash of the snapshot's bytes and after our version, so a changed snapshot
or another version gets another bundle. All together are limited in size; the oldest are removed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from snapreport.ground.progress import Progress
from snapreport.ground.version import __version__

LIMIT = 2 * 2**30
"""Bytes that all kept bundles take together at most; one larger bundle stays by itself."""
_PIECE = 4 * 2**20
_MAKING = "making-"
_ABANDONED = 24 * 3600
"""Seconds after which nobody is still making a bundle."""


def cache_folder() -> Path:
    """Return the folder for our bundles in the user's cache."""
    from platformdirs import user_cache_path

    return user_cache_path("snapreport", appauthor=False) / "bundles"


def key_of(source: Path, progress: Progress) -> str:
    """Return the name of a file's bundle: a hash of its bytes, and snapreport's version."""
    found = hashlib.sha256()
    size = max(source.stat().st_size, 1)
    done = 0
    with source.open("rb") as file:
        while piece := file.read(_PIECE):
            found.update(piece)
            done += len(piece)
            progress("Looking for a kept bundle", done / size)
    return f"{found.hexdigest()[:32]}-{__version__}"


@dataclass(frozen=True)
class BundleCache:
    """A folder of bundles."""

    folder: Path
    limit: int = LIMIT

    def find(self, key: str) -> Path | None:
        """Return the bundle of a key if it is in the cache, and mark it as used."""
        bundle = self.folder / f"{key}.zip"
        try:
            os.utime(bundle)
        except OSError:
            return None
        return bundle

    def workplace(self) -> Path:
        """Make a new folder for a bundle in the making, inside the cache.

        Raises:
            OSError: the cache cannot be written to.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return Path(tempfile.mkdtemp(prefix=_MAKING, dir=self.folder))

    def keep(self, made: Path, key: str) -> Path:
        """Keep a finished bundle with its list of names, drop the oldest, and return its path."""
        bundle = self.folder / f"{key}.zip"
        names = names_beside(made)
        if names.exists():
            names.replace(names_beside(bundle))
        made.replace(bundle)
        self._remove_oldest(but=bundle)
        return bundle

    def _remove_oldest(self, but: Path) -> None:
        for folder in self.folder.glob(f"{_MAKING}*"):  # left by an explorer that was killed
            with suppress(OSError):
                if time.time() - folder.stat().st_mtime > _ABANDONED:
                    remove(folder)
        found = []
        for path in self.folder.glob("*.zip"):
            try:
                about = path.stat()
            except OSError:  # another explorer removed it
                continue
            found.append((about.st_mtime, about.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total > self.limit and path != but:
                path.unlink(missing_ok=True)
                names_beside(path).unlink(missing_ok=True)
                total -= size


def names_beside(bundle: Path) -> Path:
    """Return the file beside a kept bundle that maps short paths to full ones."""
    return bundle.with_suffix(".names.json")


def remove(folder: Path) -> None:
    """Remove a folder that a bundle was made in, finished or not."""
    shutil.rmtree(folder, ignore_errors=True)

"""Find out whether a snapshot is already converted, from the source in its bundle's manifest."""

from __future__ import annotations

from pathlib import Path

from snapreport.bundle import is_zip, read_manifest
from snapreport.ground.errors import SnapreportError
from snapreport.ground.files import sha256_of
from snapreport.ground.version import __version__


def is_converted(source: Path, target: Path) -> bool:
    """Say whether a complete bundle of exactly this file exists, made by this version.

    The snapshot's SHA-256 is compared, so all of it is read, but not parsed. A bundle with a cut
    does not count. The manifest does not say whether the bundle has full paths.
    """
    try:
        if not is_zip(target):
            return False
        manifest = read_manifest(target)
        made_of = manifest["source"]
        if manifest["snapreport"] != __version__ or any(
            "cut" in each for each in manifest["devices"]
        ):
            return False
        same = source.stat().st_size == made_of["size"]
        return bool(same and sha256_of(source) == made_of["sha256"])
    except (SnapreportError, OSError, LookupError, TypeError):
        return False

"""Every distinct string in a report, a bundle or a snapshot."""

from __future__ import annotations

from pathlib import Path

from snapreport.bundle import is_zip
from snapreport.disclosure.bundle import bundle_strings
from snapreport.disclosure.page import page_strings
from snapreport.disclosure.tally import Tally
from snapreport.errors import InputError
from snapreport.model.disclosure import Given
from snapreport.progress import Progress, silent
from snapreport.read import read_objects

_PAGES = (".html", ".htm")
_TEXTS = (".md", ".markdown", ".txt")


def list_strings(path: Path, progress: Progress = silent) -> list[Given]:
    """List every string that a file gives away, by kind.

    Args:
        path: a page or Markdown (told by the name's ending), a bundle, or a snapshot as it is:
            what its report would give away is less.
        progress: called with what is being done.

    Raises:
        InputError, BundleError, NotASnapshotError, UnsafePickleError: as ``load()``.
    """
    tally = Tally()
    ending = path.suffix.lower()
    if ending in _PAGES or ending in _TEXTS:
        try:
            text = path.read_text(encoding="utf-8-sig", errors="replace")
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error
        if ending in _PAGES:
            page_strings(text, tally)
        else:
            for line in text.splitlines():
                tally.add("line", line.strip())
    elif is_zip(path):
        progress("Reading bundle", None)
        bundle_strings(path, tally)
    else:
        tally.walk(read_objects(path, progress))
    return tally.given()

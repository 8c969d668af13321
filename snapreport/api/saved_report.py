"""Read the figures in a report, without a browser and without the snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from snapreport.ground.errors import InputError, NotASnapshotError, reason_of
from snapreport.ground.files import open_regular

MARK = b'content="snapreport"'
"""Found in the head of every page that we write."""
_SUMMARY, _END = b'<script type="application/json" id="summary">', b"</script>"
_BEGIN = 4096
_LARGEST = 1 << 28
"""The most bytes of a page that are read; ours are far smaller, but a stranger's may not be."""


def is_report(path: Path) -> bool:
    """Say whether a file begins like our pages; False if it cannot be read."""
    try:
        with open_regular(path) as file:
            begin = file.read(_BEGIN)
    except OSError:
        return False
    return begin[:64].lstrip()[:5].lower() == b"<!doc" and MARK in begin


def read_report_summary(path: Path) -> dict[str, Any]:
    """Return the JSON object in the element ``summary`` of a page.

    In a report this is what ``snapreport summary --json`` prints for its snapshot, with long lists
    cut. The page may be a stranger's: the only check is that the JSON is an object.

    Raises:
        InputError: the file cannot be read.
        NotASnapshotError: it is too large, or has no such object.
    """
    try:
        with open_regular(path) as file:
            page = file.read(_LARGEST + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {reason_of(error)}.") from error
    if len(page) > _LARGEST:
        raise NotASnapshotError(
            f"{path} is a page of more than {_LARGEST >> 20} MiB, which is too large."
        )
    _, begun, rest = page.partition(_SUMMARY)
    text, ended, _ = rest.partition(_END)
    if not begun or not ended:
        raise NotASnapshotError(f"{path} is a page without a summary; give its snapshot or bundle.")
    try:
        summary = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise NotASnapshotError(f"{path}: the page's summary is damaged: {error}.") from error
    if not isinstance(summary, dict):
        raise NotASnapshotError(f"{path}: the page's summary is not an object.")
    return summary

"""Converts in a process of its own: the screen stays responsive, and cancelling works at once."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from snapreport.api.loading import load_named
from snapreport.api.making import save_bundle
from snapreport.explorer.opening.bundle_cache import names_beside
from snapreport.ground.errors import InputError, NotEnoughMemoryError, SnapreportError
from snapreport.ground.processes.child_process import ChildProcess
from snapreport.ground.processes.gc_pause import collector_off
from snapreport.ground.progress import Progress
from snapreport.model.name_treatment import NamesWanted

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_LOOK_UP = 0.1
"""Seconds after which a cancelled conversion is noticed."""


class Cancelled(Exception):  # noqa: N818  (it is no error)
    """The reader cancelled."""


def convert_beside(
    source: Path, target: Path, progress: Progress, cancelled: threading.Event
) -> None:
    """Make a bundle of a snapshot in another process, and wait for it.

    Args:
        source: the snapshot.
        target: the bundle to write; the list of the recorded full paths is written beside it.
        progress: called with what is being done.
        cancelled: set by another thread to cancel.

    Raises:
        Cancelled: it was set.
        SnapreportError: what the conversion raised.
    """
    process = ChildProcess("spawn", _convert, source, target)  # a fork beside threads may hang
    try:
        while True:
            if cancelled.is_set():
                raise Cancelled
            if not process.connection.poll(_LOOK_UP):
                continue
            message: Any = process.connection.recv()
            if message is None:
                return
            if isinstance(message, Exception):
                raise message
            progress(*message)
    except (EOFError, ConnectionError):
        raise InputError(
            f"{source} could not be converted: the process that did so is gone:"
            f" {process.how_it_ended()}."
        ) from None
    finally:
        process.end()
        process.connection.close()


def _convert(connection: Connection, source: Path, target: Path) -> None:
    """Make the bundle; runs in the process."""

    def progress(what: str, fraction: float | None) -> None:
        connection.send((what, fraction))

    try:
        with collector_off():
            from snapreport.api.loading import Snapshot
            from snapreport.names.short_paths import shorten

            whole = load_named(source, NamesWanted(keep_paths=True), progress).history
            short = shorten(whole)
            save_bundle(Snapshot(short), target, progress=progress, sources=[source])
            names = paths_by_name(short.stacks.frames.filenames, whole.stacks.frames.filenames)
            names_beside(target).write_bytes(orjson.dumps(names))
        connection.send(None)
    except SnapreportError as error:
        connection.send(error)
    except MemoryError:
        connection.send(NotEnoughMemoryError(f"{source} needs more memory than is free."))


def paths_by_name(short: list[str], whole: list[str]) -> dict[str, str]:
    """Map the short paths of frames to the full ones, where these differ."""
    if len(short) != len(whole):
        return {}
    pairs = zip(short, whole, strict=True)
    return {name: path for name, path in pairs if name != path and path.isprintable()}

"""Opens files, and shows the progress: a snapshot by way of a bundle kept in the user's cache.

So a pickle opens at once the second time. A bundle is named after a hash of the snapshot's bytes
and after our version, so a changed snapshot or another version gets another bundle. All together
are limited in size; the oldest are removed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import orjson

from snapreport.api.loading import Snapshot, load_named
from snapreport.api.making import save_bundle
from snapreport.commands.explorer.chart import EventScale, Heights, bars_of, chart
from snapreport.commands.explorer.lines import EMPTY, Line, filled, in_line, ink
from snapreport.figures.curves import find_curves
from snapreport.ground.errors import InputError, NotEnoughMemoryError
from snapreport.ground.files import is_zip
from snapreport.ground.processes import ChildProcess, ProcessLostError, Tell, collector_off
from snapreport.ground.progress import Progress, silent
from snapreport.ground.records import dataclass
from snapreport.ground.units import format_bytes
from snapreport.ground.version import __version__
from snapreport.model.asked import (
    NamesWanted,
)
from snapreport.model.history import (
    History,
)
from snapreport.reporters.words import event_name

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
                    shutil.rmtree(folder, ignore_errors=True)
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


_LOOK_UP = 0.1
"""Seconds after which a cancelled conversion is noticed."""


class Cancelled(Exception):  # noqa: N818  (it is no error)
    """The reader cancelled."""


def convert_beside(
    source: Path, target: Path, progress: Progress, cancelled: threading.Event
) -> None:
    """Make a bundle of a snapshot in another process, and wait for it.

    The screen stays responsive, and cancelling works at once.

    Args:
        source: the snapshot.
        target: the bundle to write; the list of the recorded full paths is written beside it.
        progress: called with what is being done.
        cancelled: set by another thread to cancel.

    Raises:
        Cancelled: it was set.
        SnapreportError: what the conversion raised.
    """
    process = ChildProcess("spawn", partial, _convert, source, target)  # a fork could hang
    process.ask()
    try:
        while True:
            if cancelled.is_set():
                raise Cancelled
            try:
                done, told = process.hear(_LOOK_UP)
            except TimeoutError:
                continue
            if done:
                return
            progress(*told)
    except ProcessLostError as error:
        raise InputError(
            f"{source} could not be converted: the process that did so is gone: {error}."
        ) from None
    finally:
        process.close()


def _convert(source: Path, target: Path, tell: Tell) -> None:
    """Make the bundle; runs in the process."""

    def progress(what: str, fraction: float | None) -> None:
        tell((what, fraction))

    try:
        with collector_off():
            from snapreport.names.short_paths import shorten

            whole = load_named(source, NamesWanted(keep_paths=True), progress).history
            short = shorten(whole)
            save_bundle(Snapshot(short), target, progress=progress, sources=[source])
            names = paths_by_name(short.stacks.frames.filenames, whole.stacks.frames.filenames)
            names_beside(target).write_bytes(orjson.dumps(names))
    except MemoryError:
        raise NotEnoughMemoryError(f"{source} needs more memory than is free.") from None


def paths_by_name(short: list[str], whole: list[str]) -> dict[str, str]:
    """Map the short paths of frames to the full ones, where these differ."""
    if len(short) != len(whole):
        return {}
    pairs = zip(short, whole, strict=True)
    return {name: path for name, path in pairs if name != path and path.isprintable()}


_LONGEST = 2 * 2**20
"""Larger files are not read, in bytes: no hand-written source is longer."""
_MOST_FILES = 64


class Sources:
    """Reads lines of the Python files that a recording names, if they are on this machine."""

    def __init__(self, recorded: Mapping[str, str]) -> None:
        """``recorded`` maps the short paths that are shown to the full ones that were recorded."""
        self._recorded = recorded
        self._lines = lru_cache(_MOST_FILES)(self._read)

    def line(self, filename: str, line: int) -> str:
        """Return a line of a file as it is now; ``""`` if it cannot be read."""
        lines = self._lines(filename) if line > 0 else ()
        return lines[line - 1].strip() if 0 < line <= len(lines) else ""

    def _read(self, filename: str) -> tuple[str, ...]:
        for path in self._candidates(filename):
            try:
                # A stranger chose the file name: it may be a pipe, a device, or endless.
                if not path.is_file():
                    continue
                with path.open("rb") as source:
                    if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
                        continue
                    text = source.read(_LONGEST + 1)
            except (OSError, ValueError):
                continue
            if len(text) <= _LONGEST:
                return tuple(text.decode("utf-8", "replace").splitlines())
        return ()

    def _candidates(self, filename: str) -> list[Path]:
        recorded = self._recorded.get(filename, filename)
        # Opening //server/file would contact that server, and a pipe may never end.
        if not recorded.endswith(".py") or recorded[:2] in ("//", "\\\\"):
            return []
        path = Path(recorded).expanduser() if recorded.startswith("~/") else Path(recorded)
        if path.is_absolute():
            return [path]
        return [place / path for place in (Path.cwd(), Path.cwd().parent, *map(Path, sys.path))]


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
        shutil.rmtree(workplace, ignore_errors=True)


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


# The screen meanwhile: the progress, then the first picture.


class OpeningLines:
    """What is being done and its progress; once the file is read, its curve and peak."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        """``cancel``: stops the opening."""
        self._cancel = cancel
        self.what = "Opening"
        self.fraction: float | None = None
        self._device = ""
        self._curves: dict[str, Heights] = {}

    def tell(self, what: str, fraction: float | None) -> None:
        """Show progress."""
        self.what, self.fraction = what, fraction

    def picture(self, file: History) -> None:
        """Show the curves of a file that is read, while its figures are computed."""
        if file.devices:
            device = file.devices[file.default_device]
            curves = find_curves(device, file.layout != "profiler")
            self._curves = {name: Heights(values) for name, values in curves.items()}
            self._device = str(device.device)
        self.tell("Computing the figures", None)

    def press(self, name: str) -> bool:
        """Handle a key: some keys cancel."""
        if name in ("escape", "q", "Q", "ctrl+c", "ctrl+q"):
            self._cancel()
            return True
        return False

    def draw(self, width: int, height: int) -> list[Line]:
        """Return the lines."""
        lines = [ink((" snapreport ", "brand"), f"  {self.what}")]
        if self._curves and height > 6:
            lines += self._picture(width, height - 4)
        else:
            wide = min(40, max(width - 4, 1))
            done = 0 if self.fraction is None else round(self.fraction * wide)
            bar = ink("  ", ("█" * done, "bar"), ("░" * (wide - done), "axis"))
            lines += [EMPTY] * max(height // 2 - 3, 0)
            lines += [EMPTY if self.fraction is None else bar, EMPTY]
        foot = ink(("  Esc", "key"), (" cancels", "dim"))
        return filled([*filled(lines, width, height - 1), foot], width, height)

    def _picture(self, width: int, height: int) -> list[Line]:
        """Return the entire curve, as the timeline draws it, and its peak."""
        curve = self._curves["allocated"].values
        scale = EventScale(len(curve) - 1)
        spans = scale.spans(np.linspace(*scale.whole, max(width - 4, 1) + 1))
        peak = int(curve.argmax())
        title = f"  {self._device}: {format_bytes(int(curve[peak]))} allocated at the peak"
        high = max(int(each.values.max()) for each in self._curves.values())
        cells = chart(bars_of(self._curves, spans), height - 1, 0, max(high, 1))
        head = ink((title, "key"), (f", event {event_name(peak - 1)}", "dim"))
        return [head, *(Line(ink("  ").runs + in_line(row)) for row in cells)]

"""Find and open a file below a folder, and no other, even if it is moved or linked meanwhile."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snapreport.api.loading import Snapshot, load_named
from snapreport.api.runs.inputs import NOT_ALLOWED, Skipped
from snapreport.api.runs.many_files import Gathered, Outcome, gather, stand_ins_for
from snapreport.api.runs.run_making import (
    LoadedRun,
    RunFile,
    RunInputs,
    find_run_files,
    put_together,
    run_from_zip,
)
from snapreport.bundle import is_zip, write_database
from snapreport.bundle.query import Database
from snapreport.ground.errors import InputError, SnapreportError
from snapreport.ground.files import as_text
from snapreport.ground.progress import Progress
from snapreport.ground.safe_text import visible
from snapreport.model.answers import QUERY_MEMORY, QUERY_SECONDS
from snapreport.model.history import NamesWanted
from snapreport.model.run import Run
from snapreport.names.redaction import quote_names, quoted, renamed

if TYPE_CHECKING:
    from snapreport.api.device import Device
    from snapreport.model.findings import Findings


_DESCRIPTORS = Path("/proc/self/fd")
"""Linux has a name for each open file here: it leads to that file, whatever its path is now."""


@dataclass(frozen=True)
class FileBelow:
    """A file below a root, as it was found."""

    root: Path
    """Resolved."""
    parts: tuple[str, ...]
    """Folders and name below the root; none of them was a link."""
    shown: str
    """Its name in answers."""
    device: int
    inode: int
    size: int
    changed_ns: int
    folder: bool
    """Whether it is a folder; folders are never opened as files."""

    @property
    def path(self) -> Path:
        """Where it was found."""
        return self.root.joinpath(*self.parts)


def file_below(path: Path, roots: Sequence[Path], shown: str = "") -> FileBelow | None:
    """Return a regular file or a folder if it is below a root after resolving links; else None.

    Args:
        path: may contain links.
        roots: resolved.
        shown: its name in answers.
    """
    try:
        real = Path(os.path.realpath(path, strict=True))
        status = real.stat(follow_symlinks=False)
    except (OSError, ValueError):
        return None
    root = next((each for each in roots if real.is_relative_to(each)), None)
    folder = stat.S_ISDIR(status.st_mode)
    if root is None or not (folder or stat.S_ISREG(status.st_mode)):
        return None
    return FileBelow(
        root=root,
        parts=real.relative_to(root).parts,
        shown=shown,
        device=status.st_dev,
        inode=status.st_ino,
        size=status.st_size,
        changed_ns=status.st_mtime_ns,
        folder=folder,
    )


@contextmanager
def opened_below(file: FileBelow) -> Iterator[Path]:
    """Open a file, and yield a path that leads to exactly this file while it is open.

    Each folder of the path is opened from the one before. A link there is an error, because it
    must have appeared after the path was resolved. If the system cannot do that, the file is
    compared with the one that was found, before and after it is read.

    Raises:
        InputError: the file is gone, was replaced, or cannot be read.
        SnapreportError: raised by the body, with the file called by its shown name.
    """
    try:
        descriptor = _descend(file) if os.open in os.supports_dir_fd else _open(file.path)
    except OSError as error:
        raise InputError(f"{file.shown} cannot be opened: {_reason(error)}.") from None
    try:
        _same(os.fstat(descriptor), file)
        named = _DESCRIPTORS / str(descriptor)
        path = named if named.exists() else file.path
        try:
            yield path
        except SnapreportError as error:
            text = str(error).replace(str(path), file.shown)
            raise type(error)(text.replace(str(file.path), file.shown)) from None
        if path != named:
            with suppress(OSError):
                _same(file.path.stat(follow_symlinks=False), file)
    finally:
        os.close(descriptor)


def _descend(file: FileBelow) -> int:
    folder = os.open(file.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in file.parts[:-1]:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            below = os.open(part, flags, dir_fd=folder)
        finally:
            os.close(folder)
        folder = below
    try:
        return _open(Path(file.parts[-1]), folder)
    finally:
        os.close(folder)


def _open(path: Path, folder: int | None = None) -> int:
    # A pipe would wait for its other end; anything but a regular file is refused below.
    flags = os.O_RDONLY
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, name, 0)
    return os.open(path, flags, dir_fd=folder)


def _same(found: os.stat_result, file: FileBelow) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"{file.shown} is not a regular file.")
    now = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
    if now != (file.device, file.inode, file.size, file.changed_ns):
        raise InputError(f"{file.shown} was replaced while it was opened; ask again.")


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "it is gone"
    if isinstance(error, PermissionError):
        return "permission denied"
    return "it was replaced by a link or folder meanwhile"


# An open recording: its figures, findings and tables, each computed once.


class KeptRecording:
    """One open file."""

    def __init__(self, file: FileBelow, names: NamesWanted, progress: Progress) -> None:
        """Open it.

        Raises:
            SnapreportError: as ``load()``; messages call the file by its shown name.
        """
        self.file = file
        self.progress = progress
        """Called with the progress of the current question."""
        with opened_below(file) as path:
            history = load_named(path, names, progress).history
            if not is_zip(path):
                history = renamed(history, file.shown)
        self.snapshot = Snapshot(quote_names(history))
        self._devices: dict[str, Device] = {}

    def device(self, name: str | None = None) -> Device:
        """Return one device; None for the one that a report opens with.

        Raises:
            DeviceError: there is no such device.
        """
        found = self.snapshot.device(name)
        return self._devices.setdefault(found.name, found)

    @cached_property
    def findings(self) -> Findings:
        """Everything that a summary says."""
        return self.snapshot.findings()

    @cached_property
    def database(self) -> Database:
        """Its tables, for SQL."""
        data = write_database(self.snapshot.history)
        return Database(data, seconds=QUERY_SECONDS, memory=QUERY_MEMORY)


# An open run: its files are opened one at a time, and only their small figures are kept.


class KeptRun:
    """The ranks in a folder, or the zip of a run."""

    def __init__(self, place: FileBelow, roots: Sequence[Path], names: NamesWanted) -> None:
        """Start with nothing read.

        Args:
            place: the folder, or the zip.
            roots: resolved; links that lead outside them are left out.
            names: how the names in files are treated.
        """
        self.place = place
        self._roots, self._names = tuple(roots), names
        self._inputs = RunInputs((), (), "")
        self._files: list[FileBelow] = []
        self._gathered: dict[FileBelow, Gathered] = {}

    def look(self) -> list[tuple[str, int, int]]:
        """Find the run's files again; return the name, size and time of each.

        Raises:
            InputError: there are no files that can be read.
        """
        if not self.place.folder:
            return [(self.place.shown, self.place.size, self.place.changed_ns)]
        folder = self.place.path
        try:
            found = find_run_files(
                [folder], allowed=lambda path: file_below(path, self._roots) is not None
            )
        except InputError:  # its message has names as they are
            found = None
        if found is None:
            raise InputError(
                f"{self.place.shown} has no recording of a rank that can be opened, or far more"
                " files than a run has; name the folder that the ranks are in."
            )
        files, skipped = [], list(found.skipped)
        self._files = []
        for file in found.files:
            shown = quoted(visible(file.source))
            below = file_below(file.path, self._roots, shown)
            if below is None or below.folder:  # it was replaced by a link or folder meanwhile
                skipped.append(Skipped(file.path, NOT_ALLOWED))
                continue
            host = quoted(visible(file.name.host))
            files.append(RunFile(file.path, shown, replace(file.name, host=host)))
            self._files.append(below)
        self._inputs = RunInputs(tuple(files), tuple(skipped), "")
        self._gathered = {
            below: self._gathered[below] for below in self._files if below in self._gathered
        }
        return [(each.shown, each.size, each.changed_ns) for each in self._files]

    def load(self, layout: str | None, progress: Progress) -> LoadedRun:
        """Read the files that were not read yet, and compare all ranks.

        Raises:
            SnapreportError: the layout is for another number of ranks; the zip is damaged, not of
                a run, or cannot be redacted.
        """
        if not self.place.folder:
            return self._from_zip(layout)
        outcomes = []
        for place, (file, below) in enumerate(
            zip(self._inputs.files, self._files, strict=True), start=1
        ):

            def report(what: str, fraction: float | None, place: int = place) -> None:
                progress(f"File {place:,} of {len(self._files):,}: {what}", fraction)

            outcomes.append(self._outcome(file, below, report))
        return put_together(self._inputs, outcomes, None, layout, self._names, named=False)

    def skipped(self) -> list[dict[str, str]]:
        """Return what was left out of the folder, and why."""
        left = self._inputs.skipped
        names = [
            "/".join(map(as_text, each.path.relative_to(self.place.path).parts)) for each in left
        ]
        if self._names.redacted:
            names = stand_ins_for(self._names)(names)
        else:
            names = [quoted(visible(name)) for name in names]
        return [
            {"file": name, "reason": each.reason} for name, each in zip(names, left, strict=True)
        ]

    def _outcome(self, file: RunFile, below: FileBelow, progress: Progress) -> Outcome:
        error = ""
        if below not in self._gathered:
            try:
                found = KeptRecording(below, self._names, progress).findings
                self._gathered[below] = gather(found)
            except SnapreportError as failure:
                error = str(failure).replace(str(file.path), file.source)
            except MemoryError:
                error = f"{file.source}: not enough memory for this file; free some, and ask again."
        return Outcome(file.path, None, error, gathered=self._gathered.get(below))

    def _from_zip(self, layout: str | None) -> LoadedRun:
        from snapreport.bundle.run_archive import is_run_bundle
        from snapreport.diagnosis.ranks.find_run import find_run

        with opened_below(self.place) as path:
            if not is_run_bundle(path):
                raise InputError(
                    f"{self.place.shown} is not a zip of a run; open says what is in a recording."
                )
            run: Run = _quoted(run_from_zip(path, None, layout, self._names).run)
        return LoadedRun(run, find_run(run))


def _quoted(value: Any) -> Any:
    """Return a run, or part of one, with strangers' sentences put in quotes."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, tuple):
        return tuple(map(_quoted, value))
    if is_dataclass(value) and not isinstance(value, type):
        own = {each.name: _quoted(getattr(value, each.name)) for each in fields(value)}
        return replace(value, **own)
    return value

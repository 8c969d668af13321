"""What is open in a process: a recording with its findings and tables, or the ranks of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
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
from snapreport.bundle import write_database
from snapreport.bundle.query import Database
from snapreport.commands.mcp_server.questions import FileBelow, file_below, opened_below
from snapreport.ground.errors import InputError, SnapreportError
from snapreport.ground.files import as_text, is_zip
from snapreport.ground.progress import Progress
from snapreport.ground.safe_text import visible
from snapreport.model.answers import QUERY_MEMORY, QUERY_SECONDS
from snapreport.model.asked import (
    NamesWanted,
)
from snapreport.model.run import Run
from snapreport.names.redaction import quote_names, quoted, renamed

if TYPE_CHECKING:
    from snapreport.api.device import Device
    from snapreport.model.findings import Findings


class KeptRecording:
    """An open recording: its findings and tables are computed once."""

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


class KeptRun:
    """The ranks in a folder, or the zip of a run.

    Their files are opened one at a time, and only their small figures are kept.
    """

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

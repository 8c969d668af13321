"""An open recording: its figures, findings and tables, each computed once."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from snapreport.api.loading import Snapshot, load_named
from snapreport.bundle import is_zip, write_database
from snapreport.bundle.query.sql_query import Database
from snapreport.ground.progress import Progress
from snapreport.mcp.opened.opening_below import FileBelow, opened_below
from snapreport.model.answer_tables import QUERY_MEMORY, QUERY_SECONDS
from snapreport.model.name_treatment import NamesWanted
from snapreport.names.quoted_strings import quote_names, renamed

if TYPE_CHECKING:
    from snapreport.api.device import Device
    from snapreport.model.findings import Findings


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

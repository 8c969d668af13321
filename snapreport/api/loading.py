"""Load a snapshot or bundle for the Python interface: ``load()`` and ``Snapshot``."""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snapreport.ground.cards import wanted_card
from snapreport.ground.errors import DeviceError
from snapreport.ground.files import is_zip, output_path, stem_of
from snapreport.ground.processes import collector_off
from snapreport.ground.progress import Progress, silent
from snapreport.ground.safe_text import visible
from snapreport.ground.stores import as_path
from snapreport.model.asked import (
    NamesWanted,
)
from snapreport.model.history import (
    DeviceHistory,
    History,
)
from snapreport.names.short_paths import shorten

if TYPE_CHECKING:
    from snapreport.api.device import Device
    from snapreport.bundle.query import Database, QueryProcess
    from snapreport.model.answers import Cell
    from snapreport.model.diagnoses import Diagnosis
    from snapreport.model.findings import DeviceFigures, Findings
    from snapreport.model.roles import Rule


PathLike = str | os.PathLike[str]


class Snapshot:
    """A loaded snapshot: its history as columns, and the conclusions drawn from it.

    In a notebook it shows a short summary. It no longer needs the file.
    """

    def __init__(self, history: History) -> None:
        """Wrap a history; ``load()`` is the usual way to get one."""
        self.history = history
        self._figures: dict[int, DeviceFigures] = {}
        self._diagnoses: dict[DeviceFigures, Diagnosis] = {}
        self._database: Database | None = None

    @property
    def devices(self) -> tuple[DeviceHistory, ...]:
        """The devices of the file: NumPy columns of allocations, events, segments and stages."""
        return self.history.devices

    def findings(
        self,
        device: str | int | None = None,
        title: str | None = None,
        notes: str = "",
        rules: Sequence[Rule] | None = None,
        colour: str | None = None,
        ignore: Sequence[str] = (),
        card: str | None = None,
        allow: int | str | None = None,
        allocator: bool | None = None,
        progress: Progress = silent,
    ) -> Findings:
        """Return peaks, call trees, call sites, stages, and the diagnosis.

        Args:
            device: only this one, ``1``, ``"1"``, ``"cuda:1"`` or ``"cpu"``; None for all.
            title: of a report; the file's name if None.
            notes: the user's Markdown, shown at the top of a report.
            rules: for categories, as from ``load_rules()``; None for the built-in ones.
            colour: what a page's timeline is coloured by at first: ``site``, ``category``,
                ``role``, ``stage`` or ``context``; None for roles where most are known, else call
                sites.
            ignore: findings to leave out, by id, code or topic.
            card: say for every GPU whether its recording fits on this card: ``h100-80``, or a
                size such as ``24GB``.
            allow: the part of it that PyTorch's allocator cannot use, in bytes or as text,
                ``2GiB``; None for what was measured while recording, else the usual amount.
            allocator: compare settings of PyTorch's allocator, as ``Device.other_settings()``
                does; False compares only if that is quick, None never.
            progress: called with what is being done.

        Raises:
            DeviceError: the file has no such device.
            CardError: there is no such card, or ``allow`` is not a size.
        """
        from snapreport.diagnosis.conclude import find, find_figures

        wanted = wanted_card(card, allow)
        places: Sequence[int] = range(len(self.history.devices))
        if device is not None:
            places = [_find_device(self.history, str(device))]
        figures = [
            self._figures_of(place) if rules is None else find_figures(self.history, place, rules)
            for place in places
        ]
        return find(
            self.history, figures, title or "", notes, colour, ignore, wanted, allocator, progress,
            self._diagnoses if rules is None else None,
        )  # fmt: skip

    def figures(self) -> list[DeviceFigures]:
        """Return the figures of every device: what ``findings()`` has without a diagnosis."""
        return [self._figures_of(place) for place in range(len(self.history.devices))]

    def _figures_of(self, place: int) -> DeviceFigures:
        from snapreport.diagnosis.conclude import find_figures

        if place not in self._figures:
            self._figures[place] = find_figures(self.history, place)
        return self._figures[place]

    def device(self, device: str | int | None = None) -> Device:
        """Return one device: its peaks and curves, and what was live on it at any moment.

        Args:
            device: ``1``, ``"1"``, ``"cuda:1"`` or ``"cpu"``; None for the one that a report
                opens with.

        Raises:
            DeviceError: the file has no such device, or none at all.
        """
        from snapreport.api.device import Device

        if device is None and self.history.devices:
            chosen = self.history.default_device
        else:
            chosen = _find_device(self.history, str(0 if device is None else device))
        return Device(self.history, self._figures_of(chosen), self._diagnoses)

    def query(self, sql: str) -> list[dict[str, Cell]]:
        """Return the rows of an SQL query over the tables of a bundle's ``elements.db``.

        Args:
            sql: one read-only statement; ``SELECT name, sql FROM sqlite_schema`` lists the tables.

        Returns:
            a dict for each row, with the column names as keys.

        Raises:
            QueryError: the statement would write, or SQLite rejects it.
        """
        from snapreport.bundle.query import Database, ask_once

        if self._database is None:
            from snapreport.bundle import write_database

            self._database = Database(write_database(self.history))
        try:
            return ask_once(self._database, sql)
        except KeyboardInterrupt:
            self._database = None  # it may be in the middle of a step
            raise

    def __repr__(self) -> str:
        names = ", ".join(str(device.device) for device in self.devices)
        return visible(f"<Snapshot of {self.history.source.name}: {names or 'no device'}>")

    def _repr_html_(self) -> str:
        from snapreport.reporters.html import fragment
        from snapreport.reporters.summary import TERMINAL, summary_document

        return fragment(summary_document(self.findings(), TERMINAL))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the summary as text when IPython runs in a terminal."""
        from snapreport.reporters.summary import TERMINAL, summary_document
        from snapreport.reporters.text import Page, terminal_width

        page = Page(terminal_width())
        page.write(summary_document(self.findings(), TERMINAL))
        printer.text("..." if cycle else page.render().decode())


def load(
    path: PathLike,
    *,
    keep_paths: bool = False,
    redact: bool = False,
    redact_functions: bool = False,
    salt: str | None = None,
    progress: Progress = silent,
) -> Snapshot:
    """Load a snapshot or a bundle.

    Args:
        path: a pickle (also gzip or zstd), JSON of the same shape, or a bundle, recognized by
            its first bytes. Nothing in a pickle is run.
        keep_paths: keep file names and paths as recorded; otherwise each is shortened as far as
            it stays unique, and home folders are ``~``. Paths shortened in a bundle stay short.
        redact: replace whatever could name a user, a host or a project by stand-ins.
        redact_functions: replace names of functions that no known package defines, too.
        salt: a secret that gives equal names equal stand-ins across files; None for a random
            one, which is not kept.
        progress: called with what is being done.

    Raises:
        SnapreportError: one of its subclasses, each with a message of one line that names the
            file, what is wrong and what to do next.
        ValueError: both ``keep_paths`` and ``redact`` are set, or the salt is empty.
    """
    names = NamesWanted(keep_paths, redact, redact_functions, salt)
    return load_named(as_path(path), names, progress)


def load_named(source: Path, names: NamesWanted, progress: Progress = silent) -> Snapshot:
    """Load a snapshot or a bundle; raises as ``load()``."""
    # Only here: neither kind of file needs what reads the other.
    if is_zip(source):
        from snapreport.bundle import read_bundle

        with collector_off():
            history = read_bundle(source, progress)
    else:
        from snapreport.history.build import build_history
        from snapreport.read import read_snapshot

        history = build_history(read_snapshot(source, progress), progress)
    if names.redacted:
        from snapreport.names.redaction import redact

        return Snapshot(redact(history, names))
    return Snapshot(history if names.keep_paths else shorten(history))


def loaded(given: PathLike | Snapshot, keep_paths: bool, progress: Progress) -> Snapshot:
    """Return a ``Snapshot`` unchanged, or load a file."""
    if isinstance(given, Snapshot):
        return given
    return load(given, keep_paths=keep_paths, progress=progress)


def target_path(source: Path, output: Path | None, ending: str, names: NamesWanted) -> Path:
    """Return where to write what is made from a file; raises as ``output_path()``.

    Args:
        source: the input file.
        output: the file to write, an existing folder to write into, or None for the current one.
        ending: the extension if the output is named after the input, with its dot.
        names: how names are treated; with redaction that name gets stand-ins, too.
    """
    stem = redacted_names([stem_of(source.name)], names.salt)[0] if names.redacted else ""
    return output_path(source, output, ending, stem)


def redacted_names(names: Sequence[str], salt: str | None) -> list[str]:
    """Return stand-ins for the names of files; numbers and words such as ``rank`` stay.

    Args:
        names: without their extensions.
        salt: as in ``load()``.
    """
    from snapreport.names.redaction import StandIns, redact_name

    stand_ins = StandIns(salt)
    return [redact_name(name, stand_ins) for name in names]


def read_tables(path: PathLike, *, keep_paths: bool = False, progress: Progress = silent) -> bytes:
    """Return the ``elements.db`` of a bundle, or of the bundle that a snapshot would give.

    Args:
        path: a bundle or a snapshot.
        keep_paths: as in ``load()``; a bundle is read as it is.
        progress: called with what is being done.

    Raises:
        SnapreportError: as ``load()``.
    """
    from snapreport.bundle import read_elements, write_database

    source = as_path(path)
    if is_zip(source):
        return read_elements(source)
    return write_database(load_named(source, NamesWanted(keep_paths), progress).history)


def open_database(
    path: PathLike,
    data: bytes | None = None,
    *,
    seconds: float | None = None,
    memory: int | None = None,
) -> QueryProcess:
    """Open the tables of a bundle or snapshot for SQL.

    SQLite runs in a process of its own, which is ended if a statement takes too long. The caller
    has to close the returned object.

    Args:
        path: a bundle or a snapshot.
        data: what ``read_tables()`` returned for it; None to read it now.
        seconds: the longest that SQLite may work on one statement; None for no limit.
        memory: the most bytes that SQLite may use; None for no limit.

    Raises:
        SnapreportError: as ``load()``.
    """
    from snapreport.bundle.query import QueryProcess

    data = read_tables(path) if data is None else data
    return QueryProcess(data, str(as_path(path)), seconds=seconds, memory=memory)


def load_rules(source: str) -> tuple[Rule, ...]:
    """Read rules for categories: the first that matches a frame of a call stack wins.

    Args:
        source: a JSON or YAML file, or the JSON or YAML itself when it begins with ``{`` or
            ``[``: ``{"attention": "attn|attention"}`` looks in function and file names; a list
            has entries with ``category`` and ``function``, ``file`` or ``pattern`` (either).

    Raises:
        InputError: the file cannot be read.
        PatternError: a rule is malformed; the message names it.
    """
    from snapreport.read.source import read_rules

    return read_rules(source)


def _find_device(history: History, wanted: str) -> int:
    names = [str(device.device) for device in history.devices]
    kinds = [device.device.kind for device in history.devices]
    for spelling in (wanted, f"cuda:{wanted}", f"{wanted}:0"):
        if spelling in names:
            return names.index(spelling)
    if kinds.count(wanted) == 1:
        return kinds.index(wanted)
    raise DeviceError(
        f"{history.source.name} has no device {wanted!r}; it has {', '.join(names) or 'none'}."
    )


# A finished ``torch.profiler`` run as a snapshot: ``from_profile()``.


def from_profile(
    profile: Any, *, name: str = "torch.profiler", keep_paths: bool = False
) -> Snapshot:
    """Return the memory in a finished profile as a ``Snapshot``.

    Args:
        profile: of ``torch.profiler.profile(profile_memory=True, with_stack=True)``, after its
            ``with`` block. With ``record_shapes=True`` the gradients of every step are exact.
        name: shown in reports instead of a file name.
        keep_paths: as in ``load()``.

    Raises:
        RecordingError: it is not a profile, is not finished, or recorded no memory.
    """
    from snapreport.history.build import build_history
    from snapreport.read import read_bytes
    from snapreport.recorders.profiler import profile_to_snapshot

    with collector_off():
        # Through the bytes of a file, so that profiles and files share all checks.
        data = pickle.dumps(profile_to_snapshot(profile), protocol=4)
    history = build_history(read_bytes(data, name))
    return Snapshot(history if keep_paths else shorten(history))

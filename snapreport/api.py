"""Load, convert and render: the one module that joins the rooms."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from snapreport.analyse import build_history, find_warnings, shorten
from snapreport.bundle import is_zip, read_bundle, read_elements, write_bundle, write_database
from snapreport.collector import collector_off
from snapreport.errors import BundleError, DeviceError, QueryError
from snapreport.files import check_output, output_path, report_format, write_atomically
from snapreport.model.cut import Cut, Drawn, Picture, make_cut, parse_size
from snapreport.model.history import DeviceHistory, History
from snapreport.progress import Progress, silent
from snapreport.read import read_snapshot

if TYPE_CHECKING:
    from snapreport.bundle.query import Database as Database  # commands name the type
    from snapreport.device import Device
    from snapreport.model.answers import Cell
    from snapreport.model.findings import Findings
    from snapreport.model.rules import Rule
    from snapreport.reporters.reporter import Reporter

PathLike = str | os.PathLike[str]


class Snapshot:
    """A loaded snapshot: its history as columns, and the conclusions drawn from it.

    In a notebook it shows a short summary. Nothing in it refers to the file any more.
    """

    def __init__(self, history: History) -> None:
        """Wrap a history; ``load()`` is the usual way to one."""
        self.history = history
        self._findings: Findings | None = None
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
        colour: str = "site",
        ignore: Sequence[str] = (),
    ) -> Findings:
        """Return peaks, call trees, call sites, stages, and the diagnosis.

        Args:
            device: only this one, ``1``, ``"1"``, ``"cuda:1"`` or ``"cpu"``; None for all.
            title: of a report; the file's name if None.
            notes: the user's Markdown, to be put on top of a report.
            rules: for categories, as from ``load_rules()``; None for our own.
            colour: what a page's timeline is coloured by at first: ``site``, ``category``,
                ``stage`` or ``context``.
            ignore: findings to leave out, by id, code or topic.

        Raises:
            DeviceError: the file has no such device.
        """
        from snapreport.analyse.find import find

        plain = title is None and not notes and rules is None and colour == "site" and not ignore
        if device is None and plain:
            if self._findings is None:
                self._findings = find(self.history)
            return self._findings
        chosen = None if device is None else [_find_device(self.history, str(device))]
        return find(self.history, chosen, title or "", notes, rules, colour, ignore)

    def device(self, device: str | int | None = None) -> Device:
        """Return one device: its peaks and curves, and what was live on it at any moment.

        Args:
            device: ``1``, ``"1"``, ``"cuda:1"`` or ``"cpu"``; None for the one that a report
                opens with.

        Raises:
            DeviceError: the file has no such device, or none at all.
        """
        from snapreport.device import Device

        if device is None and self.history.devices:
            chosen = self.history.default_device
        else:
            chosen = _find_device(self.history, str(0 if device is None else device))
        return Device(self.history, self.findings().devices[chosen])

    def query(self, sql: str) -> list[dict[str, Cell]]:
        """Return what an SQL query gives over the tables of a bundle's ``elements.db``.

        Args:
            sql: one statement that reads; ``SELECT name, sql FROM sqlite_schema`` lists the tables.

        Returns:
            a dict for each row, by the names of the columns.

        Raises:
            QueryError: it would write, or SQLite does not understand it.
        """
        if self._database is None:
            from snapreport.bundle.query import Database

            self._database = Database(write_database(self.history))
        answers = self._database.run(sql)
        answer = next(answers, None)
        rows: list[dict[str, Cell]] = []
        if answer is not None:
            rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
        if next(answers, None) is not None:
            raise QueryError("A query is one statement, and this has several.")
        return rows

    def __repr__(self) -> str:
        names = ", ".join(str(device.device) for device in self.devices)
        return f"<Snapshot of {self.history.source.name}: {names or 'no device'}>"

    def _repr_html_(self) -> str:
        from snapreport.reporters.notebook import notebook_summary

        return notebook_summary(self.findings())


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
        path: a pickle (also gzip or zstd), JSON of the same shape, or a bundle. What it is, is
            told by its first bytes. Nothing in a pickle is run.
        keep_paths: file names and paths as the file has them; else each is as short as tells
            which file it is, and homes are ``~``. What a bundle has no more stays away.
        redact: put stand-ins for whatever could name a user, a host or a project.
        redact_functions: likewise for the names of the project's functions.
        salt: a secret that gives equal names equal stand-ins in several files; None for a
            random one, which nobody knows.
        progress: called with what is being done.

    Raises:
        SnapreportError: one of its children, each with a message of one line that names the
            file, what is wrong and what to do next.
        ValueError: paths cannot be kept in what is redacted.
    """
    if keep_paths and (redact or redact_functions):
        raise ValueError("keep_paths and redact contradict each other")
    source = Path(path)
    if is_zip(source):
        with collector_off():
            history = read_bundle(source, progress)
    else:
        history = build_history(read_snapshot(source, progress), progress)
    if redact or redact_functions:
        from snapreport.analyse.redact import redact as redact_names

        return Snapshot(redact_names(history, functions=redact_functions, salt=salt))
    return Snapshot(history if keep_paths else shorten(history))


def open_database(
    path: PathLike,
    *,
    keep_paths: bool = False,
    seconds: float | None = None,
    memory: int | None = None,
    progress: Progress = silent,
) -> Database:
    """Open the tables of a bundle, or those that a snapshot would give, to be asked in SQL.

    Args:
        path: a bundle or a snapshot.
        keep_paths: as in ``load()``; a bundle is asked as it is.
        seconds: the most that SQLite may work on one statement; None for no limit.
        memory: the most bytes that SQLite may use in this process; None for no limit.
        progress: called with what is being done.

    Raises:
        SnapreportError: as ``load()``.
    """
    source = Path(path)
    if is_zip(source):
        data = read_elements(source)
    else:
        data = write_database(load(source, keep_paths=keep_paths, progress=progress).history)
    try:
        from snapreport.bundle.query import Database

        return Database(data, seconds=seconds, memory=memory)
    except BundleError as error:
        raise BundleError(f"{source} {error}") from error.__cause__


def load_rules(source: str) -> tuple[Rule, ...]:
    """Read rules for categories: the first that fits one frame of a call stack wins.

    Args:
        source: a JSON or YAML file, or the JSON or YAML itself when it begins with ``{`` or
            ``[``: ``{"attention": "attn|attention"}`` looks in function and file names; a list
            has entries with ``category`` and ``function``, ``file`` or ``pattern`` (either).

    Raises:
        InputError: the file cannot be read.
        PatternError: a rule is not well-formed; the message names it.
    """
    from snapreport.read.rules import read_rules

    return read_rules(source)


def convert(
    path: PathLike,
    output: PathLike | None = None,
    *,
    from_: int | str | None = None,
    to: int | str | None = None,
    min_size: int | str | None = None,
    keep_paths: bool = False,
    redact: bool = False,
    redact_functions: bool = False,
    salt: str | None = None,
    force: bool = False,
    progress: Progress = silent,
) -> Path:
    """Convert a snapshot into a bundle, and return the bundle's path.

    Args:
        path: the snapshot.
        output: the bundle to write; by default named after the snapshot, in the current folder.
        from_: the first step that ``allocations.json`` draws, and later a page of the bundle: a
            number, or a time after the first event such as ``"1.5s"``. ``elements.db`` is whole
            in any case, and so is every figure.
        to: the last step, likewise.
        min_size: allocations of fewer requested bytes are not drawn one by one; ``"1MiB"``, or
            bytes.
        keep_paths, redact, redact_functions, salt: what becomes of names, as in ``load()``.
        force: replace an existing file.
        progress: called with what is being done.

    Raises:
        SnapreportError: as ``load()``, and CutError, OutputExistsError or OutputError.
    """
    bundle, _ = convert_and_warn(
        path,
        output,
        from_=from_,
        to=to,
        min_size=min_size,
        keep_paths=keep_paths,
        redact=redact,
        redact_functions=redact_functions,
        salt=salt,
        force=force,
        progress=progress,
    )
    return bundle


def convert_and_warn(
    path: PathLike,
    output: PathLike | None = None,
    *,
    from_: int | str | None = None,
    to: int | str | None = None,
    min_size: int | str | None = None,
    keep_paths: bool = False,
    redact: bool = False,
    redact_functions: bool = False,
    salt: str | None = None,
    force: bool = False,
    progress: Progress = silent,
) -> tuple[Path, list[str]]:
    """Do as ``convert()``, and return also what to warn of, a line each.

    The manifest holds more: what is merely good to know, and the explanations.
    """
    source = Path(path)
    cut = make_cut(from_, to, min_size)
    target = output_path(source, None if output is None else Path(output), ".zip")
    check_output(target, force)
    if is_zip(source):
        raise BundleError(f"{source} is a zip, not a snapshot; a bundle needs no converting.")
    with collector_off():
        loaded = load(
            source,
            keep_paths=keep_paths,
            redact=redact,
            redact_functions=redact_functions,
            salt=salt,
            progress=progress,
        )
        if cut is not None:
            loaded = Snapshot(replace(loaded.history, cut=cut))
        return target, save_bundle(loaded, target, force=force, progress=progress)


def save_bundle(
    snapshot: Snapshot, target: Path, *, force: bool = False, progress: Progress = silent
) -> list[str]:
    """Write a loaded snapshot as a bundle, and return the titles of its warnings.

    Raises:
        SnapreportError: OutputExistsError or OutputError.
    """
    with collector_off():
        found = find_warnings(snapshot.history)
        warnings = [{"code": each.code, "text": each.paragraph} for each in found]
        drawn = _drawn_devices(snapshot)
        with write_atomically(target, force) as out:
            write_bundle(snapshot.history, out, warnings, progress, drawn)
    return [each.title for each in found if each.severity != "note"]


def render(
    path: PathLike,
    output: PathLike | None = None,
    *,
    format: str | None = None,  # noqa: A002  (the word that callers know)
    device: str | int | None = None,
    title: str | None = None,
    notes: str | None = None,
    rules: Sequence[Rule] | None = None,
    colour: str = "site",
    ignore: Sequence[str] = (),
    from_: int | str | None = None,
    to: int | str | None = None,
    min_size: int | str | None = None,
    fit: int | str | None = None,
    keep_paths: bool = False,
    redact: bool = False,
    redact_functions: bool = False,
    salt: str | None = None,
    force: bool = False,
    progress: Progress = silent,
    see: Callable[[Findings], None] | None = None,
) -> Path:
    """Render a snapshot or bundle as a report, and return the report's path.

    Args:
        path: a snapshot or a bundle.
        output: the file to write; by default named after the input, in the current folder.
        format: ``html`` or ``md``; by default told by the ending of ``output``, else ``html``.
        device: report on this one alone.
        title: of the report; by default the source's name.
        notes: Markdown to put on top of the report.
        rules: for categories, as from ``load_rules()``; None for our own.
        colour: what the page's timeline is coloured by at first: ``site``, ``category``,
            ``stage`` or ``context``.
        ignore: findings to leave out, by id, code or topic.
        from_: the first step that a page draws allocation by allocation: a number, or a time after
            the first event such as ``"1.5s"``. What is not drawn so is drawn as one band, its sum;
            no figure changes. This and the next two, if none is given, are those of the bundle.
        to: the last step, likewise.
        min_size: allocations of fewer requested bytes are not drawn one by one; ``"1MiB"``, or
            bytes.
        fit: the most bytes that the report may have, ``"25MB"`` or a number; a page is thinned
            until it does, and says how.
        keep_paths, redact, redact_functions, salt: what becomes of names, as in ``load()``.
        force: replace an existing file.
        progress: called with what is being done.
        see: called with the findings once the report is written.

    Raises:
        SnapreportError: as ``load()``, and CutError, DeviceError, OutputExistsError or
            OutputError.
        ValueError: ``format`` is none of the two.
    """
    source = Path(path)
    wanted = None if output is None else Path(output)
    kind = format or report_format(wanted)
    target = output_path(source, wanted, f".{kind}")
    check_output(target, force)
    _reporter(kind)  # fails before any work is done
    cut, most = make_cut(from_, to, min_size), None if fit is None else parse_size(fit)
    snapshot = load(
        source,
        keep_paths=keep_paths,
        redact=redact,
        redact_functions=redact_functions,
        salt=salt,
        progress=progress,
    )
    findings = snapshot.findings(device, title, notes or "", rules, colour, ignore)
    progress("Rendering", None)
    save_report(findings, target, kind, cut=cut or snapshot.history.cut, fit=most, force=force)
    if see is not None:
        see(findings)
    return target


def save_report(
    findings: Findings,
    target: Path,
    kind: str,
    *,
    cut: Cut | None = None,
    fit: int | None = None,
    force: bool = False,
) -> None:
    """Write findings as a report, ``html`` or ``md``.

    Raises:
        SnapreportError: CutError, OutputExistsError or OutputError.
        ValueError: there is no such kind.
    """
    reporter = _reporter(kind)
    with write_atomically(target, force) as out:
        if cut is None and fit is None:
            reporter.render(findings, out)
        else:
            _render_cut(reporter, findings, out, kind, cut, fit)


def _render_cut(
    reporter: Reporter,
    findings: Findings,
    out: BinaryIO,
    kind: str,
    cut: Cut | None,
    fit: int | None,
) -> None:
    from snapreport.analyse.cuts import Cutter, Thinning
    from snapreport.reporters.fitting import render_to_fit

    cutter = Cutter(findings.devices, cut)

    def draw(thinning: Thinning) -> Findings:
        if cutter.cut.nothing and thinning == Thinning():
            return findings
        picture = Picture(cutter.cut, fit, cutter.drawn(thinning))
        return replace(findings, picture=picture)

    if fit is None:
        reporter.render(draw(Thinning()), out)
        return
    # Only a page draws, so only it can be thinned.
    levels = cutter.levels()[: None if kind == "html" else 1]
    out.write(
        render_to_fit(reporter, fit, levels, draw, lambda level, n: replace(level, allocations=n))
    )


def _drawn_devices(snapshot: Snapshot) -> tuple[Drawn, ...] | None:
    cut = snapshot.history.cut
    if cut is None or cut.nothing:
        return None
    from snapreport.analyse.cuts import Cutter

    return Cutter(snapshot.findings().devices, cut).drawn()


def _reporter(kind: str) -> Reporter:
    if kind == "html":
        from snapreport.reporters.html import HtmlReporter

        return HtmlReporter()
    if kind == "md":
        from snapreport.reporters.markdown import MarkdownReporter

        return MarkdownReporter()
    raise ValueError(f"format is {kind!r}, not 'html' or 'md'")


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

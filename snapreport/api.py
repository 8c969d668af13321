"""Load, convert and render: the one module that joins the rooms."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from snapreport.analyse import build_history, find_warnings
from snapreport.bundle import is_zip, read_bundle, write_bundle
from snapreport.collector import collector_off
from snapreport.errors import BundleError, DeviceError
from snapreport.files import check_output, output_path, report_format, write_atomically
from snapreport.model.history import DeviceHistory, History
from snapreport.progress import Progress, silent
from snapreport.read import read_snapshot

if TYPE_CHECKING:
    from snapreport.model.findings import DeviceFindings, Findings
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

    @property
    def devices(self) -> tuple[DeviceHistory, ...]:
        """The devices of the file: NumPy columns of allocations, events, segments and stages."""
        return self.history.devices

    def findings(
        self, device: str | int | None = None, title: str | None = None, notes: str = ""
    ) -> Findings:
        """Return peaks, call trees, call sites, stages and warnings.

        Args:
            device: only this one, ``1``, ``"1"``, ``"cuda:1"`` or ``"cpu"``; None for all.
            title: of a report; the file's name if None.
            notes: the user's Markdown, to be put on top of a report.

        Raises:
            DeviceError: the file has no such device.
        """
        from snapreport.analyse.find import find

        if device is None and title is None and not notes:
            if self._findings is None:
                self._findings = find(self.history)
            return self._findings
        chosen = None if device is None else [_find_device(self.history, str(device))]
        return find(self.history, chosen, title or "", notes)

    def device(self, device: str | int) -> DeviceFindings:
        """Return the conclusions about one device.

        Raises:
            DeviceError: the file has no such device.
        """
        return self.findings().devices[_find_device(self.history, str(device))]

    def __repr__(self) -> str:
        names = ", ".join(str(device.device) for device in self.devices)
        return f"<Snapshot of {self.history.source.name}: {names or 'no device'}>"

    def _repr_html_(self) -> str:
        from snapreport.reporters.notebook import notebook_summary

        return notebook_summary(self.findings())


def load(path: PathLike, *, progress: Progress = silent) -> Snapshot:
    """Load a snapshot or a bundle.

    Args:
        path: a pickle (also gzip or zstd), JSON of the same shape, or a bundle. What it is, is
            told by its first bytes. Nothing in a pickle is run.
        progress: called with what is being done.

    Raises:
        SnapreportError: one of its children, each with a message of one line that names the
            file, what is wrong and what to do next.
    """
    source = Path(path)
    if is_zip(source):
        with collector_off():
            return Snapshot(read_bundle(source, progress))
    return Snapshot(build_history(read_snapshot(source, progress), progress))


def convert(
    path: PathLike,
    output: PathLike | None = None,
    *,
    force: bool = False,
    progress: Progress = silent,
) -> Path:
    """Convert a snapshot into a bundle, and return the bundle's path.

    Args:
        path: the snapshot.
        output: the bundle to write; by default named after the snapshot, in the current folder.
        force: replace an existing file.
        progress: called with what is being done.

    Raises:
        SnapreportError: as ``load()``, and OutputExistsError or OutputError.
    """
    return convert_and_warn(path, output, force=force, progress=progress)[0]


def convert_and_warn(
    path: PathLike,
    output: PathLike | None = None,
    *,
    force: bool = False,
    progress: Progress = silent,
) -> tuple[Path, list[str]]:
    """Do as ``convert()``, and return also the warnings that the manifest holds."""
    source = Path(path)
    target = output_path(source, None if output is None else Path(output), ".zip")
    check_output(target, force)
    if is_zip(source):
        raise BundleError(f"{source} is a zip, not a snapshot; a bundle needs no converting.")
    with collector_off():
        history = load(source, progress=progress).history
        warnings = [{"code": each.code, "text": each.text} for each in find_warnings(history)]
        with write_atomically(target, force) as out:
            write_bundle(history, out, warnings, progress)
    return target, [each["text"] for each in warnings]


def render(
    path: PathLike,
    output: PathLike | None = None,
    *,
    format: str | None = None,  # noqa: A002  (the word that callers know)
    device: str | int | None = None,
    title: str | None = None,
    notes: str | None = None,
    force: bool = False,
    progress: Progress = silent,
) -> Path:
    """Render a snapshot or bundle as a report, and return the report's path.

    Args:
        path: a snapshot or a bundle.
        output: the file to write; by default named after the input, in the current folder.
        format: ``html`` or ``md``; by default told by the ending of ``output``, else ``html``.
        device: report on this one alone.
        title: of the report; by default the source's name.
        notes: Markdown to put on top of the report.
        force: replace an existing file.
        progress: called with what is being done.

    Raises:
        SnapreportError: as ``load()``, and DeviceError, OutputExistsError or OutputError.
        ValueError: ``format`` is none of the two.
    """
    source = Path(path)
    wanted = None if output is None else Path(output)
    kind = format or report_format(wanted)
    target = output_path(source, wanted, f".{kind}")
    check_output(target, force)
    reporter = _reporter(kind)
    findings = load(source, progress=progress).findings(device, title, notes or "")
    progress("Rendering", None)
    with write_atomically(target, force) as out:
        reporter.render(findings, out)
    return target


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

"""Convert a snapshot into a bundle, and render either as a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from snapreport.api.loading import PathLike, Snapshot, load_named, target_path
from snapreport.bundle import read_manifest, write_bundle
from snapreport.diagnosis.recording_warnings import find_warnings
from snapreport.figures.thinning import Cutter, Thinning
from snapreport.ground.cards import wanted_card
from snapreport.ground.errors import BundleError, CutError, SnapreportError
from snapreport.ground.files import check_output, is_zip, report_format, sha256_of, write_atomically
from snapreport.ground.processes import collector_off
from snapreport.ground.progress import Progress, silent
from snapreport.ground.stores import as_path
from snapreport.ground.units import format_bytes, format_count
from snapreport.ground.version import __version__
from snapreport.model.asked import (
    Cut,
    NamesWanted,
    cut_size,
    make_cut,
)
from snapreport.model.findings import Findings
from snapreport.model.history import (
    Picture,
)

if TYPE_CHECKING:
    from snapreport.model.roles import Rule


Writer: TypeAlias = "Callable[[Findings, BinaryIO], None]"

# Reports that do not draw everything: cut to a range, or thinned to fit a size.


MOST_TRIES = 8
"""Steps of the bisection for how many allocations to leave out: precise to one in 256."""


def render_cut(
    write: Writer,
    findings: Findings,
    cut: Cut | None,
    fit: int | None,
    *,
    draws: bool,
) -> bytes:
    """Render with a cut, and with the least thinning that brings the report to ``fit`` bytes.

    Args:
        write: writes the report.
        findings: all of them.
        cut: what is drawn; None for everything.
        fit: the most bytes that the report may have; None for no limit.
        draws: whether the report draws at all: only then can it be thinned.

    Raises:
        CutError: it is larger even with the most thinning; the message says how large.
    """
    cutter = Cutter(findings.devices, cut)

    def made(thinning: Thinning) -> bytes:
        drawn = findings
        if not cutter.cut.nothing or thinning != Thinning():
            drawn = replace(findings, picture=Picture(cutter.cut, fit, cutter.drawn(thinning)))
        out = BytesIO()
        write(drawn, out)
        return out.getvalue()

    if fit is None:
        return made(Thinning())
    sizes = []
    for most in cutter.levels()[: None if draws else 1]:
        page = made(most)
        sizes.append(len(page))
        if len(page) > fit:
            continue
        few, many = min(1, most.allocations), most.allocations
        for _ in range(MOST_TRIES):
            if many - few <= 1:
                break
            middle = (few + many) // 2
            smaller = made(replace(most, allocations=middle))
            if len(smaller) <= fit:
                page, many = smaller, middle
            else:
                few = middle
        return page
    raise _too_large(sizes, fit)


def _too_large(sizes: Sequence[int], fit: int) -> CutError:
    # Rounded up: a page names its limit, so its own size depends on the limit a little.
    enough = (min(sizes) + 100 + 999) // 1000 * 1000
    return CutError(
        f"the report cannot be made to fit {format_count(fit)} bytes; it can be made to fit"
        f" {format_count(enough)} ({format_bytes(enough)}): --fit {enough}."
    )


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
    see: Callable[[list[str]], None] | None = None,
) -> Path:
    """Convert a snapshot into a bundle, and return the bundle's path.

    Args:
        path: the snapshot.
        output: the bundle to write; by default named after the snapshot, in the current folder,
            with stand-ins in the name if it is redacted.
        from_: the first event drawn in ``allocations.json``, and on pages made from the bundle: a
            number, or a time after the first event such as ``"1.5s"``. ``elements.db`` and all
            figures are complete in any case.
        to: the last event drawn, in the same form.
        min_size: allocations of fewer requested bytes are not drawn one by one; ``"1MiB"``, or
            bytes.
        keep_paths, redact, redact_functions, salt: how names are treated, as in ``load()``.
        force: replace an existing file.
        progress: called with what is being done.
        see: called with the warnings, a line each, once the bundle is written; its manifest has
            them in full.

    Raises:
        SnapreportError: as ``load()``, and CutError, OutputExistsError or OutputError.
    """
    source = as_path(path)
    cut = make_cut(from_, to, min_size)
    names = NamesWanted(keep_paths, redact, redact_functions, salt)
    target = target_path(source, None if output is None else as_path(output), ".zip", names)
    check_output(target, force)
    if is_zip(source):
        read_manifest(source)
        raise BundleError(f"{source} is a bundle already; it needs no converting.")
    with collector_off():
        loaded = load_named(source, names, progress)
        if cut is not None:
            loaded = Snapshot(replace(loaded.history, cut=cut))
        warnings = save_bundle(loaded, target, force=force, progress=progress, sources=[source])
    if see is not None:
        see(warnings)
    return target


def is_converted(source: Path, target: Path) -> bool:
    """Say whether a complete bundle of exactly this file exists, made by this version.

    The snapshot's SHA-256 is compared, so all of it is read, but not parsed. A bundle with a cut
    does not count. The manifest does not say whether the bundle has full paths.
    """
    try:
        if not is_zip(target):
            return False
        manifest = read_manifest(target)
        made_of = manifest["source"]
        if manifest["snapreport"] != __version__ or any(
            "cut" in each for each in manifest["devices"]
        ):
            return False
        same = source.stat().st_size == made_of["size"]
        return bool(same and sha256_of(source) == made_of["sha256"])
    except (SnapreportError, OSError, LookupError, TypeError):
        return False


def save_bundle(
    snapshot: Snapshot,
    target: Path,
    *,
    force: bool = False,
    progress: Progress = silent,
    sources: Sequence[Path] = (),
) -> list[str]:
    """Write a loaded snapshot as a bundle, and return the titles of its warnings.

    The files that it was loaded from, if any, are ``sources``, as in ``write_atomically()``.

    Raises:
        SnapreportError: OutputExistsError or OutputError.
    """
    with collector_off():
        found = find_warnings(snapshot.history)
        warnings = [{"code": each.code, "text": each.paragraph} for each in found]
        cut, drawn = snapshot.history.cut, None
        if cut is not None and not cut.nothing:
            drawn = Cutter(snapshot.figures(), cut).drawn()
        with write_atomically(target, force, sources) as out:
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
    colour: str | None = None,
    ignore: Sequence[str] = (),
    card: str | None = None,
    allow: int | str | None = None,
    allocator: bool | None = False,
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
        output: the file to write; by default named after the input, in the current folder,
            with stand-ins in the name if it is redacted.
        format: ``html`` or ``md``; by default from the extension of ``output``, else ``html``.
        device: report only on this one.
        title: of the report; by default the source's name.
        notes: Markdown to show at the top of the report.
        rules: for categories, as from ``load_rules()``; None for the built-in ones.
        colour: what the page's timeline is coloured by at first: ``site``, ``category``,
            ``role``, ``stage`` or ``context``; None for roles where most are known, else call
            sites.
        ignore: findings to leave out, by id, code or topic.
        card: say whether it fits on this card, ``h100-80`` or a size such as ``24GB``.
        allow: the part of the card that PyTorch's allocator cannot use; None for what was measured
            while recording, else the usual amount.
        allocator: compare settings of PyTorch's allocator even if that takes long; False compares
            only if that is quick, None never.
        from_: the first event that a page draws allocation by allocation: a number, or a time after
            the first event such as ``"1.5s"``. All other allocations are drawn as one band, their
            sum; no figure changes. If ``from_``, ``to`` and ``min_size`` are all left out, the
            bundle's own are used.
        to: the last event, in the same form.
        min_size: allocations of fewer requested bytes are not drawn one by one; ``"1MiB"``, or
            bytes.
        fit: the most bytes that the report may have, ``"25MB"`` or a number; a page is thinned
            until it fits, and says how.
        keep_paths, redact, redact_functions, salt: how names are treated, as in ``load()``.
        force: replace an existing file.
        progress: called with what is being done.
        see: called with the findings once the report is written.

    Raises:
        SnapreportError: as ``load()``, and CardError, CutError, DeviceError, OutputExistsError or
            OutputError.
        ValueError: ``format`` is neither.
    """
    source = as_path(path)
    wanted = None if output is None else as_path(output)
    kind = format or report_format(wanted)
    report_writer(kind)  # fails before any work is done
    names = NamesWanted(keep_paths, redact, redact_functions, salt)
    target = target_path(source, wanted, f".{kind}", names)
    check_output(target, force)
    cut, most = make_cut(from_, to, min_size), None if fit is None else cut_size(fit)
    wanted_card(card, allow)  # fails before any work is done
    snapshot = load_named(source, names, progress)
    findings = snapshot.findings(
        device, title, notes or "", rules, colour, ignore, card, allow, allocator, progress
    )
    progress("Rendering", None)
    save_report(
        findings, target, kind, cut=cut or snapshot.history.cut, fit=most, force=force,
        sources=[source])  # fmt: skip
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
    sources: Sequence[Path] = (),
) -> None:
    """Write findings as a report, ``html`` or ``md``; ``sources`` as in ``save_bundle()``.

    Raises:
        SnapreportError: CutError, OutputExistsError or OutputError.
        ValueError: ``kind`` is neither.
    """
    write = report_writer(kind)
    with write_atomically(target, force, sources) as out:
        if cut is None and fit is None:
            write(findings, out)
        else:
            out.write(render_cut(write, findings, cut, fit, draws=kind == "html"))


def report_writer(kind: str) -> Writer:
    """Return what writes findings as a report, ``html`` or ``md``."""
    if kind == "html":
        from snapreport.reporters.page_report import write_report

        return write_report
    if kind == "md":
        return _write_markdown
    raise ValueError(f"format is {kind!r}, not 'html' or 'md'")


def _write_markdown(findings: Findings, out: BinaryIO) -> None:
    from snapreport.reporters.markdown import write_markdown
    from snapreport.reporters.notes import tame_notes
    from snapreport.reporters.summary import REPORT_ROOMS, summary_document

    notes = tame_notes(findings.notes.strip(), findings.notes_of_file)
    write_markdown(partial(summary_document, findings), REPORT_ROOMS, out, notes=notes)

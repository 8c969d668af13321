"""Write a snapshot or bundle in another tool's format."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from snapreport.api.loading import PathLike, Snapshot, load_named, target_path
from snapreport.bundle import read_bundle, viewer_files
from snapreport.figures.callsites import find_site_frames
from snapreport.figures.grouping import label_forward
from snapreport.ground.errors import ExportError, OutputError
from snapreport.ground.files import (
    check_ending,
    check_output,
    is_file,
    is_folder,
    is_zip,
    made_folder,
    sync,
    write_atomically,
)
from snapreport.ground.processes import collector_off
from snapreport.ground.progress import Progress, silent
from snapreport.ground.stores import as_path
from snapreport.model.asked import (
    COUNTED,
    Address,
    MomentWanted,
    NamesWanted,
)
from snapreport.read import read_objects
from snapreport.reporters.exports import EXPORTS
from snapreport.reporters.exports.raw_snapshot import limited
from snapreport.reporters.exports.stack_weights import DeviceExport, Export
from snapreport.roles.frames import site_frames

_WRITERS = {
    "speedscope": "profiles",
    "collapsed": "profiles",
    "pprof": "profiles",
    "perfetto": "perfetto",
    "csv": "tables",
    "parquet": "tables",
}
"""The module with ``write_speedscope`` and so on, imported only when that format is asked for."""


def export(
    path: PathLike,
    format: str,  # noqa: A002  (the word that callers know)
    output: PathLike | None = None,
    *,
    device: str | int | None = None,
    curve: str = "allocated",
    event: int | None = None,
    time_us: int | None = None,
    stage: str | None = None,
    between: tuple[int, int] | None = None,
    alloc: Address | int | None = None,
    free: Address | int | None = None,
    keep_paths: bool = False,
    redact: bool = False,
    redact_functions: bool = False,
    salt: str | None = None,
    force: bool = False,
    progress: Progress = silent,
) -> Path:
    """Write a snapshot or bundle in another tool's format, and return the file's path.

    Args:
        path: a snapshot or a bundle.
        format: ``speedscope``, ``collapsed`` and ``pprof`` are call stacks at a moment;
            ``perfetto`` is a timeline of all devices; ``csv`` and ``parquet`` are tables of all
            allocations, or of those live at a moment if one is named; ``json`` and ``pickle`` are
            the raw snapshot, rebuilt if it comes from a bundle or is redacted; ``snapviewer`` is
            a folder of two files.
        output: the file (or folder) to write; by default named after the input, with stand-ins in
            the name if it is redacted.
        device: export only this one; by default the one that a report opens with, or all devices
            in a table.
        curve: ``allocated`` and ``active`` count block bytes until a free is requested or
            completed, ``requested`` counts the bytes asked for.
        event, time_us, stage, between, alloc, free: the moment, as in ``Device.at()``; by default
            the curve's peak.
        keep_paths, redact, redact_functions, salt: how names are treated, as in ``load()``;
            ``json`` and ``pickle`` of a snapshot keep its names unless redacted.
        force: replace existing files.
        progress: called with what is being done.

    Raises:
        SnapreportError: as ``load()``, and DeviceError, MomentError, ExportError,
            OutputExistsError or OutputError.
        ValueError: there is no such format or curve, or both ``keep_paths`` and ``redact`` are set.
    """
    if format not in EXPORTS:
        raise ValueError(f"format is {format!r}, not one of {', '.join(EXPORTS)}")
    moment = MomentWanted(event, time_us, stage, between, alloc, free, curve)
    if moment.names and format in ("json", "pickle", "snapviewer", "perfetto"):
        raise ExportError(f"{format} exports the entire recording; no moment can be chosen for it.")
    if device is not None and format in ("json", "pickle"):
        raise ExportError(f"{format} exports the entire snapshot; no device can be chosen for it.")
    source = as_path(path)
    names = NamesWanted(keep_paths, redact, redact_functions, salt)
    wanted = None if output is None else as_path(output)
    read = partial(load_named, source, names, progress)
    if format == "snapviewer" and wanted is not None:  # the files go into that folder itself
        return _export_folder(source, wanted, device, read, force, progress)
    target = target_path(source, wanted, EXPORTS[format], names)
    if format == "snapviewer":
        return _export_folder(source, target, device, read, force, progress)
    check_output(target, force)
    if format in ("json", "pickle"):
        _export_raw(source, format, target, read if names.redacted else None, force, progress)
        return target
    module = importlib.import_module(f"snapreport.reporters.exports.{_WRITERS[format]}")
    write = getattr(module, f"write_{format}")
    loaded = read()
    subject = _export_subject(loaded, format, device, moment)
    progress("Exporting", None)
    with write_atomically(target, force, [source]) as out, collector_off():
        write(subject, limited(out, str(source), loaded.history.length))
    return target


def _export_subject(
    loaded: Snapshot, kind: str, device: str | int | None, moment: MomentWanted
) -> Export:
    curve, at_moment = moment.curve, bool(moment.names)
    if curve not in COUNTED:
        raise ExportError(
            f"{curve} bytes belong to segments, not to call stacks;"
            " export allocated, active or requested bytes."
        )
    every = device is None and not at_moment and kind in ("perfetto", "csv", "parquet")
    places = [str(d.device) for d in loaded.devices] if every and loaded.devices else [device]
    chosen = []
    for place in places:
        one = loaded.device(place)
        at = one.moment(moment)
        chosen.append(DeviceExport(one.figures, at.event, at.live()))
    stacks = loaded.history.stacks
    return Export(
        loaded.history,
        find_site_frames(stacks),
        site_frames(stacks),
        label_forward(stacks),
        curve,
        tuple(chosen),
        at_moment,
    )


def _export_raw(
    source: Path,
    kind: str,
    target: Path,
    redacted: Callable[[], Snapshot] | None,
    force: bool,
    progress: Progress,
) -> None:
    from snapreport.reporters.exports.raw_snapshot import write_json, write_pickle
    from snapreport.reporters.exports.rebuilt_snapshot import rebuild

    if redacted is not None or is_zip(source):
        # Rebuilt from the fields we know: an unknown key could hold anything.
        history = read_bundle(source, progress) if redacted is None else redacted().history
        whole, length = rebuild(history), history.length
    else:
        whole, length = read_objects(source, progress)
    progress("Exporting", None)
    with write_atomically(target, force, [source]) as out, collector_off():
        if kind == "pickle":
            write_pickle(whole, out)
        else:
            write_json(whole, out, str(source), length)


def _export_folder(
    source: Path,
    folder: Path,
    device: str | int | None,
    read: Callable[[], Snapshot],
    force: bool,
    progress: Progress,
) -> Path:
    check_ending(folder, EXPORTS["snapviewer"])
    if is_file(folder):
        raise OutputError(f"{folder} is a file; name a folder for SnapViewer's files.")
    if not is_folder(folder.parent):
        raise OutputError(f"{folder} cannot be made: there is no folder {folder.parent}.")
    for name in ("elements.db", "allocations.json"):
        if is_folder(folder):
            check_output(folder / name, force)
    loaded = read()
    history = loaded.history
    if device is not None:
        names = [str(each.device) for each in history.devices]
        history = replace(history, default_device=names.index(loaded.device(device).name))
    files = viewer_files(history, progress)
    # Both get their names when both are complete: one alone is of no use.
    with made_folder(folder), ExitStack() as opened:
        for name, content in files.items():
            out = opened.enter_context(write_atomically(folder / name, force, [source]))
            out.write(content)
            sync(out)
    return folder

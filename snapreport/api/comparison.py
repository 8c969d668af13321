"""Compare two snapshots, and write the comparison: ``diff()`` and ``render_diff()``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from snapreport.api.device import Device
from snapreport.api.loading import PathLike, Snapshot, loaded
from snapreport.api.moment import Moment
from snapreport.compare.diff_types import DIFF_GROUPINGS, MOMENTS, Diff
from snapreport.compare.two_recordings import Side, find_diff
from snapreport.ground.errors import DeviceError, MomentError, OutputError
from snapreport.ground.file_endings import check_ending
from snapreport.ground.files import (
    as_text,
    check_output,
    report_format,
    telling_folders,
    write_atomically,
)
from snapreport.ground.progress import Progress, silent
from snapreport.ground.remote.remote_paths import as_path
from snapreport.model.category_rules import Rule
from snapreport.model.history import DeviceHistory
from snapreport.model.moment_wanted import CURVES
from snapreport.model.name_treatment import REDACTED

if TYPE_CHECKING:
    from snapreport.reporters.reporter import Reporter

_PROFILER = "profiler"


def diff(
    base: PathLike | Snapshot,
    new: PathLike | Snapshot,
    *,
    device: str | int | None = None,
    new_device: str | int | None = None,
    curve: str = "allocated",
    at: str = "peak",
    stage: str | None = None,
    base_event: int | None = None,
    new_event: int | None = None,
    by: str = "site",
    rules: Sequence[Rule] | None = None,
    keep_paths: bool = False,
    progress: Progress = silent,
) -> Diff:
    """Compare two snapshots: what grew and what shrank from BASE to NEW, and where?

    Args:
        base: the path of a snapshot or bundle, or a ``Snapshot`` from ``load()``.
        new: the same for the other side; one may be a path and the other a ``Snapshot``.
        device: in both, ``1``, ``"1"``, ``"cuda:1"`` or ``"cpu"``; None for the one that a
            report of ``base`` opens with.
        new_device: the device of ``new``, if it differs.
        curve: ``allocated``, ``requested``, ``active`` or ``reserved``.
        at: the ``peak`` of the curve, or the ``start`` or ``end`` of each recording.
        stage: compare at the peak within this stage instead.
        base_event: compare ``base`` after this event instead; -1 is the start.
        new_event: compare ``new`` after this event instead.
        by: one of ``DIFF_GROUPINGS``: the grouping of ``Diff.groups``.
        rules: for categories, as from ``load_rules()``; None for the built-in ones.
        keep_paths: as in ``load()``.
        progress: called with what is being done.

    Raises:
        SnapreportError: as ``load()``; DeviceError if the two have no comparable device in
            common, MomentError if one has no such moment.
        ValueError: ``curve``, ``at`` or ``by`` is not one of those above.
    """
    for name, value, known in (
        ("curve", curve, CURVES), ("at", at, MOMENTS), ("by", by, DIFF_GROUPINGS),
    ):  # fmt: skip
        if value not in known:
            raise ValueError(f"{name} is {value!r}, not one of {', '.join(known)}")
    if stage is not None and (base_event is not None or new_event is not None or at != "peak"):
        raise MomentError("a moment has one name: a stage, an event, or peak, start or end.")
    one, other = load_pair(base, new, keep_paths, progress)
    devices = _pick_devices(one, other, device, new_device)
    progress("Comparing", None)
    sides = (
        Side(each.file, each.figures, _moment(each, curve, at, stage, event).event, curve)
        for each, event in zip(devices, (base_event, new_event), strict=True)
    )
    moment = _words(at, stage, base_event, new_event)
    found = find_diff(*sides, by=by, moment=moment, rules=rules)
    files = (as_path(each) for each in (base, new) if not isinstance(each, Snapshot))
    return replace(found, files=tuple(files))


def load_pair(
    base: PathLike | Snapshot, new: PathLike | Snapshot, keep_paths: bool, progress: Progress
) -> tuple[Snapshot, Snapshot]:
    """Load two recordings; files with the same name are called by the folders that differ, too."""
    one, other = (loaded(each, keep_paths, progress) for each in (base, new))
    same = one.history.source.name == other.history.source.name
    redacted = any(each.history.names.done == REDACTED for each in (one, other))
    if not same or redacted or isinstance(base, Snapshot) or isinstance(new, Snapshot):
        return one, other
    paths = [as_path(base), as_path(new)]
    names = [
        as_text(PurePath(*folders, path.name))
        for folders, path in zip(telling_folders(paths), paths, strict=True)
    ]
    return _called(one, names[0]), _called(other, names[1])


def _called(snapshot: Snapshot, name: str) -> Snapshot:
    history = snapshot.history
    return Snapshot(replace(history, source=replace(history.source, name=name)))


def render_diff(
    found: Diff,
    output: PathLike,
    *,
    format: str | None = None,  # noqa: A002
    force: bool = False,
) -> Path:
    """Write a comparison as a page, or as Markdown for an issue comment; return its path.

    Args:
        found: what ``diff()`` returned.
        output: the file to write.
        format: ``html`` or ``md``; by default from the extension of ``output``, else ``html``.
        force: replace an existing file.

    Raises:
        OutputExistsError: the file exists and ``force`` is off.
        OutputError: it cannot be written, or its extension is that of another format.
        ValueError: ``format`` is neither.
    """
    target = as_path(output)
    if str(target) == "-":
        raise OutputError(
            "- is not accepted as a file name; to write to a pipe use -o /dev/stdout."
        )
    kind = format or report_format(target)
    reporter = _reporter(kind)
    check_ending(target, f".{kind}")
    check_output(target, force)
    with write_atomically(target, force, found.files) as out:
        reporter.render(found, out)
    return target


def _reporter(kind: str) -> Reporter[Diff]:
    if kind == "html":
        from snapreport.reporters.page.diff_page import DiffHtmlReporter

        return DiffHtmlReporter()
    if kind == "md":
        from snapreport.reporters.markdown.diff_markdown import DiffMarkdownReporter

        return DiffMarkdownReporter()
    raise ValueError(f"format is {kind!r}, not 'html' or 'md'")


def _pick_devices(
    base: Snapshot, new: Snapshot, device: str | int | None, new_device: str | int | None
) -> tuple[Device, Device]:
    """Pick each side's device: the same one, unless another is named or it is unused in NEW.

    Raises:
        DeviceError: there is no such device, or the two cannot be compared.
    """
    one = base.device(device)
    wanted = device if new_device is None else new_device
    other = _like(one, new) if wanted is None else new.device(wanted)
    kinds = one.figures.device.kind, other.figures.device.kind
    if kinds[0] != kinds[1]:
        raise DeviceError(
            f"{one.name} of {one.file.source.name} and {other.name} of {other.file.source.name}"
            " are memory of different kinds and cannot be compared; name two of the same kind."
        )
    layouts = [found.file.layout == _PROFILER for found in (one, other)]
    if layouts[0] != layouts[1]:
        profile, snapshot = (one, other) if layouts[0] else (other, one)
        raise DeviceError(
            f"{profile.file.source.name} is from a profiler, and {snapshot.file.source.name} from"
            " the allocator; their bytes cannot be compared."
        )
    return one, other


def _like(device: Device, new: Snapshot) -> Device:
    """Return the used device with the same name, else a used one of the same kind, else any."""
    wanted = device.figures.device
    same = [found for found in new.devices if found.device == wanted]
    if same and (_used(same[0]) or not any(_used(found) for found in new.devices)):
        return new.device(str(wanted))
    first = new.device()
    if first.figures.device.kind == wanted.kind:
        return first
    alike = [found for found in new.devices if found.device.kind == wanted.kind]
    used = [found for found in alike if _used(found)]
    return new.device(str((used or alike)[0].device)) if alike else first


def _used(history: DeviceHistory) -> bool:
    return bool(history.events or len(history.allocations))


def _moment(device: Device, curve: str, at: str, stage: str | None, event: int | None) -> Moment:
    try:
        if stage is not None:
            return device.at(stage=stage, curve=curve)
        fixed = {"peak": None, "start": -1, "end": device.events - 1}[at]
        return device.at(fixed if event is None else event, curve=curve)
    except MomentError as error:
        raise MomentError(f"{device.file.source.name}: {error}") from None


def _words(at: str, stage: str | None, base_event: int | None, new_event: int | None) -> str:
    """Say which moments are compared."""
    if stage is not None:
        return f"at the peak of stage {stage!r}"
    if base_event is None and new_event is None:
        return f"at the {at}"

    def moment(event: int | None) -> str:
        if event is None:
            return at
        return "start" if event < 0 else f"event {event:,}"

    return f"at NEW's {moment(new_event)}, against BASE's {moment(base_event)}"

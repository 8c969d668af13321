"""Compare snapshots: two with ``diff()``, several batch sizes with ``batch_growth()``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path, PurePath
from typing import BinaryIO

from snapreport.api.device import Device, Moment
from snapreport.api.loading import PathLike, Snapshot, loaded
from snapreport.diagnosis.advice.batch import SeveralSizes, find_growth, put_together
from snapreport.diagnosis.compare.diff_types import DIFF_GROUPINGS, Diff
from snapreport.diagnosis.compare.two_recordings import Side, find_diff
from snapreport.diagnosis.conclude import find
from snapreport.ground.errors import DeviceError, MomentError, OutputError, PlanError
from snapreport.ground.files import (
    as_text,
    check_ending,
    check_output,
    report_format,
    telling_folders,
    write_atomically,
)
from snapreport.ground.progress import Progress, silent
from snapreport.ground.stores import as_path
from snapreport.ground.units import format_bytes, parse_size
from snapreport.model.answers import (
    LARGEST_BATCH,
    BatchGrowth,
)
from snapreport.model.asked import (
    CURVES,
    MOMENTS,
    REDACTED,
)
from snapreport.model.history import (
    DeviceHistory,
)
from snapreport.model.roles import Rule

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
    if kind not in ("html", "md"):
        raise ValueError(f"format is {kind!r}, not 'html' or 'md'")
    check_ending(target, f".{kind}")
    check_output(target, force)
    with write_atomically(target, force, found.files) as out:
        write_diff(found, out, kind)
    return target


def write_diff(found: Diff, out: BinaryIO, kind: str) -> None:
    """Write a comparison as ``html`` or ``md``."""
    from snapreport.reporters.comparison import DIFF_ROWS, diff_document

    if kind == "html":
        from snapreport.reporters.page_report import write_diff_page

        base, new = (
            find(side.file, [side.figures], allocator=False) for side in (found.base, found.new)
        )
        write_diff_page(found, base, new, out)
    else:
        from snapreport.reporters.markdown import write_markdown

        write_markdown(partial(diff_document, found), DIFF_ROWS, out)


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


# The largest batch that fits, from recordings at several batch sizes: ``batch_growth()``.


_FAR = 0.1
"""Recordings are refused if the fit misses a recorded peak by more than this share of it."""


def batch_growth(
    recordings: Mapping[int, PathLike | Snapshot],
    *,
    fit: int | str | None = None,
    at: Sequence[int] = (),
    device: str | int | None = None,
    keep_paths: bool = False,
    progress: Progress = silent,
) -> BatchGrowth:
    """Return how the allocated peak grows with the batch, and the largest batch that fits.

    Args:
        recordings: two or more of the same program, by batch size or by another number that its
            tensors grow with, such as the sequence length: then three or more, since two cannot
            tell quadratic growth from linear.
        fit: the size that the peak has to fit into, in bytes or as text, ``"24GB"``.
        at: further sizes to estimate the peak for.
        device: the device in all recordings; None for the one that a report opens with.
        keep_paths: as for ``load()``.
        progress: as for ``load()``.

    Raises:
        DeviceError: a file has no such device.
        PlanError: there are fewer than two recordings, a size is below 1 or above 2 ** 24,
            ``fit`` is not a size, a file has no history, the peak falls as the batch grows, or a
            recorded peak is far from what follows from the others.
    """
    devices = {
        batch: loaded(one, keep_paths, progress).device(device)
        for batch, one in sorted(recordings.items())
    }
    return growth_of(devices, fit, at)


def growth_of(
    devices: Mapping[int, Device], fit: int | str | None = None, at: Sequence[int] = ()
) -> BatchGrowth:
    """Do the same as ``batch_growth()`` for devices of loaded snapshots, by batch size."""
    if len(devices) < 2:
        raise PlanError("recordings at two or more batch sizes are needed.")
    if (smallest := min(*devices, *at)) < 1:
        raise PlanError(f"a batch must be at least 1, not {smallest}.")
    if (largest := max(*devices, *at)) > LARGEST_BATCH:
        raise PlanError(f"a batch must be at most {LARGEST_BATCH}, not {largest}.")
    try:
        target = None if fit is None else parse_size(fit)
    except ValueError as error:
        raise PlanError(f"{error}.") from None
    for device in devices.values():
        if not device.figures.recorded:
            raise PlanError(
                f"{device.name} has no recorded history in {device.file.source.name}; record the"
                " program with snapreport record."
            )
    ordered = sorted(devices.items())
    several = put_together([(batch, one.file, one.history) for batch, one in ordered])
    _refuse_falling(several)
    growth = find_growth(several, target, at)
    _refuse_missed(growth)
    return growth


def _refuse_falling(several: SeveralSizes) -> None:
    peaks = list(zip(several.laws.batches.tolist(), several.requested, strict=True))
    for (small, before), (large, after) in pairwise(peaks):
        if after < before:
            raise PlanError(
                f"the peak falls from {format_bytes(before)} at batch {small} to"
                f" {format_bytes(after)} at batch {large}, in requested bytes: are these the right"
                " files for the sizes?"
            )


def _refuse_missed(growth: BatchGrowth) -> None:
    for peak in growth.peaks:
        recorded, expected = peak.recorded, peak.expected
        if recorded is not None and abs(expected - recorded) > _FAR * recorded:
            raise PlanError(
                f"the recordings do not fit together: at batch {peak.batch} a peak of"
                f" {format_bytes(recorded)} was recorded, but all recordings together predict"
                f" {format_bytes(expected)}. Record the same steps of one program, at sizes where"
                " it does the same work."
            )

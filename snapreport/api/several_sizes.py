"""The largest batch that fits, from recordings at several batch sizes: ``batch_growth()``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from snapreport.api.device import Device
from snapreport.api.loading import PathLike, Snapshot, loaded
from snapreport.diagnosis.advice.batch_law import SeveralSizes, find_growth, put_together
from snapreport.ground.errors import PlanError
from snapreport.ground.progress import Progress, silent
from snapreport.ground.units import format_bytes, parse_size
from snapreport.model.what_if import LARGEST_BATCH, BatchGrowth

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

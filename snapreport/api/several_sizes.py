"""The largest batch that fits, from recordings at several sizes of it: ``batch_growth()``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from snapreport.api.device import Device
from snapreport.api.loading import PathLike, Snapshot, load
from snapreport.diagnosis.advice.batch_law import find_growth, put_together
from snapreport.ground.errors import PlanError
from snapreport.ground.progress import Progress, silent
from snapreport.ground.units import parse_size
from snapreport.model.what_if import BatchGrowth


def batch_growth(
    recordings: Mapping[int, PathLike | Snapshot],
    *,
    fit: int | str | None = None,
    at: Sequence[int] = (),
    device: str | int | None = None,
    keep_paths: bool = False,
    progress: Progress = silent,
) -> BatchGrowth:
    """Tell how the allocated peak grows with the batch, and the largest batch that fits.

    Args:
        recordings: two or more of the same program, by the size of its batch. Any other number
            that its tensors grow with will do, such as the length of sequences.
        fit: what the peak is to fit into, in bytes or as text, ``"24GB"``.
        at: sizes to tell the peak for, beside the recorded ones.
        device: of all of them; None for the one that a report opens with.
        keep_paths: as for ``load()``.
        progress: likewise.

    Raises:
        DeviceError: a file has no such device.
        PlanError: there are fewer than two recordings, a size is below 1 or ``fit`` is none, or
            a file has no history.
    """
    loaded = {
        batch: one
        if isinstance(one, Snapshot)
        else load(one, keep_paths=keep_paths, progress=progress)
        for batch, one in sorted(recordings.items())
    }
    return growth_of({batch: one.device(device) for batch, one in loaded.items()}, fit, at)


def growth_of(
    devices: Mapping[int, Device], fit: int | str | None = None, at: Sequence[int] = ()
) -> BatchGrowth:
    """Return the same for devices of loaded snapshots, by the size of the batch."""
    if len(devices) < 2:
        raise PlanError("recordings at two sizes of the batch are needed, or at more.")
    if min(*devices, *at) < 1:
        raise PlanError(f"a batch of {min(*devices, *at)} is none.")
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
    return find_growth(several, target, at)

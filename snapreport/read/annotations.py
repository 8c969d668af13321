"""The START and END markers of ``external_annotations``."""

from __future__ import annotations

from typing import Any

from snapreport.errors import NotASnapshotError
from snapreport.model.bounds import LATEST_US
from snapreport.model.snapshot import Annotation
from snapreport.read.fields import integers
from snapreport.read.interner import clean_text
from snapreport.read.layout import device_of
from snapreport.read.limits import Allowance

_KNOWN_KEYS = {"name", "stage", "device", "time_us"}


def read_annotations(
    rows: Any, oddities: dict[str, int], cpu: int | None, fields: Allowance
) -> tuple[Annotation, ...]:
    """Turn annotation dicts into records, in recorded order.

    Args:
        rows: the dicts.
        oddities: stages and times that are none are counted here.
        cpu: which device number means the CPU; None for none.
        fields: how many there may be.

    Raises:
        NotASnapshotError: they are no list of dicts with a device and a time.
    """
    if not isinstance(rows, (list, tuple)):
        raise NotASnapshotError("is damaged: 'external_annotations' is no list.")
    device = integers(rows, "device", "annotation", default=0)
    time_us = integers(rows, "time_us", "annotation")
    fields.take(sum(map(len, rows)), "fields of annotations")
    annotations = []
    for row, ordinal, time in zip(rows, device.tolist(), time_us.tolist(), strict=True):
        stage = row.get("stage")
        if stage not in ("START", "END") or not 0 <= time <= LATEST_US:
            key = f"annotation stage {clean_text(stage)[:60]!r}"
            if not 0 <= time <= LATEST_US:
                key = "annotation time that is no date"
            oddities[key] = oddities.get(key, 0) + 1
            continue
        extra = {
            clean_text(key): clean_text(value)
            for key, value in row.items()
            if key not in _KNOWN_KEYS
        }
        name = clean_text(row.get("name", ""))
        annotations.append(Annotation(device_of(ordinal, cpu), name, stage == "START", time, extra))
    return tuple(annotations)

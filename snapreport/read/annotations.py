"""Reads the START and END markers of ``external_annotations``."""

from __future__ import annotations

from typing import Any

from snapreport.ground.clean_texts import shortened
from snapreport.ground.errors import NotASnapshotError
from snapreport.model.bounds import LATEST_US
from snapreport.model.snapshot import Annotation
from snapreport.read.fields import count_unknown_keys, integers
from snapreport.read.layout import device_of
from snapreport.read.traces import Tables

_KNOWN_KEYS = frozenset(["name", "stage", "device", "time_us"])


def read_annotations(rows: Any, cpu: int | None, tables: Tables) -> tuple[Annotation, ...]:
    """Turn annotation dicts into records, in recorded order.

    Args:
        rows: the dicts.
        cpu: which device number means the CPU; None for none.
        tables: what the parts of the file share; invalid stages and times are counted there.

    Raises:
        NotASnapshotError: they are not a list of dicts with a device and a time.
    """
    if not isinstance(rows, (list, tuple)):
        raise NotASnapshotError("is damaged: 'external_annotations' is not a list.")
    device = integers(rows, "device", "annotation", default=0)
    time_us = integers(rows, "time_us", "annotation")
    count_unknown_keys(rows, _KNOWN_KEYS, "annotation", tables.oddities, tables.fields)
    annotations = []
    for row, ordinal, time in zip(rows, device.tolist(), time_us.tolist(), strict=True):
        stage = row.get("stage")
        if not 0 <= time <= LATEST_US:
            tables.oddities["annotation time that is not a date"] += 1
        elif stage not in ("START", "END"):
            tables.oddities[f"annotation stage {shortened(stage)!r}"] += 1
        else:
            name = tables.texts.clean(row.get("name", ""))
            annotations.append(Annotation(device_of(ordinal, cpu), name, stage == "START", time))
    return tuple(annotations)

"""The planted faults are there, as they are said to be, and a question each finds them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import snapreport
from snapreport.api.device import Asked, Device
from tests.planted import PLANTED, Planted


def _loaded(planted: Planted, folder: Path) -> Device:
    return snapreport.load(planted.write(folder)).device()


def _is_at_fault(planted: Planted, found: Asked) -> None:
    (site,) = found.by("site")
    assert (site.name, site.requested, site.count) == (planted.site, planted.bytes, planted.count)


@pytest.mark.parametrize("make", PLANTED[:2], ids=lambda make: make.__name__)
def test_what_a_stage_leaves_behind_is_the_fault(
    make: Callable[[], Planted], tmp_path: Path
) -> None:
    planted = make()
    device = _loaded(planted, tmp_path)
    stage = planted.stage
    _is_at_fault(planted, device.ask(made=(stage, stage), alive="end"))
    change = device.changed(stage, stage, curve="requested")
    assert change.bytes == planted.bytes
    names = [each.name for each in device.stages if each.depth == 0]
    assert len(names) > 6
    counts: dict[str, int] = {}
    for name in names[1:]:  # the first step makes the optimizer's state, as it should
        counts[name] = counts.get(name, 0) + 1
        label = f"{name}[{counts[name]}]" if names.count(name) > 1 else name
        left = device.ask(made=(label, label), alive="end").allocations.rows
        assert len(left) == (planted.count if label == stage else 0), label


def test_a_segment_is_kept_by_one_block(tmp_path: Path) -> None:
    planted = PLANTED[2]()
    device = _loaded(planted, tmp_path)
    segments, rows = device.history.segments, device.allocations
    (at,) = [k for k, base in enumerate(segments.address.tolist()) if base == planted.segment]
    size = int(segments.size[at])
    live = device.at(device.events - 1).live().rows
    inside = [
        row
        for row in live.tolist()
        if planted.segment <= int(rows.addr[row]) < planted.segment + size
    ]
    assert device.site_names(np.array(inside)) == [planted.site]
    assert size - int(rows.block_size[inside[0]]) == planted.bytes
    fragmented = device.at(device.events - 1).amounts.fragmentation
    assert fragmented is not None
    assert planted.bytes <= fragmented < 1.3 * planted.bytes

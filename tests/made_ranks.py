"""Ranks of runs for tests, each figure by hand; ``dev.benchmarks.runs`` plays whole runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from snapreport.model.run import (
    Cells,
    DeviceFacts,
    FailedRequest,
    Holder,
    RankFacts,
    RankName,
    Run,
    StepPeak,
    place_in,
)

GIB, MIB = 1 << 30, 1 << 20
Sites = Mapping[str, tuple[int, int]]
"""Count and bytes of the allocations of each call site."""


def a_device(
    sites: Sites,
    *,
    device: str = "cuda:0",
    kind: str = "cuda",
    recorded: bool = True,
    left: Sequence[int] = (),
    failed: Sequence[FailedRequest] = (),
    curve: Sequence[int] | None = None,
    roles: Mapping[str, int] | None = None,
    took_us: int | None = None,
) -> DeviceFacts:
    """A device whose peak is what its sites hold; ``left`` is what its steps leave."""
    peak = sum(count * size for count, size in sites.values())
    holders = [Holder("site", key, n * size, n, size, n) for key, (n, size) in sites.items()]
    holders += [Holder("role", key, held, 1, held, 1) for key, held in (roles or {}).items()]
    values = [0, peak // 2, peak] if curve is None else curve
    return DeviceFacts(
        device,
        kind,
        place=0,
        opens=True,
        recorded=recorded,
        events=len(values),
        capacity=None,
        allocated=peak,
        allocated_width=0,
        peak_event=2,
        peak_time_us=None,
        reserved=None,
        by_event=Cells(0, 0, np.array(values, np.int64), None),
        by_time=None if took_us is None else Cells(0, 0, np.zeros(took_us, np.int64), None),
        holders=tuple(holders),
        steps=tuple(StepPeak(k, max(peak, each), each) for k, each in enumerate(left)),
        failed=tuple(failed),
        findings=(),
    )


def a_rank(
    number: int | None, *devices: DeviceFacts, dump: int | None = None, host: str = ""
) -> RankFacts:
    """A rank with these devices; without any its file is broken."""
    label = f"rank {number}" if dump is None else f"rank {number}, step {dump}"
    name = RankName(number, dump, host)
    error = "" if devices else "the pickle ends too early."
    return RankFacts(f"{label}.pickle", label, name, 1, "", devices, error=error)


def a_run(
    ranks: Sequence[RankFacts],
    layout: Sequence[tuple[str, int]] = (),
    expected: int | None = None,
) -> Run:
    """A run of these ranks, each at its place in the layout."""
    placed = [
        replace(each, name=replace(each.name, coordinates=place_in(tuple(layout), each.name.rank)))
        for each in ranks
    ]
    return Run("", tuple(placed), tuple(layout), expected)

"""Growth from turn to turn looks at each allocation once, however many call sites there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from snapreport.diagnosis import growth
from snapreport.diagnosis.conclude import find
from snapreport.figures.callsites import label_sites
from snapreport.ground.native.columns import count_until
from snapreport.roles.steps import find_iterations
from tests.builders import frame, trace

SITES, TURNS = 30, 8


def test_each_call_site_is_judged_from_its_own_allocations_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = trace()
    for turn in range(TURNS):
        made.start(f"ProfilerStep#{turn}", 10 * SITES * turn)
        for site in range(SITES):
            frames = [frame(f"layer{site}", "model.py", site + 1), frame("main", "train.py")]
            made.alloc(f"{turn}.{site}", 512 * (site + 1), frames=frames)
        made.end(f"ProfilerStep#{turn}", 10 * SITES * (turn + 1))
    file = made.file()
    device = find(file).devices[0]
    iterations = find_iterations(device.history, file)
    assert iterations is not None
    looked_at: list[int] = []
    judge = growth._judge

    def counted(live: Any, *rest: Any) -> Any:
        looked_at.append(len(live.rows))
        return judge(live, *rest)

    monkeypatch.setattr(growth, "_judge", counted)
    number = label_sites(device.history, file.stacks)[0]
    found = growth.find_step_growth(device, iterations, number)
    assert [site.kind for site in found] == ["leak"] * SITES
    assert sorted(site.per_step for site in found) == [512 * (i + 1) for i in range(SITES)]
    # All of every site's: with 5,000 call sites and a million allocations it must not be 5 * 10^9.
    assert sum(looked_at) <= SITES * TURNS


def test_bounds_are_counted_as_a_search_finds_them() -> None:
    steps = np.arange(-1, 9)
    for bounds in ([], [0], [-1, 3], [2, 3, 4, 8], [8]):
        found = count_until(np.array(bounds, np.int64), 8)
        assert found.tolist() == np.searchsorted(bounds, steps, side="right").tolist()

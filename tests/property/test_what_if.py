"""The peak without a group is that of the curve recomputed without it, whatever was recorded."""

from __future__ import annotations

from collections import defaultdict

from snapreport.figures.curves import find_curves
from snapreport.figures.what_if import find_members, find_what_if, find_without
from snapreport.ground.native.columns import Outline
from tests.property.simulated import Simulated, device_files, for_simulations


@for_simulations(120)
def test_what_if_peaks_are_those_of_a_replay_without_the_group(simulation: Simulated) -> None:
    for file, history in device_files(simulation):
        rows = history.allocations
        curve = find_curves(history)["allocated"]
        for by in ("site", "category", "stage"):
            members = find_members(file, history, by)
            names = members[2]
            expected = []
            for number, name in enumerate(names):
                gone = set(members[0][members[1] == number].tolist())
                if not gone:
                    continue
                # Event by event: what is left after each, as the allocator's own counter would be.
                change: dict[int, int] = defaultdict(int)
                for row in range(len(rows)):
                    if row not in gone:
                        change[int(rows.alloc_event[row])] += int(rows.block_size[row])
                        change[int(rows.free_requested_event[row])] -= int(rows.block_size[row])
                left = most = change[-1]
                at = -1
                for event in range(history.events):
                    left += change[event]
                    if left > most:
                        most, at = left, event
                expected.append((name, most, at, int(curve.max()) - most, len(gone)))
            found = find_what_if(history, members, Outline(curve))
            assert sorted(expected) == sorted(
                (each.name, each.peak_bytes, each.peak_event, each.falls, each.count)
                for each in found
            )
            if len(rows):
                whole = find_without(history, members, Outline(curve), ["/.*/"])
                assert (whole.peak_bytes, whole.peak_event) == (0, -1)
                assert whole.count == len(rows)

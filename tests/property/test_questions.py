"""Laws of questions about lifetimes, whatever the history and the markers."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import pytest

from snapreport.api.device import Device
from snapreport.diagnosis.conclude import find
from snapreport.ground.errors import MomentError
from snapreport.model.asked import COUNTED, GROUPINGS
from tests.property.simulated import Simulated, device_files, for_simulations, some_events


def devices(simulation: Simulated) -> list[Device]:
    file, _ = next(device_files(simulation))
    return [Device(file, found) for found in find(file).devices if found.recorded]


def rows(device: Device, curve: str, **asked: object) -> set[int]:
    found = device.ask(curve=curve, **asked).allocations.rows.tolist()  # type: ignore[arg-type]
    assert len(set(found)) == len(found)
    return set(found)


@for_simulations(60)
def test_lifetimes_are_parts_of_one_another(simulation: Simulated) -> None:
    for device in devices(simulation):
        for curve in COUNTED:
            for a, b in combinations_with_replacement(some_events(device.events, 2), 2):
                made, freed = (rows(device, curve, **{name: (a, b)}) for name in ("made", "freed"))
                stayed = rows(device, curve, made=(a, b), alive=b)
                passing = rows(device, curve, made=(a, b), freed=(a, b))
                throughout = rows(device, curve, alive=(a, b))
                went = rows(device, curve, alive=a, freed=(a, b))
                assert made == stayed | passing
                assert not stayed & passing
                assert freed == went | passing
                assert not went & passing
                assert set(device.at(a, curve=curve).live().rows.tolist()) == throughout | went
                assert set(device.at(b, curve=curve).live().rows.tolist()) == throughout | stayed


@for_simulations(60)
def test_a_change_adds_up_to_the_curve_however_it_is_grouped(simulation: Simulated) -> None:
    for device in devices(simulation):
        for curve in COUNTED:
            values = device.curve(curve)
            for a, b in combinations_with_replacement(some_events(device.events, 2), 2):
                found = device.changed(a, b, curve=curve)
                change = int(values[b + 1] - values[a + 1])
                assert found.bytes == change
                assert int(found.allocations.bytes.sum()) == change
                assert (np.diff(np.abs(found.allocations.bytes)) <= 0).all()
                for upward, folded in ((False, False), (True, True)):
                    tree = found.tree(upward=upward, folded=folded)
                    assert int(tree.bytes[0]) == int(tree.own_bytes.sum()) == change
                    assert int(tree.count[0]) == len(found.allocations.rows)
                for by in GROUPINGS:
                    groups = found.by(by)
                    assert sum(each.change for each in groups) == change
                    assert sum(each.came for each in groups) == found.came.bytes
                    assert sum(each.went for each in groups) == found.went.bytes
                    assert all(each.change == each.came - each.went for each in groups)
                    count = sum(each.came_count + each.went_count for each in groups)
                    assert count == len(found.allocations.rows)


@for_simulations(60)
def test_a_later_marker_leaves_no_more_alive(simulation: Simulated) -> None:
    for device in devices(simulation):
        events = some_events(device.events, 4)
        for a, b, c in combinations_with_replacement(events, 3):
            left = [rows(device, "allocated", made=(a, b), alive=each) for each in (b, c)]
            assert left[1] <= left[0]
            gone = rows(device, "allocated", made=(a, b), alive=b, freed=(b, c))
            assert left[0] == left[1] | gone
            assert left[1] == rows(device, "allocated", made=(a, b), alive=(b, c))


@for_simulations(60)
def test_every_view_of_what_is_asked_has_the_same_bytes(simulation: Simulated) -> None:
    for device in devices(simulation):
        first, *_, last = some_events(device.events, 1)
        for asked in (
            device.ask(made=(first, last)),
            device.ask(freed=(first, last), curve="requested"),
            device.ask(alive=last, made=(first, last), curve="active"),
        ):
            held, count = asked.bytes, len(asked.allocations.rows)
            assert int(asked.tree().bytes[0]) == int(asked.tree(folded=True).bytes[0]) == held
            assert sum(line.bytes for line in asked.lines()) == held
            assert sum(line.bytes for line in asked.lines(("a",))) == held
            parts = asked.parts()
            assert parts.baseline_bytes + parts.dynamic_bytes == held
            for by in GROUPINGS:
                assert sum(group.bytes for group in asked.by(by)) == held
                assert sum(group.count for group in asked.by(by)) == count


@for_simulations(20)
def test_a_question_without_an_answer_is_refused(simulation: Simulated) -> None:
    for device in devices(simulation):
        with pytest.raises(MomentError, match="is before"):
            device.ask(made=("end", "start"))

"""Laws of comparing any two recordings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given

import snapreport
from snapreport.diagnosis.compare.diff_types import EXACT, ONLY_BASE, ONLY_NEW, Change, Diff, Place
from snapreport.diagnosis.compare.two_recordings import place_frames
from snapreport.figures.callsites import find_site_frames
from tests.builders import history_of
from tests.edits import Edit, edited, installed_in, with_lines_moved
from tests.property.simulated import Simulated, Test, for_simulations, simulations
from tests.thorough import tried

_CURVES = ("allocated", "requested", "active", "reserved")


def for_pairs(examples: int) -> Callable[[Test], Test]:
    """Run a test on two simulations that share nothing, as ``tried`` picks them."""

    def decorate(test: Test) -> Test:
        return tried(examples)(given(base=simulations(), new=simulations())(test))

    return decorate


def snapshot(simulation: Simulated) -> snapreport.Snapshot:
    return snapreport.Snapshot(simulation.history)


def turned(change: Change) -> Change:
    """The change with the recordings exchanged; a group is called as NEW calls it."""
    other = {ONLY_BASE: ONLY_NEW, ONLY_NEW: ONLY_BASE}
    return Change(
        change.name,
        change.kind,
        change.new_place,
        change.base_place,
        other.get(change.match, change.match),
        change.new_bytes,
        change.base_bytes,
        change.new_count,
        change.base_count,
    )


def assert_sums(diff: Diff) -> None:
    for changes in (diff.sites, diff.parts, diff.categories, diff.groups):
        assert sum(change.base_bytes for change in changes) == diff.base.bytes
        assert sum(change.new_bytes for change in changes) == diff.new.bytes
        assert sum(change.change for change in changes) == diff.change
    for side, changes in (("base", diff.sites), ("new", diff.sites)):
        count = sum(getattr(change, f"{side}_count") for change in changes)
        assert count == getattr(diff, side).count


@pytest.mark.parametrize("curve", _CURVES)
def test_changes_sum_to_that_of_the_curve(curve: str) -> None:
    @for_pairs(60)
    def check(base: Simulated, new: Simulated) -> None:
        one, other = snapshot(base), snapshot(new)
        for by in ("file", "stage"):
            found = snapreport.diff(one, other, curve=curve, by=by)
            assert_sums(found)
            assert found.base.bytes == one.device(found.base.device).curve(curve).max() or (
                not found.base.figures.recorded
            )

    check()


@for_simulations(120)
def test_a_recording_does_not_differ_from_itself(simulation: Simulated) -> None:
    one = snapshot(simulation)
    for device in one.devices:
        found = snapreport.diff(one, one, device=str(device.device))
        assert found.change == 0
        for changes in (found.sites, found.parts, found.categories):
            assert all(change.change == 0 for change in changes)
            assert {change.match for change in changes} <= {EXACT}
        assert all(change.base_place == change.new_place for change in found.sites)
        assert all(figure.change in (0, None) for figure in found.figures)
        assert found.settings == ()


@for_pairs(150)
def test_exchanging_the_recordings_turns_every_change_round(
    base: Simulated, new: Simulated
) -> None:
    one, other = snapshot(base), snapshot(new)
    there = snapreport.diff(one, other, device=0)
    back = snapreport.diff(other, one, device=0)
    assert there.change == -back.change
    for name in ("sites", "categories"):
        changes, others = getattr(there, name), getattr(back, name)
        assert Counter(changes) == Counter(map(turned, others))


_EDITS: list[tuple[str, Edit]] = [
    *((f"{by:+} lines", with_lines_moved(by)) for by in (1, 2, 7, 50)),
    ("another folder", installed_in("/home/ann/run", "/opt/venv/lib/python3.11/site-packages")),
    ("Windows", installed_in("D:\\job", "C:\\venv\\Lib\\site-packages")),
]


@pytest.mark.parametrize("edit", [edit for _, edit in _EDITS], ids=[name for name, _ in _EDITS])
def test_an_edited_program_has_the_same_sites(edit: Edit) -> None:
    @for_simulations(60)
    def check(simulation: Simulated) -> None:
        before = simulation.snapshot()
        one = snapreport.Snapshot(history_of(before))
        other = snapreport.Snapshot(history_of(edited(before, edit)))
        assert_moved(snapreport.diff(one, other), edit)

    check()


@cache
def sample(name: str) -> tuple[dict[str, Any], snapreport.Snapshot]:
    """Return one of our samples as it is written, and as it is read."""
    from sample_snapshots import make_samples

    written: dict[str, Any] = getattr(make_samples, name)().snapshot()
    return written, snapreport.Snapshot(history_of(written))


@pytest.mark.parametrize("edit", [edit for _, edit in _EDITS], ids=[name for name, _ in _EDITS])
@pytest.mark.parametrize("name", ["training_step", "out_of_memory", "two_streams"])
def test_an_edited_sample_has_the_same_sites(name: str, edit: Edit) -> None:
    before, one = sample(name)
    other = snapreport.Snapshot(history_of(edited(before, edit)))
    found = snapreport.diff(one, other)
    assert_moved(found, edit)
    assert_moved_back(snapreport.diff(other, one), found)


def assert_moved(found: Diff, edit: Edit) -> None:
    """Every site was found again, at the line and in the file that the edit made of its own."""
    assert found.change == 0
    for change in found.sites:
        assert change.change == 0
        if change.kind != "site":
            continue
        assert change.base_place is not None
        assert change.new_place is not None
        before = change.base_place
        after = edit({"name": change.name, "filename": before.filename, "line": before.line or 0})
        assert change.new_place == Place(after["filename"], after["line"] or None)
        assert change.match == (EXACT if after["line"] == (before.line or 0) else "moved line")


def assert_moved_back(back: Diff, there: Diff) -> None:
    assert Counter(map(turned, back.sites)) == Counter(there.sites)


@for_pairs(40)
def test_places_of_frames_add_up_to_the_changes_of_call_sites(
    base: Simulated, new: Simulated
) -> None:
    diff = snapreport.diff(snapshot(base), snapshot(new))
    held: dict[int, list[int]] = {}
    for k, (side, numbers) in enumerate(
        zip((diff.base, diff.new), place_frames(diff), strict=True)
    ):
        rows, figures = side.figures.history.allocations, side.figures
        sites = find_site_frames(side.file.stacks)
        live = rows.live_at(side.event, diff.curve) & (figures.missing == 0)
        for row in live.nonzero()[0].tolist():
            number = int(numbers[sites[rows.stack[row]]])
            held.setdefault(number, [0, 0])[k] += int(rows.block_size[row])
    found = [(one.base_bytes, one.new_bytes) for one in diff.sites if one.kind == "site"]
    assert Counter(map(tuple, held.values())) == Counter(found)

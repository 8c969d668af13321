"""Call trees add up, whatever the history, the event and the curve."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

from snapreport.figures.callsites import find_call_tree, find_sites
from snapreport.figures.curves import find_curves
from snapreport.model.asked import Question
from snapreport.model.findings import NODE, OUTSIDE, CallTree
from snapreport.model.history import DeviceHistory, History
from snapreport.roles.frames import classify_frames
from tests.property.simulated import Simulated, device_files, for_simulations, some_events

CURVES = ("requested", "allocated", "active")


@for_simulations(150)
def test_the_root_is_the_curve_at_the_event_to_the_byte(simulation: Simulated) -> None:
    for file, device in device_files(simulation):
        curves = find_curves(device)
        for event in some_events(device.events, 3):
            for curve in CURVES:
                tree = find_call_tree(device, file.stacks, Question(curve, alive=(event, event)))
                assert int(tree.bytes[0]) == int(curves[curve][event + 1])


@for_simulations(150)
def test_a_node_is_its_own_and_its_children(simulation: Simulated) -> None:
    for file, device in device_files(simulation):
        for event in some_events(device.events, 3):
            for curve in CURVES:
                assert_adds_up(
                    find_call_tree(device, file.stacks, Question(curve, alive=(event, event)))
                )


def assert_adds_up(tree: CallTree) -> None:
    total, count = tree.own_bytes.copy(), tree.own_count.copy()
    for node in range(len(tree) - 1, 0, -1):
        assert 0 <= tree.parent[node] < node
        total[tree.parent[node]] += total[node]
        count[tree.parent[node]] += count[node]
    assert tree.parent[0] == -1
    assert total.tolist() == tree.bytes.tolist()
    assert count.tolist() == tree.count.tolist()
    assert (tree.count[1:] > 0).all()
    for one, other in zip(range(1, len(tree)), range(2, len(tree)), strict=False):
        if tree.parent[one] == tree.parent[other]:
            assert tree.bytes[one] >= tree.bytes[other]


@for_simulations(150)
def test_the_tree_holds_each_stack_with_a_recount_of_its_bytes(simulation: Simulated) -> None:
    for file, device in device_files(simulation):
        for event in some_events(device.events, 3):
            for curve in CURVES:
                tree = find_call_tree(device, file.stacks, Question(curve, alive=(event, event)))
                assert own_by_path(tree) == recount(file, device, event, curve)


Path = tuple[int, ...]
Sums = dict[Path, tuple[int, int]]


def own_by_path(tree: CallTree) -> Sums:
    """Own bytes and count by frame ids, outermost first; nodes without a frame count as ()."""
    paths: list[Path] = [()]
    sums: Counter[Path] = Counter()
    counts: Counter[Path] = Counter()
    for node in range(1, len(tree)):
        frame = int(tree.frame[node])
        framed = frame >= 0
        assert framed == (node not in tree.label)
        paths.append((*paths[int(tree.parent[node])], frame) if framed else ())
        if tree.own_count[node]:
            sums[paths[node]] += int(tree.own_bytes[node])
            counts[paths[node]] += int(tree.own_count[node])
    assert tree.own_count[0] == tree.own_bytes[0] == 0
    return {path: (sums[path], counts[path]) for path in counts}


def recount(file: History, device: DeviceHistory, event: int, curve: str) -> Sums:
    """Add up allocation by allocation what the tree should hold."""
    rows = device.allocations
    end = rows.free_requested_event if curve == "allocated" else rows.free_event
    weight = rows.size if curve == "requested" else rows.block_size
    sums: Counter[Path] = Counter()
    counts: Counter[Path] = Counter()
    for i in range(len(rows)):
        if rows.alloc_event[i] <= event < end[i]:
            path = tuple(file.stacks.path(int(rows.stack[i])))[::-1]
            sums[path] += int(weight[i])
            counts[path] += 1
    return {path: (sums[path], counts[path]) for path in counts}


@for_simulations(150)
def test_call_sites_share_out_the_allocated_bytes(simulation: Simulated) -> None:
    for file, device in device_files(simulation):
        curves = find_curves(device)
        rows = device.allocations
        for event in some_events(device.events, 3):
            sites = find_sites(device, file.stacks, event)
            live = (rows.alloc_event <= event) & (event < rows.free_requested_event)
            assert sum(site.bytes for site in sites) == int(curves["allocated"][event + 1])
            assert sum(site.requested for site in sites) == int(rows.size[live].sum())
            assert sum(site.count for site in sites) == int(live.sum())
            sizes = [site.bytes for site in sites]
            assert sizes == sorted(sizes, reverse=True)


@for_simulations(150)
def test_stacks_are_those_that_were_recorded(simulation: Simulated) -> None:
    for file, device in device_files(simulation):
        trace = simulation.snapshot()["device_traces"][device.device.ordinal]
        rows, frames = device.allocations, file.stacks.frames
        for i in np.flatnonzero(rows.alloc_event >= 0).tolist():
            event = trace[int(rows.alloc_event[i])]
            forward = [each for text in event.get("forward_frames", ()) for each in traced(text)]
            recorded = [
                (traced(f.get("fx_original_trace", "")) or [f])[-1] for f in event.get("frames", ())
            ]
            recorded += [f | {"name": f"gradient of {f['name']}"} for f in reversed(forward)]
            found = [
                (frames.names[f], frames.filenames[f], int(frames.lines[f]))
                for f in file.stacks.path(int(rows.stack[i]))
            ]
            assert found == [
                (f["name"], f["filename"], f["line"] if f["line"] < 2**63 else -1) for f in recorded
            ]
            assert (int(rows.stack[i]) == -1) == ("frames" not in event)


def traced(text: str) -> list[dict[str, Any]]:
    """Return the frames of a traceback, outermost first."""
    found = re.findall(r'File "(.+)", line (\d+), in (.+)', text)
    return [{"filename": file, "line": int(line), "name": name} for file, line, name in found]


@pytest.mark.parametrize("curve", CURVES)
def test_a_tree_of_nothing_is_a_root_alone(curve: str) -> None:
    from tests.builders import trace

    file = trace().file()
    tree = find_call_tree(file.devices[0], file.stacks, Question(curve, alive=(-1, -1)))
    assert len(tree) == 1
    assert tree.bytes.tolist() == [0]


@for_simulations(100)
def test_upward_and_folded_trees_hold_each_stack_in_their_shape(simulation: Simulated) -> None:
    """By a recount that goes from allocation to allocation and from frame to frame."""
    for file, device in device_files(simulation):
        for event in some_events(device.events, 2):
            for curve in CURVES:
                for upward, folded in ((True, False), (False, True), (True, True)):
                    asked = Question(curve, alive=(event, event))
                    tree = find_call_tree(device, file.stacks, asked, upward=upward, folded=folded)
                    assert_adds_up(tree)
                    assert_no_twins(tree)
                    whole = recount(file, device, event, curve)
                    expected: dict[Path, tuple[int, int]] = {}
                    for path, (size, count) in whole.items():
                        shape = shaped(file, path, upward=upward, folded=folded)
                        before = expected.get(shape, (0, 0))
                        expected[shape] = before[0] + size, before[1] + count
                    assert own_by_path(tree) == expected


def assert_no_twins(tree: CallTree) -> None:
    """No two nodes of one frame stand under one parent."""
    framed = [(p, f) for p, f in zip(tree.parent.tolist(), tree.frame.tolist(), strict=True)]
    framed = [each for each in framed if each[1] >= 0]
    assert len(set(framed)) == len(framed)


def shaped(file: History, path: Path, *, upward: bool, folded: bool) -> Path:
    """What becomes of a path from the outermost frame in."""
    if folded and path:
        kinds = classify_frames(file.stacks.frames)
        kept = tuple(f for f in path if kinds[f] in (OUTSIDE, NODE))
        least = min(int(kinds[f]) for f in path)
        path = kept or (next(f for f in reversed(path) if kinds[f] == least),)
    return path[::-1] if upward else path

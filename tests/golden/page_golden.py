"""What the Python model says of a few samples, for the page's own code to agree with.

Each file beside ``golden.test.ts`` holds a packed payload and what this module works out from the
same findings: through ``analyse`` where it has a function for it, else with plain loops, which the
page's code shares nothing with. One function per subject; its name is the key in the file.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from math import floor
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

import snapreport
from snapreport.diagnosis.compare.two_recordings import place_frames
from snapreport.figures.callsites import find_call_tree
from snapreport.figures.curves import find_curves
from snapreport.model.asked import Question
from snapreport.model.findings import (
    MISSING_REASONS,
    NODE,
    OUTSIDE,
    DeviceFindings,
    Findings,
    StageUse,
)
from snapreport.model.roles import ROLES
from snapreport.model.snapshot import pool_name
from snapreport.read import read_snapshot
from snapreport.reporters.json_report import findings_as_json
from snapreport.reporters.payload import Compared, Packed, pack
from snapreport.reporters.words import evidence_text
from tests.builders import TraceBuilder, frame, trace
from tests.golden.allocator_golden import allocator
from tests.golden.times_golden import event_times

FOLDER = Path(__file__).parents[2] / "templates" / "app" / "golden"
SAMPLES = (
    "expandable_segments.pickle.zst",
    "out_of_memory.pickle.gz",
    "private_pool.json",
    "three_devices.pickle",
    "training_step.pickle",
    "truncated_ring.pickle",
)
CURVES = ("allocated", "requested")
EVENTS = 12
TREE_EVENTS = 3
ROWS = 12
FILES = ("*/model.py", "train.py,optim", "-torch", "nowhere.py")
"""Filters of the lines table, in the words that the page takes."""

Label: TypeAlias = tuple[str, str, int]
"""Function, file and line; a reason has no file and line 0."""
NO_MATCH: Label = ("no matching frame", "", 0)


class Golden:
    """One file of the page tests while it is written: findings, and labels by number."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.frames = findings.history.stacks.frames
        self._labels: dict[Label, int] = {}

    def label(self, label: Label) -> int:
        """The number of a label, in the order of first use."""
        return self._labels.setdefault(label, len(self._labels))

    def frame(self, frame: int) -> Label:
        """What the page calls a frame; lines that nobody knows are 0."""
        line = int(self.frames.lines[frame])
        return self.frames.names[frame], self.frames.filenames[frame], max(line, 0)

    def labels(self) -> list[Label]:
        """Every label that was asked for."""
        return list(self._labels)

    def path(self, device: DeviceFindings, row: int) -> list[int]:
        """Frame ids of an allocation, innermost first; none where the reason is missing frames."""
        if device.missing[row]:
            return []
        return list(self.findings.history.stacks.path(int(device.history.allocations.stack[row])))


def encoded(packed: Packed) -> dict[str, str]:
    """Both blocks of a payload, as in a page."""
    blocks = {"first": packed.first, "later": packed.later}
    return {name: base64.b64encode(block).decode("ascii") for name, block in blocks.items()}


def golden_file(sample: Path) -> dict[str, Any]:
    """Payload and expectations for one sample."""
    findings = snapreport.load(sample).findings(allocator=False)
    summary = findings_as_json(findings) | {"snapreport": "VERSION"}
    golden = Golden(findings)
    traces = {trace.device: trace for trace in read_snapshot(sample).traces}
    pools = findings.history.pools
    devices = [
        {subject.__name__: subject(golden, device) for subject in SUBJECTS}
        | allocator(device, traces[device.device], pools, some_events(device)[::2], weighted)
        for device in findings.devices
    ]
    return {
        "payload": encoded(pack(findings, summary)),
        "expected": {"labels": golden.labels(), "devices": devices},
    }


def program(step: int, folder: str, later: bool) -> TraceBuilder:
    """A program of a few functions, before and after an edit that moved lines and files."""
    made = trace()
    for i in range(40):
        line = 3 + 7 * (i % 4)
        stack = [
            frame("new" if later and i % 10 == 9 else "layer", f"{folder}/model.py", line + step),
            frame("forward", f"{folder}/model.py", 60 + i % 3 + 2 * step),
            frame("main", f"{folder}/train.py", 9 + i // 20),
        ]
        size = 512 * (1 + i * i % 23) * (2 if later and i % 3 else 1)
        made.alloc(f"a{i}", size, frames=[] if i % 13 == 5 else stack)
        if i % 5 == 2:
            made.free(f"a{i - 2}")
    return made


def compared_file() -> dict[str, Any]:
    """Payload and expectations for two recordings: a plain walk adds up who holds more in NEW."""
    base, new = (
        snapreport.Snapshot(program(*each).file())
        for each in ((0, "/home/ann/run", False), (4, "/srv/run", True))
    )
    diff = snapreport.diff(base, new)
    places = place_frames(diff)
    both = [each.findings(allocator=False) for each in (base, new)]
    devices = [findings_as_json(each)["devices"][0] for each in both]
    compared = Compared(both[1], places, (diff.base.event, diff.new.event), diff.curve)
    packed = pack(both[0], {"title": "", "default": 2, "devices": devices}, compared)
    golden = [Golden(each) for each in both]
    named: dict[int, Label] = {}
    for each, numbers in zip(golden, places, strict=True):  # as in NEW, where it has the place
        named |= {number: each.frame(k) for k, number in reversed([*enumerate(numbers.tolist())])}
    trees = []
    for curve in CURVES:
        for direction in ("down", "up"):
            sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
            for side, (each, at) in enumerate(zip(golden, compared.events, strict=True)):
                device = each.findings.devices[0]
                for row, size in live_rows(device, at, curve):
                    path = [named[int(places[side][k])] for k in each.path(device, row)]
                    if direction == "down":
                        path.reverse()
                    path = path or [(MISSING_REASONS[device.missing[row]], "", 0)]
                    for depth in range(len(path) + 1):
                        key = "\n".join("|".join(map(str, label)) for label in path[:depth])
                        sums[key][0] += size if side else -size
                        sums[key][1] += 1
            trees.append({"curve": curve, "direction": direction, "nodes": sums})
    return {
        "payload": encoded(packed),
        "expected": {"events": compared.events, "trees": trees},
    }


def write(data: dict[str, Any]) -> bytes:
    """A golden file's bytes: one line for each subject of each device."""
    return _lines(data, 4) + b"\n"


def read(content: bytes) -> dict[str, Any]:
    """A golden file with its payload unpacked: zlib versions compress differently."""
    data: dict[str, Any] = orjson.loads(content)
    if "payload" in data:
        for name, block in data["payload"].items():
            data["payload"][name] = zlib.decompress(base64.b64decode(block), wbits=31)
    return data


def _lines(data: Any, depth: int) -> bytes:
    if depth and isinstance(data, dict) and data:
        inner = (orjson.dumps(key) + b":" + _lines(data[key], depth - 1) for key in data)
        return b"{\n" + b",\n".join(inner) + b"\n}"
    if depth and isinstance(data, list) and data and isinstance(data[0], dict):
        return b"[\n" + b",\n".join(_lines(item, depth - 1) for item in data) + b"\n]"
    return orjson.dumps(data)


# Subjects


def facts(_: Golden, device: DeviceFindings) -> dict[str, Any]:
    """How much there is."""
    history = device.history
    return {
        "id": str(device.device),
        "events": history.events,
        "allocations": len(history.allocations),
        "recorded": device.recorded,
        "peaks": {name: [peak.bytes, peak.event] for name, peak in device.peaks.items()},
    }


def rows(golden: Golden, device: DeviceFindings) -> list[dict[str, Any]]:
    """Some allocations, every column."""
    history, table = device.history, device.history.allocations
    texts, told = golden.findings.history.strings, device.roles
    chosen = np.unique(np.linspace(0, max(len(table) - 1, 0), ROWS).astype(int))

    def text(ids: Any, row: int) -> str | None:
        return texts[int(ids[row])] if ids[row] >= 0 else None

    def stack(stack_id: int) -> list[int]:
        path = golden.findings.history.stacks.path(stack_id)
        return [golden.label(golden.frame(frame)) for frame in path]

    pools = golden.findings.history.pools
    return [
        {
            "row": row,
            "addr": int(table.addr[row]),
            "version": int(table.version[row]),
            "requested": int(table.size[row]),
            "block": int(table.block_size[row]),
            "block_max": int(table.block_size_max[row]),
            "events": [
                int(table.alloc_event[row]),
                int(table.free_requested_event[row]),
                int(table.free_event[row]),
            ],
            "stream": int(table.stream[row]),
            "pool": pool_name(pools[table.pool[row]]) if table.pool[row] >= 0 else None,
            "stack": stack(int(table.stack[row])),
            "free_stack": stack(int(table.free_stack[row])),
            "missing": MISSING_REASONS[device.missing[row]],
            "category": device.categories[device.category[row]].name,
            "role": [ROLES[told.role[row]], evidence_text(told.seen[told.evidence[row]])],
            "compile_context": text(table.compile_context, row),
            "metadata": text(table.metadata, row),
        }
        for row in chosen.tolist()
        if row < len(history.allocations)
    ]


def roles(_: Golden, device: DeviceFindings) -> dict[str, int]:
    """Bytes at the peak of the allocated curve, by role."""
    rows, event = device.history.allocations, device.peaks["allocated"].event
    held: dict[str, int] = defaultdict(int)
    for row in np.flatnonzero(device.history.allocations.live_at(event)).tolist():
        held[ROLES[device.roles.role[row]]] += int(rows.block_size[row])
    return held


def column_sums(_: Golden, device: DeviceFindings) -> dict[str, int]:
    """Each column added up, every row times its place, modulo a prime."""
    table = device.history.allocations
    columns: dict[str, NDArray[np.integer[Any]]] = {
        "addr": table.addr,
        "version": table.version,
        "requested": table.size,
        "block": table.block_size,
        "blockMax": table.block_size_max,
        "allocEvent": table.alloc_event,
        "freeRequestedEvent": table.free_requested_event,
        "freeEvent": table.free_event,
        "missing": device.missing,
        "eventTime": event_times(device),
    }
    return {name: weighted(column.tolist()) for name, column in columns.items()}


def weighted(column: list[int]) -> int:
    """A sum that a swap, a shift or a wrong value changes."""
    return sum((place + 1) * (value % 1_000_003) for place, value in enumerate(column)) % 1_000_003


def amounts(_: Golden, device: DeviceFindings) -> list[list[int | None]]:
    """Event, requested, allocated, active, reserved, and how many live in either curve."""
    history = device.history
    reserved = "reserved" in device.curves
    curves = find_curves(history, reserved)
    return [
        [
            event,
            *(
                int(curves[name][event + 1]) if name in curves else None
                for name in ("requested", "allocated", "active", "reserved")
            ),
            *(int(history.allocations.live_at(event, curve).sum()) for curve in CURVES),
        ]
        for event in some_events(device)
    ]


def curve_sums(_: Golden, device: DeviceFindings) -> dict[str, int]:
    """Each curve added up over all events, as columns are."""
    return {name: weighted(curve.tolist()) for name, curve in device.curves.items()}


def trees(golden: Golden, device: DeviceFindings) -> list[dict[str, Any]]:
    """Call trees: rows of parent, label, bytes, own bytes, count and own count; the root first.

    The plain one from ``analyse``; folded and bottom-up ones merged here from the paths.
    """
    events = some_events(device)
    peak = max(device.peaks["allocated"].event, -1)
    found = []
    for event in sorted({events[0], peak, events[len(events) // 3]}):
        for curve in CURVES:
            found.append(_model_tree(golden, device, event, curve))
    for curve in CURVES:
        for direction, folded in (("down", True), ("up", False), ("up", True)):
            found.append(_merged_tree(golden, device, peak, curve, direction, folded))
    return found


def _model_tree(golden: Golden, device: DeviceFindings, event: int, curve: str) -> dict[str, Any]:
    tree = find_call_tree(
        device.history, golden.findings.history.stacks, Question(curve, alive=(event, event))
    )
    nodes = []
    for node in range(len(tree)):
        frame = int(tree.frame[node])
        label: Label = golden.frame(frame) if frame >= 0 else (tree.label[node], "", 0)
        nodes.append(
            [
                int(tree.parent[node]),
                golden.label(label if node else ("", "", 0)),
                int(tree.bytes[node]),
                int(tree.own_bytes[node]),
                int(tree.count[node]),
                int(tree.own_count[node]),
            ]
        )
    return {"curve": curve, "event": event, "direction": "down", "folded": False, "nodes": nodes}


def _merged_tree(
    golden: Golden, device: DeviceFindings, event: int, curve: str, direction: str, folded: bool
) -> dict[str, Any]:
    kinds, sites = golden.findings.frame_kinds, golden.findings.stack_sites
    nodes: list[list[int]] = [[-1, golden.label(("", "", 0)), 0, 0, 0, 0]]
    places: dict[tuple[int, Label], int] = {}
    for row, size in live_rows(device, event, curve):
        path = golden.path(device, row)
        kept = [frame for frame in path if not folded or kinds[frame] in (OUTSIDE, NODE)]
        if path and not kept:
            kept = [int(sites[device.history.allocations.stack[row]])]
        labels = [golden.frame(frame) for frame in kept]
        if direction == "down":
            labels.reverse()
        if not path:
            labels = [(MISSING_REASONS[device.missing[row]], "", 0)]
        at = 0
        nodes[0][2] += size
        nodes[0][4] += 1
        for label in labels:
            key = (at, label)
            if key not in places:
                places[key] = len(nodes)
                nodes.append([at, golden.label(label), 0, 0, 0, 0])
            at = places[key]
            nodes[at][2] += size
            nodes[at][4] += 1
        nodes[at][3] += size
        nodes[at][5] += 1
    return {
        "curve": curve,
        "event": event,
        "direction": direction,
        "folded": folded,
        "nodes": nodes,
    }


def lines(golden: Golden, device: DeviceFindings) -> list[dict[str, Any]]:
    """The lines table: rows of label, bytes, count, median, all bytes ever and how many."""
    peak = max(device.peaks["allocated"].event, -1)
    wanted = [(event, "") for event in some_events(device)[::2]] + [
        (peak, typed) for typed in FILES
    ]
    return [
        {
            "curve": curve,
            "event": event,
            "filter": typed,
            "rows": lines_at(golden, device, event, curve, typed),
        }
        for event, typed in wanted
        for curve in CURVES
    ]


def lines_at(
    golden: Golden, device: DeviceFindings, event: int, curve: str, typed: str
) -> list[list[int]]:
    """One table of lines, most bytes first, counted with plain loops."""
    sizes, ever = sizes_of_lines(golden, device, event, curve, typed)
    return [
        [
            golden.label(label),
            sum(found),
            len(found),
            floor(median(found)),
            sum(ever[label]),
            len(ever[label]),
        ]
        for label, found in sorted(sizes.items(), key=lambda item: -sum(item[1]))
    ]


def sizes_of_lines(
    golden: Golden, device: DeviceFindings, event: int, curve: str, typed: str
) -> tuple[dict[Label, list[int]], dict[Label, list[int]]]:
    """The sizes of each line's allocations: those live after an event, and those of all time."""
    table = device.history.allocations
    weight = table.size if curve == "requested" else table.block_size
    line = [_line_of(golden, device, row, typed) for row in range(len(table))]
    live: dict[Label, list[int]] = defaultdict(list)
    for row, size in live_rows(device, event, curve):
        live[line[row]].append(size)
    ever: dict[Label, list[int]] = defaultdict(list)
    for row, size in enumerate(weight.tolist()):
        ever[line[row]].append(size)
    return live, ever


def _line_of(golden: Golden, device: DeviceFindings, row: int, typed: str) -> Label:
    path = golden.path(device, row)
    if not path:
        return (MISSING_REASONS[device.missing[row]], "", 0)
    if not typed:
        stack = int(device.history.allocations.stack[row])
        return golden.frame(int(golden.findings.stack_sites[stack]))
    for each in path:
        name = golden.frames.filenames[each]
        if name not in ("", "??", "none") and _passes(name, typed):
            return golden.frame(each)
    return NO_MATCH


def _passes(filename: str, typed: str) -> bool:
    """Terms between commas; those after a ``-`` are unwanted; a ``*`` makes one a glob."""
    terms = [term.strip() for term in typed.split(",")]
    wanted = [term for term in terms if not term.startswith("-")]

    def fits(term: str) -> bool:
        if "*" in term:
            return fnmatchcase(filename, term) or fnmatchcase(filename, f"*/{term}")
        return term in filename

    if any(fits(term[1:]) for term in terms if term.startswith("-")):
        return False
    return not wanted or any(map(fits, wanted))


def stages(_: Golden, device: DeviceFindings) -> list[dict[str, Any]]:
    """Stages of one name in one place: how many, and the least, middle and most of each figure."""
    groups: dict[tuple[str, ...], list[StageUse]] = defaultdict(list)
    for stage in device.stages:
        path = [stage]
        while (parent := path[0].parent) is not None:
            path.insert(0, device.stages[parent])
        groups[tuple(re.sub(r"#\d+", "#*", around.name) for around in path)].append(stage)
    names = ("start_bytes", "peak_bytes", "end_bytes", "change", "allocations", "allocated_bytes")
    return [
        {"path": path, "stages": len(found)}
        | {name: _spread([getattr(stage, name) for stage in found]) for name in names}
        for path, found in groups.items()
    ]


def _spread(values: list[int | None]) -> list[int] | None:
    known = [value for value in values if value is not None]
    return [min(known), floor(median(known)), max(known)] if known else None


SUBJECTS: tuple[Callable[[Golden, DeviceFindings], Any], ...] = (
    facts,
    rows,
    roles,
    column_sums,
    amounts,
    curve_sums,
    trees,
    lines,
    stages,
)


# Events and rows


def some_events(device: DeviceFindings) -> list[int]:
    """Events of a device, ascending: the start, the end, every curve's peak and some between."""
    last = device.history.events - 1
    chosen = {-1, last, *(peak.event for peak in device.peaks.values())}
    for event in np.linspace(-1, last, EVENTS).astype(int).tolist():
        if len(chosen) < EVENTS:
            chosen.add(event)
    return sorted(chosen)


def live_rows(device: DeviceFindings, event: int, curve: str) -> Iterator[tuple[int, int]]:
    """The allocations that count after an event, and with how much."""
    table = device.history.allocations
    weight = table.size if curve == "requested" else table.block_size
    end = table.free_event if curve == "requested" else table.free_requested_event
    for row in range(len(table)):
        if table.alloc_event[row] <= event < end[row]:
            yield row, int(weight[row])

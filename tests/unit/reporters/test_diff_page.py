"""The page of a comparison: two recordings in one payload, whose changes are those of ``diff``."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import snapreport
from dev.simulator import Simulator
from dev.simulator.training import TrainingRun, Transformer
from snapreport.diagnosis.compare.diff_types import Diff
from tests.builders import history_of
from tests.corpus import NO_CORPUS, corpus_files, loaded, representative
from tests.documents import diff_as
from tests.edits import edited, installed_in, with_lines_moved
from tests.payloads import Unpacked, payload_of

FILES = representative(corpus_files())
PAIRS = [*pairwise(FILES), *((each, each) for each in FILES[1:2])]


def page_of(diff: Diff) -> Unpacked:
    return payload_of(diff_as(diff, "html").encode())


def changes_in(page: Unpacked) -> Counter[tuple[str, tuple[int, ...]]]:
    """Where each allocation of the page comes from, and what both moments hold there.

    Only what has a stack is called by its place: file and line, as the page names them.
    """
    compared = page.header["compared"]
    texts = page.header["strings"]
    same, site = page.shared("frame_same"), page.shared("stack_site")
    file, line = page.shared("frame_file"), page.shared("frame_line")
    held: dict[tuple[str, float], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for side, event in enumerate(compared["events"]):
        birth = np.array(page.device("alloc_event", side))
        death = birth + page.device("free_requested_after", side)
        weight = "class_block"
        if compared["curve"] == "requested":
            death, weight = death + page.device("free_after", side), "class_requested"
        sizes = page.device(weight, side)
        live = np.flatnonzero((birth <= event) & (event < death)).tolist()
        stacks, missing = page.device("stack", side), page.device("missing", side)
        classes = page.device("size_class", side)
        for row in live:
            key = ("no stack", missing[row])
            if not missing[row]:
                key = ("place", same[int(site[int(stacks[row])])])
            held[key][2 * (side == 1)] += int(sizes[int(classes[row])])
            held[key][2 * (side == 1) + 1] += 1
    named = Counter[tuple[str, tuple[int, ...]]]()
    for (kind, number), sums in held.items():
        if kind == "no stack":
            name = page.header["missing_reasons"][int(number)]
        else:
            frame_id = int(number)
            name = f"{texts[int(file[frame_id])]}:{max(int(line[frame_id]), 0)}"
        named[name, tuple(sums)] += 1
    return named


def changes_of(diff: Diff) -> Counter[tuple[str, tuple[int, ...]]]:
    found = Counter[tuple[str, tuple[int, ...]]]()
    for change in diff.sites:
        sums = change.base_bytes, change.base_count, change.new_bytes, change.new_count
        place = change.new_place if change.new_count else change.base_place
        found[f"{place.filename}:{place.line or 0}" if place else change.name, sums] += 1
    return found


def without_places(found: Counter[tuple[str, tuple[int, ...]]]) -> Counter[tuple[int, ...]]:
    sums = Counter[tuple[int, ...]]()
    for (_, each), count in found.items():
        sums[each] += count
    return sums


def training(seed: int = 1, length: int = 256) -> dict[str, object]:
    simulator = Simulator(seed=seed)
    run = TrainingRun(simulator, Transformer(length=length))
    run.build()
    simulator.start_recording()
    run.train(2)
    return simulator.snapshot()


@pytest.mark.parametrize("curve", ["allocated", "requested"])
def test_the_page_of_an_edited_program_has_the_changes_of_its_call_sites(curve: str) -> None:
    there = installed_in("/home/ann/run", "/opt/venv/lib/python3.11/site-packages")
    moved = edited(edited(training(length=320), with_lines_moved(3)), there)
    base, new = (snapreport.Snapshot(history_of(each)) for each in (training(), moved))
    diff = snapreport.diff(base, new, curve=curve)
    assert {"moved line", "moved file"} & {change.match for change in diff.sites}
    assert changes_in(page_of(diff)) == changes_of(diff)


@pytest.mark.skipif(not PAIRS, reason=NO_CORPUS)
@pytest.mark.parametrize(("base", "new"), PAIRS, ids=lambda path: path.name)
def test_the_page_of_real_files_has_the_changes_of_their_call_sites(base: Path, new: Path) -> None:
    diff = snapreport.diff(loaded(base), loaded(new))
    page = page_of(diff)
    assert without_places(changes_in(page)) == without_places(changes_of(diff))

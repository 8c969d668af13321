"""The figures of other tools in docs/from-other-tools.md: worked out by their rules again."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import orjson
import pytest

import snapreport
from tests.docs.examples import ROOT, SAMPLES

DOCUMENT = ROOT / "docs" / "from-other-tools.md"


def mosaic(snapshot: dict[str, Any]) -> int:
    """Requested bytes from 0, and block bytes of final blocks that the trace never touches."""
    trace, segments = snapshot["device_traces"][0], snapshot["segments"]
    touched = {event["addr"] for event in trace if event["action"] in ("alloc", "free_completed")}
    static: int = sum(
        block["size"]
        for segment in segments
        for block in segment["blocks"]
        if block["state"] == "active_allocated" and block["address"] not in touched
    )
    return highest(trace, 0, unmatched=False) + static


def snapviewer(snapshot: dict[str, Any]) -> int:
    """Requested bytes, starting with frees that have no allocation."""
    trace = snapshot["device_traces"][0]
    live: set[int] = set()
    start = 0
    for event in trace:
        if event["action"] == "alloc":
            live.add(event["addr"])
        elif event["action"] == "free_completed":
            start += 0 if event["addr"] in live else event["size"]
            live.discard(event["addr"])
    return highest(trace, start, unmatched=True)


def rows_with_another_stack(snapshot: dict[str, Any]) -> str:
    """SnapViewer lists what was freed first in reverse, and its stacks in the trace's order."""
    live: set[int] = set()
    elements: list[Any] = []
    before: list[int] = []
    for event in snapshot["device_traces"][0]:
        if event["action"] == "alloc":
            live.add(event["addr"])
        elif event["action"] == "free_completed" and event["addr"] not in live:
            before.append(len(elements))
        else:
            if event["action"] == "free_completed":
                live.discard(event["addr"])
            continue
        elements.append(event.get("frames", []))
    rows = [*reversed(before), *(k for k in range(len(elements)) if k not in set(before))]
    wrong = sum(elements[row] != stack for row, stack in zip(rows, elements, strict=True))
    return f"{wrong:,} of {len(rows):,}"


def ptmem(snapshot: dict[str, Any]) -> int:
    """Requested bytes, starting with the final block bytes less all changes."""
    trace = snapshot["device_traces"][0]
    signs = {"alloc": 1, "free_completed": -1}
    change = sum(signs.get(event["action"], 0) * event["size"] for event in trace)
    final = sum(segment["allocated_size"] for segment in snapshot["segments"])
    return highest(trace, max(final - change, 0), unmatched=True)


def after_frees(snapshot: dict[str, Any], requested_at_start: int) -> int:
    """Requested bytes, compared where a free has just been made."""
    most = now = requested_at_start
    for event in snapshot["device_traces"][0]:
        if event["action"] == "alloc":
            now += event["size"]
        elif event["action"] == "free_completed":
            now -= event["size"]
            most = max(most, now)
    return max(most, now)


def highest(trace: list[dict[str, Any]], start: int, unmatched: bool) -> int:
    """The most of a running sum; ``unmatched`` frees count in it or not."""
    most = now = start
    live: set[int] = set()
    for event in trace:
        if event["action"] == "alloc":
            live.add(event["addr"])
            now += event["size"]
            most = max(most, now)
        elif event["action"] == "free_completed" and (unmatched or event["addr"] in live):
            live.discard(event["addr"])
            now -= event["size"]
    return most


def load(path: Path) -> Any:
    return pickle.loads(path.read_bytes())


def test_the_figures_on_a_sample_are_those_of_the_rules() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    ring = load(SAMPLES / "truncated_ring.pickle")
    for rule in (mosaic, snapviewer, ptmem):
        assert f"{rule(ring):,}" in text, rule.__name__
    assert f"in `ring.pickle` {rows_with_another_stack(ring)}" in text
    training = load(SAMPLES / "training_step.pickle")
    requested = 4_768_154_632
    start = requested - (highest(training["device_traces"][0], 0, unmatched=True))
    assert f"{after_frees(training, start):,}" in text


def test_other_tools_find_the_same_in_what_is_exported(tmp_path: Path) -> None:
    sample = SAMPLES / "truncated_ring.pickle"
    bundle = snapreport.convert(sample, tmp_path / "ring.zip")
    for source in (sample, bundle):
        for form in ("pickle", "json"):
            made = snapreport.export(source, form, tmp_path / f"{source.suffix}.{form}")
            exported = load(made) if form == "pickle" else orjson.loads(made.read_bytes())
            for rule in (mosaic, snapviewer, ptmem, rows_with_another_stack):
                assert rule(exported) == rule(load(sample)), (source.name, form, rule.__name__)


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("medium_512_training", "90da5022d8d9"),
        ("memory_forward_bf16_128", "d7304a39f535"),
        ("memory_ctx128_forward_", "aa7da837eed6"),
    ],
)
def test_the_figures_on_published_snapshots_are_those_of_the_rules(
    corpus: Path, name: str, digest: str
) -> None:
    snapshot = load(corpus / f"{name}.pickle")
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    (row,) = (line for line in lines if f"`{digest}`" in line)
    if digest == "90da5022d8d9":
        assert f"in the first row's file {rows_with_another_stack(snapshot)} rows" in "\n".join(
            lines
        )
    shown = [cell.split()[0] for cell in row.strip("|").split("|")[-3:]]
    assert shown == [f"{rule(snapshot) / 1e6:,.1f}" for rule in (mosaic, snapviewer, ptmem)]

"""Which allocator made a recording, and how large its blocks then are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from snapreport.bundle import read_bundle, write_bundle
from snapreport.diagnosis.conclude import find
from snapreport.model.findings import DeviceFindings
from snapreport.reporters.exports.rebuilt_snapshot import rebuild
from tests.builders import MIB, assert_same_history, history_of

ADDRESS = 0x12C0_0000_0000
SIZES = [512, 1024, 1536, 100, 500, 481, 450]


def laid_out(
    *, padding: int = 0, unit: int = 512, package: str = "", kept: bool = False, count: int = 60
) -> dict[str, Any]:
    """Lay blocks side by side, each its request and some padding, rounded up to a unit."""
    frames = [{"name": "forward", "filename": "net.py", "line": 9}]
    if package:
        frames.append({"name": "empty", "filename": f"lib/{package}/utils.py", "line": 50})
    made, blocks, at = [], [], ADDRESS
    for number in range(count):
        asked = SIZES[number % len(SIZES)]
        size = -(-(asked + padding) // unit) * unit
        made.append((at, asked))
        blocks.append((at, size, asked))
        at += size
    common = {"stream": 0, "frames": frames}
    trace = [{"action": "segment_alloc", "addr": ADDRESS, "size": 2 * MIB, **common}]
    trace += [{"action": "alloc", "addr": addr, "size": size, **common} for addr, size in made]
    if not kept:
        trace += [
            {"action": action, "addr": addr, "size": size, **common}
            for addr, size in made
            for action in ("free_requested", "free_completed")
        ]
    held = (
        [
            {"address": addr, "size": size, "requested_size": asked, "state": "active_allocated"}
            for addr, size, asked in blocks
        ]
        if kept
        else []
    )
    rest = at if kept else ADDRESS
    held.append({
        "address": rest, "size": ADDRESS + 2 * MIB - rest, "requested_size": 0, "state": "inactive",
    })  # fmt: skip
    used = sum(size for _, size, _ in blocks) if kept else 0
    segment = {
        "device": 0, "address": ADDRESS, "total_size": 2 * MIB, "allocated_size": used,
        "active_size": used, "requested_size": 0, "stream": 0, "segment_type": "small",
        "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
        "blocks": [{**each, "frames": []} for each in held],
    }  # fmt: skip
    return {"segments": [segment], "device_traces": [trace]}


def allocated(padding: int, unit: int, count: int = 60) -> int:
    return sum(-(-(SIZES[number % len(SIZES)] + padding) // unit) * unit for number in range(count))


def found(snapshot: dict[str, Any]) -> DeviceFindings:
    return find(history_of(snapshot)).devices[0]


@pytest.mark.parametrize("package", ["torch_npu", ""])
@pytest.mark.parametrize("kept", [True, False])
def test_blocks_of_an_npu_hold_32_bytes_more_before_they_are_rounded(
    package: str, kept: bool
) -> None:
    device = found(laid_out(padding=32, package=package, kept=kept))
    assert str(device.history.device) == "npu:0"
    assert device.peak.allocated == allocated(32, 512)
    assert device.peaks["allocated"].bound == ""
    assert not device.history.anomalies
    (told,) = [each for each in device.diagnosis.findings if each.code == "other-allocator"]
    assert ("torch_npu" in told.title) == bool(package)
    assert ("final blocks are not" if kept else "512 bytes before the next one") in told.title
    replay = next(each for each in device.trust.checks if each.code == "replay")
    assert "another allocator" in replay.text
    assert "addresses" not in replay.text


@pytest.mark.parametrize("kept", [True, False])
def test_blocks_of_cuda_touch_and_are_their_rounded_requests(kept: bool) -> None:
    device = found(laid_out(kept=kept))
    assert device.history.other_allocator is None
    assert str(device.history.device) == "cuda:0"
    assert device.peak.allocated == allocated(0, 512)


@pytest.mark.parametrize(
    ("made", "name", "sign"),
    [
        ({"unit": 256}, "cuda:0", "would overlap the next one"),
        (
            {"padding": 64, "kept": True},
            "cuda:0",
            "final blocks are not as large as their requests rounded",
        ),
        ({"package": "torch_mlu"}, "mlu:0", "call stacks pass through torch_mlu"),
        ({"package": "torch_npu", "unit": 256}, "npu:0", "call stacks pass through torch_npu"),
    ],
)
def test_nothing_is_exact_where_the_rule_for_blocks_is_not_known(
    made: dict[str, Any], name: str, sign: str
) -> None:
    device = found(laid_out(**made))
    assert str(device.history.device) == name
    other = device.history.other_allocator
    assert other is not None
    assert (sign in other.evidence, other.known) == (True, False)
    assert {device.peaks[each].bound for each in ("allocated", "active")} == {"least"}
    assert device.peaks["requested"].bound == ""
    assert device.trust.verdict == "doubtful"
    assert "an allocator other than CUDA's" in device.trust.sentence
    sizes = next(each for each in device.trust.checks if each.code == "sizes")
    assert (sizes.mark, "exact" in sizes.text) == ("not ok", False)


@pytest.mark.parametrize("made", [{"padding": 32}, {"unit": 256}])
def test_a_bundle_and_the_snapshot_made_of_it_tell_the_same_allocator(
    made: dict[str, Any], tmp_path: Path
) -> None:
    history = history_of(laid_out(**made))
    with (tmp_path / "run.zip").open("wb") as out:
        write_bundle(history, out)
    again = read_bundle(tmp_path / "run.zip")
    assert_same_history(again, history)
    rebuilt = rebuild(again)
    assert history_of(rebuilt).devices[0].other_allocator == history.devices[0].other_allocator


def test_settings_are_named_as_the_backend_names_them() -> None:
    snapshot = laid_out(padding=32, package="torch_npu")
    common = {"stream": 0, "frames": snapshot["device_traces"][0][0]["frames"]}
    failed = {"action": "oom", "size": 8 * MIB, "device_free": 0, **common}
    snapshot["device_traces"][0].append(failed)
    device = found(snapshot)
    said = " ".join(
        f"{each.text} {each.change}"
        for finding in device.diagnosis.findings
        for each in finding.suggestions
    )
    assert "torch.cuda" not in said
    assert "PYTORCH_CUDA" not in said

"""Fragmentation, locked pools, slack, retries and thrash, each with its true bytes."""

from __future__ import annotations

import pytest

from dev.simulator import AllocatorSettings, Simulator
from dev.simulator.allocator import OutOfMemoryError
from dev.simulator.blocks import Block
from snapreport.diagnosis.allocator_use import find_slack, find_tightest
from snapreport.diagnosis.conclude import find
from snapreport.diagnosis.given_back import find_bursts
from snapreport.ground.units import format_bytes
from snapreport.model.diagnoses import View
from snapreport.model.findings import DeviceFindings, Findings
from tests.builders import BASE, KIB, MIB, frame, history_of, trace
from tests.programs import Plan, Program, empties, figures, found, of_code


def read(simulator: Simulator) -> Findings:
    return find(history_of(simulator.snapshot()))


def codes(device: DeviceFindings) -> list[str]:
    return sorted(each.code for each in found(device, "allocator"))


def comb(settings: AllocatorSettings | None = None) -> Simulator:
    """Fill segments, free every second tensor, then ask for what fits into no hole."""
    simulator = Simulator(settings)
    simulator.start_recording()
    simulator.set_stack([frame("fill", line=2)])
    teeth: list[Block] = [simulator.malloc(4 * MIB) for _ in range(40)]
    for tooth in teeth[::2]:
        simulator.free(tooth)
    simulator.set_stack([frame("big", line=5)])
    simulator.malloc(64 * MIB)
    simulator.malloc(100)
    return simulator


def test_pieces_that_do_not_serve_a_request_are_fragmentation() -> None:
    findings = read(comb())
    (device,) = findings.devices
    tightest = find_tightest(findings.history, device)
    assert tightest is not None
    # 40 tensors of 4 MiB fill 8 segments of 20 MiB; 20 of them go, and 64 MiB fit nowhere.
    assert (tightest.pieces, tightest.whole, tightest.elsewhere) == (80 * MIB, 0, 0)
    assert tightest.reserved == 224 * MIB
    assert tightest.beyond == 226 * MIB - 160 * MIB  # the small segment of the last one, too
    finding = of_code(device, "fragmentation")
    assert finding.severity == "warning"
    assert format_bytes(tightest.beyond) in finding.suggestions[0].text
    assert finding.suggestions[0].frees is None  # only the most is known
    assert "expandable_segments" in finding.suggestions[0].change


def test_expandable_segments_are_not_recommended_twice() -> None:
    device = read(comb(AllocatorSettings(expandable_segments=True))).devices[0]
    changes = [
        suggestion.change
        for finding in found(device, "allocator")
        for suggestion in finding.suggestions
    ]
    assert not [change for change in changes if "expandable" in change]


def test_no_setting_is_offered_that_could_not_have_served_the_request_that_failed() -> None:
    made = comb()
    with pytest.raises(OutOfMemoryError):
        made.malloc(1 << 40)
    device = read(made).devices[0]
    said = of_code(device, "oom").explanation
    assert "No setting could have helped" in said
    assert of_code(device, "fragmentation")
    offered = [each.change for found in device.diagnosis.findings for each in found.suggestions]
    assert not [change for change in offered if "PYTORCH" in change]


def test_the_small_pool_says_nothing_of_the_large_one() -> None:
    simulator = Simulator()
    simulator.start_recording()
    simulator.set_stack([frame("f")])
    kept = simulator.malloc(200 * MIB)
    simulator.free(kept)
    for _ in range(30):  # every so often two more MiB for the small pool
        simulator.malloc(512 * KIB)
    assert "unused-reserved" not in codes(read(simulator).devices[0])


def test_a_private_pool_that_nobody_uses_is_locked() -> None:
    simulator = Simulator()
    simulator.start_recording()
    simulator.set_stack([frame("capture", line=4)])
    allocator = simulator.allocators[0]
    allocator.begin_pool((1, 0))
    captured = [simulator.malloc(20 * MIB) for _ in range(5)]
    for block in captured[1:]:
        simulator.free(block)
    allocator.end_pool()
    simulator.set_stack([frame("serve", line=8)])
    simulator.malloc(120 * MIB)
    findings = read(simulator)
    locked = of_code(findings.devices[0], "locked-pool")
    assert locked.severity == "note"
    assert figures(locked)["inactive in private pools"] == 80 * MIB
    assert locked.tables[0].rows == (("1,0 (CUDA graph)", 100 * MIB, 20 * MIB, 80 * MIB),)
    assert locked.suggestions == ()  # one pool cannot be shared


def capture_graphs(shared: bool) -> Simulator:
    """Capture five graphs, each for half the rows of the one before, the cache emptied before each.

    Each keeps its input of 16 MiB outside the pool, and its result inside.
    """
    simulator = Simulator()
    simulator.start_recording()
    allocator = simulator.allocators[0]
    outside = [frame("serve", line=8)]
    into = [
        frame("empty_cache", "site-packages/torch/cuda/memory.py"),
        frame("__enter__", "site-packages/torch/cuda/graphs.py"),
        *outside,
    ]
    for number in range(5):
        with simulator.annotation(f"capture {number}"):
            simulator.set_stack([frame("warm_up", line=6), *outside])
            simulator.free(simulator.malloc(64 * MIB))
            simulator.set_stack([frame("input", line=7), *outside])
            simulator.malloc(16 * MIB)
            simulator.set_stack(into)
            simulator.empty_cache()
            allocator.begin_pool((0, 1) if shared else (number + 1, 0))
            simulator.set_stack([frame("forward", line=4), *outside])
            blocks = [simulator.malloc((32 >> number) * 2 * MIB) for _ in range(3)]
            for block in blocks[1:]:
                simulator.free(block)
            allocator.end_pool()
    return simulator


def test_a_pool_for_each_graph_is_no_leak_and_sharing_saves_no_more_than_it_says() -> None:
    own, shared = (read(capture_graphs(each)).devices[0] for each in (False, True))
    locked = of_code(own, "locked-pool")
    assert (locked.severity, figures(locked)["private pools"]) == ("warning", 5)
    assert [each.code for each in locked.suggestions] == ["share-pool", "fewer-graphs"]
    assert "graph_pool_handle()" in locked.suggestions[0].change
    saved = int(own.curves["reserved"].max()) - int(shared.curves["reserved"].max())
    assert saved > 0
    assert "That saves at most 204.0 MiB" in locked.suggestions[0].text
    assert saved <= 204 * MIB  # 192 + 96 + 48 + 40 + 20 MiB in pools, the largest stays
    for device in (own, shared):
        assert not {"leak", "segment-thrash"} & {each.code for each in device.diagnosis.findings}
        kept = of_code(device, "graph-capture")
        assert figures(kept)["steps watched"] == 5
        assert "captures a CUDA graph" in kept.explanation


def test_whole_segments_of_one_pool_come_back_with_the_pool() -> None:
    simulator = Simulator()
    simulator.start_recording()
    simulator.set_stack([frame("load", line=4)])
    simulator.allocators[0].begin_pool((0, 1))
    for block in [simulator.malloc(100 * MIB) for _ in range(4)][1:]:
        simulator.free(block)
    simulator.malloc(150 * MIB)
    device = read(simulator).devices[0]
    (offered,) = of_code(device, "locked-pool").suggestions
    assert (offered.code, "300.0 MiB are in whole" in offered.text) == ("release-pool", True)
    # The allocator gives unused segments of a private pool back under no setting.
    assert "unused-reserved" not in codes(device)


def test_slack_is_split_by_cause_and_size() -> None:
    simulator = Simulator(AllocatorSettings(roundup_power2_divisions=(2,) * 16))
    simulator.start_recording()
    simulator.set_stack([frame("f")])
    for _ in range(10):
        simulator.malloc(33 * MIB)  # rounded up to 48
    findings = read(simulator)
    slack = find_slack(findings.history, findings.devices[0])
    assert (slack.total, slack.divided, slack.unsplit) == (150 * MIB, 150 * MIB, 0)
    assert slack.lower.tolist() == [32 * MIB]
    assert slack.count.tolist() == [10]
    finding = of_code(findings.devices[0], "slack")
    assert finding.severity == "warning"
    assert finding.suggestions[0].expected == 150 * MIB


def pinned(*sizes: int, rounded: bool, text: str = "") -> DeviceFindings:
    """Pin memory; ``rounded`` if the file has only the sizes of blocks, as PyTorch 2.14 writes."""
    made = trace()
    for number, size in enumerate(sizes):
        block = 1 << (size - 1).bit_length()
        place = f"place {number}"
        made.event("segment_alloc", addr=made.address(place), size=block)
        made.alloc(place, block if rounded else size, frames=[frame("pin", "loader.py", 12)])
        made.segment(place, block, (block, block if rounded else size, "live"))
    made.settings(PYTORCH_CUDA_ALLOC_CONF=text)
    snapshot = made.snapshot()
    snapshot["host_traces"], snapshot["device_traces"] = snapshot["device_traces"], [[]]
    snapshot["host_segments"], snapshot["segments"] = snapshot["segments"], []
    (device,) = (each for each in find(history_of(snapshot)).devices if each.device.kind == "host")
    return device


def test_pinned_memory_says_what_rounding_to_powers_of_two_costs() -> None:
    finding = of_code(pinned(5 * MIB, 9 * MIB, 600 * KIB, rounded=False), "pinned-rounding")
    assert finding.title == (
        "10.41 MiB of the 25.00 MiB at the peak are rounding: 14.59 MiB were asked for"
    )
    assert finding.severity == "warning"
    (suggestion,) = finding.suggestions
    assert suggestion.frees is not None
    assert suggestion.frees.least == suggestion.frees.most == 10 * MIB  # not of the smallest
    assert suggestion.change.endswith("pinned_max_round_threshold_mb:1")


def test_pinned_memory_of_powers_of_two_alone_may_be_half_rounding() -> None:
    finding = of_code(pinned(*[3 * MIB] * 4, rounded=True), "pinned-rounding")
    assert finding.title == (
        "Up to 8.00 MiB of the 16.00 MiB at the peak may be rounding: all sizes are powers of two"
    )
    assert finding.severity == "note"
    assert "up to half of this memory may never have been asked for" in finding.explanation
    # Above the recorded threshold nothing is rounded.
    limited = pinned(*[3 * MIB] * 4, rounded=True, text="pinned_max_round_threshold_mb:2")
    assert "pinned-rounding" not in codes(limited)


def test_pinned_memory_of_other_sizes_is_not_said_to_be_rounded() -> None:
    text = "pinned_max_cached_size_mb:1"
    device = pinned(*[4 * MIB] * 4, rounded=True, text=text)
    assert "pinned-rounding" not in codes(device)
    assert "pinned-rounding" not in codes(pinned(*[4 * MIB] * 3, rounded=True))


def test_blocks_handed_out_whole_are_slack_that_expandable_segments_avoid() -> None:
    simulator = Simulator()
    simulator.start_recording()
    simulator.set_stack([frame("f")])
    for block in [simulator.malloc(12 * MIB) for _ in range(50)]:
        simulator.free(block)
    for _ in range(50):
        simulator.malloc(12 * MIB - 900 * KIB)  # too little is left to be split off
    simulator.malloc(12 * MIB)  # the peak
    findings = read(simulator)
    slack = find_slack(findings.history, findings.devices[0])
    assert slack.total == slack.unsplit == 50 * 900 * KIB
    (suggestion,) = of_code(findings.devices[0], "slack").suggestions
    assert suggestion.expected == slack.unsplit


def full_device() -> Simulator:
    simulator = Simulator(capacity=200 * MIB)
    simulator.start_recording()
    simulator.set_stack([frame("load", line=2)])
    first = [simulator.malloc(40 * MIB) for _ in range(4)]
    simulator.free(first[0])
    simulator.free(first[1])
    simulator.set_stack([frame("train", line=9)])
    simulator.malloc(100 * MIB)
    simulator.malloc(100)
    return simulator


def test_a_request_that_was_served_after_all_is_a_retry() -> None:
    findings = read(full_device())
    (device,) = findings.devices
    (burst,) = find_bursts(findings.history, device)
    assert (burst.kind, burst.count, burst.bytes) == ("retry", 2, 80 * MIB)
    assert burst.got_again == 80 * MIB
    retries = of_code(device, "allocator-retries")
    assert retries.view == View("events", burst.last_event)
    assert retries.severity == "warning"
    assert retries.tables[0].rows[0][0] == "train  train.py:9"


def test_a_request_that_failed_all_the_same_is_no_retry() -> None:
    builder = (
        trace()
        .event("segment_alloc", addr=BASE, size=20 * MIB)
        .alloc(BASE, 20 * MIB)
        .free(BASE)
        .event("segment_free", addr=BASE, size=20 * MIB)
        .event("oom", addr=512, size=40 * MIB, device_free=512)
    )
    findings = find(builder.file())
    (burst,) = find_bursts(findings.history, findings.devices[0])
    assert burst.kind == "failed"
    assert "allocator-retries" not in codes(findings.devices[0])


@pytest.mark.parametrize("seed", range(3))
def test_emptying_the_cache_in_each_step_is_thrash(seed: int) -> None:
    program = Program(Plan(seed, iterations=8, each=empties)).run()
    findings = read(program.simulator)
    (device,) = findings.devices
    bursts = find_bursts(findings.history, device)
    assert {burst.kind for burst in bursts} == {"emptied"}
    assert len(bursts) == 8
    thrash = of_code(device, "segment-thrash")
    assert figures(thrash)["times given back and fetched again"] == 7  # the last is the end
    assert figures(thrash)["bytes fetched again"] == sum(burst.got_again for burst in bursts)
    assert figures(thrash)["by empty_cache()"] == 7


def test_emptying_the_cache_once_is_no_thrash() -> None:
    def once(program: Program, number: int) -> None:
        if number == 4:
            empties(program, number)

    assert "segment-thrash" not in codes(Program(Plan(each=once)).run().analysed())


def test_what_later_iterations_do_not_need_is_said_to_be_unused() -> None:
    def early(program: Program, number: int) -> None:
        if number < 2:
            with program.call("main", "warmup.py", 3):
                program.drop(program.new(300 * MIB, "at::_ops::empty::call"))

    unused = of_code(Program(Plan(iterations=12, each=early)).run().analysed(), "unused-reserved")
    assert unused.severity == "note"
    assert 250 * MIB < unused.suggestions[-1].expected < 310 * MIB


def test_pinned_memory_has_rules_of_its_own() -> None:
    snapshot = comb().snapshot()
    for event in snapshot["device_traces"][0]:
        event["device"] = 0
    host = {**snapshot, "device_traces": [[]], "segments": []}
    host["host_segments"], host["host_traces"] = snapshot["segments"], snapshot["device_traces"]
    for device in find(history_of(host)).devices:
        assert codes(device) == []

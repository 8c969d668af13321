"""Layouts of a snapshot's top level, old and new."""

from __future__ import annotations

from dev.simulator import layouts
from snapreport.model.snapshot import DeviceId
from tests.builders import BASE, MIB, frame, history_of, read_object, stack, trace

GPU_0, GPU_1, HOST, CPU = (
    DeviceId("cuda", 0),
    DeviceId("cuda", 1),
    DeviceId("host", 0),
    DeviceId("cpu", 0),
)


def test_a_bare_list_of_segments_has_devices_and_no_events() -> None:
    one = trace(0).segment("a", 20 * MIB, (4 * MIB, 4 * MIB, "live"))
    two = trace(1).segment("a", 2 * MIB, (512, 8, "live"), large=False)
    raw = read_object([*one.segments, *two.segments])
    assert raw.layout == "segments"
    assert [t.device for t in raw.traces] == [GPU_0, GPU_1]
    assert [len(t) for t in raw.traces] == [0, 0]
    assert raw.segments[GPU_1].block_requested.tolist() == [8, 0]


def test_segments_come_in_address_order_however_they_are_listed() -> None:
    builder = (
        trace()
        .segment(BASE + 40 * MIB, 20 * MIB, (4 * MIB, 1, "live"))
        .segment(BASE, 2 * MIB, (512, 2, "live"))
    )
    segments = read_object(builder.snapshot()).segments[GPU_0]
    assert segments.address.tolist() == [BASE, BASE + 40 * MIB]
    assert segments.block_requested.tolist() == [2, 0, 1, 0]
    assert segments.block_segment.tolist() == [0, 0, 1, 1]
    assert segments.stated[:, 2].tolist() == [2, 1]


def test_inactive_blocks_request_nothing_whatever_the_file_says() -> None:
    builder = trace().segment("a", 20 * MIB, (4 * MIB, 3 * MIB, "live"))
    builder.segments[0]["blocks"][1]["requested_size"] = 99 * MIB
    segments = read_object(builder.snapshot()).segments[GPU_0]
    assert segments.block_requested.tolist() == [3 * MIB, 0]


def test_torch_20_blocks_get_their_address_size_and_stack_from_history() -> None:
    segment = {
        "device": 0,
        "address": BASE,
        "total_size": 20 * MIB,
        "allocated_size": 6 * MIB,
        "active_size": 6 * MIB,
        "stream": 0,
        "segment_type": "large",
        "blocks": [
            {"size": 10 * MIB, "state": "inactive", "history": [{"addr": BASE, "real_size": 1}]},
            {
                "size": 4 * MIB,
                "state": "active_allocated",
                "history": [
                    {"addr": BASE + 10 * MIB, "real_size": 3 * MIB, "frames": [frame("f")]}
                ],
            },
            {"size": 2 * MIB, "state": "active_allocated"},
            {"size": 4 * MIB, "state": "inactive", "requested_size": 77},
        ],
    }
    raw = read_object({"segments": [segment], "device_traces": []})
    segments = raw.segments[GPU_0]
    assert raw.layout == "torch-2.0"
    assert segments.block_address.tolist() == [
        BASE,
        BASE + 10 * MIB,
        BASE + 14 * MIB,
        BASE + 16 * MIB,
    ]
    assert segments.block_requested.tolist() == [0, 3 * MIB, 2 * MIB, 0]
    names = [
        [raw.stacks.frames.names[f] for f in raw.stacks.path(int(stack_id))]
        for stack_id in segments.block_stack
    ]
    assert names == [[], ["f"], [], []]


def test_a_device_with_segments_alone_gets_an_empty_trace() -> None:
    one, two = trace(0).alloc("a", 4), trace(1).segment("b", 20 * MIB)
    snapshot = one.snapshot() | {"segments": two.segments}
    raw = read_object(snapshot)
    assert [(t.device, len(t)) for t in raw.traces] == [(GPU_0, 1), (GPU_1, 0)]
    assert len(raw.segments[GPU_0]) == 0
    assert len(raw.segments[GPU_1]) == 1


def test_devices_are_never_mixed() -> None:
    one, two = trace(0).alloc(BASE, 4), trace(1).alloc(BASE, 8).free(BASE)
    snapshot = one.snapshot() | {"device_traces": [one.events, two.events]}
    first, second = history_of(snapshot).devices
    assert first.allocations.free_event.tolist() == [1]
    assert second.allocations.free_event.tolist() == [2]
    assert second.allocations.size.tolist() == [8]


def test_pinned_host_memory_is_a_device_of_its_own() -> None:
    gpu, host = trace().alloc("a", 4), trace().alloc("a", 4096).segment("a", 4096)
    snapshot = gpu.snapshot() | {
        "host_traces": [host.events],
        "host_segments": host.segments,
    }
    raw = read_object(snapshot)
    assert [t.device for t in raw.traces] == [GPU_0, HOST]
    assert len(raw.segments[HOST]) == 1
    file = history_of(snapshot)
    assert file.default_device == 0
    assert [d.allocations.size.tolist() for d in file.devices] == [[4], [4096]]


def test_host_traces_may_be_one_list_of_events() -> None:
    host = trace().alloc("a", 4096)
    raw = read_object(trace().alloc("a", 4).snapshot() | {"host_traces": host.events})
    assert [t.device for t in raw.traces] == [GPU_0, HOST]


def test_empty_host_lists_make_no_device() -> None:
    raw = read_object(trace().snapshot() | {"host_traces": [[], []], "host_segments": []})
    assert [t.device for t in raw.traces] == [GPU_0]


def test_a_flat_list_of_traces_is_the_first_gpus() -> None:
    builder = trace().alloc("a", 4)
    raw = read_object({"segments": [], "traces": builder.events})
    assert [(t.device, len(t)) for t in raw.traces] == [(GPU_0, 1)]


def test_a_profiler_snapshot_ends_with_the_cpu() -> None:
    builder = trace().alloc("a", 4 * MIB, frames=stack("f"))
    builder.segment("a", 20 * MIB, (4 * MIB, 4 * MIB, "live"))
    builder.segments[0]["blocks"][0]["frames"] = stack("f")
    raw = read_object(layouts.profiler_layout(builder.snapshot()))
    assert raw.layout == "profiler"
    assert [t.device for t in raw.traces] == [GPU_0, CPU]
    assert raw.strings == ["unknown"]


def test_a_profiler_snapshot_counts_final_blocks_once() -> None:
    builder = trace().alloc("a", 4 * MIB, frames=stack("f"))
    builder.segment("a", 20 * MIB, (4 * MIB, 4 * MIB, "live"))
    builder.segments[0]["blocks"][0]["frames"] = stack("f")
    history = history_of(layouts.profiler_layout(builder.snapshot()))
    rows = history.devices[0].allocations
    assert rows.size.tolist() == rows.block_size.tolist() == [4 * MIB]
    assert rows.alloc_event.tolist() == [0]


def test_annotations_keep_their_device_and_order() -> None:
    builder = trace(1).alloc("a", 4).start("s", 5).end("s", 7)
    raw = read_object(builder.snapshot())
    assert [(a.device, a.name, a.start) for a in raw.annotations] == [
        (GPU_1, "s", True),
        (GPU_1, "s", False),
    ]

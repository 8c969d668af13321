"""The payload: what was packed can be unpacked, is small, and is the same every time."""

from __future__ import annotations

import numpy as np

from snapreport.diagnosis.conclude import find
from snapreport.model.findings import MISSING_REASONS
from snapreport.reporters.json_report import findings_as_json
from snapreport.reporters.payload import Columns, pack
from tests.browser.builders import MAIN, MIB, TORCH, USER, DeviceSpec, Row, findings, training
from tests.builders import BASE, frame, trace
from tests.payloads import Unpacked


def unpack(*specs: DeviceSpec) -> Unpacked:
    found = findings(*specs)
    return Unpacked(pack(found, findings_as_json(found)))


def test_a_column_takes_the_narrowest_type_that_holds_it() -> None:
    columns = Columns()
    cases: list[tuple[list[int], str]] = [
        ([], "u8"), ([0, 255], "u8"), ([256], "u16"), ([65536], "u32"), ([2**32], "f64"),
        ([-1, 127], "i8"), ([-1, 128], "i16"), ([-1, 40_000], "i32"), ([-1, 2**31], "f64"),
    ]  # fmt: skip
    for values, expected in cases:
        assert columns.add(values)["type"] == expected
    assert len(b"".join(columns.parts)) % 8 == 0


def test_growing_numbers_are_stored_as_differences() -> None:
    columns = Columns()
    entry = columns.add([1_000_000, 1_000_001, 1_000_003], delta=True)
    assert entry == {"type": "u32", "offset": 0, "length": 3, "delta": True}
    # All lowest bytes, then all next ones, and so on.
    assert b"".join(columns.parts)[:12] == bytes([0x40, 1, 2, 0x42, 0, 0, 0x0F, 0, 0, 0, 0, 0])


def test_every_allocation_comes_back() -> None:
    rows = [Row(600, None, 3, block=1024), Row(2**40, 1, None), Row(512, 2, 4)]
    unpacked = unpack(DeviceSpec(rows, events=5))
    size_class = [int(k) for k in unpacked.device("size_class")]
    requested = unpacked.device("class_requested")
    block = unpacked.device("class_block")
    assert [requested[k] for k in size_class] == [600, 2**40, 512]
    assert [block[k] for k in size_class] == [1024, 2**40, 512]
    born = np.array(unpacked.device("alloc_event"))
    freed = born + unpacked.device("free_requested_after")
    assert born.tolist() == [-1, 1, 2]
    assert freed.tolist() == [3, 5, 4]
    assert (freed + unpacked.device("free_after")).tolist() == [3, 5, 4]
    addresses = unpacked.device("addr_values")
    assert unpacked.device("addr_back") == [0, 0, 0]
    assert [addresses[int(k)] for k in unpacked.device("addr_first")] == [
        2**46 + 4096 * k for k in range(3)
    ]


def test_times_count_from_the_first_known_one_and_gaps_repeat_the_event_before() -> None:
    unpacked = unpack(DeviceSpec([Row(512, 1, 3)], events=5))
    assert unpacked.header["devices"][0]["time_origin_us"] == 1_700_000_000_000_010
    # Differences: of events that follow no allocation's, among them its alloc and its free, which
    # is at 20; then of what follows these.
    assert unpacked.device("event_time") == [0, 0, 20, 0, 0]
    timeless = unpack(DeviceSpec([Row(512, 1, 3)], events=5, times=False))
    assert timeless.header["devices"][0]["time_origin_us"] is None
    assert timeless.device("event_time") == []


def test_only_stacks_that_something_shows_are_packed_and_they_keep_their_frames() -> None:
    found = findings(
        DeviceSpec([Row(MIB, 1, 3, (TORCH, USER, MAIN))]),
        DeviceSpec([Row(MIB, 1, 3, (("other", "/x.py", 1), MAIN)), Row(MIB, 2, 5)], ordinal=1),
    )
    second = type(found)(**{**vars(found), "devices": found.devices[1:]})
    unpacked = Unpacked(pack(second, findings_as_json(second)))
    strings = unpacked.header["strings"]
    texts = ["<module>", "/home/me/train.py", "other", "/x.py", "unknown"]  # the last: a category
    assert sorted(strings) == sorted(texts)
    assert unpacked.device("stack") == [0, -1]
    node = int(unpacked.shared("stack_node")[0])
    names = []
    while node >= 0:
        frame = int(unpacked.shared("node_frame")[node])
        names.append(strings[int(unpacked.shared("frame_name")[frame])])
        node = int(unpacked.shared("node_parent")[node])
    assert names == ["other", "<module>"]


def test_call_sites_and_reasons_for_missing_stacks_are_those_of_the_findings() -> None:
    rows = [Row(MIB), Row(MIB, 1, 3, (("other", "??", 0), TORCH)), Row(MIB, 2, 5, (TORCH, USER))]
    unpacked = unpack(DeviceSpec(rows))
    assert unpacked.device("missing") == [1, 0, 0]
    assert unpacked.header["missing_reasons"] == list(MISSING_REASONS)
    strings, names = unpacked.header["strings"], unpacked.shared("frame_name")
    sites = [strings[int(names[int(frame)])] for frame in unpacked.shared("stack_site")]
    assert sites == ["other", "forward"]
    kinds = dict(zip((strings[int(k)] for k in names), unpacked.shared("frame_kind"), strict=True))
    assert kinds == {"other": 1, TORCH[0]: 1, "forward": 0}


def test_the_stack_of_a_failed_request_is_packed() -> None:
    spec = DeviceSpec([Row(MIB, 1, 3, (USER,))], ooms=[(4, MIB, (TORCH, MAIN)), (5, MIB, None)])
    unpacked = unpack(spec)
    assert unpacked.device("event_stack") == [1, -1]
    assert len(unpacked.shared("stack_node")) == 2


NAMED = "0,1 (MemPool or graph_pool_handle)"


def test_the_edges_of_private_pools_reach_down_from_reserved_the_largest_first() -> None:
    """A segment of the default pool, then two private pools; the second one's goes again."""
    builder = trace()
    for place, size in (("plain", 20), ("graph", 30), ("pool", 50)):
        builder.event("segment_alloc", addr=builder.address(place), size=size * MIB)
    builder.alloc("plain", 2 * MIB)
    builder.event("segment_free", addr=builder.address("graph"), size=30 * MIB, pool_id=(4, 0))
    builder.segment("plain", 20 * MIB, (2 * MIB, 2 * MIB, "live"))
    builder.segment("pool", 50 * MIB, segment_pool_id=(0, 1))
    found = find(builder.file())
    unpacked = Unpacked(pack(found, findings_as_json(found)))
    edges = [
        (
            each["pool"],
            each["most"] // MIB,
            unpacked.column(each["event"]).astype(int).tolist(),
            (unpacked.column(each["bytes"]) / MIB).tolist(),
        )
        for each in unpacked.header["devices"][0]["envelopes"]
    ]
    assert edges == [
        (NAMED, 50, [-1, 0, 1, 2, 4], [0, 20, 50, 50, 20]),
        ("4,0 (CUDA graph)", 30, [-1, 0, 1, 2, 4], [0, 20, 20, 20, 20]),
    ]
    # More was active than reserved: the curve that they would reach down from is wrong.
    builder.alloc("elsewhere", 500 * MIB).free("elsewhere")
    found = find(builder.file())
    assert found.devices[0].reserved_from == found.devices[0].history.events - 1
    assert Unpacked(pack(found, findings_as_json(found))).header["devices"][0]["envelopes"] == []


def test_segments_come_back_with_pool_stream_and_life() -> None:
    builder = (
        trace()
        .event("segment_alloc", addr=BASE, size=2 * MIB, stream=7)
        .alloc(BASE, 512, stream=7)
        .free(BASE, stream=7)
        .event("segment_free", addr=BASE, size=2 * MIB, stream=7)
        .event("segment_map", addr=BASE + 60 * MIB, size=20 * MIB)
        .segment(BASE + 40 * MIB, 40 * MIB, is_expandable=True, segment_pool_id=(0, 1))
    )
    found = find(builder.file())
    unpacked = Unpacked(pack(found, findings_as_json(found)))
    addresses, sizes = unpacked.device("addr_values"), unpacked.device("segment_size_values")
    streams, pools = unpacked.device("stream_values"), unpacked.header["devices"][0]["pools"]
    start, pool = unpacked.device("segment_start"), unpacked.device("segment_pool")
    lives = [
        (
            (int(addresses[int(unpacked.device("segment_addr")[k])]) - BASE) // MIB,
            int(sizes[int(unpacked.device("segment_size")[k])]) // MIB,
            int(start[k]),
            int(start[k] + unpacked.device("segment_life")[k]),
            streams[int(unpacked.device("segment_stream")[k])],
            pools[int(pool[k])] if pool[k] >= 0 else None,
            unpacked.device("segment_kind")[k],
            unpacked.device("segment_expandable")[k],
        )
        for k in range(len(start))
    ]
    assert lives == [
        (40, 20, -1, 5, 0, NAMED, 1, 1),
        (0, 2, 0, 4, 7, None, 0, 0),
        (40, 40, 5, 6, 0, NAMED, 1, 1),
    ]


def test_other_events_come_back_with_their_streams_and_stacks() -> None:
    builder = (
        trace()
        .event("segment_alloc", addr=BASE, size=2 * MIB, stream=7, frames=[frame("grow")])
        .event("oom", addr=None, device_free=5, size=9)
        .segment(BASE, 2 * MIB)
    )
    found = find(builder.file())
    unpacked = Unpacked(pack(found, findings_as_json(found)))
    addresses, streams = unpacked.device("addr_values"), unpacked.device("stream_values")
    assert [addresses[int(k)] for k in unpacked.device("event_addr")] == [BASE, 5]
    assert [streams[int(k)] for k in unpacked.device("event_stream")] == [7, 0]
    assert unpacked.device("event_size") == [2 * MIB, 9]
    assert unpacked.device("event_stack") == [0, -1]
    assert "grow" in unpacked.header["strings"]


def test_equal_findings_give_equal_bytes() -> None:
    first, second = findings(training()), findings(training())
    one, other = (pack(each, findings_as_json(each)) for each in (first, second))
    assert one == other


def test_a_device_without_allocations_packs() -> None:
    unpacked = unpack(DeviceSpec([], events=0))
    assert unpacked.device("alloc_event") == []
    assert unpacked.header["devices"][0]["events"] == 0


def test_colourings_of_one_colour_are_named() -> None:
    alike = trace().alloc(BASE, 512).free(BASE).alloc(BASE, 512).segment(BASE, 2 * MIB)
    other = trace().alloc(BASE, 512).alloc(BASE + 512, 512, stream=7).segment(BASE, 2 * MIB)
    for builder, named in ((alike, True), (other, False), (trace(), True)):
        found = find(builder.file())
        (device,) = Unpacked(pack(found, findings_as_json(found))).header["devices"]
        assert ("stream" in device["one_colour"]) == named
        assert {"category", "pool", "context"} <= set(device["one_colour"])

"""From what the profiler saw to a snapshot, on events made by hand."""

from __future__ import annotations

import pickle
from typing import Any

from snapreport.history.build import build_history
from snapreport.model.history import DeviceHistory, History
from snapreport.read import read_bytes
from snapreport.recorders.profiler import MemoryEvent, NamedRange, Recorded, SeenTensor, to_snapshot

CPU = ("cpu", 0)
FRAMES = [
    {"name": "aten::empty", "filename": "??", "line": 0},
    {"name": "train", "filename": "/home/user/train.py", "line": 12},
]


def event(time_us: int, address: int, size: int, device: tuple[str, int] = CPU) -> MemoryEvent:
    return MemoryEvent(time_us * 1000, device, address, size, 0, FRAMES)


def tensor(time_us: int, address: int, size: int, kind: str = "parameter") -> SeenTensor:
    return SeenTensor(time_us * 1000, CPU, address, size, kind, "Linear.weight")


def history(*parts: Recorded) -> History:
    return build_history(read_bytes(pickle.dumps(to_snapshot(parts), 4), "made by hand"))


def only(*parts: Recorded) -> DeviceHistory:
    file = history(*parts)
    (device,) = file.devices
    assert str(device.device) == "cpu:0"
    assert file.oddities == {}
    assert device.anomalies == {}
    return device


def actions(parts: list[Recorded]) -> list[tuple[str, int, int]]:
    trace: list[dict[str, Any]] = to_snapshot(parts)["device_traces"][-1]
    return [(row["action"], row["addr"], row["size"]) for row in trace]


def test_an_alloc_and_its_free_are_one_allocation_with_times_and_both_stacks() -> None:
    device = only(Recorded([event(5, 4096, 100), event(9, 4096, -100)]))
    rows = device.allocations
    assert rows.size.tolist() == [100]
    assert (rows.alloc_time_us.tolist(), rows.free_time_us.tolist()) == ([5], [9])
    assert (rows.alloc_event.tolist(), rows.free_event.tolist()) == ([0], [2])


def test_blocks_of_one_size_and_stack_are_told_apart_by_their_address() -> None:
    device = only(Recorded([event(1, 8192, 64), event(2, 4096, 64)]))
    segments, rows = device.segments, device.allocations
    held = device.block_allocation[segments.block_state == 0]
    assert rows.addr[held].tolist() == [4096, 8192]
    assert rows.alloc_event[held].tolist() == [1, 0]


def test_an_unseen_free_is_put_where_other_memory_takes_the_place() -> None:
    recorded = Recorded([event(1, 4096, 256), event(2, 4224, 64)])
    assert actions([recorded]) == [
        ("alloc", 4096, 256),
        ("free_requested", 4096, 256),
        ("free_completed", 4096, 256),
        ("alloc", 4224, 64),
    ]
    assert only(recorded).allocations.free_event.tolist()[0] == 2


def test_memory_right_behind_a_block_leaves_it_alone() -> None:
    recorded = Recorded([event(1, 4096, 128), event(2, 4224, 64)])
    assert [action for action, _, _ in actions([recorded])] == ["alloc", "alloc"]


def test_a_free_of_what_nobody_saw_allocated_makes_it_live_at_the_start() -> None:
    rows = only(Recorded([event(3, 4096, -50), event(4, 9000, 10)])).allocations
    assert sorted(zip(rows.alloc_event.tolist(), rows.size.tolist(), strict=True)) == [
        (-1, 50),
        (2, 10),
    ]


def test_a_parameter_that_nobody_saw_allocated_is_live_throughout() -> None:
    recorded = Recorded([event(1, 9000, 10)], [], [tensor(2, 4096, 400)])
    rows = only(recorded).allocations
    baseline = rows.alloc_event == -1
    assert rows.size[baseline].tolist() == [400]
    assert to_snapshot([recorded])["snapreport"]["storages"] == [
        {
            "device": "cpu:0",
            "address": 4096,
            "size": 400,
            "kind": "parameter",
            "name": "Linear.weight",
        }
    ]


def test_a_parameter_is_gone_once_other_memory_lies_where_it_lay() -> None:
    recorded = Recorded([event(1, 9000, 10), event(5, 4100, 8)], [], [tensor(2, 4096, 400)])
    assert actions([recorded]) == [
        ("alloc", 9000, 10),
        ("free_requested", 4096, 400),
        ("free_completed", 4096, 400),
        ("alloc", 4100, 8),
    ]
    assert to_snapshot([recorded])["snapreport"]["storages"] == []


def test_a_parameter_where_something_else_was_before_is_left_out() -> None:
    memory = [event(1, 4096, 10), event(2, 4096, -10)]
    rows = only(Recorded(memory, [], [tensor(3, 4096, 400)])).allocations
    assert rows.size.tolist() == [10]


def test_a_gradient_from_before_is_left_out_as_nobody_sees_its_free() -> None:
    seen = tensor(2, 4096, 400, "gradient")
    rows = only(Recorded([event(1, 9000, 10)], [], [seen])).allocations
    assert rows.size.tolist() == [10]


def test_a_tensor_in_live_memory_states_the_category_of_its_allocation() -> None:
    memory = [event(1, 4096, 400), event(5, 4096, -400), event(6, 4096, 400)]
    file = history(Recorded(memory, [], [tensor(2, 4096, 400, "optimizer state")]))
    category = file.devices[0].allocations.category.tolist()
    assert [file.strings[c] if c >= 0 else None for c in category] == ["optimizer state", None]


def test_a_range_is_a_stage_and_an_open_one_has_no_end() -> None:
    ranges = [NamedRange("forward", 2000, 6000), NamedRange("loop", 7000, None)]
    memory = [event(1, 4096, 8), event(5, 5000, 8), event(8, 6000, 8)]
    stages = only(Recorded(memory, ranges)).stages
    assert stages.name == ["forward", "loop"]
    assert stages.start_event.tolist() == [1, 2]
    assert stages.end_time_us.tolist() == [6, -1]


def test_pieces_one_after_the_other_are_one_recording() -> None:
    device = only(Recorded([event(1, 4096, 100)]), Recorded([event(9, 4096, -100)]))
    assert device.allocations.alloc_event.tolist() == [0]
    assert device.allocations.free_event.tolist() == [2]


def test_the_cpu_comes_behind_the_gpus_and_each_has_the_stages() -> None:
    memory = [event(1, 4096, 100), event(2, 2**40, 512, ("cuda", 1))]
    file = history(Recorded(memory, [NamedRange("step", 0, 9000)]))
    devices = {str(device.device): device for device in file.devices}
    assert sorted(devices) == ["cpu:0", "cuda:0", "cuda:1"]
    assert devices["cpu:0"].allocations.size.tolist() == [100]
    assert devices["cuda:1"].allocations.size.tolist() == [512]
    assert devices["cpu:0"].stages.name == devices["cuda:1"].stages.name == ["step"]
    assert devices["cuda:0"].stages.name == []


def test_a_recording_of_nothing_is_still_one_of_the_cpu() -> None:
    device = only(Recorded())
    assert device.events == 0


def test_far_addresses_are_pieces_of_their_own() -> None:
    snapshot = to_snapshot([Recorded([event(1, 4096, 8), event(2, 2**46, 16)])])
    sizes = [(row["address"], row["total_size"]) for row in snapshot["segments"]]
    assert sizes == [(4096, 8), (2**46, 16)]

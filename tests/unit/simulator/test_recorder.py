"""What is recorded: ring, stacks and their sharing, optional keys, annotations."""

from __future__ import annotations

from dev.simulator import Simulator

TRAIN = [{"name": "step", "filename": "train.py", "line": 3}]


def test_the_ring_keeps_the_latest_events() -> None:
    simulator = Simulator()
    simulator.start_recording(max_entries=3)
    blocks = [simulator.malloc(512) for _ in range(2)]
    simulator.free(blocks[0])
    trace = simulator.snapshot()["device_traces"][0]
    assert [event["action"] for event in trace] == ["alloc", "free_requested", "free_completed"]
    truth = simulator.truth()
    assert truth.alloc_event.tolist() == [-1, 0]
    assert truth.free_event.tolist() == [2, 3]
    assert truth.requested.tolist() == [512, 1024, 1024, 512]


def test_state_keeps_a_ring_of_one() -> None:
    simulator = Simulator()
    simulator.start_recording(enabled="state")
    simulator.malloc(512)
    simulator.malloc(512)
    assert [len(trace) for trace in simulator.snapshot()["device_traces"]] == [1]


def test_memory_from_before_recording_has_no_stack() -> None:
    simulator = Simulator()
    simulator.set_stack(TRAIN)
    simulator.malloc(512)
    simulator.start_recording()
    simulator.malloc(512)
    first, second, _ = simulator.snapshot()["segments"][0]["blocks"]
    assert first["frames"] == []
    assert second["frames"] == TRAIN
    assert simulator.truth().frames == [None, TRAIN]


def test_a_block_shares_the_stack_of_its_alloc_and_frees_share_theirs(
    simulator: Simulator,
) -> None:
    simulator.set_stack(TRAIN)
    blocks = [simulator.malloc(512) for _ in range(2)]
    simulator.free(blocks[0])
    snapshot = simulator.snapshot()
    segment, first, second, requested, completed = snapshot["device_traces"][0]
    assert first["frames"] is segment["frames"]
    assert first["frames"] is not second["frames"]
    assert first["frames"][0] is second["frames"][0]
    assert snapshot["segments"][0]["blocks"][1]["frames"] is second["frames"]
    assert requested["frames"] is completed["frames"]


def test_context_alloc_gives_frees_the_stack_of_the_alloc() -> None:
    simulator = Simulator()
    simulator.start_recording(context="alloc")
    block = simulator.malloc(512)
    simulator.free(block)
    _, alloc, requested, completed = simulator.snapshot()["device_traces"][0]
    assert alloc["frames"] is requested["frames"] is completed["frames"]


def test_context_state_gives_blocks_a_stack_and_events_none() -> None:
    simulator = Simulator()
    simulator.set_stack(TRAIN)
    simulator.start_recording(context="state")
    simulator.malloc(512)
    snapshot = simulator.snapshot()
    assert not any("frames" in event for event in snapshot["device_traces"][0])
    assert snapshot["segments"][0]["blocks"][0]["frames"] == TRAIN


def test_no_context_gives_no_stack_at_all() -> None:
    simulator = Simulator()
    simulator.set_stack(TRAIN)
    simulator.start_recording(context=None)
    simulator.malloc(512)
    snapshot = simulator.snapshot()
    assert not any("frames" in event for event in snapshot["device_traces"][0])
    assert snapshot["segments"][0]["blocks"][0]["frames"] == []


def test_a_snapshot_marker_states_all_active_bytes(simulator: Simulator) -> None:
    simulator.malloc(513)
    simulator.mark_snapshot()
    event = simulator.snapshot()["device_traces"][0][-1]
    assert (event["action"], event["addr"], event["size"]) == ("snapshot", 0, 1024)
    assert "frames" not in event


def test_an_event_has_the_keys_of_pytorch_in_their_order(simulator: Simulator) -> None:
    simulator.malloc(512)
    assert list(simulator.snapshot()["device_traces"][0][0]) == [
        "action",
        "addr",
        "size",
        "stream",
        "time_us",
        "compile_context",
        "user_metadata",
        "pool_id",
        "frames",
    ]


def test_unknown_events_move_no_bytes(simulator: Simulator) -> None:
    simulator.malloc(512)
    simulator.allocators[0].unknown_event("annotate", 1, 4096)
    assert simulator.truth().requested.tolist() == [0, 0, 512, 512]


def test_annotations_have_a_ring_of_their_own() -> None:
    simulator = Simulator()
    simulator.start_recording(max_entries=3)
    with simulator.annotation("outer"), simulator.annotation("inner"):
        pass
    markers = simulator.snapshot()["external_annotations"]
    assert [(m["name"], m["stage"]) for m in markers] == [
        ("inner", "START"),
        ("inner", "END"),
        ("outer", "END"),
    ]


def test_stopping_forgets_what_was_recorded(simulator: Simulator) -> None:
    simulator.malloc(512)
    simulator.stop_recording()
    assert simulator.snapshot()["device_traces"] == [[]]
    assert simulator.truth().requested.tolist() == [512]
    assert simulator.truth().alloc_event.tolist() == [-1]

"""Single values of a snapshot: what is taken, what is counted, and what is damaged."""

from __future__ import annotations

import io
import pickle
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

import snapreport
from snapreport.bundle import read_bundle, write_bundle
from snapreport.figures.callsites import name_stacks
from snapreport.ground.errors import NotASnapshotError
from snapreport.model.snapshot import NO_ID, NO_STACK, NO_TIME, UNKNOWN_LINE, DeviceId, RawSnapshot
from tests.builders import (
    BASE,
    FIRST_US,
    MIB,
    TraceBuilder,
    assert_same_history,
    frame,
    history_of,
    read_bytes,
    read_object,
    stack,
    trace,
)


def with_block() -> TraceBuilder:
    return trace().alloc("a", 4 * MIB).segment("a", 20 * MIB, (4 * MIB, 4 * MIB, "live"))


def test_frames_absent_and_frames_empty_are_two_things() -> None:
    raw = read_object(
        trace().alloc("a", 4).alloc("b", 4, frames=[]).alloc("c", 4, frames=stack("f")).snapshot()
    )
    absent, empty, framed = raw.traces[0].stack.tolist()
    assert absent == NO_STACK
    assert list(raw.stacks.path(empty)) == []
    assert empty != NO_STACK
    assert [raw.stacks.frames.names[f] for f in raw.stacks.path(framed)] == ["f"]


def test_equal_stacks_are_one_however_often_they_are_written() -> None:
    builder = trace()
    for place in "abc":
        builder.alloc(place, 4, frames=stack("inner", "outer"))
    raw = read_object(builder.snapshot())
    assert len(set(raw.traces[0].stack.tolist())) == 1
    assert len(raw.stacks.frames) == 2
    assert raw.stacks.node_depth.tolist() == [1, 2]


def test_frames_that_differ_in_one_field_are_different() -> None:
    frames = [frame("f"), frame("g"), frame("f", "other.py"), frame("f", line=2), frame("f")]
    raw = read_object(trace().alloc("a", 4, frames=frames).snapshot())
    assert len(raw.stacks.frames) == 4


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("at::add(at::Tensor const&)", "/venv/torch/lib/libtorch_cpu.so"),
        ("??", "/lib/x86_64-linux-gnu/libc.so.6"),
        ("PyObject_Call", "/usr/bin/python3.12"),
        ("_PyEval_EvalFrameDefault", "/usr/lib/libpython3.11.so.1.0"),
        ("at::add", "C:\\venv\\torch\\lib\\torch_cpu.dll"),
        ("??", "/opt/server/bin/serve"),
    ],
)
def test_a_frame_of_machine_code_is_its_function_at_any_offset(name: str, file: str) -> None:
    """As PyTorch looks up frames under TORCH_SYMBOLIZE_MODE=fast, which our recorder asks for."""
    own = frame("forward", "/home/ann/model.py", 7)
    stacks = [[frame(name, file, offset), own] for offset in (5775726, 5550379)]
    made = trace().alloc("a", 512, frames=stacks[0]).alloc("b", 512, frames=stacks[1])
    tables = made.file()
    assert tables.devices[0].allocations.stack.tolist() == [0, 0]
    assert tables.stacks.frames.filenames == ["??", "/home/ann/model.py"]
    assert tables.stacks.frames.lines.tolist() == [UNKNOWN_LINE, 7]
    assert name_stacks(tables.stacks, [0]) == ["forward  /home/ann/model.py:7"]


@pytest.mark.parametrize("line", [2**64 - 1, 2**63, -1, None, "7", 1.5, True])
def test_a_line_that_is_none_is_unknown(line: object) -> None:
    frames = [{"name": "f", "filename": "a.cpp", "line": line}]
    raw = read_object(trace().alloc("a", 4, frames=frames).snapshot())
    assert raw.stacks.frames.lines.tolist() == [UNKNOWN_LINE]


def test_lines_up_to_the_largest_are_kept() -> None:
    frames = [frame("f", line=0), frame("g", line=2**63 - 1)]
    raw = read_object(trace().alloc("a", 4, frames=frames).snapshot())
    assert raw.stacks.frames.lines.tolist() == [0, 2**63 - 1]


def test_fx_fields_of_a_frame_are_kept() -> None:
    frames = [frame("f") | {"fx_node_op": "call_function", "fx_node_target": None}, frame("f")]
    raw = read_object(trace().alloc("a", 4, frames=frames).snapshot())
    assert raw.stacks.frames.extra == {0: {"fx_node_op": "call_function"}}
    assert len(raw.stacks.frames) == 2


@pytest.mark.parametrize("pool", [(0, 1), [0, 1]])
def test_a_pool_is_a_tuple_or_a_list(pool: object) -> None:
    builder = with_block().alloc("b", 4, pool_id=pool)
    builder.segments[0]["segment_pool_id"] = pool
    raw = read_object(builder.snapshot())
    assert raw.pools == [(0, 1)]
    assert raw.traces[0].pool.tolist() == [NO_ID, 0]
    assert raw.segments[DeviceId("cuda", 0)].pool.tolist() == [0]


def test_an_event_without_time_or_stream_has_none() -> None:
    raw = read_object(trace().alloc("a", 4, time_us=None, stream=None).snapshot())
    assert raw.traces[0].time_us.tolist() == [NO_TIME]
    assert raw.traces[0].stream.tolist() == [0]


@pytest.mark.parametrize("time_us", [-7, 2**63 - 1])
def test_a_time_that_is_no_date_is_counted_and_left_out(time_us: int) -> None:
    builder = trace().alloc("a", 4, time_us=time_us).alloc("b", 4)
    snapshot = builder.start("s", 0).snapshot()
    snapshot["external_annotations"][0]["time_us"] = time_us
    raw = read_object(snapshot)
    assert raw.traces[0].time_us.tolist() == [NO_TIME, FIRST_US + 10]
    assert raw.annotations == ()
    assert raw.oddities == {
        "event time that is not a date": 1,
        "annotation time that is not a date": 1,
    }


@pytest.mark.parametrize("key", ["size", "addr"])
@pytest.mark.parametrize("value", [-1, 2**63 - 1])
@pytest.mark.parametrize("action", ["alloc", "free_completed", "segment_alloc"])
def test_bytes_that_cannot_be_are_damage(action: str, key: str, value: int) -> None:
    snapshot = trace().event(action, **{key: value}).snapshot()
    with pytest.raises(NotASnapshotError, match="event 0 has the"):
        read_object(snapshot)


def test_a_program_may_ask_in_vain_for_any_number_of_bytes() -> None:
    raw = read_object(trace().event("oom", addr=None, size=2**62, device_free=7).snapshot())
    assert raw.traces[0].size.tolist() == [2**62]


@pytest.mark.parametrize("key", ["address", "total_size"])
@pytest.mark.parametrize("value", [-1, 2**63 - 1])
def test_a_segment_that_cannot_be_is_damage(key: str, value: int) -> None:
    snapshot = with_block().snapshot()
    snapshot["segments"][0][key] = value
    with pytest.raises(NotASnapshotError, match="segment 0 has the"):
        read_object(snapshot)


def test_an_out_of_memory_event_keeps_the_free_bytes() -> None:
    raw = read_object(trace().event("oom", addr=None, size=512, device_free=7).snapshot())
    assert (raw.traces[0].addr.tolist(), raw.traces[0].size.tolist()) == ([7], [512])


def test_texts_of_events_are_stored_once_and_none_is_none() -> None:
    raw = read_object(
        trace()
        .alloc("a", 4, compile_context="N/A", user_metadata="")
        .alloc("b", 4, compile_context="Region 0", user_metadata="Region 0")
        .snapshot()
    )
    assert raw.strings == ["Region 0"]
    assert raw.traces[0].compile_context.tolist() == [NO_ID, 0]
    assert raw.traces[0].metadata.tolist() == [NO_ID, 0]


def test_unknown_keys_and_values_are_kept_in_count() -> None:
    builder = with_block().alloc("b", 4, novelty=1).alloc("c", 4, novelty=2)
    builder.segments[0]["new_segment_key"] = 1
    builder.segments[0]["blocks"][0]["new_block_key"] = 1
    builder.segments[0]["blocks"][1]["state"] = "inactive_in_a_new_way"
    snapshot = builder.start("s", 0).snapshot()
    snapshot["external_annotations"][0]["stage"] = "MIDDLE"
    snapshot["brand_new"] = []
    assert read_object(snapshot).oddities == {
        "top-level key 'brand_new'": 1,
        "segment key 'new_segment_key'": 1,
        "block key 'new_block_key'": 1,
        "block state 'inactive_in_a_new_way'": 1,
        "event key 'novelty'": 2,
        "annotation stage 'MIDDLE'": 1,
    }


def test_an_unknown_action_is_kept_and_counts_as_no_bytes() -> None:
    history = trace().alloc("a", 4).event("reticulate", addr=BASE, size=99).history()
    assert history.other.action == ["reticulate"]
    assert history.other.size.tolist() == [99]
    assert history.allocations.size.tolist() == [4]


def test_both_words_for_a_pending_block_are_known() -> None:
    for word in ("active_pending_free", "active_awaiting_free"):
        history = trace().segment("a", 20 * MIB, (4 * MIB, 4 * MIB, word)).history()
        assert history.allocations.free_requested_event.tolist() == [-1]


@pytest.mark.parametrize("key", ["size", "addr", "stream", "time_us"])
@pytest.mark.parametrize("value", ["7", 1.5, None, [7], 2**63, 2**64 - 1, b"7"[0:0].decode()])
def test_an_event_field_that_is_no_integer_is_damaged(key: str, value: object) -> None:
    snapshot = trace().alloc("a", 4).snapshot()
    snapshot["device_traces"][0][0][key] = value
    with pytest.raises(NotASnapshotError, match=rf"event 0 .*'{key}'"):
        read_object(snapshot)


@pytest.mark.parametrize("value", [None, 3, ["alloc"], {}])
def test_an_action_that_is_no_text_is_damaged(value: object) -> None:
    snapshot = trace().alloc("a", 4).alloc("b", 4).snapshot()
    snapshot["device_traces"][0][1]["action"] = value
    with pytest.raises(NotASnapshotError, match="event 1 has no 'action'"):
        read_object(snapshot)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("address",), "7"),
        (("address",), 2**64 - 1),
        (("total_size",), None),
        (("stream",), "x"),
        (("device",), -1),
        (("device",), "0"),
        (("blocks",), 3),
        (("blocks",), [3]),
        (("blocks", 0), 3),
        (("blocks", 0, "size"), "7"),
        (("blocks", 0, "address"), None),
        (("blocks", 0, "requested_size"), "7"),
        (("blocks", 0, "frames"), 3),
        (("blocks", 0, "frames"), [3]),
        (("frames",), 3),
        (("frames",), ["text"]),
    ],
)
def test_a_damaged_segment_is_named(path: tuple[Any, ...], value: object) -> None:
    snapshot = with_block().snapshot()
    at = snapshot["segments"][0]
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    with pytest.raises(NotASnapshotError) as caught:
        read_object(snapshot)
    assert "\n" not in str(caught.value)


def test_odd_texts_survive_to_the_reports_and_back(tmp_path: Path) -> None:
    odd = "lone \ud800 surrogate, \0 zero, \u202e turned, </script><!-- \u2028 end"
    snapshot = (
        trace()
        .alloc("a", 4 * MIB, frames=[frame(odd, odd)], user_metadata=odd, compile_context=odd)
        .segment("a", 20 * MIB, (4 * MIB, 4 * MIB, "live"))
        .event(odd)
        .settings(**{odd: odd, "half": 0.5, "huge": 2**64 - 1, "pair": (1, 2)})
        .start(odd, 0)
        .snapshot()
    )
    snapshot[odd] = 1
    path = tmp_path / "odd.pickle"
    path.write_bytes(pickle.dumps(snapshot, 4))
    bundle = snapreport.convert(path, tmp_path / "odd.zip")
    assert_same_history(snapreport.load(bundle).history, snapreport.load(path).history)
    for ending in ("html", "md"):
        ours = snapreport.render(path, tmp_path / f"a.{ending}").read_bytes()
        theirs = snapreport.render(bundle, tmp_path / f"b.{ending}").read_bytes()
        assert ours == theirs
        # In Markdown it stands in code, where it is a text.
        assert ending == "md" or b"</script><!--" not in ours


@pytest.mark.parametrize(
    "settings",
    [{"1": 2}, {"a": {"b": [[1, (2,)]]}}, {"big": 2**64 - 1, "low": -(2**63)}, {"x": -0.5}],
)
def test_settings_of_any_kind_come_back_from_a_bundle(settings: dict[Any, Any]) -> None:
    snapshot = with_block().snapshot()
    snapshot["allocator_settings"] = settings
    history = history_of(snapshot)
    out = io.BytesIO()
    write_bundle(history, out)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bundle.zip"
        path.write_bytes(out.getvalue())
        assert_same_history(read_bundle(path), history)


@pytest.mark.parametrize("key", [1, 0.5, None, True, (), (1, 2)])
@pytest.mark.parametrize("place", ["top-level", "event", "segment", "frame", "allocator setting"])
def test_a_key_that_is_no_text_is_refused(place: str, key: object) -> None:
    snapshot = with_block().alloc("b", 4, frames=[frame("f")]).snapshot()
    event = snapshot["device_traces"][0][-1]
    places: dict[str, Any] = {"top-level": snapshot, "event": event, "frame": event["frames"][0]}
    places |= {"segment": snapshot["segments"][0]}
    places["allocator setting"] = snapshot["allocator_settings"] = {"a": 1}
    places[place][key] = "x"
    with pytest.raises(NotASnapshotError, match=f"a {place}.* has a key of type"):
        read_object(snapshot)


@pytest.mark.parametrize("where", ["top", "settings"])
def test_the_ring_overflow_flag_is_read_wherever_it_is(where: str) -> None:
    snapshot = with_block().snapshot()
    place = snapshot if where == "top" else snapshot["allocator_settings"]
    place["trace_alloc_overflowed"] = [True]
    raw = read_object(snapshot)
    assert raw.settings["trace_alloc_overflowed"] == [True]
    assert raw.oddities == {}


def test_every_key_that_is_not_known_is_counted_by_its_name() -> None:
    builder = trace().alloc("a", 4, new_e=1).segment("a", 2 * MIB, (512, 4, "live"), new_s=1)
    builder.segments[0]["blocks"][0]["new_b"] = 1
    builder.start("step", 1)
    snapshot = builder.snapshot()
    snapshot["external_annotations"][0]["thread"] = "7"
    snapshot |= {"new_t": 1, "categories": []}
    assert read_object(snapshot).oddities == {
        "top-level key 'new_t'": 1,
        "top-level key 'categories'": 1,
        "segment key 'new_s'": 1,
        "block key 'new_b'": 1,
        "event key 'new_e'": 1,
        "annotation key 'thread'": 1,
    }


FORWARD = [
    '  File "train.py", line 80, in <module>\n    step()\n',
    '  File "model.py", line 39, in forward\n    return self.act(x * y)\n',
    '  File "/lib/python3.11/site-packages/torch/nn/modules/activation.py", line 816, in forward\n',
]
"""As anomaly mode notes it: outermost first."""


def frames_of(raw: RawSnapshot, stack: int) -> list[str]:
    table = raw.stacks.frames
    return [
        f"{table.names[f]} {table.filenames[f]}:{table.lines[f]}" for f in raw.stacks.path(stack)
    ]


BEHIND = [
    "gradient of forward /lib/python3.11/site-packages/torch/nn/modules/activation.py:816",
    "gradient of forward model.py:39",
    "gradient of <module> train.py:80",
]


@pytest.mark.parametrize("write", [pickle.dumps, orjson.dumps], ids=["pickle", "json"])
def test_the_forward_frames_of_an_event_stand_outside_of_its_own(
    write: Callable[[object], bytes],
) -> None:
    own = [frame("MulBackward0::apply", "??", 0)]
    builder = trace().alloc("a", 4, frames=own, forward_frames=FORWARD).alloc("b", 4, frames=own)
    builder.alloc("c", 4, frames=[], forward_frames=FORWARD).free("c", forward_frames=[])
    raw = read_bytes(write(builder.snapshot()))
    first, second, third, *free = (frames_of(raw, stack) for stack in raw.traces[0].stack.tolist())
    assert first == ["MulBackward0::apply ??:0", *BEHIND]
    assert second == ["MulBackward0::apply ??:0"]
    assert third == BEHIND
    assert free == [[], []]
    assert raw.oddities == {}
    named = raw.stacks.frames.names.index("gradient of forward")
    assert raw.stacks.frames.code(named) == "return self.act(x * y)"


def test_the_forward_frames_of_a_block_are_its_allocs() -> None:
    builder = trace().alloc("a", MIB, frames=stack("f"), forward_frames=FORWARD)
    builder.segment("a", 2 * MIB, (MIB, MIB, "live"), (MIB, 0, "free"))
    for block in builder.segments[0]["blocks"]:
        block.update(frames=stack("f"), forward_frames=list(FORWARD))
    raw = read_object(builder.snapshot())
    assert raw.segments[DeviceId("cuda", 0)].block_stack.tolist() == [raw.traces[0].stack[0], -1]


def test_a_traced_graphs_stack_is_one_text() -> None:
    # With preserved node metadata, all frames of torch.fx.traceback.format_stack() are in one.
    builder = trace().alloc("a", 4, forward_frames=["".join(FORWARD)])
    raw = read_object(builder.snapshot())
    assert frames_of(raw, int(raw.traces[0].stack[0])) == BEHIND


@pytest.mark.parametrize("lines", [3, "text", [3], [["a"]], [None], {}])
def test_forward_frames_that_are_no_texts_are_refused(lines: object) -> None:
    with pytest.raises(NotASnapshotError, match="'forward_frames' that are not a list of texts"):
        read_object(trace().alloc("a", 4, forward_frames=lines).snapshot())


@pytest.mark.parametrize("shared", [True, False])
def test_forward_frames_repeat_no_more_than_fits(shared: bool) -> None:
    text = FORWARD[1] * 3000
    builder = trace()
    for i in range(2000):
        lines = [text] if shared else [text, f"{i}"]
        builder.alloc(i * 512, 4, frames=[frame(f"f{i}")], forward_frames=lines)
    with pytest.raises(NotASnapshotError, match="more frames of forward call stacks than fit"):
        read_object(builder.snapshot())


def test_pytorch_notes_forward_frames_as_we_read_them() -> None:
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly(check_nan=False):
            made = torch.nn.GELU()(torch.ones(2, requires_grad=True))
    lines = made.grad_fn.metadata["traceback_"]
    raw = read_object(trace().alloc("a", 4, frames=[], forward_frames=lines).snapshot())
    found = frames_of(raw, int(raw.traces[0].stack[0]))
    assert len(found) == len(lines)
    assert "activation.py" in found[0]
    assert any(f"gradient of {test_pytorch_notes_forward_frames_as_we_read_them.__name__}" in each
               for each in found)  # fmt: skip

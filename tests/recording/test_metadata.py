"""What is noted while recording: read back, in the bundle, in every report, and bounded."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

import snapreport
from snapreport.model.snapshot import recorder_info
from snapreport.recorders.finishing import cut_before
from snapreport.recorders.session import find_storages
from tests.recording.fake_modules import FakeAdam, FakeModule, FakeTensor, MetaTensor, Shard
from tests.recording.fake_torch import GIB, FakeGpu, OutOfMemoryError, install
from tests.recording.folders import MIB


def categories(path: Path) -> dict[int, tuple[str, str]]:
    """Category and rule by requested size."""
    device = snapreport.load(path).device("cuda:0")
    number, names = device.categories()
    sizes = device.allocations.size.tolist()
    return {size: (names[n].name, names[n].rule) for size, n in zip(sizes, number, strict=True)}


def training(gpu: FakeGpu, folder: Path) -> None:
    """A parameter from before, with its gradient and state, a buffer, and something else."""
    blocks = {"weight": gpu.alloc(4 * MIB)}
    weight = FakeTensor(blocks["weight"].address, 4 * MIB)
    adam = FakeAdam({weight: {}})
    module = FakeModule({"weight": weight}, {})
    with snapreport.record(folder, modules=module, optimizers=adam, title="One step", notes="*Hi*"):
        gpu.free(gpu.alloc(5 * MIB))
        gradient = gpu.alloc(5 * MIB)  # where the activation was
        weight.grad = FakeTensor(gradient.address, 5 * MIB)
        state = gpu.alloc(6 * MIB)
        adam.state[weight] = {"exp_avg": FakeTensor(state.address, 6 * MIB), "step": 1}
        running = gpu.alloc(7 * MIB)
        module.buffers["running_mean"] = FakeTensor(running.address, 7 * MIB)
        gpu.alloc(8 * MIB)


def test_what_modules_and_optimizers_hold_has_its_category(gpu: FakeGpu, tmp_path: Path) -> None:
    training(gpu, tmp_path)
    for file in ("snapshot.pickle", "snap.zip"):
        found = categories(tmp_path / "1" / file)
        assert found[4 * MIB] == ("parameter", "stated by the file")
        assert found[6 * MIB] == ("optimizer state", "stated by the file")
        assert found[7 * MIB] == ("buffer", "stated by the file")
        assert found[8 * MIB][0] == "unknown"
        device = snapreport.load(tmp_path / "1" / file).device()
        number, names = device.categories()
        twice = [names[n].name for n in number[device.allocations.size == 5 * MIB]]
        assert twice == ["unknown", "gradient"]  # the first was freed before the end


def test_a_bundle_rebuilt_as_a_pickle_keeps_what_was_noted(gpu: FakeGpu, tmp_path: Path) -> None:
    training(gpu, tmp_path)
    again = snapreport.export(tmp_path / "1" / "snap.zip", "pickle", tmp_path / "again.pickle")
    noted = [
        snapreport.load(path).history.recorder
        for path in (tmp_path / "1" / "snapshot.pickle", tmp_path / "1" / "snap.zip", again)
    ]
    assert noted[0] is not None
    assert noted[0] == noted[1] == noted[2]
    assert [(s.kind, s.name) for s in noted[0].storages] == [
        ("parameter", "weight"),
        ("gradient", "weight"),
        ("buffer", "running_mean"),
        ("optimizer state", "weight.exp_avg"),
    ]


def test_the_reports_tell_what_was_noted(gpu: FakeGpu, tmp_path: Path) -> None:
    training(gpu, tmp_path)
    report = (tmp_path / "1" / "report.md").read_text()
    page = (tmp_path / "1" / "report.html").read_text()
    for text in (report, page):
        assert "One step" in text
        assert "Hi" in text
        assert "2.99.0+fake" in text
        assert "Fake H100, 1.00 GiB" in text
        assert "the same as ours, to the byte" in text
    summary = snapreport.render(tmp_path / "1" / "snap.zip", tmp_path / "again.md").read_text()
    assert summary.splitlines()[0] == report.splitlines()[0]


def test_pytorchs_own_peak_is_beside_ours(gpu: FakeGpu, tmp_path: Path) -> None:
    gpu.free(gpu.alloc(64 * MIB))
    with snapreport.record(tmp_path / "low"):
        gpu.free(gpu.alloc(32 * MIB))
    with snapreport.record(tmp_path / "high"):
        gpu.alloc(96 * MIB)
    with snapreport.record(tmp_path / "reset"):
        gpu.peak[0] = 0  # reset_peak_memory_stats()
    own = {}
    for name in ("low", "high", "reset"):
        findings = snapreport.load(tmp_path / name / "1" / "snap.zip").findings()
        found = findings.devices[0].own_counters
        assert found is not None
        own[name] = (found.when, found.allocated_peak, found.agrees)
    assert own == {
        "low": ("before", 64 * MIB, True),
        "high": ("inside", 96 * MIB, True),
        "reset": ("reset", 0, True),
    }


def test_a_peak_that_pytorch_counts_otherwise_is_said(gpu: FakeGpu, tmp_path: Path) -> None:
    with snapreport.record(tmp_path):
        gpu.alloc(MIB)
        gpu.peak[0] = 3 * MIB
    report = (tmp_path / "1" / "report.md").read_text()
    assert "2,097,152 bytes more than ours" in report


def test_who_recorded_with_us_is_told_to_begin_earlier_in_our_words(
    gpu: FakeGpu, tmp_path: Path
) -> None:
    held = gpu.alloc(64 * MIB)
    with snapreport.record(tmp_path):
        gpu.alloc(MIB)
    gpu.free(held)
    report = (tmp_path / "1" / "report.md").read_text()
    assert "Recording started late" in report
    assert 'with snapreport.record("out/"):  # before the model is built' in report
    assert "_record_memory_history()" not in report


def test_a_counter_that_was_reset_and_rose_again_is_said_to_be_lower(
    gpu: FakeGpu, tmp_path: Path
) -> None:
    with snapreport.record(tmp_path):
        gpu.free(gpu.alloc(8 * MIB))
        gpu.peak[0] = 0  # reset_peak_memory_stats()
        gpu.alloc(MIB)
    report = (tmp_path / "1" / "report.md").read_text()
    assert "7,340,032 bytes less than ours; that is right only if the program reset" in report


def test_memory_of_others_is_told_from_pytorchs(gpu: FakeGpu, tmp_path: Path) -> None:
    with snapreport.record(tmp_path):
        gpu.alloc(30 * MIB)
        gpu.torch.cuda.mem_get_info = lambda _: (GIB - 530 * MIB, GIB)
    own = snapreport.load(tmp_path / "1" / "snap.zip").findings().devices[0].own_counters
    assert own is not None
    assert own.foreign_before == 0
    assert own.foreign_after == 500 * MIB


def test_json_has_what_was_noted(gpu: FakeGpu, tmp_path: Path) -> None:
    from click.testing import CliRunner

    from snapreport.commands import cli

    training(gpu, tmp_path)
    result = CliRunner().invoke(cli, ["summary", str(tmp_path / "1" / "snap.zip"), "--json"])
    noted = orjson.loads(result.stdout)["recording"]
    assert noted["title"] == "One step"
    assert noted["storages"] == 4
    assert noted["devices"][0]["stats_after"]["allocated_bytes.all.current"] > 0


def test_every_value_of_another_type_is_left_out() -> None:
    assert recorder_info("text") is None
    found = recorder_info(
        {
            "format": "one",
            "command": ["a", 5, None, "b\ud800"],
            "notes": 5,
            "started_us": -1,
            "ended_us": 2**70,
            "devices": [5, {"device": None}, {"device": "cuda:0", "stats_after": {"a": "b", 5: 6}}],
            "storages": [{"device": "cuda:0"}, {}],
            "marks": {"name": "x"},
            "failure": {"type": 5, "message": ["x"]},
            "rank": True,
            "joined": "yes",
        }
    )
    assert found is not None
    assert found.command == ("a", "b���")
    assert (found.started_us, found.ended_us, found.notes) == (None, None, "")
    assert [device.device for device in found.devices] == ["cuda:0"]
    assert found.devices[0].stats_after == {}
    assert found.storages == ()
    assert found.marks == ()
    assert found.failure is not None
    assert (found.failure.type, found.rank, found.joined) == ("unknown", 0, False)
    assert recorder_info(found.as_plain()) == found
    orjson.dumps(found.as_plain())


def test_noted_texts_are_bounded() -> None:
    found = recorder_info({"title": "x" * 10**6, "command": ["y"] * 10**5})
    assert found is not None
    assert len(found.title or "") == 4096
    assert len(found.command) == 1000


def test_a_hostile_note_stays_text(gpu: FakeGpu, tmp_path: Path) -> None:
    with snapreport.record(tmp_path, title="<script>alert(1)</script>", formats=["pickle"]):
        gpu.alloc(MIB)
    path = tmp_path / "1" / "snapshot.pickle"
    snapshot = pickle.loads(path.read_bytes())
    snapshot["snapreport"]["command"] = ["<img src=x onerror=alert(1)>"]
    snapshot["snapreport"]["torch"] = "`</script><b>"
    path.write_bytes(pickle.dumps(snapshot, 4))
    page = snapreport.render(path, tmp_path / "page.html").read_text()
    assert "<img src=x" not in page
    assert "<script>alert" not in page
    assert "</script><b>" not in page


def test_storages_are_those_of_real_memory_each_once() -> None:
    shared = FakeTensor(4096, 10)
    tied = FakeTensor(4096, 10)
    module = FakeModule(
        {
            "a": shared,
            "b": tied,
            "meta": MetaTensor(1, 1),
            "empty": FakeTensor(0, 0),
            "shard": Shard(FakeTensor(8192, 20, index=1)),
            "host": FakeTensor(512, 30, "cpu", None),
        },
        {},
    )
    found = find_storages({"model": module}, None)
    assert [(row["device"], row["address"], row["name"]) for row in found] == [
        ("cuda:0", 4096, "model.a"),
        ("cuda:1", 8192, "model.shard"),
        ("cpu:0", 512, "model.host"),
    ]
    assert find_storages(None, None) == []
    assert len(find_storages([module, FakeModule({}, {"c": FakeTensor(1, 1)})], None)) == 4


def test_an_optimizer_alone_names_its_parameters_by_place() -> None:
    weight = FakeTensor(4096, 10)
    weight.grad = FakeTensor(8192, 10)
    adam = FakeAdam({weight: {"exp_avg": FakeTensor(512, 10)}})
    found = find_storages(None, adam)
    assert [(row["kind"], row["name"]) for row in found] == [
        ("parameter", "0"),
        ("gradient", "0"),
        ("optimizer state", "FakeAdam.exp_avg"),
    ]


def test_a_module_that_cannot_be_listed_costs_only_the_categories(
    gpu: FakeGpu, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with snapreport.record(tmp_path, modules=object()) as recording:
        gpu.alloc(MIB)
    assert "could not be listed" in caplog.text
    assert "html" in recording.files


def test_a_cut_keeps_spans_that_end_later_and_events_without_time() -> None:
    def marker(name: str, stage: str, time_us: int) -> dict[str, Any]:
        return {"name": name, "stage": stage, "device": 0, "time_us": time_us}

    snapshot: dict[str, Any] = {
        "device_traces": [[{"time_us": 1}, {"time_us": 5}, {"time_us": 6}], [{"action": "alloc"}]],
        "external_annotations": [
            marker("over", "START", 1),
            marker("open", "START", 1),
            marker("over", "END", 2),
            marker("lost", "END", 3),
            marker("open", "END", 7),
        ],
    }
    cut_before(snapshot, 5)
    assert snapshot["device_traces"] == [[{"time_us": 5}, {"time_us": 6}], [{"action": "alloc"}]]
    assert [row["time_us"] for row in snapshot["external_annotations"]] == [1, 7]


def test_numbers_and_texts_of_other_classes_do_not_spoil_the_pickle(
    gpu: FakeGpu, tmp_path: Path
) -> None:
    class Name(str):
        __slots__ = ()

    gpu.peak = np.array([7, 8])  # type: ignore[assignment]
    with snapreport.record(tmp_path, title=Name("A run"), notes=Name("x")) as recording:
        gpu.alloc(MIB)
        recording.mark(Name("here"))
        snapreport.mark(5)  # type: ignore[arg-type]
    noted = snapreport.load(recording.files["pickle"]).history.recorder
    assert noted is not None
    assert noted.title == "A run"
    assert [mark.name for mark in noted.marks] == ["here", "5"]


def test_a_failed_request_tells_what_others_held(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gpu = install(monkeypatch, FakeGpu(others=300 * MIB))
    with pytest.raises(OutOfMemoryError), snapreport.record(tmp_path, formats=["zip"]):
        gpu.alloc(500 * MIB)
        gpu.alloc(400 * MIB)
    findings = snapreport.load(tmp_path / "1" / "snap.zip").findings().devices[0].diagnosis.findings
    (oom,) = [found for found in findings if found.code == "oom"]
    figures = {figure.label: figure.value for figure in oom.evidence}
    assert figures["memory of the device"] == GIB
    assert figures["held by others"] == 300 * MIB

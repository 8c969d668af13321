"""What should not be in public is in no byte of what a recording leaves."""

from __future__ import annotations

import base64
import pickle
import re
import socket
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest

import snapreport
from snapreport.names.file_strings import find_leaks, list_strings
from snapreport.names.personal_data import known_here
from tests.builders import MIB, trace
from tests.recording.fake_torch import FakeGpu

COMMAND = [
    "/mnt/lustre/users/jdoe/venv/bin/python", "train.py",
    "--wandb-key=okapi-0123456789", "--hf_token", "quagga", "--epochs", "3", "--max-tokens", "512",
    "trainer.api_key=tapir99", "DB_PASSWORD=zebra", "--client-secret", "lemur",
    "--data", "/mnt/lustre/users/jdoe/imagenet", "--out=/scratch/jdoe/run",
    "--host", "okapihost", "--tracker", "https://wombat:dingo@mlflow.serval.io/x",
    "--config", '{"api_key": "margay77", "lr": 1}', "--mail", "potto@caracal.org",
    "--header", "Authorization: Bearer numbat1234", "hf_" + "aB3" * 10,
    "~jdoe/runs", r"\\ocelot\pub\x",
]  # fmt: skip
PRIVATE = (
    "okapi", "quagga", "tapir", "zebra", "lemur", "jdoe", "okapihost", "wombat", "dingo", "serval",
    "margay", "potto", "caracal", "numbat", "aB3aB3", "ocelot",
)  # fmt: skip


@pytest.fixture
def somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", COMMAND)
    monkeypatch.setenv("LOGNAME", "jdoe")
    monkeypatch.setenv("HOME", "/home/jdoe")
    monkeypatch.setattr(socket, "gethostname", lambda: "okapihost.cluster")


def every_byte(folder: Path) -> dict[str, bytes]:
    found = {}
    for path in folder.iterdir():
        data = path.read_bytes()
        packed = re.findall(rb'id="payload">([^<]*)<', data)
        data += b"".join(zlib.decompress(base64.b64decode(each), 31) for each in packed)
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                data += b"".join(map(archive.read, archive.namelist()))
        found[path.name] = data
    return found


@pytest.mark.usefixtures("somebody")
def test_no_secret_of_the_command_is_in_any_byte(gpu: FakeGpu, tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError),
        snapreport.record(
            tmp_path, title="Run of jdoe", notes="On okapihost, `--token=quagga99`."
        ) as recording,
    ):
        gpu.alloc(MIB)
        recording.mark("shard of jdoe")
        raise RuntimeError("no file /mnt/lustre/users/jdoe/imagenet/zebra")
    files = every_byte(tmp_path / "1")
    assert len(files) == 4
    for name, data in files.items():
        left = [word for word in PRIVATE if word.encode() in data and word != "zebra"]
        assert left == [], name
        assert data.count(b"zebra") == data.count(b"~/imagenet/zebra"), name
    for name in files:
        if name != "snapshot.pickle":  # which names this test, as PyTorch does
            assert find_leaks(list_strings(tmp_path / "1" / name), known_here()) == []


@pytest.mark.usefixtures("somebody")
def test_what_tells_nothing_stays_in_the_command(gpu: FakeGpu, tmp_path: Path) -> None:
    with snapreport.record(tmp_path, notes="See https://example.org/plan or ask a@example.org."):
        gpu.alloc(MIB)
    noted = snapreport.load(tmp_path / "1" / "snap.zip").history.recorder
    assert noted is not None
    assert noted.notes == "See https://example.org/plan or ask a@example.org."
    assert list(noted.command) == [
        "python", "train.py", "--wandb-key=HIDDEN", "--hf_token", "HIDDEN",
        "--epochs", "3", "--max-tokens", "512", "trainer.api_key=HIDDEN", "DB_PASSWORD=HIDDEN",
        "--client-secret", "HIDDEN", "--data", "~/imagenet", "--out=~/run", "--host", "HOST",
        "--tracker", "URL", "--config", '{"api_key": "HIDDEN", "lr": 1}', "--mail", "EMAIL",
        "--header", "Authorization: Bearer HIDDEN", "HIDDEN", "~/runs", r"~\x",
    ]  # fmt: skip


def test_a_report_of_a_file_that_has_them_is_without_secrets_too(tmp_path: Path) -> None:
    snapshot = trace().alloc("a", MIB).snapshot()
    snapshot["snapreport"] = {"format": 1, "command": COMMAND, "notes": "key in sk-" + "aB3" * 10}
    path = tmp_path / "snap.pickle"
    path.write_bytes(pickle.dumps(snapshot))
    report = snapreport.render(path, tmp_path / "report.md").read_text("utf-8")
    assert "--wandb-key=HIDDEN" in report
    assert [word for word in PRIVATE if word in report] == [
        "okapi",
        "okapihost",
    ]  # --host okapihost
    kept = snapreport.load(path, keep_paths=True).history.recorder
    assert kept is not None
    assert list(kept.command) == COMMAND


@pytest.mark.usefixtures("somebody")
def test_no_text_that_pytorch_noted_of_an_allocation_tells_who_ran_it(
    gpu: FakeGpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = '  File "/home/jdoe/train.py", line 3, in forward\n'
    code = "    x = load('/home/jdoe/shard', host='okapihost')\n"
    said = {
        "user_metadata": '{"data": "/home/jdoe/shard", "by": "jdoe", "on": "okapihost"}',
        "compile_context": "of jdoe",
        "forward_frames": [place + code],
    }
    traced = {"name": "forward", "filename": "fx_generated_1.py", "line": 3}
    traced["fx_original_trace"] = place + code
    take = gpu.torch.cuda.memory._snapshot

    def snapshot() -> dict[str, Any]:
        taken: dict[str, Any] = take()
        for event in taken["device_traces"][0]:
            event.update(said, frames=[traced])
        for segment in taken["segments"]:
            segment["blocks"][0].update(forward_frames=said["forward_frames"], frames=[traced])
        taken |= {"host_traces": [dict(said) | {"action": "alloc", "addr": 1, "size": 2}]}
        return taken

    monkeypatch.setattr(gpu.torch.cuda.memory, "_snapshot", snapshot)
    with snapreport.record(tmp_path):
        gpu.alloc(MIB)
    taken = pickle.loads((tmp_path / "1" / "snapshot.pickle").read_bytes())
    hidden = place + "    x = load('~/shard', host='HOST')\n"
    for event in taken["device_traces"][0] + taken["host_traces"]:
        assert event["user_metadata"] == '{"data": "~/shard", "by": "USER", "on": "HOST"}'
        assert event["compile_context"] == "of USER"
        assert event["forward_frames"] == [hidden]
    (block, *_) = taken["segments"][0]["blocks"]
    assert block["forward_frames"] == [hidden]
    assert block["frames"][0]["fx_original_trace"] == hidden

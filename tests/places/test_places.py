"""The code of docs/howto-*.md with the real libraries, and what they hold afterwards.

``make places`` installs the libraries, in an environment of their own, and runs these tests there.
"""

from __future__ import annotations

import contextlib
import html
import importlib
import re
import struct
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson
import pytest

import snapreport
from tests.conftest import REPOSITORY
from tests.docs.examples import find_cells, find_python, run_python

for _library in ("ipykernel", "mlflow", "nbclient", "tensorboard", "torch", "wandb"):
    if find_spec(_library) is None:
        pytest.skip(f"{_library} is not installed: make places", allow_module_level=True)

# How these libraries use others is their own affair.
pytestmark = pytest.mark.filterwarnings("default")

TRAIN_STEP = """
import torch


def train_step():
    kept = torch.ones(20_000_001)
    torch.nn.Linear(64, 64)(torch.randn(8, 64)).sum().backward()
"""
"""Its peak is a number of bytes that no 32-bit float can hold."""


def text_of(document: str) -> str:
    return (REPOSITORY / "docs" / document).read_text(encoding="utf-8")


def run(document: str) -> dict[str, Any]:
    """Run the Python of a document, and return the names that it leaves."""
    names: dict[str, Any] = {}
    exec(compile(TRAIN_STEP, "<step>", "exec"), names)
    examples = find_python(text_of(document))
    assert examples
    for example in examples:
        run_python(example.code, names)
    return names


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which is also home to the libraries; they may ask no server anything."""
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "HOME": str(tmp_path),
        "WANDB_MODE": "offline",
        "WANDB_SILENT": "true",
        "WANDB_ERROR_REPORTING": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
        "IPYTHONDIR": str(tmp_path / "ipython"),
    }.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def recorded(folder: Path) -> snapreport.Snapshot:
    """The recording that the document made, which peaked somewhere."""
    snapshot = snapreport.load(folder / "out" / "1" / "snap.zip")
    peak = snapshot.device().peak.allocated
    assert peak > 80_000_004
    assert as_float32(peak) != peak
    return snapshot


def wandb_records(path: Path) -> Iterator[Any]:
    """Read an offline run's file: a log as LevelDB's, of messages as W&B sends them."""
    message = importlib.import_module("wandb.proto.wandb_internal_pb2").Record
    data, at, whole = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        in_block = 32768 - at % 32768
        if in_block < 7:
            at += in_block
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield message.FromString(whole)
            whole = b""


def test_weights_and_biases_holds_page_figures_and_bundle(folder: Path) -> None:
    wandb: Any = importlib.import_module("wandb")
    run("howto-wandb.md")
    wandb.teardown()
    device = recorded(folder).device()
    (media,) = (folder / "wandb").glob("offline-run-*/files/media/html/memory/*.html")
    assert media.read_bytes() == (folder / "out" / "1" / "report.html").read_bytes()
    (log,) = (folder / "wandb").glob("offline-run-*/*.wandb")
    summary: dict[str, str] = {}
    artifacts = []
    for record in wandb_records(log):
        for item in record.summary.update:
            summary["/".join([item.key, *item.nested_key]).strip("/")] = item.value_json
        if record.HasField("artifact"):
            artifacts.append(record.artifact)
    assert summary["memory/peak_allocated"] == str(device.peak.allocated)
    (artifact,) = artifacts
    (entry,) = artifact.manifest.contents
    assert (artifact.name, artifact.type, entry.path) == ("memory", "memory", "snap.zip")
    assert entry.size == (folder / "out" / "1" / "snap.zip").stat().st_size


def test_mlflow_holds_page_figures_bundle_and_answer(folder: Path) -> None:
    mlflow: Any = importlib.import_module("mlflow")
    run("howto-mlflow.md")
    snapshot = recorded(folder)
    peak = snapshot.device().peak
    held = mlflow.MlflowClient().get_run(mlflow.last_active_run().info.run_id)
    assert held.info.status == "FINISHED"
    assert held.data.metrics == {
        "peak_allocated": peak.allocated,
        "peak_requested": peak.requested,
    }
    assert held.data.tags["mlflow.note.content"] == snapshot.findings().devices[0].answer
    artifacts = Path(mlflow.artifacts.download_artifacts(f"runs:/{held.info.run_id}/memory"))
    assert {path.name for path in artifacts.iterdir()} == {"report.html", "snap.zip"}
    for path in artifacts.iterdir():
        assert path.read_bytes() == (folder / "out" / "1" / path.name).read_bytes()


def test_tensorboard_shows_the_report_and_the_peak(folder: Path) -> None:
    run("howto-tensorboard.md")
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", "runs", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr
        try:
            (url,) = re.findall(
                " at (http:.*)/ ", next(line for line in server.stderr if " at http" in line)
            )
            ((_, step, value),) = answer_of(f"{url}/data/plugin/scalars/scalars", "peak_allocated")
            (point,) = answer_of(f"{url}/data/plugin/text/text", "report/text_summary")
        finally:
            server.terminate()
    assert (step, value) == (0, as_float32(recorded(folder).device().peak.allocated))
    shown = point["text"]
    assert "<h2>CPU memory" in shown
    assert shown.count("<table>") > 4
    for unfit in ("&lt;details", "| --:", "| :--"):
        assert unfit not in shown


def answer_of(url: str, tag: str) -> Any:
    """Ask TensorBoard for what it holds of a tag, which it has a minute to read."""
    ask = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
    for _ in range(60):
        with contextlib.suppress(OSError):
            if found := orjson.loads(ask(f"{url}?run=1&tag=memory/{tag}").read()):
                return found
        time.sleep(1)
    raise AssertionError(f"TensorBoard has no memory/{tag}")


def as_float32(value: float) -> float:
    """Return the 32-bit float that is nearest."""
    (found,) = struct.unpack("f", struct.pack("f", value))
    return float(found)


def test_a_notebook_shows_the_summary_the_magic_and_the_page(folder: Path) -> None:
    (folder / "snap.pickle").write_bytes(
        (REPOSITORY / "sample_snapshots" / "training_step.pickle").read_bytes()
    )
    nbformat: Any = importlib.import_module("nbformat")
    nbclient: Any = importlib.import_module("nbclient")
    cells = find_cells(text_of("howto-notebooks.md"))
    assert len(cells) == 4
    book = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in (TRAIN_STEP, *cells)]
    )
    nbclient.NotebookClient(
        book, timeout=120, resources={"metadata": {"path": str(folder)}}
    ).execute()
    _, loaded, recording, summary, page = (cell["outputs"] for cell in book.cells)
    assert loaded == []
    shown = [output["data"] for output in recording if output["output_type"] == "display_data"]
    made = snapreport.load(folder / "cell.memory" / "1" / "snap.zip")
    assert made.device().peak.allocated > 16 * 1024
    assert [each["text/html"] for each in shown][:1] == [made._repr_html_()]
    assert ["cell.memory/1/report.html" in each["text/html"] for each in shown] == [False, True]
    (output,) = summary
    assert output["data"]["text/html"] == snapreport.load("snap.pickle")._repr_html_()
    (output,) = page
    (attribute,) = re.findall('srcdoc="([^"]*)"', output["data"]["text/html"])
    assert html.unescape(attribute) == (folder / "report.html").read_text(encoding="utf-8")

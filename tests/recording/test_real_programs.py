"""record() in real programs on whatever PyTorch is here, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

import snapreport
from tests.conftest import REPOSITORY
from tests.needed import needed
from tests.recording import ready

needed("torch")


def run(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(program)
    return ready.run(["program.py"], folder, {})


def large(path: Path) -> list[int]:
    """The sizes of a million bytes and more, in order."""
    return [
        size
        for size in snapreport.load(path).device("cpu").allocations.size.tolist()
        if size >= 10**6
    ]


def test_recordings_inside_recordings_beside_worker_processes(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
import threading
import torch
from torch.utils.data import DataLoader, TensorDataset
import snapreport

if __name__ == "__main__":
    with snapreport.record("outer", formats=["pickle"]):
        x = torch.ones(1000, 1000)
        with snapreport.record("inner", formats=["pickle"]):
            with snapreport.stage("in"):
                y = torch.ones(2000, 1000)
        z = torch.ones(3000, 1000)
        for batch in DataLoader(TensorDataset(torch.ones(100, 10)), num_workers=2):
            pass
        thread = threading.Thread(target=snapreport.mark, args=("thread",))
        thread.start()
        thread.join()
""",
    )
    assert result.returncode == 0, result.stderr
    outer, inner = (
        tmp_path / "outer" / "1" / "snapshot.pickle",
        tmp_path / "inner" / "1" / "snapshot.pickle",
    )
    assert large(outer) == [4_000_000, 8_000_000, 12_000_000]
    assert large(inner) == [8_000_000]
    for path in (outer, inner):
        names = [stage.name for stage in snapreport.load(path).device().stages]
        assert names.count("in") == 1
    noted = snapreport.load(outer).history.recorder
    assert noted is not None
    assert [mark.name for mark in noted.marks] == ["thread"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["inner", "outer", "program.py"]


def test_ctrl_c_leaves_the_report_and_goes_its_way(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
import os, signal, threading, time
import torch
import snapreport

with snapreport.record("out"):
    x = torch.ones(1000, 1000)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    time.sleep(60)
""",
    )
    assert result.stderr.rstrip().endswith("KeyboardInterrupt")
    assert (
        "Ended by: `KeyboardInterrupt in <module> (program.py:9)`"
        in (tmp_path / "out" / "1" / "report.md").read_text()
    )


def test_what_start_began_is_written_when_the_program_dies(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
import torch
import snapreport

snapreport.start("out")
x = torch.ones(1000, 1000)
raise ValueError("the end")
""",
    )
    assert result.returncode == 1
    assert large(tmp_path / "out" / "1" / "snap.zip") == [4_000_000]
    assert (
        "Ended by: `ValueError: the end in <module> (program.py:7)`"
        in (tmp_path / "out" / "1" / "report.md").read_text()
    )


WORKER = """
import multiprocessing
{begin}
import snapreport

def work(fails):
    snapreport.start(f"out{{fails}}", formats=["pickle", "md"])
    x = {allocate}
    if fails:
        raise ValueError("the worker's")

if __name__ == "__main__":
    for fails in (0, 1):
        process = multiprocessing.get_context("{how}").Process(target=work, args=(fails,))
        process.start()
        process.join(100)
        print(process.exitcode)
"""
FORKED = {
    "how": "fork",
    # A forked child waits for ever for OpenMP's threads.
    "begin": "import torch; torch.set_num_threads(1)",
    "allocate": "torch.ones(1000, 1000)",
}
SPAWNED = {  # with a stand-in: a new Python imports PyTorch for seconds
    "how": "spawn",
    "begin": "import pytest; from tests.recording.fake_torch import FakeGpu, install;"
    " gpu = install(pytest.MonkeyPatch(), FakeGpu())",
    "allocate": "gpu.alloc(4_000_000)",
}


@pytest.mark.parametrize("given", [FORKED, SPAWNED], ids=lambda given: given["how"])
def test_a_worker_leaves_what_it_began_also_when_it_fails(
    tmp_path: Path, given: dict[str, str]
) -> None:
    if given["how"] not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {given['how']} here")
    (tmp_path / "program.py").write_text(WORKER.format(**given))
    imported = ready.PYTORCH if given is FORKED else ready.OURS
    result = ready.run(["program.py"], tmp_path, {}, imported)
    assert result.stdout.split() == ["0", "1"], result.stderr
    for fails in (0, 1):
        (snapshot,) = (tmp_path / f"out{fails}" / "1").glob("snapshot.pid*.pickle")
        held = snapreport.load(snapshot).device().allocations.size
        assert held[held >= 10**6].tolist() == [4_000_000]
        (report,) = (tmp_path / f"out{fails}" / "1").glob("report.pid*.md")
        assert (
            "Ended by: `ValueError: the worker's in work (program.py:10)`" in report.read_text()
        ) == bool(fails)
    assert "No recording is running" not in result.stderr


def test_a_new_python_records_a_real_program_and_nothing_else_is_written(tmp_path: Path) -> None:
    """Of what happens once in a process: PyTorch's import, its profiler's start, C++ symbols."""
    (tmp_path / "real.py").write_text(
        """import os, platform, sys
os.environ["PATH"] = "/nowhere"  # where no addr2line is installed
import torch
import snapreport
def a_function_of_it():
    hidden = torch.ones(512, 1024)
    return hidden.clone()
kept = torch.ones(1024, 1024)
also = a_function_of_it()
with snapreport.record("inner", formats=["pickle"], quiet=True):  # the profiler starts anew
    print("the program's", file=sys.stderr)
assert "KINETO_LOG_LEVEL" not in os.environ

if sys.platform == "linux" and platform.machine() == "x86_64":
    from torch._C._profiler import gather_traceback, symbolize_tracebacks
    from snapreport.recorders.cuda import _SYMBOLS
    from snapreport.recorders.recorder import temporary_environment

    trace = gather_traceback(True, True, True)
    with temporary_environment(_SYMBOLS):
        (frames,) = symbolize_tracebacks([trace])
    assert any("CapturedTraceback::gather" in frame["name"] for frame in frames), frames
"""
    )
    result = subprocess.run(
        [sys.executable, "-m", "snapreport", "record", "-o", "out", "real.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    first, ours = result.stderr.splitlines()
    assert first == "the program's"
    assert ours.startswith("snapreport recorded ")
    report = (tmp_path / "out" / "1" / "report.md").read_text()
    assert "real.py:8" in report
    assert "`a_function_of_it`" in report
    assert "real.py:6" in report
    device = snapreport.load(tmp_path / "out" / "1" / "snapshot.pickle").device("cpu")
    assert int(device.curve("allocated")[-1]) == 6 * 2**20


def test_a_compiled_function_that_fails_leaves_its_error_and_the_files(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
import torch
import snapreport

@torch.library.custom_op("tests::fails", mutates_args=())
def fails(x: torch.Tensor) -> torch.Tensor:
    if held:
        raise MemoryError("out of memory, at run time")
    return x.clone()

@fails.register_fake
def _(x):
    return torch.empty_like(x)

@torch.compile(backend="aot_eager")
def step(x):
    return fails(x @ x) + 1

held = []
step(torch.ones(1000, 1000))  # compiled here: a million Python calls that none need record
try:
    with snapreport.record("out"):
        held.append(torch.ones(1000, 1000))
        step(held[0])
except MemoryError as error:
    assert str(error) == "out of memory, at run time"
    print(*error.__notes__)
""",
    )
    assert result.returncode == 0, result.stderr
    assert f"snapreport: what held the memory is in {tmp_path / 'out' / '1' / 'report.html'}" in (
        result.stdout.splitlines()
    )
    assert 4_000_000 in large(tmp_path / "out" / "1" / "snap.zip")
    assert (
        "MemoryError: out of memory, at run time"
        in (tmp_path / "out" / "1" / "report.md").read_text()
    )


def test_what_a_real_model_and_optimizer_hold_is_known_by_address(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
import torch
import snapreport

model = torch.nn.Linear(300, 500)
model.register_buffer("mask", torch.ones(700))
optimizer = torch.optim.AdamW(model.parameters())
with snapreport.record("out", formats=["zip"], modules=model, optimizers=optimizer):
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(20, 300)).sum().backward()
        optimizer.step()
""",
    )
    assert result.returncode == 0, result.stderr
    snapshot = snapreport.load(tmp_path / "out" / "1" / "snap.zip")
    noted = snapshot.history.recorder
    assert noted is not None
    stated = {(storage.kind, storage.name): storage.size for storage in noted.storages}
    weight = 300 * 500 * 4
    assert stated["parameter", "weight"] == weight
    assert stated["gradient", "weight"] == weight
    assert stated["buffer", "mask"] == 700 * 4
    assert stated["optimizer state", "weight.exp_avg"] == weight
    assert stated["optimizer state", "weight.exp_avg_sq"] == weight
    device = snapshot.device("cpu")
    number, names = device.categories()
    rows = device.allocations
    kept = (rows.size == weight) & (rows.free_event == device.events)
    found = sorted(names[n].name for n in number[kept])
    assert found.count("optimizer state") == 2
    assert "gradient" in found


def test_lines_of_the_program_are_kept_with_their_text_until_redacted(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
import torch
import snapreport

with snapreport.record("out", formats=["pickle"]):
    layer = torch.nn.Linear(512, 512)  # the layer
    kept = layer(torch.ones(64, 512)).relu()
""",
    )
    assert result.returncode == 0, result.stderr
    path = tmp_path / "out" / "latest" / "snapshot.pickle"
    device = snapreport.load(path).device("cpu")
    texts = {line.source for line in device.at().lines()}
    assert "layer = torch.nn.Linear(512, 512)  # the layer" in texts
    for functions in (False, True):
        redacted = snapreport.convert(
            path, tmp_path / "redacted.zip", redact=True, redact_functions=functions, force=True
        )
        found = snapreport.load(redacted).device("cpu")
        assert {line.source for line in found.at().lines()} == {""}
        assert not any("source" in each for each in found.file.stacks.frames.extra.values())
    bundle = snapreport.convert(path, tmp_path / "snap.zip")
    path.unlink()
    (tmp_path / "program.py").unlink()  # a report is made of the bundle alone
    assert {line.source for line in snapreport.load(bundle).device("cpu").at().lines()} == texts
    markdown = snapreport.render(bundle, tmp_path / "report.md").read_text(encoding="utf-8")
    assert "`layer = torch.nn.Linear(512, 512)  # the layer`" in markdown

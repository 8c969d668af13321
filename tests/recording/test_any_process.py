"""Processes that a variable records: they know nothing of it, and are never harmed by it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import pytest

import snapreport
from _snapreport_at_import_torch import begin
from snapreport.api import any_process
from snapreport.api.any_process import AnyProcess, read_options
from snapreport.api.recording import ambient
from snapreport.recorders import system
from tests.needed import needed
from tests.recording.fake_torch import FakeGpu, OutOfMemoryError
from tests.recording.folders import ALL, MIB, allocations, metadata
from tests.recording.forced_failures import FAILURES, force, may_mount, missing

torch = needed("torch")

QUICK = ("spawn", "fork", "SIGTERM", "folder not writable", "disk full", "IPython")
"""The others run with ``python -m tests.recording.forced_failures``, and on cards in gpu-check."""


# A card


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("1/*")}


def test_nothing_is_left_where_nothing_was_allocated(gpu: FakeGpu, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    ambient(folder, only_oom=False).start().stop()
    assert not folder.exists()


def test_the_folder_is_made_when_there_is_something_to_write(gpu: FakeGpu, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    recording = ambient(folder, only_oom=False).start()
    gpu.alloc(MIB)
    assert not folder.exists()
    recording.stop()
    assert files(folder) == ALL
    assert recording.files["html"] == folder / "1" / "report.html"


def test_only_a_failure_leaves_files(gpu: FakeGpu, tmp_path: Path) -> None:
    recording = ambient(tmp_path / "out", only_oom=True).start()
    gpu.alloc(MIB)
    assert not recording.stop()
    assert not (tmp_path / "out").exists()


def test_a_failed_request_has_its_page_at_once_and_once(gpu: FakeGpu, tmp_path: Path) -> None:
    # A process may be killed right after it.
    folder = tmp_path / "out"
    recording = ambient(folder, only_oom=True).start()
    gpu.alloc(600 * MIB)
    with pytest.raises(OutOfMemoryError):
        gpu.alloc(800 * MIB)
    early = {"report.oom.html", "report.oom.md", "snap.oom.zip", "snapshot.oom.pickle"}
    assert files(folder) == early
    assert "800.0 MiB" in (folder / "1" / "report.oom.md").read_text()
    recording.stop()
    assert files(folder) == ALL
    assert "800.0 MiB" in (folder / "1" / "report.md").read_text()


def test_a_failed_request_that_a_program_survives_keeps_its_page(
    gpu: FakeGpu, tmp_path: Path
) -> None:
    recording = snapreport.record(tmp_path / "out", quiet=True).start()
    held = gpu.alloc(600 * MIB)
    with pytest.raises(OutOfMemoryError):
        gpu.alloc(800 * MIB)
    gpu.free(held)
    recording.stop()
    assert files(tmp_path / "out") == ALL | {
        "report.oom.html", "report.oom.md", "snap.oom.zip", "snapshot.oom.pickle",
    }  # fmt: skip
    assert recording.files["html"].name == "report.html"
    assert recording.files["html.oom"].name == "report.oom.html"


def test_a_folder_that_cannot_be_written_is_replaced_by_a_temporary_one(
    gpu: FakeGpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "out").write_text("a file")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    recording = ambient(tmp_path / "out", only_oom=False).start()
    gpu.alloc(MIB)
    recording.stop()
    assert recording.folder.is_relative_to(tmp_path / "temporary")
    assert {path.name for path in recording.folder.iterdir()} == ALL
    assert "is a file" in caplog.text
    assert str(recording.folder) in caplog.text


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can")
def test_a_temporary_folder_of_another_user_is_not_used(
    gpu: FakeGpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "out").write_text("a file")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    theirs = tmp_path / f"snapreport-{os.getuid()}"
    theirs.mkdir()
    os.chown(theirs, 12345, -1)
    recording = ambient(tmp_path / "out", only_oom=False).start()
    gpu.alloc(MIB)
    assert not recording.stop()
    assert not list(theirs.iterdir())
    assert "could not be written" in caplog.text


def test_an_error_of_a_thread_is_noted_without_keeping_it(gpu: FakeGpu, tmp_path: Path) -> None:
    recording = ambient(tmp_path / "out", only_oom=False).start()
    gpu.alloc(MIB)
    recording.note_failure(ValueError("not for want of memory"))
    recording.note_failure(RuntimeError("CUDA out of memory: in a thread"))
    recording.note_failure(MemoryError("later"))
    recording.stop()
    assert metadata(tmp_path / "out" / "1" / "snapshot.pickle")["failure"]["message"] == (
        "CUDA out of memory: in a thread"
    )


@pytest.fixture
def with_hooks(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> tuple[FakeGpu, list[Any]]:
    """Fake torch with what a process is recorded by; also what waits for the first use of CUDA."""
    waiting: list[Any] = []
    gpu.torch.cuda._lazy_call = waiting.append
    gpu.torch.cuda._device_count_nvml = lambda: 1
    gpu.torch.backends = types.SimpleNamespace(cuda=types.SimpleNamespace(is_built=lambda: True))  # type: ignore[attr-defined]
    steps = types.SimpleNamespace(register_optimizer_step_post_hook=waiting.append)
    monkeypatch.setitem(sys.modules, "torch.optim", types.ModuleType("torch.optim"))
    monkeypatch.setitem(sys.modules, "torch.optim.optimizer", steps)
    monkeypatch.setattr(AnyProcess, "_end_well", lambda self: None)
    monkeypatch.setattr(AnyProcess, "_listen", lambda self: None)
    for name in (any_process.ALL, any_process.ONLY_OOM, any_process.OPTIONS):
        monkeypatch.delenv(name, raising=False)
    return gpu, waiting


def test_a_card_is_recorded_from_its_first_use(
    with_hooks: tuple[FakeGpu, list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu, waiting = with_hooks
    monkeypatch.setenv("SNAPREPORT", str(tmp_path / "out"))
    monkeypatch.setenv("SNAPREPORT_OPTIONS", "max-entries=5000 stacks=python context=alloc")
    begin()
    assert not gpu.calls
    (first_use,) = waiting
    first_use()
    assert gpu.calls == [{"enabled": "all", "context": "alloc", "stacks": "python"}]
    gpu.alloc(MIB)
    snapreport.stop()
    assert files(tmp_path / "out") == ALL


def test_a_window_of_steps_is_counted_by_the_first_optimizer(
    with_hooks: tuple[FakeGpu, list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu, waiting = with_hooks
    monkeypatch.setenv("SNAPREPORT", str(tmp_path / "out"))
    monkeypatch.setenv("SNAPREPORT_OPTIONS", "steps=3-4")
    begin()
    (count,) = waiting

    class Optimizer: ...

    one, other = Optimizer(), Optimizer()
    for step in range(1, 7):
        gpu.alloc(step * MIB)
        count(one, (), {})
        count(other, (), {})
    assert allocations(tmp_path / "out" / "1" / "snap.zip") == [3 * MIB, 4 * MIB]
    assert not (tmp_path / "out" / "2").exists()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("ranks=0,4-6 steps=10-12", {"ranks": (0, 4, 5, 6), "steps": (10, 12)}),
        ("stacks=python --title='a run'", None),
        ("title='a run' pinned", {"title": "a run", "pinned": True}),
        ("compress=no skip_actions=oom,snapshot", {"compress": False,
                                                   "skip_actions": ("oom", "snapshot")}),
        ("steps=9-3", None),
        ("ranks=all", None),
        ("folder=out", None),
    ],
)  # fmt: skip
def test_options_are_those_of_record(text: str, found: dict[str, Any] | None) -> None:
    if found is None:
        with pytest.raises(ValueError, match="SNAPREPORT_OPTIONS"):
            read_options(text)
    else:
        assert read_options(text) == found


@pytest.mark.parametrize("wrong", ["ranks=all", "stacks=none"])
def test_what_is_wrong_is_said_in_a_line_and_raised_nowhere(
    with_hooks: tuple[FakeGpu, list[Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    wrong: str,
) -> None:
    monkeypatch.setenv("SNAPREPORT", str(tmp_path / "out"))
    monkeypatch.setenv("SNAPREPORT_OPTIONS", wrong)
    begin()
    for each in with_hooks[1]:
        each()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("snapreport: this process is not recorded: ")
    assert not (tmp_path / "out").exists()


# PyTorch's own start

LOADED = """
import sys
import torch
print(sorted(name for name in sys.modules if name.split(".")[0] == "snapreport"))
"""


def run(folder: Path, source: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SNAPREPORT")}
    return subprocess.run(
        [sys.executable, "-c", source],
        cwd=folder,
        env=clean | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


def test_pytorch_calls_us_and_loads_next_to_nothing_where_no_variable_is_set(
    tmp_path: Path,
) -> None:
    done = run(tmp_path, LOADED)
    assert json.loads(done.stdout.replace("'", '"')) == []
    assert done.stderr == ""


def test_a_users_own_module_of_our_name_breaks_nothing(tmp_path: Path) -> None:
    (tmp_path / "snapreport.py").write_text("VALUE = 7\n")
    source = "import torch, snapreport; print(snapreport.VALUE)"
    done = run(tmp_path, source)
    assert (done.stdout, done.stderr) == ("7\n", "")
    done = run(tmp_path, source, SNAPREPORT="out")
    assert done.stdout == "7\n"
    assert done.stderr.startswith("snapreport: this process is not recorded: ")


@pytest.mark.parametrize(
    ("built", "counted", "device", "there"),
    [
        (False, 1, "nvidia0", False),
        (True, 2, "", True),
        (True, 0, "nvidia0", False),  # hidden by CUDA_VISIBLE_DEVICES
        (True, -1, "nvidia3", True),  # a container without NVIDIA's library
        (True, -1, "kfd", True),
        (True, -1, "nvidiactl", False),
        (True, -1, "", False),
    ],
)
def test_a_card_is_found_without_a_context_on_it(
    gpu: FakeGpu,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    built: bool,
    counted: int,
    device: str,
    there: bool,
) -> None:
    cuda = types.SimpleNamespace(is_built=lambda: built)
    vars(gpu.torch)["backends"] = types.SimpleNamespace(cuda=cuda)
    gpu.torch.cuda._device_count_nvml = lambda: counted
    monkeypatch.setattr(system, "_DEVICES", tmp_path)
    if device:
        (tmp_path / device).touch()
    assert system.has_card() == there


# How a process ends, without PyTorch

PROCESS = """
import ctypes, os, signal, threading, time
from pathlib import Path
from snapreport.api import recording
from snapreport.api.any_process import AnyProcess
process = AnyProcess("out", only_oom=False, steps=None, arguments={})
process._on_card = True
process._end_well()
"""


def test_a_signal_is_heard_while_the_main_thread_waits_in_c(tmp_path: Path) -> None:
    source = """
process.stop = lambda error: Path("written").write_text(error.name)
process._listen()
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
mutex, libc = ctypes.create_string_buffer(64), ctypes.CDLL(None)
libc.pthread_mutex_lock(mutex)
libc.pthread_mutex_lock(mutex)  # for ever, like a wait for another rank
"""
    done = run(tmp_path, PROCESS + source)
    assert done.returncode == -signal.SIGTERM, done.stderr
    assert (tmp_path / "written").read_text() == "SIGTERM"


def test_a_signal_in_the_middle_of_writing_waits_for_its_end(tmp_path: Path) -> None:
    source = """
process.stop = lambda error: Path("again").touch()
with recording._written():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.2)
    Path("written").touch()
Path("went on").touch()
"""
    done = run(tmp_path, PROCESS + source)
    assert done.returncode == -signal.SIGTERM, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["written"]


def test_the_first_process_of_a_container_keeps_its_signals(tmp_path: Path) -> None:
    # The kernel keeps those from it that it does not handle: it would live on, and we would end it.
    source = (
        "import os; os.getpid = lambda: 1\n"
        + PROCESS
        + """
from snapreport.ground import processes
print(processes.is_ours(signal.SIGTERM))
"""
    )
    assert run(tmp_path, source).stdout.endswith("False\n")
    assert run(tmp_path, source.replace("lambda: 1", "lambda: 2")).stdout.endswith("True\n")


def test_ctrl_c_in_the_middle_of_writing_changes_no_exit_status(tmp_path: Path) -> None:
    source = """
def interrupted(error): raise KeyboardInterrupt
process.stop = interrupted
try: os._exit(5)
except KeyboardInterrupt: print("came out")
"""
    assert (run(tmp_path, PROCESS + source).returncode, list(tmp_path.iterdir())) == (5, [])


@pytest.mark.parametrize(
    ("words", "helps"),
    [
        ("/bin/torchrun train.py", True),
        ("-m torch.distributed.run train.py", True),
        ("-X dev -m accelerate.commands.launch train.py", True),
        ("-u /torch/_inductor/compile_worker/__main__.py", True),
        ("train.py --strategy deepspeed", False),
        ("-c torchrun", False),
        ("", False),
    ],
)
def test_launchers_are_known_by_what_python_runs(
    monkeypatch: pytest.MonkeyPatch, words: str, helps: bool
) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", *words.split()])
    assert any_process._is_helper() == helps


@pytest.mark.parametrize("program", ["/ray/workers/default_worker.py", "train.py"])
def test_an_error_of_a_ray_task_is_kept_in_its_worker_alone(
    monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    class RayTaskError(Exception):  # which a driver makes once more, of what it is sent
        def __init__(self, name: str, cause: BaseException) -> None:
            self.cause = cause

    module = types.SimpleNamespace(RayTaskError=RayTaskError)
    monkeypatch.setitem(sys.modules, "ray.exceptions", module)
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    monkeypatch.setattr(sys, "orig_argv", ["python", program])
    process = AnyProcess("out", only_oom=False, steps=None, arguments={})
    kept: list[Any] = []
    monkeypatch.setattr(process, "_keep", kept.append)
    process._hear_of_errors()
    error = MemoryError()
    assert RayTaskError("work", error).cause is error
    assert kept == ([error] if "worker" in program else [])


def test_waiting_for_a_failure_costs_nothing_without_a_card(tmp_path: Path) -> None:
    source = f"{LOADED}\nkept = torch.ones(9)\nprint(torch._C._autograd._profiler_enabled())"
    done = run(tmp_path, source, SNAPREPORT_OOM="out")
    assert done.stdout.endswith("False\n")
    assert not list(tmp_path.iterdir())


def test_a_program_that_profiles_itself_ends_the_recording(tmp_path: Path) -> None:
    # Two profilers at once would crash the process.
    source = """
import torch
first = torch.ones(1000, 1000)
with torch.profiler.profile() as its:
    second = torch.ones(2000)
print(len(its.events()) > 0)
"""
    done = run(tmp_path, source, SNAPREPORT="out")
    assert (done.returncode, done.stdout) == (0, "True\n")
    assert files(tmp_path / "out") == ALL


def test_recorders_and_profilers_of_other_threads_get_their_way(tmp_path: Path) -> None:
    # Two profilers at once crash the process; ours can only be stopped by the main thread.
    source = """
import threading, torch, snapreport
def in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()
def records():
    with snapreport.record("mine", formats="pickle", quiet=True): torch.ones(99)
def profiles():
    with torch.profiler.profile() as its: torch.ones(999)
    print(len(its.events()) > 0)
kept = torch.ones(9999)
in_thread(WHAT)
"""
    for what, out in (("records", ""), ("profiles", "True\n")):
        folder = tmp_path / what
        folder.mkdir()
        done = run(folder, source.replace("WHAT", what), SNAPREPORT="out")
        assert (done.returncode, done.stdout) == (0, out), done.stderr
        assert files(folder / "out") == ALL
        assert (folder / "mine").exists() == (what == "records")


def test_a_window_of_steps_is_recorded_in_a_real_program(tmp_path: Path) -> None:
    source = """
import torch
model = torch.nn.Linear(500, 500)
optimizer = torch.optim.SGD(model.parameters())
for step in range(1, 6):
    kept = torch.ones(100_000 * step)
    model(torch.ones(9, 500)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    done = run(tmp_path, source, SNAPREPORT="out", SNAPREPORT_OPTIONS="steps=2-3 formats=pickle")
    assert done.returncode == 0, done.stderr
    assert files(tmp_path / "out") == {"snapshot.pickle"}
    made = snapreport.load(tmp_path / "out" / "1" / "snapshot.pickle").device("cpu").allocations
    assert {int(size) // 400_000 for size in made.size if size % 400_000 == 0 and size} == {2, 3}


def test_libraries_see_no_handler_of_ours_and_may_set_their_own(tmp_path: Path) -> None:
    # Lightning sets none where it sees one; a second signal must not stop what the first began.
    source = """
import os, signal, torch
kept = torch.ones(9)
print(signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL)
signal.signal(signal.SIGUSR1, lambda *_: print("theirs", flush=True))
os.kill(os.getpid(), signal.SIGUSR1)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
os.kill(os.getpid(), signal.SIGTERM)
"""
    done = run(tmp_path, source, SNAPREPORT="out")
    assert done.stdout == "True\ntheirs\n"
    assert done.returncode == -signal.SIGTERM
    assert files(tmp_path / "out") == ALL


@pytest.mark.parametrize("name", QUICK)
def test_a_forced_failure_leaves_its_page(name: str, tmp_path: Path) -> None:
    failure = FAILURES[name]
    if name == "disk full" and not may_mount():
        pytest.skip("only root can make a small file system")
    assert not missing(failure)
    left = force(failure, "cpu", tmp_path)
    assert left.as_wanted(failure, "cpu"), left.stderr

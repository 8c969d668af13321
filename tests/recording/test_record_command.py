"""``snapreport record``: the program runs as if alone, and its end stays its own."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import snapreport
from snapreport.api import recording
from snapreport.api.any_process import read_options
from snapreport.commands.record import ACTIONS, FORMATS, MAX_ENTRIES, find_command
from snapreport.recorders import recorder
from tests.conftest import REPOSITORY
from tests.recording import ready
from tests.recording.forced_failures import COMMON, FAILURES, TORCHRUN
from tests.thorough import IN_FULL

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"
)
needs_signals = pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there are none")
FAKE = """
import sys, types
import pytest
from tests.recording.fake_torch import FakeGpu, install
import builtins
builtins.gpu = gpu = install(pytest.MonkeyPatch(), FakeGpu())
from snapreport.commands import main
main()
"""
ALL = ["report.html", "report.md", "snap.zip", "snapshot.pickle"]


def run(folder: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``snapreport record`` on a simulated GPU over a program ``train.py``."""
    (folder / "train.py").write_text(program)
    (folder / "start.py").write_text(FAKE)
    return ready.run(["start.py", "record", *arguments], folder, {}, ready.OURS)


def test_the_program_gets_its_arguments_and_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)  # so that only we could set it
    (tmp_path / "beside.py").write_text("VALUE = 7\n")
    result = run(
        tmp_path,
        "import sys, os, gc, beside\n"
        "gpu.alloc(2**20)\n"
        "print(__name__, sys.argv[1:], beside.VALUE, __file__ == os.path.abspath('train.py'))\n"
        "print(__file__ == sys.argv[0] == sys._getframe().f_code.co_filename)\n"
        "print(gc.isenabled(), 'OPENBLAS_NUM_THREADS' in os.environ)\n",
        "-o",
        "out",
        "train.py",
        "--epochs",
        "1",
        "-o",
        "mine",
    )
    assert re.fullmatch(
        r"snapreport recorded out/1/report\.html \(1\.00 MiB allocated at .*\)\n", result.stderr
    )
    assert result.stdout == ("__main__ ['--epochs', '1', '-o', 'mine'] 7 True\nTrue\nTrue False\n")
    assert result.returncode == 0
    assert sorted(path.name for path in (tmp_path / "out" / "1").iterdir()) == ALL


@pytest.mark.parametrize(
    ("ending", "status", "stderr"),
    [
        ("sys.exit(3)", 3, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit('no data')", 1, "no data\n"),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt"),
    ],
)
def test_the_exit_status_is_the_program_s(
    tmp_path: Path, ending: str, status: int, stderr: str
) -> None:
    result = run(tmp_path, f"import sys\ngpu.alloc(2**20)\n{ending}\n", "-q", "train.py")
    assert result.returncode == status
    assert stderr in result.stderr
    assert sorted(path.name for path in (tmp_path / "train.memory" / "1").iterdir()) == ALL


def test_an_error_of_the_program_is_shown_as_python_does(tmp_path: Path) -> None:
    program = "def step():\n    gpu.alloc(2**31)\nstep()\n"
    result = run(tmp_path, program, "train.py")
    assert result.returncode == 1
    lines = result.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].endswith('train.py", line 3, in <module>')
    assert "OutOfMemoryError: CUDA out of memory" in result.stderr
    if sys.version_info >= (3, 11):
        assert "snapreport: what held the memory is in" in result.stderr
    assert (
        "Ended by: `torch.OutOfMemoryError"
        in (tmp_path / "train.memory" / "1" / "report.md").read_text()
    )


def test_errors_of_the_program_that_we_have_too_stay_its_own(tmp_path: Path) -> None:
    result = run(tmp_path, "from snapreport import InputError\nraise InputError('x')\n", "train.py")
    assert "Traceback" in result.stderr
    assert "InputError: x" in result.stderr


def test_a_module_is_run_by_its_name(tmp_path: Path) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "train.py").write_text("import sys\ngpu.alloc(2**20)\nprint(sys.argv[1:], __name__)")
    result = run(tmp_path, "", "-q", "--format", "md", "-m", "pack.train", "--fast")
    assert result.stdout == "['--fast'] __main__\n"
    assert [path.name for path in (tmp_path / "train.memory" / "1").iterdir()] == ["report.md"]


def test_a_program_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    for arguments in (["none.py"], ["-m", "none.at.all"]):
        result = run(tmp_path, "", *arguments)
        assert result.returncode == 1
        assert result.stderr.count("\n") == 1
        assert "none" in result.stderr
    assert not (tmp_path / "none.memory").exists()


def test_the_command_knows_the_formats_and_the_limit() -> None:
    assert FORMATS == recording.FORMATS
    assert MAX_ENTRIES == recording.MAX_ENTRIES
    assert ACTIONS == recorder.ACTIONS


def test_a_forked_child_that_ends_by_itself_is_no_trouble(tmp_path: Path) -> None:
    program = "import os, sys\nif os.fork() == 0:\n    sys.exit(0)\nprint(os.wait()[1])\n"
    result = run(tmp_path, program, "train.py")
    assert result.stdout == "0\n"
    assert result.stderr.count("snapreport recorded ") == 1
    assert "Error" not in result.stderr


@needs_signals
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGXCPU", "SIGRTMIN"])
def test_a_signal_that_ends_a_program_leaves_the_files(tmp_path: Path, name: str) -> None:
    """Twice, as a shell whose terminal is closed passes on what its programs have had already."""
    program = (
        "import os, signal, threading, time\n"
        "threading.Thread(target=time.sleep, args=[60]).start()\n"
        f"end = signal.{name}\n"
        "try:\n"
        "    os.kill(os.getpid(), end)\n"
        "    time.sleep(60)\n"
        "finally:\n"
        "    import snapreport.api.making\n"
        "    save = snapreport.api.recording.save_bundle\n"
        "    def again(*given, **more):\n"
        "        os.kill(os.getpid(), end)\n"
        "        return save(*given, **more)\n"
        "    snapreport.api.recording.save_bundle = again\n"
    )
    result = run(tmp_path, program, "train.py")
    assert result.returncode == -getattr(signal, name)  # as without us
    assert result.stderr.startswith("snapreport recorded train.memory/1/report.html")
    assert sorted(path.name for path in (tmp_path / "train.memory" / "1").iterdir()) == ALL
    report = (tmp_path / "train.memory" / "1" / "report.md").read_text()
    assert f"Ended by: `{name} in <module> (train.py:" in report


@needs_signals
def test_a_program_sees_and_handles_signals_as_if_alone(tmp_path: Path) -> None:
    program = """
import os, signal, time
usr1, usr2, term = signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM
print(signal.getsignal(usr1) == signal.getsignal(term) == signal.SIG_DFL)
print(signal.signal(usr1, lambda number, frame: print("saved")) == signal.SIG_DFL)
signal.signal(usr2, signal.SIG_IGN)
for each in (usr1, usr2):
    os.kill(os.getpid(), each)
child = os.fork()
if not child:
    os.kill(os.getpid(), term)
    time.sleep(60)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
signal.signal(usr1, signal.SIG_DFL)  # as trainers do afterwards
os.kill(os.getpid(), usr1)
time.sleep(60)
"""
    result = run(tmp_path, program, "-q", "train.py")
    assert result.stdout == "True\nTrue\nsaved\n-15\n"
    assert result.returncode == -signal.SIGUSR1
    assert sorted(path.name for path in (tmp_path / "train.memory" / "1").iterdir()) == ALL


@needs_signals
@pytest.mark.parametrize(("name", "status"), [("SIGHUP", 129), ("SIGINT", 130)])
@pytest.mark.parametrize(
    "after",
    [
        "recorders.system._new_number",  # a folder was just made
        "recorders.session._join_recorder",  # it has just begun
        "api.recording._stop_at_end_of_worker",
    ],
)
def test_a_signal_before_the_program_has_started_says_so_and_leaves_nothing(
    tmp_path: Path, name: str, status: int, after: str
) -> None:
    module, _, function = after.rpartition(".")
    start = f"""
import os, signal
import snapreport.{module} as module
real = module.{function}
def signalled(*given):
    made = real(*given)
    os.kill(os.getpid(), signal.{name})
    return made
module.{function} = signalled
from snapreport.commands import main
"""
    (tmp_path / "start.py").write_text(FAKE.replace("from snapreport.commands import main", start))
    (tmp_path / "train.py").write_text("print('started')\n")
    given = ["start.py", "record", "-o", "new/out", "train.py"]
    result = ready.run(given, tmp_path, {}, ready.OURS)
    assert result.returncode == status
    shown = {"SIGINT": "Ctrl-C"}.get(name, name)
    words = f"{shown} came before train.py was started; nothing was recorded.\n"
    assert (result.stdout, result.stderr) == ("", words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["start.py", "train.py"]


@pytest.mark.parametrize(
    ("given", "command"),
    [
        ("-m torch.distributed.run -n 2 train.py", "PYTHON -m torch.distributed.run -n 2 train.py"),
        ("torchrun train.py -m 3", "PYTHON HERE/torchrun train.py -m 3"),
        ("./job.sh 3", "HERE/job.sh 3"),
        ("job.sh", "HERE/job.sh"),
        ("bash job.sh", "BASH job.sh"),
        ("-m pack.train --lr 3", None),
        ("train.py", None),
        ("script", None),
        ("package", None),
        ("missing.py", None),
    ],
)  # fmt: skip
def test_what_is_no_python_program_is_started_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, command: str | None
) -> None:
    (tmp_path / "torchrun").touch()
    (tmp_path / "package").mkdir()
    (tmp_path / "job.sh").write_text("#!/bin/bash\n")
    (tmp_path / "script").write_text("#!/usr/bin/env python3\n")
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    module = given.startswith("-m ")
    program, *arguments = given.removeprefix("-m ").split()
    found = find_command(program, module, tuple(arguments))
    if command is None:
        assert found is None
    else:
        known = {"PYTHON": sys.executable, "HERE": str(tmp_path), "BASH": str(shutil.which("bash"))}
        for word, path in known.items():
            command = command.replace(word, path)
        assert found == command.split()


def test_a_command_gets_the_variable_and_keeps_its_status(tmp_path: Path) -> None:
    given = ["-m", "snapreport", "record", "-o", "out", "--max-entries", "9", "--rank", "1",
             "--title", "a b", "--compress", "--pinned", "--compile-context", "--forward-frames",
             "--format", "pickle", "--stacks", "all", "--skip-actions", "snapshot",
             "--", "bash", "-c", "echo $SNAPREPORT; echo $SNAPREPORT_OPTIONS; exit 7"]  # fmt: skip
    result = ready.run(given, tmp_path, {}, ready.OURS)
    assert result.returncode == 7
    folder, options = result.stdout.splitlines()
    assert folder == str(tmp_path / "out")
    assert read_options(options) == {
        "max_entries": 9, "ranks": (1,), "title": "a b", "compress": True, "pinned": True,
        "compile_context": True, "forward_frames": True, "formats": ("pickle",), "stacks": "all",
        "skip_actions": ("snapshot",),
    }  # fmt: skip
    assert result.stderr.startswith("No process that bash started was recorded: ")
    assert not (tmp_path / "out").exists()


def test_a_command_is_ended_with_its_own_signal(tmp_path: Path) -> None:
    script = "trap 'echo heard; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    with subprocess.Popen(
        [sys.executable, "-m", "snapreport", "record", "--", "bash", "-c", script],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(REPOSITORY)}, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    ) as started:  # fmt: skip
        assert started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        started.terminate()
        assert started.stdout.read() == "heard\n"
    assert started.returncode == -signal.SIGTERM


@needs_torch
def test_a_launchers_ranks_get_a_page_that_names_the_one_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(COMMON + FAILURES["torchrun, one is killed"].source)
    given = ["-m", "snapreport", "record", "-m", *TORCHRUN[1:], "program.py"]
    result = ready.run(given, tmp_path, {"ON": "cpu"}, ready.OURS)
    assert result.returncode == 1
    page = tmp_path / "program.memory" / "1" / "run.html"
    assert f"snapreport recorded 1 of 2 ranks: {page.relative_to(tmp_path)}" in result.stderr
    assert "There is no file for rank 1. A process that is killed leaves none." in page.read_text()


def test_work_that_child_processes_did_is_noticed(tmp_path: Path) -> None:
    burn = "import time; [0 for _ in iter(lambda: time.process_time() < 1.1, False)]"
    result = run(
        tmp_path,
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}], check=True)\n",
        "train.py",
    )
    assert "(Nothing was allocated in this process; child processes did the work)" in result.stderr
    report = (tmp_path / "train.memory" / "latest" / "report.md").read_text()
    assert "snapreport record torchrun ... train.py" in report
    assert "SNAPREPORT=out mpirun ... python train.py" in report
    page = (tmp_path / "train.memory" / "latest" / "report.html").read_text()
    assert "child processes did the work" in page


def test_where_nothing_is_known_of_child_processes_the_report_says_what_to_do_if_there_are(
    tmp_path: Path,
) -> None:
    result = run(tmp_path, "print('all of it is done by workers of Ray')\n", "train.py")
    assert "(Nothing was allocated" in result.stderr
    assert "child processes" not in result.stderr
    report = (tmp_path / "train.memory" / "latest" / "report.md").read_text()
    assert "If other processes train, record in those." in report
    assert "in the function that a worker of Ray runs" in report


SIMULATED = ("start.py", "import os\ngpu.alloc((1 + int(os.environ['RANK'])) << 22)\n", "cuda:0")
REAL = (
    "-m snapreport",
    """
import torch
from torch import distributed
distributed.init_process_group('gloo')
kept = torch.ones(1024, 1024 * (1 + distributed.get_rank()))
distributed.all_reduce(torch.ones(1))
distributed.destroy_process_group()
""",
    "cpu",
)


@needs_torch
@pytest.mark.parametrize(
    ("recorder", "program", "device"),
    [SIMULATED, REAL] if IN_FULL else [SIMULATED],  # each rank imports PyTorch for seconds
    ids=["simulated", "real"][: 2 if IN_FULL else 1],
)
def test_the_ranks_of_torchrun_are_recorded_into_one_folder(
    tmp_path: Path, recorder: str, program: str, device: str
) -> None:
    (tmp_path / "start.py").write_text(FAKE)
    (tmp_path / "train.py").write_text(program)
    command = f"-m torch.distributed.run --standalone --nproc_per_node 2 {recorder} record"
    runs = [1, 2] if IN_FULL else [1]  # test_places.py has the numbers of several
    for _ in runs:
        given = [*command.split(), "--format", "pickle", "train.py"]
        result = ready.run(given, tmp_path, {})
        assert result.returncode == 0, result.stderr
    folder = tmp_path / "train.memory"
    assert sorted(path.name for path in folder.iterdir()) == [".runs", *map(str, runs), "latest"]
    for number in runs:
        for rank in (0, 1):
            snapshot = snapreport.load(folder / f"{number}/snapshot.rank{rank}.pickle")
            assert snapshot.device(device).peak.allocated >= (1 + rank) << 22

"""A Python that has imported PyTorch and forks for each program, which a new one takes seconds for.

A program begins as in a new Python whose first lines were ``import torch, torch._dynamo`` and a
report, and ends as one: forked before it did anything, it has the whole interpreter for itself.
Another has imported our own modules alone, for programs with a stand-in for PyTorch. What is tested
of how PyTorch is imported, or of one that is not, runs in a new Python all the same.
"""

from __future__ import annotations

import atexit
import builtins
import functools
import gc
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import snapreport
from tests.conftest import REPOSITORY

SECONDS = 240
"""That a program may take."""

PYTORCH = "torch._dynamo"
OURS = "snapreport.api.making"
"""What a Python has imported that forks: PyTorch, or nothing but what a recording's files need."""

_ALSO = ("snapreport.api.recording", "pytest")
"""What most programs import; not IPython, which a recording looks for."""
_SAMPLE = REPOSITORY / "sample_snapshots" / "training_step.pickle"


def run(
    arguments: list[str], folder: Path, environment: dict[str, str], imported: str = PYTORCH
) -> subprocess.CompletedProcess[str]:
    """Run a program as ``python ARGUMENTS`` would, in a folder; without forks, do just that."""
    environment = (
        os.environ | {"PYTHONPATH": str(REPOSITORY), "CUDA_VISIBLE_DEVICES": ""} | environment
    )
    if not hasattr(os, "fork"):
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    with tempfile.TemporaryDirectory() as outputs:
        asked = (arguments, str(folder), dict(environment), outputs)
        python = _python(imported)
        assert python.stdin is not None
        assert python.stdout is not None
        python.stdin.write(json.dumps(asked) + "\n")
        python.stdin.flush()
        status = int(python.stdout.readline())
        out, err = (Path(outputs, name).read_text() for name in ("out", "err"))
    return subprocess.CompletedProcess(arguments, status, out, err)


@functools.cache
def _python(imported: str) -> subprocess.Popen[str]:
    """Start the one that forks; it ends with this process."""
    program = "import sys; from tests.recording import ready; ready.serve(sys.argv[1])"
    started = subprocess.Popen(
        [sys.executable, "-c", program, imported],
        cwd=REPOSITORY,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def end() -> None:
        started.communicate()

    atexit.register(end)
    return started


def serve(imported: str) -> None:
    """Import a module; then, for each line of standard input, run a program and tell its status."""
    ended: list[int] = []
    atexit.register(_end, os.getpid(), ended)  # before all others, so that it is called last
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, where tests are behind `&`
    for name in (imported, *_ALSO):
        with suppress(ModuleNotFoundError):  # what can be tested without, is
            importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:  # what reports import is imported late
        for name in ("snap.zip", "report.html", "report.md"):
            making = snapreport.convert if name.endswith(".zip") else snapreport.render
            making(_SAMPLE, Path(folder, name))
    gc.collect()
    gc.freeze()  # or each program looks through PyTorch's million objects for garbage
    for line in sys.stdin:
        child = os.fork()
        if not child:
            try:
                _become(*json.loads(line))
                ended.append(0)
            except SystemExit as error:
                code = 0 if error.code is None else error.code
                ended.append(code if isinstance(code, int) else 1)
                raise
            except KeyboardInterrupt:
                ended.append(-signal.SIGINT)
                raise
            except BaseException:
                ended.append(1)
                raise
            return
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _end(server: int, ended: list[int]) -> None:
    """End a program at once with its status: to take PyTorch's million objects apart takes long."""
    if os.getpid() == server or not ended:
        return
    sys.stdout.flush()
    sys.stderr.flush()
    if ended[0] < 0:  # as Python ends after a KeyboardInterrupt
        signal.signal(-ended[0], signal.SIG_DFL)
        os.kill(os.getpid(), -ended[0])
    os._exit(ended[0])


def _become(arguments: list[str], folder: str, environment: dict[str, str], outputs: str) -> None:
    """Run a program in this process, with these files as its outputs."""
    files = [os.devnull, os.path.join(outputs, "out"), os.path.join(outputs, "err")]
    for number, path in enumerate(files):
        opened = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    kind, *rest = arguments
    places = environment["PYTHONPATH"].split(os.pathsep)
    sys.path[:] = [*places, *(path for path in sys.path if path not in ("", *places))]
    for name in [name for name in sys.modules if name == "tests" or name.startswith("tests.")]:
        del sys.modules[name]
    if kind == "-m":
        sys.argv = rest
        sys.path.insert(0, folder)
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return
    code = rest[0] if kind == "-c" else Path(kind).read_text()
    sys.argv = [kind, *(rest[1:] if kind == "-c" else rest)]
    sys.path.insert(0, "" if kind == "-c" else folder)
    names = sys.modules["__main__"].__dict__
    names.clear()
    names.update(__name__="__main__", __builtins__=builtins, __spec__=None)
    if kind != "-c":
        names["__file__"] = str(Path(kind).absolute())
    exec(compile(code, "<string>" if kind == "-c" else names["__file__"], "exec"), names)

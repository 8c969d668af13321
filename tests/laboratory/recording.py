"""Runs the programs, each in a process of its own, and keeps what was recorded of them.

What is kept lies in ``out/laboratory`` under a hash of all that it depends on, so that a second
look costs nothing.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import hashlib
import inspect
import json
import multiprocessing
import os
import pickle
import re
import shutil
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import snapreport
from snapreport.api.device import Device
from snapreport.model.history import START, Allocations
from snapreport.recorders.cpu import CpuRecorder, _sessions
from snapreport.recorders.recorder import Options
from tests.conftest import REPOSITORY
from tests.laboratory import truth
from tests.laboratory.late_start import cut
from tests.laboratory.programs import all_programs
from tests.laboratory.truth import Found, Observer, Truth, Watch
from tests.recording import ready

KEPT = REPOSITORY / "out" / "laboratory"


@dataclass(frozen=True)
class Job:
    """One run of a program."""

    program: str
    variant: str = ""
    steps: int = 4
    start: int = 0
    """The step before which recording begins; 0 is before anything is built."""
    observed: bool = False
    """Whether this run is for the truth, not for a recording."""

    @property
    def folder(self) -> Path:
        """Where its files lie."""
        kind = "observed" if self.observed else f"from{self.start}"
        variant = f".{self.variant.replace(':', '')}" if self.variant else ""
        name = f"{self.program}{variant}.{self.steps}.{kind}.{_hash(self.program)}"
        return KEPT / name


@dataclass(frozen=True)
class Run:
    """A recording of a program, and what is true of it."""

    job: Job
    snapshot: Path
    truth: Truth

    @functools.cached_property
    def device(self) -> Device:
        """What was recorded."""
        return snapreport.load(self.snapshot).device("cpu")

    def late(self, step: int) -> Run:
        """Return the same as if recording had begun before a step.

        That is what PyTorch's own history of a GPU is then: what was made before has no stack, and
        its frees are seen. The profiler of the CPU sees none of them.
        """
        event = int(self.truth.steps[step])
        path = self.snapshot.with_name(f"late{step}.pickle")
        if not path.exists():
            cut(self.snapshot, event, path)
        found = snapreport.load(path).device("cpu")
        rows = _rows_of(self.device.allocations, found.allocations, event)
        steps = self.truth.steps[step:] - event
        return Run(self.job, path, Truth(self.truth.roles[rows], steps))


def run(program: str, variant: str = "", steps: int = 4, start: int = 0) -> Run:
    """Record a program, or take what is kept of it.

    Args:
        program: a name of ``all_programs()``.
        variant: one of its variants, empty for the program as it is.
        steps: how many it does, the unrecorded ones included.
        start: the step before which recording begins; at 0, before anything is built.

    Raises:
        AssertionError: the run for the truth made or freed other sizes than the recorded one.
    """
    job = Job(program, variant, steps, start)
    watched = Job(program, variant, steps, observed=True)
    make([job, watched])
    path = job.folder / "snapshot.pickle"
    kept = job.folder / "truth.npz"
    if not kept.exists():
        with np.load(watched.folder / "found.npz") as columns:
            found = Found(**columns)
        with np.load(job.folder / "held.npz") as columns:
            held = dict(zip(columns["addresses"].tolist(), columns["roles"].tolist(), strict=True))
        rows = snapreport.load(path).device("cpu").history
        found.matched(rows, start, held).save(kept)
    return Run(job, path, Truth.load(kept))


def recorded(job: Job) -> Device:
    """Return what one run recorded, without the truth."""
    make([job])
    return snapreport.load(job.folder / "snapshot.pickle").device("cpu")


def make(jobs: Iterable[Job], processes: int = 2) -> None:
    """Do the runs of which nothing is kept."""
    missing = [asdict(job) for job in jobs if not job.folder.exists()]
    if not missing:
        return
    program = f"import sys; from {__name__} import do; do(*sys.argv[1:])"
    given = ["-c", program, json.dumps(missing), str(processes)]
    done = ready.run(given, REPOSITORY, {})
    if done.returncode:
        raise RuntimeError(done.stderr)


def do(jobs: str, processes: str) -> None:
    """Do runs, given as JSON, each in a child of this process; ends it if one fails."""
    given = [Job(**fields) for fields in json.loads(jobs)]
    methods = multiprocessing.get_all_start_methods()
    gc.collect()
    gc.freeze()  # no program looks for garbage among what was imported
    context = multiprocessing.get_context("fork" if "fork" in methods else "spawn")
    with context.Pool(min(int(processes), len(given)), maxtasksperchild=1) as pool:
        for job, error in zip(given, pool.imap(_do, given, chunksize=1), strict=True):
            if error:
                sys.exit(f"{job}: {error}")


def _do(job: Job) -> str:
    """Do one run; returns what went wrong."""
    warnings.simplefilter("ignore")
    sys.dont_write_bytecode = False  # compiling transformers takes longer than the run
    try:
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as beside:
            folder = Path(beside, "run")
            folder.mkdir()
            with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
                (_observe if job.observed else _record)(job, folder)
            with contextlib.suppress(OSError):  # made meanwhile by another process
                folder.rename(job.folder)
    except Exception:
        return traceback.format_exc()
    return ""


def _ready(job: Job, watch: Watch) -> Any:
    import torch

    # When the collector of garbage comes depends on what else Python makes.
    gc.collect()
    gc.disable()
    torch.set_num_threads(1)
    return all_programs()[job.program](job.variant, watch)


def _record(job: Job, folder: Path) -> None:
    """Record a program that nobody watches, and what it holds before and after."""
    program = _ready(job, Watch())
    recording = snapreport.record(folder / "made", formats=["pickle"], quiet=True)
    observer = Observer(program)
    held: dict[int, int] = {}

    def begins(step: int) -> None:
        if step == job.start and step:
            held.update((address, role) for role, address in observer.held())
            recording.start()

    if not job.start:
        recording.start()
    program.build()
    program.run(job.steps, begins)
    files = recording.stop()
    # What the profiler happens to know of modules and optimizers, a GPU's history does not.
    snapshot = pickle.loads(files["pickle"].read_bytes())
    snapshot["snapreport"]["storages"] = []
    for trace in snapshot["device_traces"]:
        for event in trace:
            event.pop("category", None)
    (folder / "snapshot.pickle").write_bytes(pickle.dumps(snapshot, 4))
    shutil.rmtree(folder / "made")
    np.savez(folder / "held.npz", addresses=[*held], roles=[*held.values()])


def _observe(job: Job, folder: Path) -> None:
    """Run a program with hooks on it, and keep what they told."""
    program = _ready(job, Watch())
    observer = program.watch = Observer(program)
    recorder = CpuRecorder(Options(context="none"))
    recorder.start()
    (session,) = _sessions.values()
    with observer.watching():
        program.build()
        program.run(job.steps, lambda _: observer.step())
        observer.look()
    recorder.stop()
    (recorded,) = session.pieces
    found = observer.found(recorded)
    np.savez_compressed(folder / "found.npz", **vars(found))


def _rows_of(whole: Allocations, late: Allocations, event: int) -> Any:
    """Return the rows of a whole recording that those of its later part are."""
    live = np.flatnonzero((whole.alloc_event < event) & (whole.free_event >= event))
    by_address = dict(zip(whole.addr[live].tolist(), live.tolist(), strict=True))
    by_event = {
        int(whole.alloc_event[row]): int(row) for row in np.flatnonzero(whole.alloc_event >= event)
    }
    return np.array(
        [
            by_address[address] if made == START else by_event[made + event]
            for address, made in zip(late.addr.tolist(), late.alloc_event.tolist(), strict=True)
        ],
        np.int64,
    )


@functools.cache
def _hash(program: str) -> str:
    """Return a hash of what a recording of a program depends on."""
    kinds = [kind for kind in all_programs()[program].__mro__ if kind is not object]
    files = {Path(truth.__file__), *_recorders(), *(Path(inspect.getfile(kind)) for kind in kinds)}
    found = hashlib.blake2b(f"{sys.version} {version('torch')}".encode(), digest_size=6)
    for path in sorted(files):
        found.update(_code_of(path).encode())
    for does in (_ready, _record, _observe):
        found.update(inspect.getsource(does).encode())
    return found.hexdigest()


@functools.cache
def _recorders() -> tuple[Path, ...]:
    """Return the modules that tell what memory is made and freed: the recorder and its imports."""
    found = [Path(inspect.getfile(CpuRecorder))]
    for path in found:
        for name in re.findall(r"snapreport\.recorders\.(\w+) import", path.read_text("utf-8")):
            beside = path.with_name(f"{name}.py")
            if beside not in found:
                found.append(beside)
    return tuple(found)


@functools.cache
def _code_of(path: Path) -> str:
    """Return what a module does, without its texts, and without which changes can be had."""
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            node.body = [each for each in node.body if not _says_only(each)]
    return ast.dump(tree)


def _says_only(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return any(isinstance(each, ast.Name) and each.id == "variants" for each in targets)

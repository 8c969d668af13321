"""Runs everything on every workload, interleaved: what else the machine does hits all alike."""

from __future__ import annotations

import math
import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from dev.benchmarks.measure.peers import Peer
from dev.benchmarks.measure.processes import (
    CommandError,
    Cost,
    TookTooLongError,
    remove,
    run_once,
)
from dev.benchmarks.measure.results import CONVERT, FLOOR, HELP, READ, RENDER, SUMMARY, Result

REPOSITORY = Path(__file__).resolve().parents[3]

# Nothing of a loaded snapshot is freed again: no tool can begin before this.
LOAD = (
    "import gc, os, pickle, sys; gc.disable();"
    "loaded = pickle.load(open(sys.argv[1], 'rb')); os._exit(0)"
)
SMALL = 8 << 20
"""Bytes; beside smaller snapshots ``--help`` is measured too."""
READ_FILE = "import sys; data = open(sys.argv[1], 'rb').read()"


@dataclass(frozen=True)
class Task:
    """One command on one snapshot."""

    name: str
    command: list[str]
    output: Path | None = None
    environment: tuple[tuple[str, str], ...] = ()


def tasks_for(snapshot: Path, folder: Path, peers: Sequence[Peer]) -> list[Task]:
    """Return what is run on a snapshot in each round; pickle is trusted here."""
    bundle, page = folder / "bundle.zip", folder / "page.html"
    ours = [sys.executable, "-m", "snapreport"]
    quiet = ["--force", "--quiet"]
    tasks = [
        Task(READ, [sys.executable, "-c", READ_FILE, str(snapshot)]),
        Task(FLOOR, [sys.executable, "-c", LOAD, str(snapshot)]),
        Task(CONVERT, [*ours, "convert", str(snapshot), "-o", str(bundle), *quiet], bundle),
        Task(RENDER, [*ours, "render", str(bundle), "-o", str(page), *quiet], page),
    ]
    tasks.append(Task(SUMMARY, [*ours, "summary", str(snapshot)]))
    if snapshot.stat().st_size < SMALL:
        tasks.append(Task(HELP, [*ours, "--help"]))
    for peer in peers:
        output = folder / (peer.output or "peer")
        command = peer.command(snapshot, output)
        written = output if peer.output else None
        tasks.append(Task(peer.name, command, written, tuple(peer.environment.items())))
    return tasks


def measure(
    workloads: Sequence[tuple[str, str, Path]],
    runs: int,
    folder: Path,
    peers: Sequence[Peer] = (),
    seconds: float = 600,
    say: Callable[[str], None] = lambda _: None,
    *,
    stages: bool = True,
    once: float = math.inf,
) -> list[Result]:
    """Run all tasks and stages on all workloads, round by round.

    Args:
        workloads: name, series and file of each.
        runs: how many rounds.
        folder: for what is written.
        peers: other programs to run too.
        seconds: the most that one of them may take by the clock; then it is stopped, what it has
            taken until then is kept, and it is not tried again.
        say: called with what begins.
        stages: whether to time the stages inside of convert and render.
        once: bytes; larger snapshots are measured in the first round alone, without the others'
            programs.

    Raises:
        CommandError: one of our own commands, or a floor, fails.
    """
    results = [Result(name, 0, path.stat().st_size, series) for name, series, path in workloads]
    others = {peer.name for peer in peers}
    for number in range(runs):
        for result, (_, _, path) in zip(results, workloads, strict=True):
            if number and result.size > once:
                continue
            say(f"run {number + 1} of {runs}: {result.name}")
            for task in tasks_for(path, folder, peers if result.size <= once else ()):
                if task.name in result.failed:
                    continue
                try:
                    cost = run_once(
                        task.command,
                        output=task.output,
                        # What a stopped one leaves in its temporary folder goes with ours.
                        environment={**dict(task.environment), "TMPDIR": str(folder)},
                        folder=folder if task.name in others else REPOSITORY,
                        seconds=seconds if task.name in others else None,
                    )
                except CommandError as error:
                    if task.name not in others:
                        raise
                    result.failed[task.name] = error.reason
                    result.costs.pop(task.name, None)
                    if isinstance(error, TookTooLongError):
                        result.at_least[task.name] = error.cost
                else:
                    result.costs.setdefault(task.name, []).append(cost)
                if task.name in others and task.output is not None:
                    remove(task.output)  # gigabytes, at a million events
            if not result.events:
                result.events = events_of(folder / "bundle.zip")
            for stage, cost in run_stages(path, folder).items() if stages else ():
                result.stages.setdefault(stage, []).append(cost)
    return results


def run_stages(snapshot: Path, folder: Path) -> dict[str, Cost]:
    """Time the stages of one convert and one render in a fresh process."""
    log = folder / "stages.json"
    bundle, page = folder / "stages.zip", folder / "stages.html"
    paths = [str(snapshot), str(bundle), str(page)]
    run_once(
        [sys.executable, "-m", "dev.benchmarks.measure.stages", *paths], folder=REPOSITORY, log=log
    )
    return {stage: Cost(**taken) for stage, taken in orjson.loads(log.read_bytes()).items()}


def events_of(bundle: Path) -> int:
    """Return how many events a bundle's recording has, over all devices."""
    with zipfile.ZipFile(bundle) as archive:
        manifest = orjson.loads(archive.read("manifest.json"))
    return sum(device["events"] for device in manifest["devices"])

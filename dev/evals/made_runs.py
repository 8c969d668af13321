"""Small runs to ask about, made anew each time: equal arguments give equal bytes.

Every size is a whole number of 2 MiB, so no block is larger than what was asked for: requested
memory, which the entries of a recording tell, is the allocated memory that a run compares.
"""

from __future__ import annotations

import pickle
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dev.simulator.allocator import OutOfMemoryError
from dev.simulator.blocks import Block
from dev.simulator.callstacks import Frame, make_frame
from dev.simulator.settings import MIB
from dev.simulator.simulator import Simulator

_STEPS, _LAYERS = 4, 4


@dataclass(frozen=True)
class _Rank:
    """What a rank does; sizes in MiB."""

    weights: int = 96
    scores: int = 24
    """Of each layer, in each step."""
    kept: int = 0
    """What each step adds and never frees."""
    fails: bool = False
    """Whether a request in the last step fails."""


RUNS: dict[str, dict[int, _Rank]] = {
    "eight_ranks": {
        rank: _Rank(scores=40 if rank == 3 else 24, kept=6 if rank == 5 else 0, fails=rank == 6)
        for rank in (0, 1, 3, 4, 5, 6, 7)
    },
    "two_stages": {
        rank: _Rank(weights=96 if rank < 4 else 160, scores=32 if rank == 1 else 24)
        for rank in range(8)
    },
}
"""The runs by their folders: each rank of which there is a file."""


def make_runs(folder: Path) -> None:
    """Write a folder of recordings for each run."""
    for name, ranks in RUNS.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number, rank in ranks.items():
            data = pickle.dumps(_play(rank, number).snapshot())
            (folder / name / f"rank{number}.pickle").write_bytes(data)


def _play(rank: _Rank, seed: int) -> Simulator:
    simulator = Simulator(seed=seed)
    _from(simulator, "build", "model.py", 12)
    simulator.malloc(rank.weights * MIB)
    simulator.start_recording()
    with suppress(OutOfMemoryError):  # it leaves its step open, as in a program that fails
        for step in range(_STEPS):
            with simulator.annotation(f"ProfilerStep#{step}"):
                _step(simulator, rank, fails=rank.fails and step == _STEPS - 1)
    return simulator


def _step(simulator: Simulator, rank: _Rank, *, fails: bool) -> None:
    live = [_new(simulator, rank.scores, "softmax", "attention.py", 6) for _ in range(_LAYERS)]
    live.append(_new(simulator, 8, "forward", "loss.py", 21))
    if rank.kept:
        _new(simulator, rank.kept, "append", "metrics.py", 8)
    if fails:
        simulator.allocators[0].driver.leave_free(2 * MIB)
        _new(simulator, 512, "forward", "loss.py", 22)
    _from(simulator, "training_step", "train.py", 33)
    for block in live:
        simulator.recorder.clock.advance(20)
        simulator.free(block)


def _new(simulator: Simulator, size: int, name: str, file: str, line: int) -> Block:
    _from(simulator, name, file, line)
    simulator.recorder.clock.advance(40)
    return simulator.malloc(size * MIB)


def _from(simulator: Simulator, name: str, file: str, line: int) -> None:
    stack: list[Frame] = [make_frame(name, file, line), make_frame("main", "train.py", 30)]
    simulator.set_stack(stack)

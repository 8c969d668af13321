"""Small runs under the names that trainers give, for the examples in ``docs/runs.md``."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from tests.builders import FIRST_US, MIB, TraceBuilder, frame, trace

MODEL = [frame("build", "model.py", 12), frame("main", "train.py", 5)]
SOFTMAX = [frame("softmax", "attention.py", 6), frame("main", "train.py", 30)]
LOSS = [frame("forward", "loss.py", 21), frame("main", "train.py", 31)]
HISTORY = [frame("append", "metrics.py", 8), frame("main", "train.py", 33)]


def rank(
    *, weights: int = 96, softmax: int = 24, kept: int = 0, steps: int = 3, fails: bool = False
) -> TraceBuilder:
    """Return a rank: weights, and in each step activations; sizes in MiB.

    Args:
        weights: of the model.
        softmax: of each of four layers.
        kept: what a step adds that is never freed.
        steps: how many there are.
        fails: a request in the last step fails.
    """
    made = trace().alloc("weights", weights * MIB, frames=MODEL)
    for step in range(steps):
        for layer in range(4):
            made.alloc(f"softmax {layer}", softmax * MIB, frames=SOFTMAX)
        made.alloc("loss", 8 * MIB, frames=LOSS)
        if kept:
            made.alloc(f"kept {step}", kept * MIB, frames=HISTORY)
        if fails and step == steps - 1:
            made.event("oom", size=512 * MIB, addr=0, frames=LOSS)
            return made
        for layer in range(4):
            made.free(f"softmax {layer}")
        made.free("loss")
    return made


def make_runs(folder: Path) -> None:
    """Put a run of each trainer into a folder."""
    for step in (10, 20):
        for k in range(8):
            if k != 6:
                made = rank(softmax=40 if k == 3 else 24, kept=6 if k == 5 else 0, steps=step // 3)
                name = f"iteration_{step}/rank{k}_memory_snapshot.pickle"
                _write(folder / "memory_snapshot" / name, made)
    for k in range(8):
        made = rank(weights=160 if k in (2, 3, 6, 7) else 96, fails=k == 6)
        _write(folder / "megatron" / f"oom_rank-{k}_snapshot.pickle", made)
    for k in range(4):
        made = rank(weights=48 if k else 144)
        _write(folder / "deepspeed" / "global_step40" / f"rank_{k}.pickle", made)
    for node in (0, 1):
        for k in range(4):
            made = rank(softmax=32 if (node, k) == (1, 2) else 24)
            _write(folder / "fsdp" / f"node{node}" / f"rank{k}.pickle", made)
    for k in range(4):
        noted = {"format": 1, "rank": k, "world_size": 4, "started_us": FIRST_US}
        made = rank(kept=4 if k == 1 else 0)
        name = f"snapshot.rank{k}.pickle"
        _write(folder / "lightning.memory" / "1" / name, made, snapreport=noted)


def _write(path: Path, made: TraceBuilder, **more: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps({**made.snapshot(), **more}))

"""Records a real training step on the CPU and writes it as ``cpu_profile.pickle``.

The CPU has no memory history of its own; the profiler has, and PyTorch turns what it saw into
the shape of a snapshot (``torch.cuda._memory_viz._profile_to_snapshot``). Addresses differ from
run to run, so the committed file is one recording, not one that can be made again byte by byte.

    python sample_snapshots/record_cpu.py
"""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.cuda import _memory_viz
from torch.profiler import ProfilerActivity, profile, record_function

FOLDER = Path(__file__).resolve().parent
_BEFORE_LIBRARIES = re.compile(r"[^\s()]*/(?=(?:site-packages|dist-packages)/)")
_BEFORE_STANDARD_LIBRARY = re.compile(r"[^\s()]*/lib/(?=python3\.\d+/)")
_OBJECT = re.compile(r"0x[0-9a-f]{6,}")


class Block(nn.Module):  # type: ignore[misc]
    """A transformer block without attention: enough for activations of several sizes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        hidden = nn.functional.gelu(self.up(self.norm(state)))
        return state + self.down(hidden)


def record() -> dict[str, Any]:
    """Profile two training steps of a small model and return them as a snapshot."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(Block(64), Block(64), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters())
    with profile(
        activities=[ProfilerActivity.CPU],
        profile_memory=True,
        with_stack=True,
        record_shapes=True,
    ) as profiler:
        for _ in range(2):
            images, labels = torch.randn(256, 64), torch.randint(0, 10, (256,))
            with record_function("forward"):
                loss = nn.functional.cross_entropy(model(images), labels)
            with record_function("backward"):
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    snapshot: dict[str, Any] = _memory_viz._profile_to_snapshot(profiler)
    return snapshot


def scrub(name: str) -> str:
    """Take this machine out of the name of a Python function, which holds its file's path."""
    name = name.replace(f"{FOLDER.parent}/", "")
    name = _BEFORE_LIBRARIES.sub("", name)
    name = _BEFORE_STANDARD_LIBRARY.sub("lib/", name)
    return _OBJECT.sub("0x0", name)


def scrub_frames(snapshot: dict[str, Any]) -> None:
    """Scrub every frame's name; equal frames become one dict, which keeps the file small."""
    shared: dict[str, dict[str, Any]] = {}
    for holder in _holders(snapshot):
        for position, frame in enumerate(holder["frames"]):
            name = scrub(frame["name"])
            shared.setdefault(name, {**frame, "name": name})
            holder["frames"][position] = shared[name]


def _holders(snapshot: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what has frames; a list shared by several comes once."""
    found = [event for trace in snapshot["device_traces"] for event in trace]
    found += [block for segment in snapshot["segments"] for block in segment["blocks"]]
    return list({id(item["frames"]): item for item in found if "frames" in item}.values())


def main() -> None:
    """Write the sample."""
    snapshot = record()
    scrub_frames(snapshot)
    target = FOLDER / "cpu_profile.pickle"
    target.write_bytes(pickle.dumps(snapshot, protocol=4))
    events = sum(len(trace) for trace in snapshot["device_traces"])
    print(f"{target.name}: {events} events, torch {torch.__version__}")


if __name__ == "__main__":
    main()

"""Programs that a GPU check records, each a way in which memory is handed out.

A program is a function that gets torch and yields once, when what should not be recorded has been
made; it runs in a process of its own.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from snapreport.model.history import START, DeviceHistory

Program = Callable[[Any], Iterator[None]]

ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
"""The variables with the allocator's settings; the first is the newer name of the second."""


@dataclass(frozen=True)
class Case:
    """A program and how it is recorded."""

    program: Program
    environment: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    """Of ``snapreport.record()``."""
    fails: bool = False
    """It ends by running out of memory."""
    shows: Callable[[DeviceHistory], bool] | None = None
    """Whether a recording has in it what the program is there for."""
    cannot: Callable[[], str | None] = lambda: None
    """Says why it cannot run here, if so."""


def _model(torch: Any, width: int = 1024, layers: int = 4) -> Any:
    parts = []
    for _ in range(layers):
        parts += [torch.nn.Linear(width, 4 * width), torch.nn.GELU()]
        parts += [torch.nn.Linear(4 * width, width), torch.nn.LayerNorm(width)]
    return torch.nn.Sequential(*parts)


def _train(torch: Any, model: Any, steps: int = 3, rows: int = 512, **autocast: Any) -> None:
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        batch = torch.randn(rows, 1024, device="cuda")
        with torch.autocast("cuda", **autocast) if autocast else torch.enable_grad():
            loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def training_step(torch: Any) -> Iterator[None]:
    """AdamW, everything recorded from the first allocation on."""
    yield
    _train(torch, _model(torch).cuda())


def started_late(torch: Any) -> Iterator[None]:
    """The model, its gradients and its state are there before the recording."""
    model = _model(torch).cuda()
    _train(torch, model)
    yield
    _train(torch, model)


def bf16(torch: Any) -> Iterator[None]:
    """Autocast, whose copies of weights live as long as its block."""
    yield
    _train(torch, _model(torch).cuda(), dtype=torch.bfloat16)


def checkpointing(torch: Any) -> Iterator[None]:
    """Activations are made again in backward."""
    from torch.utils.checkpoint import checkpoint_sequential

    yield
    model = _model(torch).cuda()
    for _ in range(2):
        batch = torch.randn(2048, 1024, device="cuda", requires_grad=True)
        checkpoint_sequential(model, 4, batch, use_reentrant=False).sum().backward()


def compiled(torch: Any) -> Iterator[None]:
    """torch.compile, with compile contexts."""
    yield
    _train(torch, torch.compile(_model(torch, layers=2).cuda()))


def cuda_graph(torch: Any) -> Iterator[None]:
    """A CUDA graph's private pool, replayed, beside the default one."""
    yield
    model = _model(torch, layers=2).cuda()
    batch = torch.randn(256, 1024, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        model(batch)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = model(batch)
    for _ in range(3):
        graph.replay()
        result.sum().item()


def two_streams(torch: Any) -> Iterator[None]:
    """Frees that wait for another stream, by record_stream."""
    yield
    side = torch.cuda.Stream()
    for _ in range(20):
        tensor = torch.randn(4 * 2**20, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(1_000_000)
            kept = tensor * 2
        tensor.record_stream(side)
        del tensor
    side.synchronize()
    kept.sum().item()


def churn(torch: Any) -> Iterator[None]:
    """Sizes that do not fit one another's holes, and an emptied cache."""
    yield
    kept = []
    for i in range(200):
        kept.append(torch.empty((i * 7919) % (6 * 2**20) + 1, device="cuda", dtype=torch.uint8))
        if i % 3 == 0:
            kept.pop((i * 31) % len(kept))
        if i % 50 == 49:
            torch.cuda.empty_cache()


def out_of_memory(torch: Any) -> Iterator[None]:
    """A request that fails, under a limit that leaves the machine's other users alone."""
    free, total = torch.cuda.mem_get_info()
    torch.cuda.set_per_process_memory_fraction(min(2**30, free // 2) / total)
    yield
    kept = []
    while True:
        kept.append(torch.empty(64 * 2**20, device="cuda", dtype=torch.uint8))


def pinned(torch: Any) -> Iterator[None]:
    """Pinned host memory, where this PyTorch records it."""
    yield
    host = [torch.empty(2**20, pin_memory=True) for _ in range(4)]
    device = [tensor.cuda(non_blocking=True) for tensor in host]
    torch.cuda.synchronize()
    del host[1:], device


def _no_compiler() -> str | None:
    """Inductor writes kernels for Triton, which builds their launchers with a C compiler."""
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed, which torch.compile needs"
    if not any(shutil.which(name) for name in (os.environ.get("CC"), "gcc", "clang", "cc") if name):
        return "there is no C compiler, which torch.compile needs"
    return None


def _has_baseline(history: DeviceHistory) -> bool:
    return bool((history.allocations.alloc_event == START).any())


def _has_compiled_regions(history: DeviceHistory) -> bool:
    return bool((history.allocations.compile_context >= 0).any())


def _has_several_pools(history: DeviceHistory) -> bool:
    pools = history.allocations.pool
    return len(np.unique(pools[pools >= 0])) > 1


def _has_waiting_frees(history: DeviceHistory) -> bool:
    rows = history.allocations
    return bool((rows.free_event > rows.free_requested_event + 1).any())


def _maps_segments(history: DeviceHistory) -> bool:
    return "segment_map" in history.other.action


EXPANDABLE = dict.fromkeys(ALLOCATOR[:2], "expandable_segments:True")

CASES = {
    "training_step": Case(training_step),
    "started_late": Case(started_late, shows=_has_baseline),
    "bf16": Case(bf16),
    "checkpointing": Case(checkpointing),
    "compiled": Case(
        compiled,
        arguments={"compile_context": True},
        shows=_has_compiled_regions,
        cannot=_no_compiler,
    ),
    "cuda_graph": Case(cuda_graph, shows=_has_several_pools),
    "two_streams": Case(two_streams, shows=_has_waiting_frees),
    "churn": Case(churn),
    "expandable_segments": Case(training_step, EXPANDABLE, shows=_maps_segments),
    "expandable_churn": Case(churn, EXPANDABLE, shows=_maps_segments),
    "out_of_memory": Case(out_of_memory, fails=True),
    "pinned": Case(pinned, arguments={"pinned": True}),
}

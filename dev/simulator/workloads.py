"""Random histories: what a program might do to the allocator, drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from dev.simulator.allocator import OutOfMemoryError
from dev.simulator.blocks import Block
from dev.simulator.callstacks import CallTree
from dev.simulator.settings import MIB, AllocatorSettings
from dev.simulator.simulator import GIB, OPTIONAL_KEYS, Simulator

STREAMS = (0, 0x55D0_4A20, 0x55D0_7B80, 0x55D0_9C10)
"""Opaque as in real files; 0 is the default stream."""
_BOUNDARIES = (512, MIB, 2 * MIB, 10 * MIB, 20 * MIB)
_STAGES = ("ProfilerStep#0", "forward", "backward", "Optimizer.step#AdamW.step", "load")
_METADATA = ("", "step 1", "<b>step 2</b>", '{"layer": 3, "kind": "kv"}', '{"layer": [1]}', "{")
_FORWARD = (
    (),
    (
        '  File "train.py", line 80, in <module>\n    step()\n',
        '  File "model/block.py", line 39, in forward\n    return self.act(x * y)\n',
        '  File "torch/nn/modules/linear.py", line 125, in forward\n',
    ),
    ('  File "a & b.py", line 2, in </script><b>\n  File "model/block.py", line 41, in forward\n',),
    ("no frame at all",),
)
"""One text a frame, or all in one, as traced graphs have it."""
_REGIONS = ("N/A", "Torch-Compiled Region: 0/0", "Torch-Compiled Region: 1/0")


@dataclass(frozen=True)
class Config:
    """Everything a random history depends on: equal configs give equal snapshots."""

    seed: int = 0
    operations: int = 100
    """Calls made; most give one to three trace events."""
    settings: AllocatorSettings = field(default_factory=AllocatorSettings)
    devices: int = 1
    streams: int = 1
    """How many of STREAMS are used; with more than one, frees can be pending."""
    capacity: int = 80 * GIB
    """Bytes per device; a few hundred MiB bring retries and ``oom`` events."""
    memory_fraction: float = 0.0
    """Of the capacity, for ``set_per_process_memory_fraction()``; 0 for no limit."""
    largest: int = 64 * MIB
    """Requests are at most this large."""
    target: int = 40
    """About how many allocations are live at a time, per device."""
    enabled: str | None = "all"
    context: str | None = "all"
    max_entries: int = 1 << 40
    record_from: int = 0
    """The operation before which recording starts; earlier allocations are baseline."""
    optional_keys: tuple[str, ...] = OPTIONAL_KEYS
    empty_cache: bool = True
    private_pools: bool = False
    annotations: bool = False
    markers: bool = False
    """Leave ``snapshot`` events."""
    unknown_actions: bool = False
    odd_frames: bool = False
    labels: bool = False
    """Set compile contexts, user metadata and forward tracebacks."""


def simulate(config: Config) -> Simulator:
    """Return a simulator on which the history that a config describes has taken place."""
    history = _History(config)
    for operation in range(config.operations):
        if operation == config.record_from:
            history.start_recording()
        history.step()
    if config.record_from >= config.operations:
        history.start_recording()
    return history.simulator


class _History:
    """The random choices, and what is live while they are made."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.rng = random.Random(config.seed)  # noqa: S311
        self.simulator = Simulator(
            config.settings,
            devices=config.devices,
            capacity=config.capacity,
            others=min(config.capacity // 20, 500 * MIB),
            optional_keys=config.optional_keys,
            seed=config.seed,
        )
        if config.memory_fraction:
            for allocator in self.simulator.allocators:
                allocator.limit = int(config.memory_fraction * config.capacity)
        self.stacks = CallTree(self.rng, odd=config.odd_frames).stacks
        self.streams = STREAMS[: config.streams]
        self.live: list[list[Block]] = [[] for _ in range(config.devices)]
        self.open_stages: list[tuple[str, int]] = []
        self.open_pools: list[list[tuple[int, int]]] = [[] for _ in range(config.devices)]
        self.used_pools: list[list[tuple[int, int]]] = [[] for _ in range(config.devices)]
        self.sizes = [self.draw_size() for _ in range(6)]
        """Sizes that recur, as those of a model's tensors do."""
        self.rare = self._rare_operations()
        self.chance = 0.15 if config.unknown_actions or config.labels else 0.06
        """Of one of them."""
        if config.labels:
            self.label(0)

    def _rare_operations(self) -> list[Callable[[int], None]]:
        config = self.config
        rare: list[Callable[[int], None]] = []
        if config.empty_cache:
            rare.append(lambda device: self.simulator.allocators[device].empty_cache())
        if config.private_pools:
            rare += [self.begin_pool, self.end_pool, self.end_pool, self.release_pool]
        if config.annotations:
            rare += [self.begin_stage, self.end_stage] * 2
        if config.markers:
            rare.append(lambda _: self.simulator.mark_snapshot())
        if config.unknown_actions:
            rare += [self.unknown, self.internal] * 4
        if config.labels:
            rare.append(self.label)
        return rare

    def start_recording(self) -> None:
        if self.config.enabled is not None:
            self.simulator.start_recording(
                self.config.enabled, self.config.context, self.config.max_entries
            )

    def step(self) -> None:
        rng = self.rng
        device = rng.randrange(self.config.devices) if self.config.devices > 1 else 0
        self.simulator.set_stack(rng.choice(self.stacks))
        live = self.live[device]
        chance = rng.random()
        if chance < self.chance and self.rare:
            rng.choice(self.rare)(device)
        elif len(self.streams) > 1 and chance < 0.14 + self.chance:
            self.use_streams(device)
        elif live and rng.random() * 2 * self.config.target < len(live):
            self.free(device)
        else:
            self.malloc(device)

    def malloc(self, device: int) -> None:
        size = self.rng.choice(self.sizes) if self.rng.random() < 0.5 else self.draw_size()
        stream = self.rng.choice(self.streams)
        try:
            block = self.simulator.malloc(size, device=device, stream=stream)
        except OutOfMemoryError:
            for _ in range(self.rng.randrange(4)):
                if self.live[device]:
                    self.free(device)
        else:
            self.live[device].append(block)

    def free(self, device: int) -> None:
        live = self.live[device]
        # Mostly the latest: lifetimes nest, as those of activations do.
        index = len(live) - 1 if self.rng.random() < 0.5 else self.rng.randrange(len(live))
        block = live[index]
        live[index] = live[-1]
        live.pop()
        self.simulator.free(block, device=device)

    def use_streams(self, device: int) -> None:
        allocator = self.simulator.allocators[device]
        stream = self.rng.choice(self.streams)
        if self.live[device] and self.rng.random() < 0.6:
            allocator.record_stream(self.rng.choice(self.live[device]), stream)
        else:
            allocator.pass_events(stream, self.rng.randrange(1, 4))

    def begin_pool(self, device: int) -> None:
        if len(self.open_pools[device]) < 2:
            pool_id = self.rng.choice([(1, 0), (2, 0), (0, 1)])
            if pool_id not in self.open_pools[device]:
                self.simulator.allocators[device].begin_pool(pool_id)
                self.open_pools[device].append(pool_id)

    def end_pool(self, device: int) -> None:
        if self.open_pools[device]:
            self.simulator.allocators[device].end_pool()
            self.used_pools[device].append(self.open_pools[device].pop())

    def release_pool(self, device: int) -> None:
        if self.used_pools[device]:
            self.simulator.allocators[device].release_pool(self.used_pools[device].pop())

    def begin_stage(self, device: int) -> None:
        stage = (self.rng.choice(_STAGES), device)
        self.simulator.recorder.annotate(stage[0], "START", device)
        self.open_stages.append(stage)

    def end_stage(self, _: int) -> None:
        if self.open_stages:
            name, device = self.open_stages.pop()
            self.simulator.recorder.annotate(name, "END", device)

    def unknown(self, device: int) -> None:
        live = self.live[device]  # and nothing else can be annotated
        action = self.rng.choice(["user_defined", "something_new"] + ["annotate"] * bool(live))
        addr = self.rng.choice(live).address if live else 0
        self.simulator.allocators[device].unknown_event(action, addr, self.rng.choice(self.sizes))

    def internal(self, device: int) -> None:
        self.simulator.allocators[device].internal_pair(self.rng.choice(self.sizes))

    def label(self, _: int) -> None:
        recorder = self.simulator.recorder
        recorder.compile_context = self.rng.choice(_REGIONS)
        recorder.user_metadata = self.rng.choice(_METADATA)
        recorder.forward = self.rng.choice(_FORWARD)

    def draw_size(self) -> int:
        """Draw a request: tiny, small, large, or on the edge of one of the allocator's rules."""
        rng, largest = self.rng, self.config.largest
        kind = rng.randrange(8)
        if kind < 2:
            size = rng.randrange(1, 4096)
        elif kind < 4:
            size = rng.randrange(1, MIB + MIB // 4)
        elif kind < 5:
            size = rng.choice(_BOUNDARIES) + rng.randrange(-1, 2)
        elif kind < 6:
            size = 512 * rng.randrange(1, 8192)
        else:
            size = rng.randrange(MIB, max(largest, MIB + 1))
        return min(size, largest)

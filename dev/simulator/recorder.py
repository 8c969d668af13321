"""What ``_record_memory_history()`` switches on: trace rings, stacks, times, annotations."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from typing import Any

from dev.simulator.blocks import Stack
from dev.simulator.truth import Counters

NEVER, STATE, ALLOC, ALL = range(4)
"""Context levels: how often stacks are gathered."""
CONTEXT_LEVELS = {None: NEVER, "state": STATE, "alloc": ALLOC, "all": ALL}

EPOCH_US = 1_760_000_000_000_000


class Clock:
    """Microseconds since the Unix epoch; several events in a row may get the same one."""

    def __init__(self, rng: random.Random) -> None:
        self.now_us = EPOCH_US + rng.randrange(10**9)
        self._rng = rng

    def tick(self) -> int:
        """Pass a little time, often none, and return the time."""
        passed = self._rng.getrandbits(3)
        if passed > 3:
            self.now_us += passed - 3
        return self.now_us

    def advance(self, microseconds: int) -> None:
        """Pass time."""
        self.now_us += microseconds


class Recorder:
    """The settings and thread state that all devices of a process share."""

    def __init__(self, rng: random.Random, optional_keys: Sequence[str]) -> None:
        self.clock = Clock(rng)
        self.optional_keys = frozenset(optional_keys)
        """Of OPTIONAL_KEYS, those that events have; the first three are on every one."""
        self.on = False
        self.level = NEVER
        self.max_entries = 1
        self.compile_context = "N/A"
        self.user_metadata = ""
        self.frames: Sequence[dict[str, Any]] = ()
        """The Python stack at this moment, innermost frame first."""
        self.forward: Sequence[str] = ()
        """The lines of the forward traceback behind the backward node that runs, if one does."""
        self._forwards: dict[int, tuple[Stack, dict[str, Any]]] = {}
        self.annotations: deque[dict[str, Any]] = deque()

    def start(self, enabled: str, context: str | None, max_entries: int) -> None:
        """Begin to record; ``enabled="state"`` keeps one event only."""
        self.on = True
        self.level = CONTEXT_LEVELS[context]
        self.max_entries = 1 if enabled == "state" else max(1, max_entries)
        self.annotations = deque(self.annotations, maxlen=self.max_entries)

    def stop(self) -> None:
        """Stop and forget the annotations."""
        self.on, self.level = False, NEVER
        self.annotations = deque()

    def gather(self, level: int) -> Stack | None:
        """Return the stack as a list of its own, or None if nobody asked for this level."""
        if not self.on or self.level < level:
            return None
        context = list(self.frames)
        if self.forward and "forward_frames" in self.optional_keys:
            self._forwards[id(context)] = context, {"forward_frames": list(self.forward)}
        return context

    def forward_of(self, context: Stack | None) -> dict[str, Any]:
        """Return the field of an event or block whose stack was gathered in a backward node."""
        return dict(self._forwards.get(id(context), ((), {}))[1])

    def annotate(self, name: str, stage: str, device: int) -> None:
        """Note the START or END of a named span."""
        if self.on:
            self.annotations.append(
                {"name": name, "stage": stage, "device": device, "time_us": self.clock.tick()}
            )


class DeviceTrace:
    """One device's ring of trace events, and the counters after each."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.ring: deque[dict[str, Any]] = deque(maxlen=1)
        self.after: deque[Counters] = deque(maxlen=1)
        """Parallel to ``ring``."""
        self.before = Counters(0, 0, 0, 0)
        """Before the oldest event of the ring."""
        self.recorded = 0
        """Number of events ever recorded, evicted ones included."""

    def begin(self, counters: Counters) -> None:
        """Start with an empty ring."""
        self.ring = deque(maxlen=self._recorder.max_entries)
        self.after = deque(maxlen=self._recorder.max_entries)
        self.before = counters

    @property
    def first(self) -> int:
        """Number of the oldest event still in the ring."""
        return self.recorded - len(self.ring)

    def record(
        self,
        action: str,
        addr: int,
        size: int,
        stream: int,
        pool_id: tuple[int, int],
        context: Stack | None,
        counters: Counters,
        internal: str = "",
    ) -> int:
        """Append an event; ``internal`` names what in the allocator made it, if not the program.

        Returns:
            Its number, counted from the first ever recorded; -1 if recording is off.
        """
        recorder = self._recorder
        if not recorder.on:
            return -1
        event: dict[str, Any] = {
            "action": action,
            "device_free" if action == "oom" else "addr": addr,
            "size": size,
            "stream": stream,
            "time_us": recorder.clock.tick(),
        }
        keys = recorder.optional_keys
        if "compile_context" in keys:
            event["compile_context"] = recorder.compile_context
        if "user_metadata" in keys:
            event["user_metadata"] = recorder.user_metadata
        if "pool_id" in keys:
            event["pool_id"] = pool_id
        if internal:
            event["internal_metadata"] = internal
        if context is not None and recorder.level >= ALLOC:
            event["frames"] = context
            event.update(recorder.forward_of(context))
        if len(self.ring) == self.ring.maxlen:
            self.before = self.after[0]
        self.ring.append(event)
        self.after.append(counters)
        self.recorded += 1
        return self.recorded - 1

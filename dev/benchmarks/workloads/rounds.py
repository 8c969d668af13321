"""One round of a device's trace, and the seam to the next: everything freed, and set up again.

At the seam all memory is given back, so that the next round can lie elsewhere. What was live
before the first event is then allocated anew, from the highest address down: each allocation
finds the very hole that its block fills. Where the block ends below free memory, a filler takes
that for a moment, as otherwise the allocator would have put it into the block.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from dev.benchmarks.workloads.regions import Event, Mapping, Regions, Run
from dev.simulator.settings import DIVISION_KEYS, MIN_BLOCK, UNLIMITED, AllocatorSettings

FREES = ("free_requested", "free_completed")
MARKER = "snapshot"
"""It states the active bytes, which are known exactly in the round that was recorded only."""
PLACED = ("segment_alloc", "segment_free", "segment_map", "segment_unmap", "alloc", *FREES)

Frames = list[dict[str, Any]]


@dataclass(frozen=True)
class Use:
    """One event as a round plays it: what is constant, and what is drawn anew."""

    event: Event
    """Its keys in their order; the address and time in it are those of the recording."""
    place: int
    """Row of ``Round.places``; -1 if its address, if any, stays what it is."""
    size: int
    """Row of ``Round.sizes``."""


@dataclass
class Round:
    """One device's round.

    Attributes:
        device: ordinal.
        events: the trace itself.
        before: what sets up the state that it begins with, after a seam.
        after: what gives everything back at a seam.
        regions: what moves as a whole.
        places: region and offset in it, for each address.
        sizes: bytes, for each allocation, and each other event.
        slack: how much smaller a request may be and still get the same block.
        final: size row of each block that is in use at the end, by its address.
    """

    device: int
    events: list[Use] = field(default_factory=list)
    before: list[Use] = field(default_factory=list)
    after: list[Use] = field(default_factory=list)
    regions: Regions = field(default_factory=lambda: Regions([]))
    places: list[tuple[int, int]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    slack: list[int] = field(default_factory=list)
    final: dict[int, int] = field(default_factory=dict)

    @property
    def again(self) -> list[Use]:
        """What one more round adds, not in this order."""
        played = [use for use in self.events if use.event["action"] != MARKER]
        return self.after + self.before + played


def read_settings(snapshot: dict[str, Any]) -> AllocatorSettings:
    """Return what the size rules need of a snapshot's settings; PyTorch's own where missing."""
    stated = snapshot.get("allocator_settings", {})
    divisions = stated.get("roundup_power2_divisions", {})
    return AllocatorSettings(
        bool(stated.get("expandable_segments", False)),
        int(stated.get("max_split_size", UNLIMITED)),
        tuple(int(divisions.get(key, 0)) for key in DIVISION_KEYS),
    )


def make_round(
    device: int,
    trace: list[Event],
    segments: list[dict[str, Any]],
    settings: AllocatorSettings,
) -> Round:
    """Take a recorded trace apart.

    Args:
        device: ordinal.
        trace: its events, at least one.
        segments: the device's, at the end of the trace.
        settings: the allocator's.
    """
    return _Maker(device, trace, segments, settings).make()


class _Maker:
    """Follows which allocation each event belongs to."""

    def __init__(
        self,
        device: int,
        trace: list[Event],
        segments: list[dict[str, Any]],
        settings: AllocatorSettings,
    ) -> None:
        self.trace, self.segments, self.settings = trace, segments, settings
        self.made = Round(device)
        self.live: dict[int, int] = {}
        """Size row of each allocation that is live or pending, by address."""
        self.pending: set[int] = set()
        self.stacks: dict[int, Frames] = {}
        """Of each allocation that is live, by address."""
        self.place_rows: dict[int, int] = {}
        actions = {event["action"] for event in trace}
        self.frees = [each for each in FREES if each in actions] or list(FREES)
        self.extra = {
            key: value
            for key, value in trace[-1].items()
            if key in ("time_us", "compile_context", "user_metadata", "pool_id")
        }
        """The keys that this version of PyTorch writes on every event."""
        self.framed = any("frames" in event for event in trace)
        self.owners: dict[int, Event] = {}
        """The stream and the pool of each allocation that is live, by address."""
        self.segment_of = {
            address: segment for segment in segments for address, _ in _blocks(segment)
        }
        self.blocks = {
            address: block
            for segment in segments
            for address, block in _blocks(segment)
            if block["state"] != "inactive"
        }
        self.end = Mapping(segments)
        self.start = Mapping(segments)
        for event in reversed(trace):
            self.start.undo(event)

    def make(self) -> Round:
        made = self.made
        made.regions = Regions(self._ranges())
        baseline = self._find_baseline()
        made.before = self._set_up(baseline)
        for event in self.trace:
            made.events.append(self._play(event))
        made.final = {address: row for address, row in self.live.items() if address in self.blocks}
        made.after = self._tear_down()
        return made

    def _ranges(self) -> Iterable[tuple[int, int, bool]]:
        for run in [*self.start.runs(), *self.end.runs()]:
            yield run.start, run.end, run.expandable
        for event in self.trace:
            action, start, size = event["action"], event.get("addr", 0), event["size"]
            if action in PLACED:
                own = action.startswith("segment")
                length = size if own else self.settings.round_size(size)
                yield start, start + length, action in ("segment_map", "segment_unmap")

    def _find_baseline(self) -> dict[int, tuple[int, Frames, bool]]:
        """Make what is live before the first event: address to block size, frames, pending."""
        found: dict[int, tuple[int, Frames, bool]] = {}
        touched = set()
        completed = {each["addr"] for each in self.trace if each["action"] == self.frees[-1]}
        for event in self.trace:
            action, address = event["action"], event.get("addr", 0)
            if action != "alloc" and action not in FREES:
                continue
            if action in FREES and address not in touched:
                pending = action == "free_completed" and len(self.frees) == 2
                size = self.settings.round_size(event["size"])
                if address in self.blocks and address not in completed:
                    size = self.blocks[address]["size"]  # it still waits at the end
                found[address] = (size, event.get("frames", []), pending)
                self.live[address] = self._size_row(event["size"])
                self.owners[address] = event
            touched.add(address)
        for address, block in self.blocks.items():
            if address not in touched:
                pending = block["state"] != "active_allocated" and len(self.frees) == 2
                found[address] = (block["size"], block.get("frames", []), pending)
                self.live[address] = self._size_row(_requested(block))
                segment = self.segment_of[address]
                self.owners[address] = {
                    "stream": segment["stream"],
                    "pool_id": segment.get("segment_pool_id"),
                }
        self.pending = {address for address, (_, _, pending) in found.items() if pending}
        self.stacks = {address: frames for address, (_, frames, _) in found.items()}
        return found

    def _play(self, event: Event) -> Use:
        """Follow one event of the trace."""
        action, address = event["action"], event.get("addr", 0)
        if action == "alloc":
            row = self.live[address] = self._size_row(event["size"])
            self.pending.discard(address)
            self.stacks[address] = event.get("frames", [])
            self.owners[address] = event
        elif action in FREES and address in self.live:
            row = self.live[address]
            if action == self.frees[-1]:
                del self.live[address]
                self.pending.discard(address)
            else:
                self.pending.add(address)
        else:
            row = self._fixed_size(event["size"])
        place = self._place(address) if action in PLACED or address else -1
        return Use(event, place, row)

    def _set_up(self, baseline: dict[int, tuple[int, Frames, bool]]) -> list[Use]:
        runs = self.start.runs()
        uses = [self._segment(run, "alloc", "map") for run in runs]
        ends = [(run.start, run.end) for run in runs]
        plain = not any(self.settings.roundup_power2_divisions)
        fillers = []
        above = 1 << 62
        for address in sorted(baseline, reverse=True):
            size, frames, _ = baseline[address]
            behind = address + size
            gap = min(above, _end_of(ends, address)) - behind
            if gap >= MIN_BLOCK:
                row = self._fixed_size(gap if plain else MIN_BLOCK)
                self.owners[behind] = self.owners[address]
                uses.append(self._use("alloc", behind, row, frames, self.owners[behind]))
                fillers.append((behind, row, frames))
            row = self.live[address]
            uses.append(self._use("alloc", address, row, frames, self.owners[address]))
            above = address
        for address, row, frames in fillers:
            uses += self._freed(address, row, frames, self.frees)
        for address, (_, frames, pending) in sorted(baseline.items()):
            if pending:
                uses += self._freed(address, self.live[address], frames, self.frees[:1])
        return uses

    def _tear_down(self) -> list[Use]:
        uses: list[Use] = []
        for address in sorted(self.live):
            left = self.frees[-1:] if address in self.pending else self.frees
            uses += self._freed(address, self.live[address], self.stacks[address], left)
        return uses + [self._segment(run, "free", "unmap") for run in self.end.runs()]

    def _freed(self, address: int, row: int, frames: Frames, actions: list[str]) -> list[Use]:
        shared = list(frames)  # both events have one list, which is not that of the alloc
        owner = self.owners[address]
        return [self._use(action, address, row, shared, owner) for action in actions]

    def _segment(self, run: Run, plain: str, expandable: str) -> Use:
        action = f"segment_{expandable if run.expandable else plain}"
        owner = {"stream": run.stream, "pool_id": run.pool}
        return self._use(action, run.start, self._fixed_size(run.size), [], owner)

    def _use(self, action: str, address: int, row: int, frames: Frames, owner: Event) -> Use:
        stream = owner["stream"]
        event = {"action": action, "addr": address, "size": 0, "stream": stream, **self.extra}
        if "pool_id" in event and owner.get("pool_id") is not None:
            event["pool_id"] = owner["pool_id"]
        if self.framed:
            event["frames"] = frames
        return Use(event, self._place(address), row)

    def _place(self, address: int) -> int:
        """Return the row of an address; the lists of places has each once."""
        row = self.place_rows.get(address)
        if row is None:
            row = self.place_rows[address] = len(self.made.places)
            self.made.places.append(self.made.regions.find(address))
        return row

    def _size_row(self, requested: int) -> int:
        """Make a row for a request: it may vary as long as its block is the same."""
        slack = max(requested - 1, 0) % MIN_BLOCK
        size = self.settings.round_size(requested)
        if self.settings.round_size(requested - slack) != size:
            slack = 0
        self.made.sizes.append(requested)
        self.made.slack.append(slack)
        return len(self.made.sizes) - 1

    def _fixed_size(self, size: int) -> int:
        self.made.sizes.append(size)
        self.made.slack.append(0)
        return len(self.made.sizes) - 1


def _end_of(runs: list[tuple[int, int]], address: int) -> int:
    """Return where the mapped run that holds an address ends; the address itself if none does."""
    index = bisect_left(runs, (address + 1, 0)) - 1
    return runs[index][1] if index >= 0 and address < runs[index][1] else address


def _blocks(segment: dict[str, Any]) -> Iterable[tuple[int, dict[str, Any]]]:
    """Yield the blocks of a segment with their addresses, which PyTorch 2.0 does not write."""
    address = segment["address"]
    for block in segment["blocks"]:
        yield address, block
        address += block["size"]


def _requested(block: dict[str, Any]) -> int:
    if "requested_size" in block:
        return int(block["requested_size"])
    history = block.get("history")
    return int(history[0]["real_size"] if history else block["size"])

"""Look for snapshots that take the most time or memory for their size, by hill climbing.

A snapshot is made of a handful of numbers. One of them is changed at a time, what is worse than
before is kept, and after a while it begins anew from other numbers. Each is tried in a process of
its own: converted, and its page and Markdown written.

Example: python -m tests.hostile.search --seconds 240 --seed 7
"""

from __future__ import annotations

import pickle
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import click
import orjson

from tests.hostile.cost import report, warm
from tests.hostile.families import MIB, run_family

LEAST, MOST = 10_000, 4_000_000
"""Bytes of the snapshots that are tried: of less, what every report costs would be all."""

SECONDS, MEMORY = 60, 4096 * MIB
STEPS = (0, 1, 2, 10, 100, 1000, 10_000, 50_000)
TEXTS = {
    "ascii": "n",
    "accented": "é",
    "wide": "\U0001f600",
    "path": "/a",
    "up": "../",
    "markup": "<&",
}
ORDERS = ("up", "down", "random")
FORMS = ("pickle", "json")
WORDS = {"text": tuple(TEXTS), "order": ORDERS, "form": FORMS}
"""What the numbers that are none can be."""


@dataclass(frozen=True)
class Numbers:
    """What a snapshot is made of."""

    events: int = 100
    frames: int = 2
    """Of each call stack."""
    stacks: int = 10
    """That differ."""
    names: int = 10
    """That differ."""
    length: int = 10
    """Characters of a name."""
    text: str = "ascii"
    stages: int = 0
    settings: int = 0
    segments: int = 0
    order: str = "up"
    unknown: int = 0
    """Keys of an event that are not PyTorch's."""
    actions: int = 0
    """Of events, that are not PyTorch's."""
    devices: int = 1
    metadata: int = 0
    """Texts that differ."""
    contexts: int = 0
    kept: int = 1
    """Of so many allocations one is not freed."""
    streams: int = 1
    fields: int = 0
    """Of each frame, as compiled code has them."""
    storages: int = 0
    """That our recorder named, and as many marks."""
    form: str = "pickle"

    def changed(self, rng: random.Random) -> Numbers:
        """Return them with one or two of them changed."""
        new: dict[str, Any] = {}
        for each in rng.sample(fields(self), rng.choice((1, 1, 2))):
            if each.name in WORDS:
                new[each.name] = rng.choice(WORDS[each.name])
            else:
                old = getattr(self, each.name)
                number = rng.choice((old // 3, old * 3, old * 2 + 1, rng.choice(STEPS)))
                least = getattr(Numbers(), each.name) > 0
                new[each.name] = min(max(number, int(least)), LIMITS.get(each.name, 100_000))
        return replace(self, **new)


LIMITS = {
    "frames": 3000,
    "length": 200_000,
    "devices": 256,
    "settings": 9000,
    "unknown": 2000,
    "fields": 2000,
}


def snapshot(numbers: Numbers) -> bytes:
    """Return the snapshot of some numbers, always the same one."""
    rng = random.Random(1)

    def text(i: int) -> str:
        unit = TEXTS[numbers.text]
        return f"{unit * (numbers.length // len(unit))}{i}"

    names = [text(i) for i in range(min(numbers.names, MOST // numbers.length + 1))]
    fields = {f"fx_node_op{i}" if i else "fx_node_op": text(i) for i in range(numbers.fields)}
    frames = [{"name": name, "filename": name, "line": i, **fields} for i, name in enumerate(names)]
    stacks = [
        [frames[(i * 7 + j) % len(frames)] for j in range(numbers.frames)]
        for i in range(min(numbers.stacks, MOST // numbers.frames + 1))
    ]
    unknown = {f"key{i}": text(i) for i in range(numbers.unknown)}
    metadata = [text(i) for i in range(min(numbers.metadata, len(names)))]
    contexts = [text(i) for i in range(min(numbers.contexts, len(names)))]
    events: list[dict[str, Any]] = []
    for i in range(numbers.events):
        event: dict[str, Any] = {
            "action": "alloc",
            "addr": 0x7F0000000000 + 512 * (i if i % numbers.kept == 0 else i % 1000),
            "size": 512,
            "stream": i % numbers.streams,
            "time_us": i,
            "frames": stacks[i % len(stacks)],
            **unknown,
        }
        if metadata:
            event["user_metadata"] = metadata[i % len(metadata)]
        if contexts:
            event["compile_context"] = contexts[i % len(contexts)]
        events.append(event)
        if i % numbers.kept:
            events.append(event | {"action": "free_requested"})
            events.append(event | {"action": "free_completed"})
    for i in range(numbers.actions):
        events.append(
            {"action": f"action{i}", "addr": 0, "size": 0, "stream": 0, "time_us": i, "frames": []}
        )
    places = list(range(numbers.segments))
    if numbers.order == "random":
        rng.shuffle(places)
    elif numbers.order == "down":
        places.reverse()
    segments = [
        {
            "device": i % numbers.devices,
            "address": 0x600000000000 + 2097152 * place,
            "total_size": 2097152,
            "allocated_size": 512,
            "active_size": 512,
            "stream": 0,
            "segment_type": "large",
            "blocks": [
                {
                    "size": 512,
                    "requested_size": 512,
                    "state": "active_allocated",
                    "frames": stacks[0],
                },
                {"size": 2096640, "requested_size": 0, "state": "inactive", "frames": []},
            ],
        }
        for i, place in enumerate(places)
    ]
    stages = [
        {
            "name": names[i // 2 % len(names)],
            "stage": ("START", "END")[i % 2],
            "device": 0,
            "time_us": i // 2,
        }
        for i in range(numbers.stages)
    ]
    made: dict[str, Any] = {
        "segments": segments,
        "device_traces": [events] + [[] for _ in range(numbers.devices - 1)],
        "external_annotations": stages,
        "allocator_settings": {f"setting{i}": i for i in range(numbers.settings)},
    }
    if numbers.storages:
        some = [(i, names[i % len(names)]) for i in range(numbers.storages)]
        made["snapreport"] = {
            "format": 1,
            "storages": [
                {"device": "cuda:0", "kind": "parameter", "name": name}
                | {"address": 0x7F0000000000 + 512 * i, "size": 512}
                for i, name in some
            ],
            "marks": [{"name": name, "time_us": i} for i, name in some],
        }
    return pickle.dumps(made, 4) if numbers.form == "pickle" else orjson.dumps(made)


@dataclass(frozen=True)
class Cost:
    """What a snapshot took."""

    numbers: Numbers
    size: int
    seconds: float
    memory: int
    notes: tuple[str, ...]

    @property
    def seconds_per_mb(self) -> float:
        """Of one core, for each MB of the file."""
        return self.seconds / self.size * 1e6

    @property
    def bytes_per_byte(self) -> float:
        """Of memory, for each byte of the file."""
        return self.memory / self.size


def cost(numbers: Numbers) -> Cost | None:
    """Try a snapshot; None if it is too small or too large."""
    data = snapshot(numbers)
    if not LEAST <= len(data) <= MOST:
        return None
    warm(report)
    ending = f".{numbers.form}"
    tried = run_family("", lambda: [("", data)], report, ending, seconds=SECONDS, memory=MEMORY)
    return Cost(numbers, len(data), tried.worst_s, tried.worst_bytes, tried.notes)


WHAT_ONE_COSTS = 1_000_000
"""Bytes that are added to a file's: what any report takes would be a small file's worst."""


def worth(found: Cost, what: str) -> float:
    """Return how bad it is, small files counting as larger than they are."""
    taken = found.seconds if what == "seconds" else found.memory
    return float("inf") if found.notes else taken / (found.size + WHAT_ONE_COSTS)


def climb(what: str, seconds: float, seed: int) -> Iterator[Cost]:
    """Yield what is worse than all before, for some seconds."""
    rng = random.Random(seed)
    end = time.monotonic() + seconds
    best: Cost | None = None
    while time.monotonic() < end:
        here = cost(Numbers())
        failed = 0
        while failed < 25 and time.monotonic() < end:
            found = cost((here.numbers if here else Numbers()).changed(rng))
            if found is None:
                continue
            if here is None or worth(found, what) > worth(here, what):
                here, failed = found, 0
            else:
                failed += 1
            if best is None or worth(found, what) > worth(best, what):
                best = found
                yield best


@click.command()
@click.option("--seconds", type=float, default=120.0, show_default=True, help="For both searches.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the first numbers.")
def main(seconds: float, seed: int) -> None:
    """Print what takes more seconds or memory for its size than all before."""
    for what in ("seconds", "memory"):
        for found in climb(what, seconds / 2, seed):
            other = {
                key: value
                for key, value in asdict(found.numbers).items()
                if value != getattr(Numbers(), key)
            }
            print(
                f"{what}: {found.seconds_per_mb:.2f} s for each MB, {found.bytes_per_byte:.0f}"
                f" bytes of memory for each byte; {found.size:,} bytes: {other}",
                *found.notes,
                flush=True,
            )


if __name__ == "__main__":
    main()

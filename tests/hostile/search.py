"""Look for files that take the most time or memory for their size, by hill climbing.

A snapshot, a pair of them or a page is made of a handful of numbers. One of them is changed at a
time, what is worse than before is kept, and after a while it begins anew from other numbers. Each
is tried in a process of its own, with one of the ``TASKS``.

Example: python -m tests.hostile.search --seconds 240 --seed 7 --task diff
"""

from __future__ import annotations

import itertools
import pickle
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Protocol

import click
import orjson

from tests.hostile import pages
from tests.hostile.cost import warm
from tests.hostile.families import MIB, run_family
from tests.hostile.tasks import PACKED, TASKS, packed

if TYPE_CHECKING:
    from typing_extensions import Self

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
MARKUP = {
    "text": "a\n",
    "html": "<b>\n",
    "paragraph": "a <b>\n\n",
    "picture": "![a",
    "bracket": "[",
    "rule": "a\n=\n",
    "cell": "|a",
}
"""What a line of the recorder's notes can be."""
WORDS = {
    "text": tuple(TEXTS),
    "order": ORDERS,
    "form": FORMS,
    "markup": tuple(MARKUP),
    "piece": tuple(pages.PIECES),
    "kind": ("u8", "u16", "u32", "i32"),
}
"""What the numbers that are none can be."""


class Made(Protocol):
    """What a file is made of."""

    def changed(self, rng: random.Random) -> Self:
        """Return it with one or two of its numbers changed."""

    def file(self, task: str) -> tuple[bytes, str]:
        """Return the file that a task is tried with, and the ending of its name."""


@dataclass(frozen=True)
class _Changing:
    """Numbers that can be changed."""

    def changed(self, rng: random.Random) -> Self:
        """Return them with one or two of them changed."""
        new: dict[str, Any] = {}
        for each in rng.sample(fields(self), rng.choice((1, 1, 2))):
            if each.name in WORDS:
                new[each.name] = rng.choice(WORDS[each.name])
            else:
                old = getattr(self, each.name)
                step = rng.choice(STEPS)
                number = rng.choice((old // 3, old * 3, old * 2 + 1, step)) if old else step
                least = getattr(type(self)(), each.name) > 0
                new[each.name] = min(max(number, int(least)), LIMITS.get(each.name, 100_000))
        return replace(self, **new)


@dataclass(frozen=True)
class PageNumbers(_Changing):
    """What a page is made of."""

    piece: str = "text"
    pieces: int = 2000
    strings: int = 10
    tables: int = 0
    values: int = 10
    area: int = 1000
    kind: str = "u8"

    def file(self, _task: str) -> tuple[bytes, str]:
        """Return the page."""
        data = pages.packed(
            strings=self.strings,
            tables=self.tables,
            length=self.values,
            area=self.area,
            kind=self.kind,
        )
        times = min(self.pieces, MOST // len(pages.PIECES[self.piece]))
        return (data + pages.page(self.piece, times)).encode(), ".html"


@dataclass(frozen=True)
class Numbers(_Changing):
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
    folders: int = 0
    """Of files of one name; 0 for files and functions that are called by the names."""
    functions: int = 1
    """That differ, where the files are in folders."""
    spread: int = 0
    """Lines are drawn from so many times as many as there are; 0 for one after the other."""
    notes: int = 0
    """Lines of our recorder's notes."""
    nested: int = 0
    """Quotes around the first line of the notes."""
    markup: str = "text"
    """Of the notes."""

    def file(self, task: str) -> tuple[bytes, str]:
        """Return the snapshot, or where a task needs two of them, both."""
        if task in ("diff", "folder"):
            return packed([snapshot(self), snapshot(self, other=True)]), PACKED
        return snapshot(self), f".{self.form}"


LIMITS = {
    "frames": 3000,
    "length": 200_000,
    "devices": 256,
    "settings": 9000,
    "unknown": 2000,
    "fields": 2000,
    "folders": 20_000,
    "tables": 2000,
    "values": 10_000_000,
    "area": 100_000_000,
}


def snapshot(numbers: Numbers, *, other: bool = False) -> bytes:
    """Return the snapshot of some numbers, always the same one.

    Args:
        numbers: what it is made of.
        other: whether it is the second of two: the code has moved to other folders and lines.
    """
    rng = random.Random(1 + other)

    def text(i: int) -> str:
        unit = TEXTS[numbers.text]
        return f"{unit * (numbers.length // len(unit))}{i}"

    names = [text(i) for i in range(min(numbers.names, MOST // numbers.length + 1))]
    fields = {f"fx_node_op{i}" if i else "fx_node_op": text(i) for i in range(numbers.fields)}
    lines = [i + other * (i % 3) for i in range(len(names))]
    if numbers.spread:
        lines = [rng.randrange(1, numbers.spread * len(names) + 2) for _ in names]
    side = "new" if other else "base"
    frames = [
        {
            "name": names[i % numbers.functions % len(names)] if numbers.folders else name,
            "filename": f"/{side}{i % numbers.folders}/x.py" if numbers.folders else name,
            "line": lines[i],
            **fields,
        }
        for i, name in enumerate(names)
    ]
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
    if numbers.notes:
        line = MARKUP[numbers.markup]
        notes = "> " * min(numbers.nested, 10_000) + line * min(numbers.notes, 2**16 // len(line))
        made["snapreport"] = made.get("snapreport", {"format": 1}) | {"notes": notes}
    return pickle.dumps(made, 4) if numbers.form == "pickle" else orjson.dumps(made)


@dataclass(frozen=True)
class Cost:
    """What a file took."""

    numbers: Made
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


def cost(numbers: Made, task: str = "report") -> Cost | None:
    """Try a file with a task; None if it is too small or too large."""
    data, ending = numbers.file(task)
    if not LEAST <= len(data) <= MOST:
        return None
    attempt = TASKS[task]
    warm(attempt)
    tried = run_family("", lambda: [("", data)], attempt, ending, seconds=SECONDS, memory=MEMORY)
    return Cost(numbers, len(data), tried.worst_s, tried.worst_bytes, tried.notes)


WHAT_ONE_COSTS = 1_000_000
"""Bytes that are added to a file's: what any report takes would be a small file's worst."""


def worth(found: Cost, what: str) -> float:
    """Return how bad it is, small files counting as larger than they are."""
    taken = found.seconds if what == "seconds" else found.memory
    return float("inf") if found.notes else taken / (found.size + WHAT_ONE_COSTS)


SITES = Numbers(events=3000, stacks=3000, names=3000, frames=1)
"""A call site for each event."""

BEGINS: tuple[Made, ...] = (Numbers(), SITES, replace(SITES, folders=10), Numbers(notes=10_000))
"""What searches begin from, one after the other."""

PAGES: tuple[Made, ...] = (
    PageNumbers(pieces=30_000),
    PageNumbers(pieces=1, strings=1000, tables=100, values=100_000, area=100_000),
)


def climb(
    begins: tuple[Made, ...], task: str, what: str, seconds: float, seed: int
) -> Iterator[Cost]:
    """Yield what is worse than all before, for some seconds."""
    rng = random.Random(seed)
    end = time.monotonic() + seconds
    best: Cost | None = None
    for begin in itertools.cycle(begins):
        if time.monotonic() >= end:
            return
        here = cost(begin, task)
        failed = 0
        while failed < 25 and time.monotonic() < end:
            found = cost((here.numbers if here else begin).changed(rng), task)
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
@click.option("--seconds", type=float, default=240.0, show_default=True, help="For all searches.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the first numbers.")
@click.option("--task", type=click.Choice([*TASKS]), multiple=True, help="Only this one.")
def main(seconds: float, seed: int, task: tuple[str, ...]) -> None:
    """Print what takes more seconds or memory for its size than all before."""
    searches = [(each, BEGINS) for each in task or TASKS]
    searches += [("strings", PAGES)] if "strings" in (task or TASKS) else []
    for name, begins in searches:
        for what in ("seconds", "memory"):
            for found in climb(begins, name, what, seconds / 2 / len(searches), seed):
                print(f"{name}, {told(found, what)}", *found.notes, flush=True)


def told(found: Cost, what: str) -> str:
    """Return what a file took, and which of its numbers are not the usual ones."""
    usual = type(found.numbers)()
    other = {
        each.name: value
        for each in fields(found.numbers)  # type: ignore[arg-type]
        if (value := getattr(found.numbers, each.name)) != getattr(usual, each.name)
    }
    return (
        f"{what}: {found.seconds:.2f} s, {found.seconds_per_mb:.2f} s for each MB,"
        f" {found.bytes_per_byte:.0f} bytes of memory for each byte; {found.size:,} bytes: {other}"
    )


if __name__ == "__main__":
    main()

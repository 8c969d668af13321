"""Look for files that take the most time or memory for their size, by hill climbing.

A snapshot, a pair of them or a page is made of a handful of numbers. Of what a search begins with,
one number after the other is doubled as long as that is worse, those first that are not the usual
ones; afterwards what was worst is changed at random. Each file is tried in a process of its own,
with one of the ``TASKS``, and a file that costs more than docs/safety.md says is a fault.

Example: python -m tests.hostile.search --seconds 120 --seed 7 --task diff
"""

from __future__ import annotations

import functools
import itertools
import os
import pickle
import random
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

MOST = 4_000_000
"""Bytes of the largest files that are tried."""

MEMORY = 4096 * MIB
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

    def doubled(self, name: str) -> Self:
        """Return it with one number twice as large."""

    def numbers(self) -> list[str]:
        """Return the names of its numbers."""

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

    def doubled(self, name: str) -> Self:
        """Return them with one number twice as large."""
        most = LIMITS.get(name, 100_000)
        return replace(self, **{name: min(2 * getattr(self, name) or 10, most)})

    def numbers(self) -> list[str]:
        """Return the names of the numbers, those first that are not the usual ones."""
        names = [each.name for each in fields(self) if each.name not in WORDS]
        return sorted(names, key=lambda name: getattr(self, name) == getattr(type(self)(), name))


@dataclass(frozen=True)
class PageNumbers(_Changing):
    """What a page is made of."""

    piece: str = "text"
    pieces: int = 2000
    strings: int = 10
    tables: int = 0
    values: int = 10
    """Of each column, or as many as fit into the area."""
    area: int = 1000
    kind: str = "u8"
    deltas: int = 0
    """Whether columns hold differences."""

    def file(self, _task: str) -> tuple[bytes, str]:
        """Return the page."""
        data = pages.packed(
            strings=self.strings,
            tables=self.tables,
            length=min(self.values, self.area // (1 if self.kind == "u8" else 4)),
            area=self.area,
            kind=self.kind,
            delta=self.deltas > 0,
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
    forward: int = 0
    """Lines of the forward call stack behind each event, which have code."""
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
    "forward": 3000,
    "folders": 20_000,
    "tables": 2000,
    "deltas": 1,
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
    unknown: dict[str, Any] = {f"key{i}": text(i) for i in range(numbers.unknown)}
    if numbers.forward:
        unknown["forward_frames"] = [
            f'File "{f["filename"]}", line {f["line"]}, in {f["name"]}\n    {f["name"]}\n'
            for f in itertools.islice(itertools.cycle(frames), numbers.forward)
        ]
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


def allowed(size: int) -> tuple[float, float]:
    """Return the seconds and bytes of memory that a file may take: five and two times what was
    measured for docs/safety.md."""
    return 3 + 10e-6 * size, 20e6 + 260 * size


def cost(numbers: Made, task: str = "report") -> Cost | None:
    """Try a file with a task; None if it is too large."""
    data, ending = numbers.file(task)
    if len(data) > MOST:
        return None
    attempt = TASKS[task]
    warm(attempt)
    start = starting(task)
    most = start + 2 * allowed(len(data))[0]
    tried = run_family("", lambda: [("", data)], attempt, ending, seconds=most, memory=MEMORY)
    seconds = max(tried.worst_s - start, 0.0)
    return Cost(numbers, len(data), seconds, tried.worst_bytes, tried.notes)


@functools.cache
def starting(task: str) -> float:
    """Return the seconds that the processes of a task take to start, whatever is in its files."""
    if task != "folder":
        return 0.0
    data, ending = Numbers(events=1).file(task)
    return run_family("", lambda: [("", data)], TASKS[task], ending).worst_s


def worth(found: Cost) -> float:
    """Return how bad it is: above 1 it is a fault."""
    seconds, memory = allowed(found.size)
    return 2.0 if found.notes else max(found.seconds / seconds, found.memory / memory)


SITES = Numbers(events=3000, stacks=3000, names=3000, frames=1)
"""A call site for each event."""

SNAPSHOTS: dict[str, Made] = {
    "usual": Numbers(),
    "one function in many folders": replace(SITES, folders=1000),
    "many lines of one function": replace(SITES, folders=1, spread=50),
    "notes in many quotes": Numbers(events=500, notes=16_000, nested=10),
    "forward call stacks": Numbers(forward=10, metadata=10),
}
"""What searches begin with, by name."""

COLUMNS = PageNumbers(pieces=1, tables=100, values=10_000_000, area=1_000_000, deltas=1)
"""They overlap."""

PAGES: dict[str, Made] = {
    **{f"page of {piece}": PageNumbers(piece=piece, pieces=16_000) for piece in pages.PIECES},
    "packed columns": replace(COLUMNS, deltas=0),
    "packed columns of differences": COLUMNS,
    "packed text": PageNumbers(pieces=1, values=1, area=20_000_000),
}


def spent() -> float:
    """Return the seconds of the processor that this process and its children have taken."""
    return sum(os.times()[:4])


def climb(begins: dict[str, Made], task: str, seconds: float, seed: int) -> Iterator[str]:
    """Yield the worst of what each begin has come to, and then whatever is worse than all."""
    rng, end = random.Random(seed), spent() + seconds
    worst: dict[str, Cost] = {}
    for done, (name, begin) in enumerate(begins.items()):
        until = spent() + (end - spent()) / (len(begins) - done)
        best = grown(begin, task, until)
        if best is not None:
            worst[name] = best
            yield f"{task}, {name}: {told(best)}"
    here = max(worst.values(), key=worth, default=None)
    while here is not None and worth(here) <= 1 and spent() < end:
        found = cost(here.numbers.changed(rng), task)
        if found is not None and worth(found) > worth(here):
            here = found
            yield f"{task}, changed at random: {told(here)}"


def grown(begin: Made, task: str, until: float) -> Cost | None:
    """Return the worst of what a begin comes to when its numbers are doubled, one at a time."""
    best = cost(begin, task)
    for name in begin.numbers():
        while best is not None and worth(best) <= 1 and spent() < until:
            found = cost(best.numbers.doubled(name), task)
            if found is None or worth(found) <= 1.05 * worth(best):
                break
            best = found
    return best


@click.command()
@click.option("--seconds", type=float, default=120.0, show_default=True, help="For each task.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of what is changed.")
@click.option("--task", type=click.Choice([*TASKS]), multiple=True, help="Only this one.")
@click.option("--only", default="", metavar="WORD", help="Begins with this word in their name.")
def main(seconds: float, seed: int, task: tuple[str, ...], only: str) -> None:
    """Print what costs the most of what the documents allow, and where it costs more."""
    for each in task or TASKS:
        begins = SNAPSHOTS | (PAGES if each == "strings" else {})
        chosen = {name: begin for name, begin in begins.items() if only in name}
        for line in climb(chosen, each, seconds, seed):
            print(line, flush=True)


def told(found: Cost) -> str:
    """Return what a file took, and which of its numbers are not the usual ones."""
    usual = type(found.numbers)()
    other = {
        each.name: value
        for each in fields(found.numbers)  # type: ignore[arg-type]
        if (value := getattr(found.numbers, each.name)) != getattr(usual, each.name)
    }
    seconds, memory = allowed(found.size)
    return (
        f"{'FAULT: ' * (worth(found) > 1)}{found.seconds:.2f} s of {seconds:.1f},"
        f" {found.memory / MIB:.0f} MiB of {memory / MIB:.0f}; {found.size:,} bytes: {other}"
        f" {' '.join(found.notes)}"
    ).rstrip()


if __name__ == "__main__":
    main()

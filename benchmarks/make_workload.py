"""Make a long recording out of a real one: its trace again and again, as of steps of a training.

Between two rounds, what the trace leaves live is freed and what it frees without an alloc is
allocated, and likewise with segments, so that every round begins as the first one did and the
last ends as the file does.
The pickle is loaded by Python's own unpickler: give this program only files that you trust.

    python benchmarks/make_workload.py snap.pickle long.pickle --rounds 48
"""

from __future__ import annotations

import argparse
import gc
import pickle
import random
from pathlib import Path
from typing import Any

Event = dict[str, Any]
UNDO = {
    "segment_alloc": "segment_free",
    "segment_free": "segment_alloc",
    "segment_map": "segment_unmap",
    "segment_unmap": "segment_map",
}


def repeat(events: list[Event], rounds: int, rng: random.Random) -> list[Event]:
    """Return a trace of so many rounds, with times that go on and jitter a little."""
    live: dict[int, Event] = {}
    freed: list[Event] = []  # without an alloc in the trace
    for event in events:
        if event["action"] == "alloc":
            live[event["addr"]] = event
        elif event["action"] == "free_completed" and live.pop(event["addr"], None) is None:
            freed.append(event)
    ends = [
        {**event, "action": action}
        for event in live.values()
        for action in ("free_requested", "free_completed")
    ]
    ends += [
        {**event, "action": UNDO[event["action"]]}
        for event in reversed(events)
        if event["action"] in UNDO
    ]
    ends += [{**event, "action": "alloc"} for event in freed]
    first, last = events[0].get("time_us", 0), events[-1].get("time_us", 0)
    made: list[Event] = []
    clock = first
    for done in range(rounds):
        lists: dict[int, list[Any]] = {}
        before = first
        for event in [*events, *(ends if done < rounds - 1 else [])]:
            copy = {key: fresh(value, lists) for key, value in event.items()}
            if "time_us" in event:
                now = max(min(event["time_us"], last), before)
                clock += round((now - before) * rng.uniform(0.8, 1.2))
                before = now
                copy["time_us"] = clock
            made.append(copy)
        clock += 1000
    return made


def fresh(value: Any, lists: dict[int, list[Any]]) -> Any:
    """Return a list or text as an object of its own, as a recording has them."""
    if isinstance(value, list):
        return lists.setdefault(id(value), list(value))
    if value == "N/A":
        return "".join(value)  # PyTorch writes it anew in each event
    return value


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description="Make a long recording out of a real one.")
    parser.add_argument("snapshot", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--rounds", type=int, default=48)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    gc.disable()
    with arguments.snapshot.open("rb") as file:
        snapshot = pickle.load(file)
    rng = random.Random(arguments.seed)
    traces = snapshot["device_traces"]
    traces[:] = [repeat(trace, arguments.rounds, rng) if trace else trace for trace in traces]
    with arguments.output.open("wb") as file:
        pickle.dump(snapshot, file, protocol=4)
    print(f"{arguments.output}: {sum(map(len, traces)):,} events")


if __name__ == "__main__":
    main()

"""Make a long recording to measure with, out of a simulated program or of a real recording.

Its trace is played again and again, as of steps of a training. From round to round the times
jitter, requests vary within their blocks, and segments lie elsewhere: so nothing compresses
better than in a real recording of that length. Between two rounds all memory is freed and given
back, and what was live at first is set up again, so that every round begins as the first did and
the last ends as the recording did; the result is a history that an allocator could have had.

It is written as a stream: memory holds one round, however many there are.

    python -m dev.benchmarks.make_workload long.pickle --events 1200000
    python -m dev.benchmarks.make_workload long.pickle --events 50000000 --snapshot snap.pickle
    python -m dev.benchmarks.make_workload crowd.pickle --live 100000 --stacks 100000

A snapshot is loaded by Python's own unpickler: give this program only files that you trust.
"""

from __future__ import annotations

import argparse
import gc
import os
import pickle
from dataclasses import fields
from pathlib import Path
from typing import Any

from dev.benchmarks.workloads.programs import Shape, play
from dev.benchmarks.workloads.recording import Recording, WorkloadError

MOST_EVENTS = 50_000_000


def make(
    output: Path,
    events: int,
    snapshot: dict[str, Any] | None = None,
    shape: Shape | None = None,
    seed: int = 1,
) -> int:
    """Write a recording, and return how many events it has.

    Args:
        output: the file to write, or to replace.
        events: at least so many, in whole rounds.
        snapshot: the recording to repeat; None to run a program.
        shape: the program's.
        seed: of all that is drawn: equal arguments give equal bytes.

    Raises:
        WorkloadError: the snapshot has no trace.
    """
    collecting = gc.isenabled()
    gc.disable()  # there are millions of objects, and no garbage among them
    try:
        first = Recording(snapshot or play(shape or Shape(), seed), 1, seed)
        recording = first.of_length(events)
        unfinished = output.with_name(f"{output.name}.part")
        with unfinished.open("wb") as out:
            recording.write(out)
        os.replace(unfinished, output)
    finally:
        if collecting:
            gc.enable()
    return recording.events


def main() -> None:
    """Write the file that was named."""
    parser = argparse.ArgumentParser(description="Make a long recording to measure with.")
    parser.add_argument("output", type=Path)
    parser.add_argument("--events", type=int, default=1_200_000, help="at least so many")
    parser.add_argument("--snapshot", type=Path, help="the recording to repeat")
    parser.add_argument("--seed", type=int, default=1)
    program = parser.add_argument_group("the program that is simulated otherwise")
    for each in fields(Shape):
        program.add_argument(f"--{each.name}", type=int, default=each.default, metavar="N")
    arguments = parser.parse_args()
    if not 0 < arguments.events <= MOST_EVENTS:
        parser.error(f"--events is between 1 and {MOST_EVENTS:,}")
    shape = Shape(**{each.name: getattr(arguments, each.name) for each in fields(Shape)})
    snapshot = None
    if arguments.snapshot is not None:
        with arguments.snapshot.open("rb") as file:
            snapshot = pickle.load(file)
    try:
        written = make(arguments.output, arguments.events, snapshot, shape, arguments.seed)
    except WorkloadError as error:
        parser.exit(1, f"{error}\n")
    print(f"{arguments.output}: {written:,} events, {arguments.output.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()

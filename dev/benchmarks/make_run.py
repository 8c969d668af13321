"""Make a run of many ranks to measure with, and to hold the search for odd ranks against.

A recording is played as the steps of a training, on each rank with sizes and times of its own, as
real ranks differ: equal parameters, batches that differ by 1 to 2 %, stages that differ by design.
Some ranks are made odd, and what was planted is written down beside the files. Reading the pattern
is safe; what is written is fit for any tool that reads snapshots.

    python -m dev.benchmarks.make_run run/ --ranks 1024 --seed 3 --pattern snap.pickle
    python -m dev.benchmarks.make_run run/ --ranks 64 --layout tp=4,dp=4,pp=4 --events 4000
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dev.benchmarks.runs.facts import SAMPLE
from dev.benchmarks.runs.files import TRUTH, write_run
from dev.benchmarks.runs.pattern import read_pattern
from dev.benchmarks.runs.plan import make_plan


def main() -> None:
    """Write the run."""
    parser = argparse.ArgumentParser(description="Make a run of many ranks.")
    parser.add_argument("output", type=Path, help="a folder that is new or empty")
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pattern", type=Path, default=SAMPLE)
    parser.add_argument("--steps", type=int, default=6, help="how often the pattern is played")
    parser.add_argument("--events", type=int, help="of the pattern, from its start; all by default")
    parser.add_argument("--layout", help="in the order of ranks, such as tp=8,dp=16,pp=8")
    parser.add_argument("--healthy", action="store_true", help="plant nothing")
    arguments = parser.parse_args()
    if arguments.output.exists() and any(arguments.output.iterdir()):
        parser.error(f"{arguments.output} is not empty")
    layout = None
    if arguments.layout:
        parts = (part.split("=") for part in arguments.layout.split(","))
        layout = tuple((name, int(size)) for name, size in parts)
    plan = make_plan(
        read_pattern(arguments.pattern, arguments.steps, arguments.events),
        arguments.ranks,
        arguments.seed,
        layout,
        healthy=arguments.healthy,
    )
    written = write_run(plan, arguments.output)
    named = ",".join(f"{name}={size}" for name, size in plan.layout)
    print(f"{arguments.output}: {plan.ranks:,} ranks of {named}, {written:,} bytes; {TRUTH}")


if __name__ == "__main__":
    main()

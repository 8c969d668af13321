"""Makes a long history for dev/benchmarks/page.py: training steps, played by the simulator.

The same bytes every time. 1.2 million events take two minutes and 130 MB of disk.

    python -m dev.benchmarks.page_history out/long.pickle [--events 1200000]
"""

from __future__ import annotations

import argparse
import pickle
from pathlib import Path

from dev.simulator.simulator import Simulator
from dev.simulator.training import TrainingRun, Transformer

KEYS = ("compile_context", "user_metadata")


def make_history(events: int) -> Simulator:
    """Train until this many events were recorded, the parameters' own among them."""
    simulator = Simulator(optional_keys=KEYS, seed=6)
    run = TrainingRun(simulator, Transformer(layers=24, width=512, heads=8, batch=4))
    simulator.start_recording()
    run.build()
    step = 0
    while len(simulator.allocators[0].trace.ring) < events:
        run.train(1, first=step)
        step += 1
    return simulator


def main() -> None:
    """Write the file that was named."""
    parser = argparse.ArgumentParser(description="Make a long history with the simulator.")
    parser.add_argument("output", type=Path)
    parser.add_argument("--events", type=int, default=1_200_000)
    arguments = parser.parse_args()
    snapshot = make_history(arguments.events).snapshot()
    with arguments.output.open("wb") as out:
        pickle.dump(snapshot, out, protocol=pickle.HIGHEST_PROTOCOL)
    print(f"{arguments.output}: {len(snapshot['device_traces'][0])} events")


if __name__ == "__main__":
    main()

"""Measure the terminal explorer: the first screen, and each key, beside ptmem's load of the pickle.

    python -m dev.benchmarks.explorer long.pickle
    python -m dev.benchmarks.explorer long.pickle --peer-ptmem venv/bin/python

Times are processor seconds, the least of some runs, in a process of its own each. A key's time is
what the program takes to obey it and to lay out the screen of 200 by 50; writing to the terminal
comes on top. ptmem unpickles by Python's own unpickler: name it only for files that you trust.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

COLUMNS, ROWS = 200, 50
RUNS = 3
KEYS = {
    "2": "the timeline", "right": "a column on", "]": "a quarter on", "+": "zoom in",
    "-": "zoom out", "d": "pan", "up": "raise the foot", ".": "the next event", "0": "everything",
    "t": "time along the axis", "p": "the peak", "enter": "call stacks of the moment",
    "down": "the next row", "E": "expand all", "c": "collapse", "f": "focus", "q": "back",
    "h": "hide frames", "u": "turn round", "4": "lines", "o": "order", "5": "allocations",
    "y": "group", "6": "stages", "7": "the allocator", "8": "events", "9": "the recording",
    "1": "the overview",
}  # fmt: skip
MOST_MS = 50.0

_OURS = """
import gc, json, resource, sys, time
from pathlib import Path
sys.path.insert(0, {root!r})
import snapreport.api.making, snapreport.commands.explorer.app
from snapreport.diagnosis import conclude
from snapreport.commands.explorer.opening import OpeningLines, open_file
from snapreport.commands.explorer.desk import Panes
from snapreport.commands.explorer.screen import Viewpoint
from dev.benchmarks.explorer import COLUMNS, KEYS, ROWS
begun = time.process_time()
later = []
opening = OpeningLines(lambda: None)
opened = open_file(Path({path!r}))
opening.picture(opened.snapshot.history)
opening.draw(COLUMNS, ROWS)
first = [time.process_time() - begun]
panes = Panes([Viewpoint(opened)], later.append, lambda: None)
panes.draw(COLUMNS, ROWS)
first.append(time.process_time() - begun)
later.pop()()()
gc.freeze()  # as the program does
found = {{}}
names = [each.name for each in panes.desk.screens]
for key in KEYS:
    for turn in range(2):  # the first may work out what all later ones use
        begun = time.process_time()
        panes.press(key)
        panes.draw(COLUMNS, ROWS)
        spent = time.process_time() - begun
        found.setdefault(key, []).append(1000 * spent)
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps([first, found, memory, panes.desk.view.device.events]))
"""
_PEER = """
import json, os, resource, time
from ptmem.cli import MemoryProfileData
begun = time.process_time()
data = MemoryProfileData({path!r})
spent = time.process_time() - begun
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps([spent, memory, len(data.allocations)]))
"""


def run(python: str, program: str) -> list[object]:
    """Run a program, and return what it prints."""
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr.strip() or f"it ended with {done.returncode}")
    found: list[object] = json.loads(done.stdout.splitlines()[-1])
    return found


def first_seconds(bundle: Path) -> float:
    """Return the processor seconds until a bundle's first picture is drawn, the least of some."""
    root = str(Path(__file__).resolve().parents[2])
    program = _OURS.format(root=root, path=str(bundle))
    return float(min(run(sys.executable, program)[0][0] for _ in range(RUNS)))  # type: ignore[index]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Measure the terminal explorer.")
    parser.add_argument("snapshot", type=Path)
    parser.add_argument("--peer-ptmem", metavar="PYTHON", help="a Python that has ptmem")
    arguments = parser.parse_args(argv)
    root = str(Path(__file__).resolve().parents[2])
    from snapreport import convert

    with tempfile.TemporaryDirectory() as folder:
        bundle = convert(arguments.snapshot, Path(folder) / "long.zip")
        program = _OURS.format(root=root, path=str(bundle))
        runs = [run(sys.executable, program) for _ in range(RUNS)]
        print(f"{runs[0][3]:,} events, {COLUMNS} by {ROWS}")
        firsts = zip(*(each[0] for each in runs), strict=True)
        for what, seconds in zip(
            ("first screen from a bundle", "its overview"), firsts, strict=True
        ):
            print(f"{what:<27} {min(seconds):.2f} s")
        print(f"memory                      {min(each[2] for each in runs) / 2**20:.0f} MiB")  # type: ignore[type-var, operator]
        if arguments.peer_ptmem:
            # Its cache lies beside the pickle, so it gets a name of its own each time.
            copy = Path(folder) / "peer.pickle"
            copy.symlink_to(arguments.snapshot.resolve())
            peer = _PEER.format(path=str(copy))
            cold = run(arguments.peer_ptmem, peer)
            warm = run(arguments.peer_ptmem, peer)
            print(f"ptmem, load of the pickle   {cold[0]:.2f} s, from its cache {warm[0]:.2f} s")
            print(f"ptmem, memory               {cold[1] / 2**20:.0f} MiB")  # type: ignore[operator]
    print(f"\n{'key':<8}{'first':>9}{'again':>9}")
    over = []
    for key, what in KEYS.items():
        first, again = (min(each[1][key][k] for each in runs) for k in (0, 1))  # type: ignore[index]
        print(f"{key:<8}{first:>6.1f} ms{again:>6.1f} ms  {what}")
        over += [key] if first > MOST_MS else []
    print(f"\nover {MOST_MS:.0f} ms: {', '.join(over) or 'none'}")


if __name__ == "__main__":
    main()

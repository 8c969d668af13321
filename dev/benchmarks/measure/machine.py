"""What the machine is and can do, so that figures of another day can be compared with a run's."""

from __future__ import annotations

import hashlib
import os
import pickle
import platform
import random
import statistics
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path

from dev.benchmarks.measure.processes import run_once

_DATA = 64 << 20
_TIMES = 3


def this_machine() -> str:
    """Describe the machine as far as a reader needs it."""
    python = ".".join(map(str, sys.version_info[:3]))
    said = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {python}"
    about = Path("/proc/cpuinfo")
    if about.exists():
        names = (line.partition(":")[2] for line in about.read_text().splitlines())
        models = (each.strip() for each in names if "CPU" in each or "Processor" in each)
        said = f"{next(models, 'unknown processor')}, {said}"
    if hasattr(os, "getloadavg"):
        said += f", load {os.getloadavg()[0]:.1f} when it began"
    return said


def calibrate(folder: Path) -> dict[str, float]:
    """Return seconds by the clock, the median of some runs, of what depends on the machine alone.

    Args:
        folder: for a file.
    """
    drawn = random.Random(1)
    data = bytes(drawn.choices(range(16), k=_DATA >> 6)) * (1 << 6)
    table = [
        {"action": "alloc", "addr": drawn.getrandbits(40), "size": drawn.getrandbits(24), "n": k}
        for k in range(200_000)
    ]
    fixed = folder / "calibration.pickle"
    fixed.write_bytes(pickle.dumps(table, 4))
    load = "import gc, pickle, sys; gc.disable(); pickle.load(open(sys.argv[1], 'rb'))"
    return {
        "copy 64 MiB in memory": _seconds(lambda: bytearray(data)),
        "SHA-256 of 64 MiB": _seconds(lambda: hashlib.sha256(data)),
        "zlib of 64 MiB, level 6": _seconds(lambda: zlib.compress(data, 6)),
        "start Python (`python -c pass`)": _process("pass"),
        "the same with `import numpy`": _process("import numpy"),
        "the same with `pickle.load` of 200,000 fixed dicts": _process(load, str(fixed)),
    }


def _seconds(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(_TIMES):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def _process(program: str, *arguments: str) -> float:
    command = [sys.executable, "-c", program, *arguments]
    return statistics.median(run_once(command).wall for _ in range(_TIMES))

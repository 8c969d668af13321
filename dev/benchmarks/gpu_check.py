"""Record programs on a real GPU, and hold our figures against PyTorch's own counters.

    python -m dev.benchmarks.gpu_check [PROGRAM ...] [--save FOLDER]

Each program runs in a process of its own. Peaks and ends of allocated, requested, active and
reserved bytes must be those of ``torch.cuda.memory_stats()`` to the byte; where blocks were there
before the recording, within the width that a report states. And the recording must show what the
program is there for, such as a private pool. The exit status is 0 if all is well, 1 if not, and
77 where there is no GPU, so that nothing could be checked; ``make gpu-check`` takes that for well.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import orjson

import snapreport
from dev.benchmarks.gpu_programs import ALLOCATOR, CASES, Case
from snapreport.ground.units import format_bytes

CURVES = {
    "allocated": "allocated_bytes.all",
    "requested": "requested_bytes.all",
    "active": "active_bytes.all",
    "reserved": "reserved_bytes.all",
}
SNAPSHOT = "snapshot.pickle"
SKIPPED = 77
"""The exit status by which test drivers know what could not be tested."""
_LONGEST_S = 900


def record_one(name: str, folder: Path) -> None:
    """Record one program in this process, and leave PyTorch's counters beside the files."""
    import torch

    case = CASES[name]
    torch.manual_seed(0)
    torch.cuda.init()
    program = case.program(torch)
    next(program)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    stats: dict[str, Any] = {}

    def count() -> None:
        stats.update(torch.cuda.memory_stats(0))

    ended = "as it should"
    recording = snapreport.record(
        folder, on_oom=(lambda _: count()) if case.fails else True, quiet=True, **case.arguments
    )
    began = time.perf_counter()
    try:
        with recording:
            next(program, None)
            torch.cuda.synchronize()
            count()
    except torch.cuda.OutOfMemoryError as error:  # its name in every version
        ended = "out of memory"
        told = getattr(error, "__notes__", [])
        if sys.version_info >= (3, 11) and not any("report.html" in note for note in told):
            ended = "out of memory, without a note"
    result = {
        "stats": {key: value for key, value in stats.items() if key.split(".")[-1] != "freed"},
        "ended": ended,
        "seconds": time.perf_counter() - began,
        "device": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
    }
    (recording.folder / "expected.json").write_bytes(orjson.dumps(result))


def differences(case: Case, folder: Path) -> list[str]:
    """Return what is not as PyTorch counted it, or not there at all; empty if all is well."""
    missing = [
        name
        for name in (SNAPSHOT, "snap.zip", "report.html", "report.md")
        if not (folder / name).is_file()
    ]
    if missing:
        return [f"no {name}" for name in missing]
    expected = orjson.loads((folder / "expected.json").read_bytes())
    wrong = []
    ended = "out of memory" if case.fails else "as it should"
    if expected["ended"] != ended:
        wrong.append(f"it ended {expected['ended']}, not {ended}")
    for file in (SNAPSHOT, "snap.zip"):
        device = snapreport.load(folder / file).device("cuda:0")
        for curve, counter in CURVES.items():
            peak = device.peaks[curve]
            theirs = expected["stats"][f"{counter}.peak"]
            if not peak.bytes <= theirs <= peak.bytes + peak.width:
                wrong.append(f"{file}: {curve} peak {peak.bytes:,}, PyTorch's {theirs:,}")
            end, now = int(device.curve(curve)[-1]), expected["stats"][f"{counter}.current"]
            if end != now:
                wrong.append(f"{file}: {curve} at the end {end:,}, PyTorch's {now:,}")
        wrong += [
            f"{file}: a call site is {site.name} in {site.filename}"
            for site in device.figures.sites
            if site.name == "??" or site.filename.endswith((".so", sys.executable))
        ]
        closing = device.figures.closing
        if closing is None or not closing.closes:
            wrong.append(f"{file}: the replay does not close: {closing}")
        if case.fails and not device.figures.ooms:
            wrong.append(f"{file}: no failed request in it")
        for kind, times in device.history.anomalies.items():
            wrong.append(f"{file}: {times:,} times {kind}")
        if case.shows is not None and not case.shows(device.history):
            wrong.append(f"{file}: it does not show what it is for: {case.program.__doc__}")
    return wrong


def check(name: str, folder: Path) -> bool:
    """Record a program in a process of its own, print how it went, and say whether it was well."""
    case = CASES[name]
    reason = case.cannot()
    if reason is not None:
        print(f"{name:<20} skipped, {reason}")
        return True
    # Settings of the allocator that are on here are no part of any program.
    environment = {key: value for key, value in os.environ.items() if key not in ALLOCATOR}
    try:
        run = subprocess.run(
            [sys.executable, "-m", "dev.benchmarks.gpu_check", "--child", str(folder), name],
            cwd=Path(__file__).resolve().parents[2],
            env=environment | case.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_LONGEST_S,
        )
        folder /= "1"  # the only recording
    except subprocess.TimeoutExpired:
        print(f"{name:<20} FAILED, it took more than {_LONGEST_S} s")
        return False
    if run.returncode != 0 or not (folder / "expected.json").is_file():
        print(f"{name:<20} FAILED to run\n{run.stderr[-2000:]}")
        return False
    try:
        wrong = differences(case, folder)
    except (KeyError, snapreport.SnapreportError) as error:
        wrong = [f"{type(error).__name__}: {error}"]
    if wrong and not (folder / "report.html").is_file():
        print(f"{name:<20} FAILED: {'; '.join(wrong)}\n{run.stderr[-2000:]}")
        return False
    device = snapreport.load(folder / "snap.zip").device("cuda:0")
    seconds = orjson.loads((folder / "expected.json").read_bytes())["seconds"]
    print(
        f"{name:<20} {'ok    ' if not wrong else 'WRONG '} {device.events:>9,} events"
        f"  peak {format_bytes(device.peaks['allocated'].bytes):>10}"
        f"  reserved {format_bytes(device.peaks['reserved'].bytes):>10}"
        f"  page {format_bytes((folder / 'report.html').stat().st_size):>10}  {seconds:6.1f} s"
    )
    for line in wrong:
        print(f"    {line}")
    if wrong and run.stderr:
        print(f"    it said: {run.stderr[-2000:].strip()}")
    return not wrong


def why_not() -> str | None:
    """Say why there is nothing to check here, None if there is."""
    if importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed"
    import torch

    if not torch.cuda.is_available():
        return f"PyTorch {torch.__version__} sees no CUDA GPU here"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(CASES))
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="keep the snapshots here")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    unknown = [name for name in given.programs if name not in CASES]
    if unknown:
        parser.error(f"no program {', '.join(unknown)}; there are {', '.join(CASES)}")
    if given.child:
        record_one(given.programs[0], given.child)
        return 0
    reason = why_not()
    if reason is not None:
        print(f"gpu-check: skipped, {reason}.")
        return SKIPPED
    import torch

    versions = f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}"
    print(f"{torch.cuda.get_device_name(0)}, {versions}, snapreport {snapreport.__version__}")
    well = True
    for name in given.programs or CASES:
        with tempfile.TemporaryDirectory() as folder:
            well &= check(name, Path(folder))
            snapshot = Path(folder) / "1" / SNAPSHOT
            if given.save and snapshot.is_file():
                given.save.mkdir(parents=True, exist_ok=True)
                shutil.copy(snapshot, given.save / f"gpu_{name}.pickle")
    print("gpu-check: all is as PyTorch counts it." if well else "gpu-check: FAILED.")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())

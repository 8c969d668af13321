"""Times the stages of one convert and one render, inside a process of their own.

The real ``snapreport.convert()`` and ``render()`` run; the functions that they call for each
stage are wrapped. What belongs to no stage (imports, warnings, renaming files) is in the sums of
the commands only.

    python -m dev.benchmarks.measure.stages snap.pickle bundle.zip page.html
"""

from __future__ import annotations

import contextlib
import importlib
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

STAGES = {
    "load": ("snapreport.read", "read_snapshot"),
    "build": ("snapreport.history.build", "build_history"),
    "bundle": ("snapreport.api.making", "write_bundle"),
    "read back": ("snapreport.bundle", "read_bundle"),
    "find": ("snapreport.diagnosis.conclude", "find"),
    "render": ("snapreport.reporters.page_report", "write_report"),
}
"""Stage: module, and the function or method in it that is the stage."""


class Clock:
    """Wraps functions, and keeps what each call of them took."""

    def __init__(self) -> None:
        self.taken: dict[str, dict[str, float]] = {}

    def watch(self, stage: str, module: str, name: str) -> None:
        """Put a wrapper in the place of a function.

        Raises:
            AttributeError: there is no such function any more.
        """
        owner: Any = importlib.import_module(module)
        *path, last = name.split(".")
        for part in path:
            owner = getattr(owner, part)
        setattr(owner, last, self._wrapped(stage, getattr(owner, last)))

    def _wrapped(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **options: Any) -> Any:
            forget_peak()
            wall, cpu = time.perf_counter(), time.process_time()
            try:
                return function(*args, **options)
            finally:
                known = self.taken.setdefault(
                    stage, {"cpu": 0.0, "wall": 0.0, "peak": 0, "bytes": 0}
                )
                known["cpu"] += time.process_time() - cpu
                known["wall"] += time.perf_counter() - wall
                known["peak"] = max(known["peak"], peak_bytes())

        return timed


def forget_peak() -> None:
    """Let the peak begin anew from what is resident now, where the system can."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """Return the most bytes that were resident, since ``forget_peak()`` if that can be."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    """Convert and render what was named, and print the stages as JSON."""
    source, bundle, page = map(Path, sys.argv[1:4])
    import snapreport

    clock = Clock()
    for stage, (module, name) in STAGES.items():
        clock.watch(stage, module, name)
    snapreport.convert(source, bundle, force=True)
    snapreport.render(bundle, page, force=True)
    for stage, path in (("load", source), ("bundle", bundle), ("render", page)):
        clock.taken.setdefault(stage, {})["bytes"] = path.stat().st_size
    sys.stdout.buffer.write(orjson.dumps(clock.taken))


if __name__ == "__main__":
    main()

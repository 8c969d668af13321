"""Compare the ratios of the quick workloads with those that were committed.

Only ratios are compared: times and peak memory of a bare ``pickle.load`` in the same run, bytes of
the snapshot. A figure fails that is more than ``factor`` times the committed one and ``slack``
above it; both are stated in the file, for each kind of figure.

    python -m dev.benchmarks.check               fails on a regression
    python -m dev.benchmarks.check --update      commit the file that this writes
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from dev.benchmarks.measure.processes import CommandError
from dev.benchmarks.measure.results import Result
from dev.benchmarks.measure.session import REPOSITORY, measure
from dev.benchmarks.run import FOLDER, say
from dev.benchmarks.workloads.named import BY_NAME, QUICK

BASELINE = REPOSITORY / "dev" / "benchmarks" / "baseline.json"

ALLOWED: dict[str, dict[str, float]] = {
    # Repeated runs on a busy machine stay well within these.
    "time": {"factor": 1.4, "slack": 0.5},
    "stage": {"factor": 1.6, "slack": 0.5},
    "memory": {"factor": 1.2, "slack": 0.1},
    "bytes": {"factor": 1.05, "slack": 0.002},
}
"""What ``--update`` states: by kind of figure."""


@dataclass(frozen=True)
class Change:
    """A figure that is not as it was."""

    workload: str
    figure: str
    was: float
    now: float | None
    """None if it is not measured any more."""
    limit: float

    def __str__(self) -> str:
        name = f"{self.workload}, {self.figure}"
        if self.now is None:
            return f"{name}: was {self.was:.3f}, and is not measured any more"
        return f"{name}: was {self.was:.3f}, is {self.now:.3f}; the limit is {self.limit:.3f}"


def regressions(baseline: dict[str, Any], measured: dict[str, dict[str, float]]) -> list[Change]:
    """Return what is worse than the baseline allows.

    Args:
        baseline: ``allowed``, factor and slack by kind of figure, and ``workloads``, each figure
            of each.
        measured: each figure of each workload. A figure that is not in the baseline is new.
    """
    found = []
    for workload, figures in baseline["workloads"].items():
        for figure, was in figures.items():
            limit = limit_of(baseline, figure, was)
            now = measured.get(workload, {}).get(figure)
            if now is None or now > limit:
                found.append(Change(workload, figure, was, now, limit))
    return found


def improvements(baseline: dict[str, Any], measured: dict[str, dict[str, float]]) -> list[Change]:
    """Return what is so much better that going back would be a regression."""
    found = []
    for workload, figures in baseline["workloads"].items():
        for figure, was in figures.items():
            now = measured.get(workload, {}).get(figure)
            if now is not None and was > limit_of(baseline, figure, now):
                found.append(Change(workload, figure, was, now, was))
    return found


def limit_of(baseline: dict[str, Any], figure: str, was: float) -> float:
    """Return the most that a figure may be."""
    allowed = baseline["allowed"][figure.partition(":")[0]]
    return float(max(was * allowed["factor"], was + allowed["slack"]))


def new_baseline(results: Sequence[Result]) -> dict[str, Any]:
    """Return what is committed."""
    rounded = {
        each.name: {figure: round(value, 4) for figure, value in each.ratios().items()}
        for each in results
    }
    return {"allowed": ALLOWED, "workloads": rounded}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and compare or update."""
    parser = argparse.ArgumentParser(description="Compare with the committed ratios.")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--update", action="store_true", help="write the committed file anew")
    parser.add_argument("--baseline", type=Path, default=BASELINE)
    arguments = parser.parse_args(argv)
    names = [each.name for each in QUICK]
    baseline: dict[str, Any] = {}
    if not arguments.update:
        baseline = orjson.loads(arguments.baseline.read_bytes())
        names = list(baseline["workloads"])
    FOLDER.mkdir(parents=True, exist_ok=True)
    workloads = [(name, BY_NAME[name].series, BY_NAME[name].make(FOLDER)) for name in names]
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        try:
            results = measure(workloads, arguments.runs, Path(folder), say=say)
        except CommandError as error:
            raise SystemExit(str(error)) from error
    if arguments.update:
        data = orjson.dumps(new_baseline(results), option=orjson.OPT_INDENT_2) + b"\n"
        arguments.baseline.write_bytes(data)
        print(f"{arguments.baseline.name} is written.")
        return
    raise SystemExit(judge(baseline, {each.name: each.ratios() for each in results}))


def judge(baseline: dict[str, Any], measured: dict[str, dict[str, float]]) -> int:
    """Print what changed, and return the exit status: 1 if something is worse."""
    for change in improvements(baseline, measured):
        print(f"better: {change.workload}, {change.figure}: {change.was:.3f} to {change.now:.3f}")
    worse = regressions(baseline, measured)
    for change in worse:
        print(f"WORSE: {change}")
    count = sum(map(len, baseline["workloads"].values()))
    print(f"{count} figures compared, {len(worse)} worse than allowed.")
    return 1 if worse else 0


if __name__ == "__main__":
    main()

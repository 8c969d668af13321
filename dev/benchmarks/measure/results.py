"""The figures of one benchmark: medians, ratios to the floor, growth; and their file."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from dev.benchmarks.measure.processes import Cost
from dev.benchmarks.measure.ranks import RankCost

FLOOR = "pickle.load"
READ = "read the file"
CONVERT, RENDER = "convert", "render"
SUMMARY, HELP = "summary", "--help"
COMMANDS = (CONVERT, RENDER)


@dataclass
class Result:
    """One workload's figures.

    Attributes:
        name: of the workload.
        events: over all devices.
        size: bytes of the snapshot.
        series: name of the series that its growth is told of; empty for none.
        costs: what was run, by name: every run.
        stages: the stages inside, by name: every run.
        failed: what did not end well, and why.
        at_least: what those of them had taken that were stopped for being slow.
    """

    name: str
    events: int
    size: int
    series: str = ""
    costs: dict[str, list[Cost]] = field(default_factory=dict)
    stages: dict[str, list[Cost]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    at_least: dict[str, Cost] = field(default_factory=dict)

    def median(self, name: str, *, stage: bool = False) -> Cost:
        """Return the medians over the runs.

        Raises:
            KeyError: nothing of that name was run.
        """
        return median_cost((self.stages if stage else self.costs)[name])

    def ratios(self) -> dict[str, float]:
        """Return what is compared from one version to the next: nothing in it is a plain time.

        ``time:`` is processor time and ``memory:`` peak memory, of the floor in the same run;
        ``bytes:`` is a share of the snapshot.
        """
        floor = self.median(FLOOR)
        found = {}
        for name in COMMANDS:
            cost = self.median(name)
            found[f"time: {name}"] = cost.cpu / floor.cpu
            found[f"memory: {name}"] = cost.peak / floor.peak
            found[f"bytes: {name}"] = cost.bytes / self.size
        for name in self.stages:
            found[f"stage: {name}"] = self.median(name, stage=True).cpu / floor.cpu
        return found


def median_cost(costs: Sequence[Cost]) -> Cost:
    """Return the median of each figure over some runs."""
    return Cost(
        statistics.median(cost.cpu for cost in costs),
        statistics.median(cost.wall for cost in costs),
        int(statistics.median(cost.peak for cost in costs)),
        int(statistics.median(cost.bytes for cost in costs)),
    )


def growth(points: Iterable[tuple[float, float]]) -> float | None:
    """Return the exponent by which something grows: the slope through its logarithms.

    Args:
        points: size, and what it takes; 1.0 is linear growth, 2.0 quadratic.

    Returns:
        None with fewer than two different sizes.
    """
    logs = [(math.log(size), math.log(taken)) for size, taken in points if size > 0 and taken > 0]
    if len({x for x, _ in logs}) < 2:
        return None
    middle_x = statistics.fmean(x for x, _ in logs)
    middle_y = statistics.fmean(y for _, y in logs)
    slope = sum((x - middle_x) * (y - middle_y) for x, y in logs)
    return slope / sum((x - middle_x) ** 2 for x, _ in logs)


@dataclass(frozen=True)
class PageResult:
    """What a browser needed for one page: medians over the runs."""

    workload: str
    tool: str
    bytes: int
    first_ms: float
    """Until the first picture; nan if there was none."""
    heap: int
    """Bytes of JavaScript memory; 0 if there was no picture."""
    p95_ms: float
    """From frame to frame while the timeline is dragged and zoomed; nan if it was not."""
    failed: str = ""
    """Why it has no picture, or no frames."""
    waited_ms: float = 0.0
    """How long was waited for its picture in vain; 0 if it came, or never would have."""


@dataclass
class Report:
    """One run of the benchmark."""

    machine: str
    command: str
    runs: int
    results: list[Result]
    pages: list[PageResult] = field(default_factory=list)
    calibration: dict[str, float] = field(default_factory=dict)
    """Seconds of what depends on the machine alone."""
    ranks: list[RankCost] = field(default_factory=list)
    explorer: float = math.nan
    """Seconds until the explorer's first picture of the workload that targets are about."""
    minutes: float = 0.0

    def save(self, path: Path) -> None:
        """Write all figures, every run's, as JSON."""
        path.write_bytes(orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2))

    @classmethod
    def read(cls, path: Path) -> Report:
        """Read what ``save()`` wrote."""

        def costs(found: dict[str, list[dict[str, Any]]]) -> dict[str, list[Cost]]:
            return {name: [Cost(**each) for each in runs] for name, runs in found.items()}

        kept = orjson.loads(path.read_bytes())
        results = [
            Result(
                **{
                    **each,
                    "costs": costs(each["costs"]),
                    "stages": costs(each["stages"]),
                    "at_least": {
                        name: Cost(**cost) for name, cost in each.get("at_least", {}).items()
                    },
                }
            )
            for each in kept["results"]
        ]
        nan = float("nan")  # JSON has null for it
        shown: list[dict[str, Any]] = [
            {name: nan if value is None else value for name, value in each.items()}
            for each in kept["pages"]
        ]
        pages = [PageResult(**each) for each in shown]
        ranks = [RankCost(**each) for each in kept["ranks"]]
        explorer = nan if kept["explorer"] is None else kept["explorer"]
        made = {"results": results, "pages": pages, "ranks": ranks, "explorer": explorer}
        return cls(**{**kept, **made})


AROUND = (1_000_000, 1_600_000)
"""Events of the workload that most targets are about."""


def large(results: Sequence[Result]) -> Result | None:
    """Return the workload of about 1.2 million events."""
    found = [each for each in results if AROUND[0] <= each.events <= AROUND[1]]
    return found[0] if found else None

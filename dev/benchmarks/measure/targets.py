"""What we set out to reach, and whether a run of the benchmark shows it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dev.benchmarks.measure.processes import Cost
from dev.benchmarks.measure.results import (
    CONVERT,
    FLOOR,
    HELP,
    RENDER,
    SUMMARY,
    PageResult,
    Report,
    Result,
    growth,
)
from dev.benchmarks.measure.tables import size, table

Figure = tuple[str, bool | None] | None
"""What was measured, and whether it is within the limit (None where a bound leaves it open); None
if it was not measured."""

AROUND = (1_000_000, 1_600_000)
"""Events of the workload that most targets are about."""
VERDICTS = {True: "met", False: "**not met**", None: "open: the other was stopped before"}
VIEWER = "PyTorch's page"
OUR_PAGE = "our page"


@dataclass(frozen=True)
class Target:
    """A limit, and the figure that it is about.

    Attributes:
        text: what is limited.
        limit: the target, as text.
        figure: takes it from a report.
    """

    text: str
    limit: str
    figure: Callable[[Report], Figure]


def targets_table(report: Report) -> str:
    """Every target, and whether it is met; what was not measured is said to be so."""
    rows = []
    for target in TARGETS:
        found = target.figure(report)
        if found is None:
            verdict = ["-", "not measured in this run"]
        else:
            verdict = [found[0], VERDICTS[found[1]]]
        rows.append([target.text, target.limit, *verdict])
    return table(["", "target", "measured", ""], rows)


def large(report: Report) -> Result | None:
    """Return the workload of about 1.2 million events."""
    found = [each for each in report.results if AROUND[0] <= each.events <= AROUND[1]]
    return found[0] if found else None


def _on_large(
    figure: Callable[[Result], Figure],
) -> Callable[[Report], Figure]:
    def found(report: Report) -> Figure:
        result = large(report)
        return None if result is None else figure(result)

    return found


def _at_most(value: float, limit: float, unit: str = " x") -> tuple[str, bool]:
    return f"{value:.2f}{unit}", value <= limit


def _convert_time(result: Result) -> tuple[str, bool]:
    return _at_most(result.median(CONVERT).cpu / result.median(FLOOR).cpu, 4)


def _convert_peak(result: Result) -> tuple[str, bool]:
    return _at_most(result.median(CONVERT).peak / result.median(FLOOR).peak, 1.5)


def _render_time(result: Result) -> tuple[str, bool]:
    return _at_most(result.median(RENDER).cpu / result.median(CONVERT).cpu, 1 / 3)


def _bundle(result: Result) -> tuple[str, bool]:
    share = result.median(CONVERT).bytes / result.size
    return f"{share:.1%}", share <= 0.1


def _page(result: Result) -> tuple[str, bool]:
    made = result.median(RENDER).bytes
    return size(made), made < 8_000_000


def _growth(report: Report) -> Figure:
    """The largest exponent of any series."""
    found = [
        exponent
        for series in {each.series for each in report.results if each.series}
        if (exponent := growth(_sizes_and_times(report, series))) is not None
    ]
    return (f"exponent {max(found):.2f}", max(found) <= 1.1) if found else None


def _sizes_and_times(report: Report, series: str) -> list[tuple[float, float]]:
    own = [each for each in report.results if each.series == series]
    return [(each.events, each.median(CONVERT).cpu) for each in own]


def _peer(result: Result, pick: Callable[[Cost], float], limit: float) -> Figure:
    ours = pick(result.median(CONVERT))
    name = next((each for each in result.costs if "convert_snap" in each), None)
    if name is not None:
        value = pick(result.median(name)) / ours
        return f"{value:.3g} x", value >= limit
    least = next((cost for each, cost in result.at_least.items() if "convert_snap" in each), None)
    if least is None or not pick(least):
        return None
    return _at_least(pick(least) / ours, limit)


def _at_least(bound: float, limit: float) -> Figure:
    """A figure of which only a lower bound is known: it may meet its target, but not miss it."""
    return f"more than {bound:.3g} x", True if bound >= limit else None


def _small(report: Report, name: str, limit: float) -> Figure:
    found = [each for each in report.results if name in each.costs]
    if not found:
        return None
    taken = max(found, key=lambda each: each.size).median(name).cpu
    return f"{taken * 1000:.0f} ms", taken < limit


def _own_page(report: Report, pick: Callable[[PageResult], float], limit: float) -> Figure:
    result = large(report)
    name = result.name if result else ""
    found = [each for each in report.pages if (each.workload, each.tool) == (name, OUR_PAGE)]
    if not found or math.isnan(pick(found[0])):
        return None
    return f"{pick(found[0]):.0f} ms", pick(found[0]) < limit


def _sooner(report: Report) -> Figure:
    first: dict[str, dict[str, PageResult]] = {}
    for each in report.pages:
        if each.waited_ms or not math.isnan(each.first_ms):
            first.setdefault(each.workload, {})[each.tool] = each
    both = [tools for tools in first.values() if {VIEWER, OUR_PAGE} <= set(tools)]
    if not both:
        return None
    # Where theirs never came, the time that was waited is a lower bound.
    factors = [
        ((theirs.waited_ms or theirs.first_ms) / tools[OUR_PAGE].first_ms, not theirs.waited_ms)
        for tools in both
        for theirs in [tools[VIEWER]]
    ]
    least, known = min(factors)
    return (f"{least:.1f} x", least >= 3) if known else _at_least(least, 3)


TARGETS = (
    Target("convert, 1.2 M events: time", "at most 4 x `pickle.load`", _on_large(_convert_time)),
    Target("convert: peak memory", "at most 1.5 x `pickle.load`", _on_large(_convert_peak)),
    Target("render from the bundle: time", "under 0.33 x convert", _on_large(_render_time)),
    Target("bundle", "at most 10 % of the snapshot", _on_large(_bundle)),
    Target("page", "under 8 MB", _on_large(_page)),
    Target("growth of convert with the events", "close to linear (exponent up to 1.1)", _growth),
    Target(
        "convert against `convert_snap.py`: time by the clock",
        "20 x faster",
        _on_large(lambda result: _peer(result, lambda cost: cost.wall, 20)),
    ),
    Target(
        "convert against `convert_snap.py`: processor time",
        "20 x faster",
        _on_large(lambda result: _peer(result, lambda cost: cost.cpu, 20)),
    ),
    Target(
        "bundle against its file: bytes",
        "100 x smaller",
        _on_large(lambda result: _peer(result, lambda cost: cost.bytes, 100)),
    ),
    Target(
        "first picture, 1.2 M events",
        "under 2 s",
        lambda report: _own_page(report, lambda page: page.first_ms, 2000),
    ),
    Target(
        "frames while panning and zooming, p95",
        "under 50 ms",
        lambda report: _own_page(report, lambda page: page.p95_ms, 50),
    ),
    Target("first picture against PyTorch's page", "3 x sooner", _sooner),
    Target("`snapreport --help`", "under 150 ms", lambda report: _small(report, HELP, 0.15)),
    Target(
        "`snapreport summary` of a small snapshot",
        "under 700 ms at 4 MB",
        lambda report: _small(report, SUMMARY, 0.7),
    ),
)

"""What we set out to reach, and whether a run of the benchmark shows it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dev.benchmarks.measure.processes import Cost
from dev.benchmarks.measure.ranks import PAGE
from dev.benchmarks.measure.ranks import SUMMARY as RUN_SUMMARY
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
    large,
)
from dev.benchmarks.measure.tables import table

Figure = tuple[str, bool | None] | None
"""What was measured, and whether it is within the limit (None where a bound leaves it open); None
if it was not measured."""

VERDICTS = {True: "met", False: "**not met**", None: "open: the other was stopped before"}
VIEWER = "PyTorch's page"
OUR_PAGE = "our page"
_SMALL = 8 << 20
_RANKS = 64


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
    """Every target that the run says something about, and whether it is met."""
    found = [(target, target.figure(report)) for target in TARGETS]
    rows = [
        [target.text, target.limit, figure[0], VERDICTS[figure[1]]]
        for target, figure in found
        if figure is not None
    ]
    return table(["", "target", "measured", ""], rows)


def _at_most(value: float, limit: float, unit: str = " x") -> tuple[str, bool]:
    return f"{value:.2f}{unit}", value <= limit


def _beside_load(name: str, pick: Callable[[Cost], float], limit: float) -> Callable[..., Figure]:
    """A command on the large workload, beside the bare ``pickle.load`` of it."""

    def figure(report: Report) -> Figure:
        result = large(report.results)
        if result is None:
            return None
        return _at_most(pick(result.median(name)) / pick(result.median(FLOOR)), limit)

    return figure


def _small(report: Report) -> Result | None:
    """The largest of the small workloads."""
    found = [each for each in report.results if each.size < _SMALL]
    return max(found, key=lambda each: each.size, default=None)


def _of(
    choose: Callable[[Report], Result | None], figure: Callable[[Result], Figure]
) -> Callable[[Report], Figure]:
    def found(report: Report) -> Figure:
        result = choose(report)
        return None if result is None else figure(result)

    return found


def _large(report: Report) -> Result | None:
    return large(report.results)


def _share(limit: float) -> Callable[[Result], Figure]:
    def figure(result: Result) -> Figure:
        share = result.median(CONVERT).bytes / result.size
        return f"{share:.1%}", share <= limit

    return figure


def _page(limit: int) -> Callable[[Result], Figure]:
    def figure(result: Result) -> Figure:
        made = result.median(RENDER).bytes
        return f"{made / 1000:.0f} kB", made <= limit

    return figure


def _help(result: Result) -> Figure:
    return None if HELP not in result.costs else _at_most(result.median(HELP).cpu, 0.12, " s")


def _growth(report: Report) -> Figure:
    """The exponent of convert from the large workload on: below, the start of Python counts."""
    found = [each for each in report.results if each.series and each.events >= 1_000_000]
    exponent = growth((each.events, each.median(CONVERT).wall) for each in found)
    return None if exponent is None else (f"exponent {exponent:.2f}", exponent <= 1.1)


def _one_page(report: Report) -> Figure:
    found = [each for each in report.ranks if (each.ranks, each.verb) == (_RANKS, PAGE)]
    if not found:
        return None
    seconds, made = found[0].wall, found[0].bytes / 1e6
    return f"{seconds:.1f} s, {made:.2f} MB", seconds <= 4 and made <= 0.12


def _driver(report: Report) -> Figure:
    found = {each.ranks: each.peak for each in report.ranks if each.verb == RUN_SUMMARY}
    if len(found) < 2 or _RANKS not in found or max(found) == _RANKS:
        return None
    each = (found[max(found)] - found[_RANKS]) / (max(found) - _RANKS) / 1024
    return f"{each:.1f} KiB", each <= 1


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


def _own_page(
    choose: Callable[[Report], Result | None], pick: Callable[[PageResult], float], limit: float
) -> Callable[[Report], Figure]:
    return lambda report: _of_page(report, choose(report), pick, limit)


def _of_page(
    report: Report, result: Result | None, pick: Callable[[PageResult], float], limit: float
) -> Figure:
    name = result.name if result else ""
    found = [each for each in report.pages if (each.workload, each.tool) == (name, OUR_PAGE)]
    if not found or math.isnan(pick(found[0])):
        return None
    return f"{pick(found[0]):.0f} ms", pick(found[0]) <= limit


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
    Target(
        "convert, 1.2 M events: by the clock",
        "at most 0.5 x `pickle.load`",
        _beside_load(CONVERT, lambda cost: cost.wall, 0.5),
    ),
    Target(
        "convert: processor time",
        "at most 0.55 x `pickle.load`",
        _beside_load(CONVERT, lambda cost: cost.cpu, 0.55),
    ),
    Target(
        "convert: peak memory",
        "at most 0.35 x `pickle.load`",
        _beside_load(CONVERT, lambda cost: cost.peak, 0.35),
    ),
    Target(
        "render from that bundle",
        "at most 0.5 s",
        _of(_large, lambda result: _at_most(result.median(RENDER).wall, 0.5, " s")),
    ),
    Target(
        "summary of the pickle: processor time",
        "at most 0.35 x `pickle.load`",
        _beside_load(SUMMARY, lambda cost: cost.cpu, 0.35),
    ),
    Target("bundle, 1.2 M events", "at most 5% of the snapshot", _of(_large, _share(0.05))),
    Target("bundle of a small snapshot", "at most 15% of it", _of(_small, _share(0.15))),
    Target("report, 1.2 M events", "at most 400 kB", _of(_large, _page(400_000))),
    Target("report of a small snapshot", "at most 280 kB", _of(_small, _page(280_000))),
    Target("growth of convert with the events", "linear (exponent up to 1.1)", _growth),
    Target(
        "first picture, 1.2 M events",
        "at most 600 ms",
        _own_page(_large, lambda page: page.first_ms, 600),
    ),
    Target(
        "first picture of a small snapshot",
        "at most 400 ms",
        _own_page(_small, lambda page: page.first_ms, 400),
    ),
    Target(
        "frames while panning and zooming, p95",
        "at most 33 ms",
        _own_page(_large, lambda page: page.p95_ms, 33.5),
    ),
    Target("`snapreport --help`: processor time", "at most 0.12 s", _of(_small, _help)),
    Target(
        "explorer: first picture from the bundle, 1.2 M events",
        "at most 0.6 s",
        lambda report: (
            None if math.isnan(report.explorer) else _at_most(report.explorer, 0.6, " s")
        ),
    ),
    Target("64 ranks to one page", "at most 4 s, 0.12 MB", _one_page),
    Target("memory that a rank adds to the process that compares", "at most 1 KiB", _driver),
    Target(
        "convert against `convert_snap.py`: by the clock",
        "20 x faster",
        _of(_large, lambda result: _peer(result, lambda cost: cost.wall, 20)),
    ),
    Target(
        "convert against `convert_snap.py`: processor time",
        "20 x faster",
        _of(_large, lambda result: _peer(result, lambda cost: cost.cpu, 20)),
    ),
    Target(
        "bundle against its file: bytes",
        "100 x smaller",
        _of(_large, lambda result: _peer(result, lambda cost: cost.bytes, 100)),
    ),
    Target("first picture against PyTorch's page", "3 x sooner", _sooner),
)

"""Writes the whole document on performance, with its picture, from the figures of one run."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from dev.benchmarks.measure.picture import Panel, draw
from dev.benchmarks.measure.processes import Cost
from dev.benchmarks.measure.ranks import PAGE, RankCost
from dev.benchmarks.measure.ranks import SUMMARY as RUN_SUMMARY
from dev.benchmarks.measure.results import HELP, Report, Result, growth
from dev.benchmarks.measure.tables import (
    pages_table,
    peers_table,
    results_table,
    size,
    table,
)
from dev.benchmarks.measure.targets import targets_table
from snapreport.ground.units import plural

_STEADY = 40
"""Slopes are of the workloads from this part of the longest on: below, the start counts."""

_BEGINNING = """\
# Performance

`{command}` has written this page and its picture, in {minutes:.0f} minutes; nothing on it is from
another run. Figures are the medians of {runs} runs; ranks, and recordings over 400 MB, have one.

Machine: {machine}. What it can do, to compare figures of another day with these:

{calibration}

## Targets

{targets}

## Time, memory and size

**read the file** and **pickle.load** are what any Python program pays before it can begin: the
bytes alone, and Python's own unpickler with the garbage collector off, which frees nothing at its
end. **seconds** are processor time, user and system, of a fresh process with its imports; **by the
clock** gains from the second core. **peak memory** is the largest resident size. **bytes** is the
size of the output, and its share of the snapshot.

{results}

## How it grows

![Time and memory, from the smallest recording to the largest, and from one rank to many]({picture})

{slopes}

Both slopes are those of a straight line through the recordings from {steady:,} events on, and so
is the exponent: 1.0 is linear.
"""
_RANKS = """
The files of a run of many ranks are read in two processes. The memory is that of the process that
hands them out and compares the ranks:

{ranks}

{said}
"""
_PEERS = """
## Other programs

PyTorch's `trace_plot` packs a snapshot into a page, and works out nothing yet. {peers_said}

{peers}
"""
_PAGES = """
## In the browser

Headless Chromium with software graphics: the time from navigation until the compositor has shown
the first picture, the JavaScript heap once the page is idle, and the time from frame to frame while
the timeline is dragged and zoomed (95 of 100 frames are faster).

{pages}
"""
_END = """
## Keeping it so

    make performance PERFORMANCE="--snapshot medium_512_training.pickle"

writes this page anew; without `--snapshot` a simulated program takes the place of the recording.
`make bench` prints the tables for quick workloads, with the stages inside of both commands. `make
bench-check` compares their ratios with
[dev/benchmarks/baseline.json](../dev/benchmarks/baseline.json), and fails if one is worse by more
than the factor that the file states for its kind; after an improvement, `python -m
dev.benchmarks.check --update` updates it. `python -m dev.benchmarks.same ../before` compares the
bytes that two checkouts write.
"""


def write_document(report: Report, path: Path) -> None:
    """Write the document, and its picture beside it under the same name."""
    picture = path.with_suffix(".svg")
    picture.write_text(draw(panels(report)), encoding="utf-8")
    path.write_text(document(report, picture.name), encoding="utf-8")


def document(report: Report, picture: str) -> str:
    """Return the document; parts of which nothing was measured are left out."""
    calibration = [[what, f"{taken * 1000:.1f} ms"] for what, taken in report.calibration.items()]
    steady = _steady(report.results)
    text = _BEGINNING.format(
        command=report.command,
        minutes=report.minutes,
        runs=report.runs,
        machine=report.machine,
        calibration=table(["", "by the clock"], calibration),
        targets=targets_table(report),
        results=results_table(report.results, peers=False),
        picture=picture,
        slopes=_slopes_table(report.results),
        steady=min((each.events for each in steady), default=0),
    )
    if report.ranks:
        text += _RANKS.format(ranks=_ranks_table(report.ranks), said=_ranks_said(report.ranks))
    if any(_others(each) for each in report.results):
        text += _PEERS.format(peers=peers_table(report.results), peers_said=_missing_peers(report))
    if report.pages:
        text += _PAGES.format(pages=pages_table(report.pages))
    return text + _END


def panels(report: Report) -> Iterator[Panel]:
    """Yield what is drawn: time and memory by events, then by ranks."""
    names = [name for name in _names(report.results) if name != HELP]

    def by_events(pick: Callable[[Cost], float]) -> dict[str, Sequence[tuple[float, float]]]:
        return {name: _points(report.results, name, pick) for name in names}

    def by_ranks(pick: Callable[[RankCost], float]) -> dict[str, Sequence[tuple[float, float]]]:
        verbs = dict.fromkeys(each.verb for each in report.ranks)
        return {
            verb: [(each.ranks, pick(each)) for each in report.ranks if each.verb == verb]
            for verb in verbs
        }

    yield Panel("Seconds by the clock", "events", by_events(lambda cost: cost.wall), _seconds)
    yield Panel("Peak memory", "events", by_events(lambda cost: cost.peak), _bytes)
    yield Panel("Seconds by the clock", "ranks", by_ranks(lambda cost: cost.wall), _seconds)
    yield Panel("Peak memory of the driver", "ranks", by_ranks(lambda cost: cost.peak), _bytes)


def _seconds(value: float) -> str:
    return f"{value:g} s"


def _bytes(value: float) -> str:
    """Write a power of ten."""
    thousands = min(len(f"{value:.0f}") - 1, 12) // 3
    return f"{value / 1000**thousands:g} {('B', 'kB', 'MB', 'GB', 'TB')[thousands]}"


def _names(results: Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(name for each in results for name in each.costs))


def _points(
    results: Sequence[Result], name: str, pick: Callable[[Cost], float]
) -> list[tuple[float, float]]:
    return [(each.events, pick(each.median(name))) for each in results if name in each.costs]


def _steady(results: Sequence[Result]) -> list[Result]:
    most = max((each.events for each in results), default=0)
    found = [each for each in results if each.events >= most / _STEADY]
    return found if len(found) > 1 else sorted(results, key=lambda each: each.events)[-2:]


def _slopes_table(results: Sequence[Result]) -> str:
    rows = []
    steady = _steady(results)
    for name in [name for name in _names(results) if name != HELP]:
        time = _points(steady, name, lambda cost: cost.wall)
        memory = _points(steady, name, lambda cost: cost.peak)
        if len(time) > 1:
            exponents = (f"{growth(points) or 0:.2f}" for points in (time, memory))
            slopes = f"{slope(time) * 1e6:.2f}", f"{slope(memory):,.0f}"
            rows.append([name, *slopes, *exponents])
    return table(
        [
            "",
            "seconds per million events",
            "bytes of memory per event",
            "exponent of time",
            "of memory",
        ],
        rows,
    )


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of the straight line that is closest to some points."""
    xs, ys = zip(*points, strict=True)
    return statistics.linear_regression(xs, ys).slope


def _ranks_table(ranks: Sequence[RankCost]) -> str:
    rows = [
        [
            f"{each.verb} of {plural(each.ranks, 'rank')}, {size(each.size)}",
            f"{each.wall:.1f} s",
            f"{each.cpu:.1f} s",
            size(each.peak),
            size(each.bytes) if each.bytes else "",
        ]
        for each in ranks
    ]
    return table(["", "by the clock", "processor time", "memory", "bytes"], rows)


def _ranks_said(ranks: Sequence[RankCost]) -> str:
    """State how much a rank adds, once there are so many that all that is needed is loaded."""
    said = []
    for verb in (RUN_SUMMARY, PAGE):
        own = [each for each in ranks if each.verb == verb]
        first, last = own[min(1, len(own) - 1)], own[-1]
        if last.ranks > first.ranks:
            more = last.ranks - first.ranks
            memory, wall = (last.peak - first.peak) / more, (last.wall - first.wall) / more
            said.append(
                f"{verb}: {memory / 1024:.1f} KiB and {wall * 1000:.0f} ms"
                f" from {first.ranks:,} to {last.ranks:,} ranks"
            )
    return f"Each rank adds: {'; '.join(said)}." if said else ""


def _others(result: Result) -> bool:
    return bool(result.failed) or any(
        word in name for name in result.costs for word in ("PyTorch", "SnapViewer", "Mosaic")
    )


def _missing_peers(report: Report) -> str:
    known = {*_names(report.results), *(name for each in report.results for name in each.failed)}
    absent = [peer for peer in ("SnapViewer", "Mosaic") if not any(peer in name for name in known)]
    if not absent:
        return "A program that needs too long is stopped; its time so far is a lower bound."
    return f"No checkout of {' or '.join(absent)} was named, so nothing is said of it here."

"""The figures as tables in Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dev.benchmarks.measure.processes import Cost
from dev.benchmarks.measure.results import (
    CONVERT,
    FLOOR,
    HELP,
    READ,
    RENDER,
    SUMMARY,
    PageResult,
    Result,
)

OURS = (READ, FLOOR, CONVERT, RENDER, SUMMARY, HELP)
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size(amount: float) -> str:
    """Write bytes as people read them."""
    for unit in UNITS[:-1]:
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.3g} {unit}"
        amount /= 1024
    return f"{amount:.3g} {UNITS[-1]}"


def ratio(value: float, base: float) -> str:
    """Write how many times as much one is as the other."""
    return f"{value / base:.2f} x" if base else "-"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out a table; all columns but the first are figures."""
    ruler = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, ruler, *rows))


def results_table(results: Sequence[Result], *, peers: bool = True) -> str:
    """Every workload: what was run on it, others' programs too if asked, then its stages."""
    rows = []
    for result in results:
        floor = result.median(FLOOR)
        title = f"**{result.name}**: {result.events:,} events, {size(result.size)}"
        rows.append([title, "", "", "", "", "", "", ""])
        shown = [name for name in result.costs if peers or name in OURS]
        rows += [_row(name, result.median(name), floor, result.size) for name in shown]
        rows += [_failed(result, name, floor) for name in result.failed if peers]
        stages = [(name, result.median(name, stage=True)) for name in result.stages]
        rows += [_row(f"· {name}", cost, floor, result.size) for name, cost in stages]
    return table(_header("of `pickle.load`", "bytes"), rows)


def _header(share: str, written: str) -> list[str]:
    return ["", "seconds", share, "by the clock", share, "peak memory", share, written]


def _row(name: str, cost: Cost, floor: Cost, snapshot: int) -> list[str]:
    written = f"{size(cost.bytes)}, {cost.bytes / snapshot:.1%}" if cost.bytes else ""
    return [
        name,
        _seconds(cost.cpu),
        ratio(cost.cpu, floor.cpu),
        _seconds(cost.wall),
        ratio(cost.wall, floor.wall),
        size(cost.peak),
        ratio(cost.peak, floor.peak),
        written,
    ]


def _seconds(taken: float) -> str:
    return f"{taken:.3f}" if taken < 1 else f"{taken:.2f}"


def _failed(result: Result, name: str, base: Cost) -> list[str]:
    """A program that did not end well: what it had taken, if it was stopped, or why not."""
    why = result.failed[name].replace("|", "/")
    least = result.at_least.get(name)
    if least is None or not least.cpu:
        return [name, why, "", "", "", "", "", ""]
    return [
        f"{name}: {why}",
        f"more than {least.cpu:.3g}",
        f"more than {ratio(least.cpu, base.cpu)}",
        f"more than {least.wall:.3g}",
        f"more than {ratio(least.wall, base.wall)}",
        f"more than {size(least.peak)}",
        f"more than {ratio(least.peak, base.peak)}",
        "",
    ]


def peers_table(results: Sequence[Result]) -> str:
    """What others need, as multiples of our convert."""
    rows = []
    for result in results:
        ours = result.median(CONVERT)
        for name in [each for each in result.costs if each not in OURS]:
            cost = result.median(name)
            rows.append(
                [
                    f"{result.name}: {name}",
                    f"{cost.cpu:.2f}",
                    ratio(cost.cpu, ours.cpu),
                    f"{cost.wall:.2f}",
                    ratio(cost.wall, ours.wall),
                    size(cost.peak),
                    ratio(cost.peak, ours.peak),
                    f"{size(cost.bytes)}, {ratio(cost.bytes, ours.bytes)}" if cost.bytes else "",
                ]
            )
        for name in result.failed:
            label, *cells = _failed(result, name, ours)
            rows.append([f"{result.name}: {label}", *cells])
    if not rows:
        return "No other program was given."
    return table(_header("of our convert", "bytes, of our bundle"), rows)


def pages_table(pages: Sequence[PageResult]) -> str:
    """What the browser needs for a page, ours and others'."""
    rows = [
        [
            f"{page.workload}: {page.tool}",
            size(page.bytes),
            _first_picture(page),
            size(page.heap) if page.heap else "-",
            "-" if math.isnan(page.p95_ms) else f"{page.p95_ms:.1f} ms",
        ]
        for page in pages
    ]
    if not rows:
        return "The browser was not measured."
    return table(["", "file", "first picture", "JavaScript heap", "frames, p95"], rows)


def _first_picture(page: PageResult) -> str:
    if page.waited_ms:
        return f"none after {page.waited_ms / 1000:.0f} s"
    failed = page.failed.replace("|", "/")
    if math.isnan(page.first_ms):
        return f"none: {failed}"
    return f"{page.first_ms:.0f} ms" + (f"; then {failed}" if failed else "")

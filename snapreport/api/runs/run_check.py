"""Check each rank of a run against budgets, and ranks against each other: ``check_run()``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from snapreport.api.gate import read_wanted, sort_raised
from snapreport.api.runs.many_files import PathLike
from snapreport.api.runs.run_making import LoadedRun
from snapreport.diagnosis.compare.gate import (
    Budget,
    Check,
    Growth,
    Raised,
    Verdict,
    budget_text,
    growth_text,
)
from snapreport.ground.errors import BudgetError
from snapreport.ground.patterns import compile_glob
from snapreport.ground.units import format_bytes, plural
from snapreport.model.diagnoses import Finding
from snapreport.model.run import DeviceFacts, RankFacts
from snapreport.model.snapshot import Source

Row = tuple[RankFacts, DeviceFacts]

_WHOLE = "the run"
_SINGLE = "a run does not keep this figure; check each rank's file instead"


def check_run(
    loaded: LoadedRun,
    *,
    base: LoadedRun | None = None,
    max_peak: int | str | None = None,
    max_reserved: int | str | None = None,
    max_growth: str | int | None = None,
    max_imbalance: str | int | None = None,
    stages: Mapping[str, int | str] | None = None,
    fail_on: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    budget: PathLike | None = None,
) -> Verdict:
    """Check a run: is each rank within its budget, and are they alike enough?

    For each budget the verdict lists every rank that exceeds it; if none does, the rank that comes
    closest to it. Budgets for categories or for a card cannot be checked on a run.

    Args:
        loaded: from ``load_run()``.
        base: another run, to compare with rank by rank.
        max_peak: the most allocated bytes of each rank, as in ``check()``.
        max_reserved: the most reserved bytes of each rank, as in ``check()``.
        max_growth: how much higher than in ``base`` the peak of a rank may be: ``2%`` or a size.
        max_imbalance: how much higher than the median of all ranks the peak of one may be.
        stages: the most allocated bytes inside stages, by name or glob.
        fail_on, ignore, budget: as in ``check()``.

    Raises:
        BudgetError: a budget is not well-formed, or there is nothing to compare it with.
    """
    said: dict[str, Any] = {
        "max_peak": max_peak,
        "max_reserved": max_reserved,
        "max_growth": max_growth,
        "max_imbalance": max_imbalance,
        "stages": stages,
        "fail_on": fail_on,
        "ignore": list(ignore) or None,
    }
    wanted = read_wanted(said, budget)
    if wanted.max_growth is not None and base is None:
        raise BudgetError("max_growth needs another run to compare with; pass it as base.")
    rows = _rows(loaded)
    checks = [*_checks(rows, wanted, base)]
    raised, ignored = sort_raised(_findings(rows), wanted)
    run = loaded.run
    return Verdict(
        source=Source(run.title or "the run", sum(each.size for each in run.ranks), ""),
        devices=(f"{plural(len(rows), 'device')} of {plural(len(run.ranks), 'file')}",),
        budget=None if budget is None else str(Path(budget)),
        fail_on=wanted.fail_on,
        checks=tuple(checks),
        findings=raised,
        ignored=ignored,
        comparisons=(),
        forecast=run.forecast,
    )


def _findings(rows: Sequence[Row]) -> list[Raised]:
    """Return each kind of finding once, in the words of the first rank that has it."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for row in rows:
        for each in row[1].findings:
            found.setdefault((each.code, each.severity), []).append((_name(*row), each.title))
    raised = []
    for row in rows:
        for each in row[1].findings:
            of = found.pop((each.code, each.severity), None)
            if of is None:
                continue
            names = dict.fromkeys(name for name, _ in of)
            more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
            finding = Finding(each.code, each.severity, each.title, "")
            raised.append(Raised(next(iter(names)) + more, finding, False))
    return raised


def _checks(rows: Sequence[Row], wanted: Budget, base: LoadedRun | None) -> Iterator[Check]:
    if wanted.max_peak is not None:
        yield from _failed_or_closest(_peaks("max-peak", rows, wanted.max_peak))
    if wanted.max_reserved is not None:
        yield from _failed_or_closest(_peaks("max-reserved", rows, wanted.max_reserved))
    for name, limit in wanted.stages.items():
        yield from _failed_or_closest(_stages(rows, name, limit))
    if wanted.max_imbalance is not None:
        yield from _failed_or_closest(_imbalances(rows, wanted.max_imbalance))
    if wanted.max_growth is not None and base is not None:
        yield from _failed_or_closest(_growths(rows, base, wanted.max_growth))
    for name, limit in wanted.categories.items():
        yield Check.unknown("max-category", name, _WHOLE, f"Category {name!r}", _SINGLE, limit)
    if wanted.fits is not None:
        yield Check.unknown("fits", wanted.fits.card.name, _WHOLE, "Whether it fits", _SINGLE)


def _failed_or_closest(checks: Iterator[Check]) -> list[Check]:
    """Return the checks that failed; if none did, the one closest to its limit."""
    found = list(checks)
    failed = [each for each in found if not each.passed]
    return failed or sorted(found, key=lambda each: -(each.over or 0))[:1]


def _peaks(name: str, rows: Sequence[Row], limit: int) -> Iterator[Check]:
    reserved = name == "max-reserved"
    what = f"The peak of {'reserved' if reserved else 'allocated'} memory"
    for rank, device in rows:
        value = device.reserved if reserved else device.allocated
        who = _name(rank, device)
        if value is None:
            reason = "no allocator reserved memory in this file"
            yield Check.unknown(name, "", who, what, reason, limit)
            continue
        width = 0 if reserved else device.allocated_width
        if value <= limit < value + width:
            yield Check.unknown(name, "", who, what, "block sizes are known within a range", limit)
            continue
        event = None if reserved else device.peak_event
        yield Check.judged(
            name, "", who, value, limit, budget_text(what, value, limit), event=event
        )


def _stages(rows: Sequence[Row], name: str, limit: int) -> Iterator[Check]:
    fits = compile_glob(name)
    what = f"The peak inside stage {name!r}"
    for rank, device in rows:
        peaks = [
            each.bytes for each in device.holders if each.kind == "stage" and fits(each.key)
        ]  # fmt: skip
        if peaks:
            text = budget_text(what, max(peaks), limit)
            yield Check.judged("max-stage", name, _name(rank, device), max(peaks), limit, text)
        else:
            reason = "the recording has no such stage"
            yield Check.unknown("max-stage", name, _name(rank, device), what, reason, limit)


def _imbalances(rows: Sequence[Row], growth: Growth) -> Iterator[Check]:
    peaks: dict[tuple[str, int | None], list[int]] = {}
    for rank, device in rows:
        peaks.setdefault((device.kind, rank.name.dump), []).append(device.allocated)
    for rank, device in rows:
        middle = round(median(peaks[device.kind, rank.name.dump]))
        limit, value = growth.above(middle), device.allocated
        apart = f"{format_bytes(abs(value - middle))} {'above' if value > middle else 'below'}"
        where = "equal to" if value == middle else apart
        text = (
            f"The peak is {format_bytes(value)}, {where} the median of the ranks"
            f" ({format_bytes(middle)}); {format_bytes(limit - middle)} above it is allowed."
        )
        who = _name(rank, device)
        yield Check.judged("max-imbalance", "", who, value, limit, text, base=middle)


def _growths(rows: Sequence[Row], base: LoadedRun, growth: Growth) -> Iterator[Check]:
    before = {_key(*row): row[1].allocated for row in _rows(base)}
    for rank, device in rows:
        who, value = _name(rank, device), device.allocated
        was = before.get(_key(rank, device))
        if was is None:
            reason = "the other run has no such rank"
            yield Check.unknown("max-growth", "", who, "The growth of the peak", reason)
            continue
        limit = growth.above(was)
        text = growth_text(value, was, limit)
        yield Check.judged("max-growth", "", who, value, limit, text, base=was)


def _rows(loaded: LoadedRun) -> list[Row]:
    """Return the GPUs of all ranks, or where a rank has none, its other devices."""
    rows = []
    for rank in loaded.run.ranks:
        cards = [device for device in rank.devices if device.kind == "cuda"]
        rows += [(rank, device) for device in cards or rank.devices]
    return rows


def _key(rank: RankFacts, device: DeviceFacts) -> tuple[object, ...]:
    name = rank.name
    return (name.rank, name.dump, "" if name.rank is not None else rank.source, device.device)


def _name(rank: RankFacts, device: DeviceFacts) -> str:
    return rank.label if len(rank.devices) == 1 else f"{rank.label} {device.device}"

"""Check a snapshot against budgets, findings and another snapshot: ``check()``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from snapreport.api.comparison import diff, load_pair
from snapreport.api.device import Device
from snapreport.api.loading import PathLike, Snapshot, loaded
from snapreport.diagnosis.compare.diff_types import Diff
from snapreport.diagnosis.compare.gate import (
    Budget,
    Check,
    Growth,
    Raised,
    Verdict,
    budget_text,
    growth_text,
    merge,
)
from snapreport.diagnosis.compare.gate import Outcome as GateOutcome
from snapreport.diagnosis.recording_warnings import file_warnings
from snapreport.figures.callsites import find_sites
from snapreport.figures.moments import find_stage
from snapreport.ground.cards import CardWanted
from snapreport.ground.errors import BudgetError, DeviceError, MomentError
from snapreport.ground.native.columns import sum_live
from snapreport.ground.patterns import compile_glob
from snapreport.ground.progress import Progress, silent
from snapreport.ground.stores import as_path
from snapreport.ground.units import format_bytes
from snapreport.model.answers import FitOutcome
from snapreport.model.diagnoses import SEVERITIES, Finding
from snapreport.model.findings import CallSite, StageUse
from snapreport.model.forecasts import headline_of, peak_range
from snapreport.model.roles import Rule
from snapreport.read import has_budget, read_budget
from snapreport.roles.stack_kinds import DEFAULT_RULES

_CALLER = "check()"
_NO_HISTORY = (
    "the snapshot has no history, only its final state; call"
    " torch.cuda.memory._record_memory_history() before the work"
)
_FIT_OUTCOMES: dict[FitOutcome, GateOutcome] = {
    "fits": "passed",
    "replayed": "passed",
    "depends": "failed",
    "short": "failed",
    "cannot": "failed",
    "unknown": "unknown",
}


def check(
    snapshot: PathLike | Snapshot,
    *,
    base: PathLike | Snapshot | None = None,
    device: str | int | None = None,
    max_peak: int | str | None = None,
    max_reserved: int | str | None = None,
    max_growth: str | int | None = None,
    stages: Mapping[str, int | str] | None = None,
    categories: Mapping[str, int | str] | None = None,
    fits: str | None = None,
    allow: int | str | None = None,
    fail_on: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    budget: PathLike | None = None,
    rules: Sequence[Rule] | None = None,
    keep_paths: bool = False,
    progress: Progress = silent,
) -> Verdict:
    """Check that a snapshot is within its budget and has no findings that fail the check.

    Arguments override the budget file; the ``ignore`` of both counts.

    Args:
        snapshot: the path of a snapshot or bundle, or a ``Snapshot`` from ``load()``.
        base: another one to compare with.
        device: only this one; None for every GPU that was used.
        max_peak: the most allocated bytes at the peak of each device: a number, a text such as
            ``40GiB``, or ``none`` to lift the file's limit.
        max_reserved: the most reserved bytes, in the same form.
        max_growth: how far the peak may be above that of ``base``: ``2%`` or a size.
        stages: the most allocated bytes inside stages, by name or glob.
        categories: the most allocated bytes of categories, by name.
        fits: a card on which each device has to fit under the recorded settings, ``h100-80`` or a
            size such as ``24GB``; ``none`` to lift the file's.
        allow: the part of the card that PyTorch's allocator cannot use; None for the file's, else
            what was measured while recording, else the usual amount.
        fail_on: ids, codes, topics and severities of findings that fail the check; None for those
            in the file, else ``critical``. A severity includes all worse ones.
        ignore: ids, codes and topics of findings that do not fail it.
        budget: a TOML file with the same names, or a pyproject.toml with them in the table
            ``[tool.snapreport.check]``.
        rules: for categories, as from ``load_rules()``; None for the built-in ones.
        keep_paths: of files, as in ``load()``.
        progress: called with what is being done.

    Raises:
        SnapreportError: as ``load()``; BudgetError if a budget is malformed or a growth has
            nothing to compare with, DeviceError if there is no such device.
    """
    said = {
        "max_peak": max_peak,
        "max_reserved": max_reserved,
        "max_growth": max_growth,
        "stages": stages,
        "categories": categories,
        "fits": fits,
        "allow": allow,
        "fail_on": fail_on,
        "ignore": ignore or None,
        "device": device,
    }
    wanted = read_wanted(said, budget)
    other = base if base is not None else wanted.base
    if wanted.max_growth is not None and other is None:
        raise BudgetError("max_growth needs another snapshot to compare with; name it as base.")

    reference = None
    if other is None:
        file = loaded(snapshot, keep_paths, progress)
    else:
        reference, file = load_pair(other, snapshot, keep_paths, progress)
    progress("Checking", None)
    devices = _devices(file, wanted.device)
    checks: list[Check] = []
    comparisons: list[Diff] = []
    for each in devices:
        checks += _Checker(each, wanted, rules).checks()
        if reference is not None:
            checks += _compare(each, file, reference, wanted.max_growth, rules, comparisons)
    found = [Raised("", finding, False) for finding in file_warnings(file.history)]
    for each in devices:
        found += [Raised(each.name, one, False) for one in each.diagnosis.findings]
    raised, ignored = sort_raised(found, wanted)
    return Verdict(
        source=file.history.source,
        devices=tuple(each.name for each in devices),
        budget=None if budget is None else str(budget),
        fail_on=wanted.fail_on,
        checks=tuple(checks),
        findings=raised,
        ignored=ignored,
        comparisons=tuple(comparisons),
        forecast=headline_of(file.history.recorder),
    )


def find_budget(folder: Path) -> Path | None:
    """Return the nearest pyproject.toml, from a folder upward, if it has budgets.

    Args:
        folder: where to start; if the file is in it, the path returned is relative to it.
    """
    for each in (folder, *folder.parents):
        path = each / "pyproject.toml"
        try:
            found = has_budget(path)
        except OSError:
            continue
        if not found:
            return None
        return path.relative_to(folder) if each == folder else path
    return None


def read_wanted(said: Mapping[str, Any], path: PathLike | None) -> Budget:
    """Read a budget from a file, and override it with the caller's arguments.

    Raises:
        BudgetError: one of them is malformed.
    """
    Budget.of(said, _CALLER)
    written = {} if path is None else read_budget(as_path(path))
    where = _CALLER if path is None else str(path)
    Budget.of(written, where)  # so that an error names the file
    merged = merge(written, said)
    if merged.get("allow") is not None and merged.get("fits") is None:
        raise BudgetError("an allowance needs a card; name one that the peak has to fit on.")
    return Budget.of(merged, where)


def _devices(file: Snapshot, wanted: str | None) -> list[Device]:
    """Return the named device, else every GPU in use, else the one that a report opens with."""
    if wanted is not None:
        return [file.device(wanted)]
    used = [
        each.device for each in file.devices
        if each.device.on_card and (each.events or len(each.allocations))
    ]  # fmt: skip
    return [file.device(str(each)) for each in used] or [file.device()]


class _Checker:
    """Checks one device against the budgets that are sizes."""

    def __init__(self, device: Device, budget: Budget, rules: Sequence[Rule] | None) -> None:
        self.device, self.budget, self.rules = device, budget, rules
        self.figures = device.figures

    def checks(self) -> Iterator[Check]:
        budget = self.budget
        if budget.max_peak is not None:
            yield self._curve("max-peak", "The peak of allocated memory", budget.max_peak)
        if budget.max_reserved is not None:
            yield self._curve("max-reserved", "The peak of reserved memory", budget.max_reserved)
        for name, limit in budget.stages.items():
            yield self._stage(name, limit)
        for name, limit in budget.categories.items():
            yield self._category(name, limit)
        if budget.fits is not None:
            yield self._fit(budget.fits)

    def _curve(self, name: str, what: str, limit: int) -> Check:
        curve = "reserved" if name == "max-reserved" else "allocated"
        peak = self.figures.peaks.get(curve)
        if peak is None:
            why = (
                "segment events are missing from the recording"
                if curve in self.figures.curves
                else "no allocator reserved memory in this file"
            )
            return self._unknown(name, "", what, why, limit)
        width, forecast = peak.width, self.device.file.forecast
        if forecast is not None:
            width += peak_range(forecast, self.device.name, 0).most
        return self._checked(name, "", what, peak.bytes, limit, peak.event, width=width)

    def _fit(self, wanted: CardWanted) -> Check:
        fit = self.device.fits_wanted(wanted)
        value, event, limit = fit.reserved, fit.reserved_event, fit.room
        if fit.outcome == "cannot":
            value, event, limit = fit.live, fit.live_event, fit.bytes - fit.allowance.least
        elif fit.replayed is not None:
            short = fit.outcome == "short"
            value, event = fit.replayed.least if short else fit.replayed.most, fit.live_event
        outcome, sites = _FIT_OUTCOMES[fit.outcome], self._sites(event)
        return Check(
            "fits", fit.card, self.device.name, outcome, value, limit, None, event, fit.text, sites
        )

    def _stage(self, name: str, limit: int) -> Check:
        what = f"The peak inside stage {name!r}"
        try:
            stage = self._find_stage(name)
        except MomentError as error:
            return self._unknown("max-stage", name, what, str(error), limit)
        if stage.peak_bytes is None or stage.peak_event is None:
            reason = "its events are not in the recording"
            return self._unknown("max-stage", name, what, reason, limit)
        if any(letter in name for letter in "*?"):
            what = f"The peak inside stages {name!r}, in {stage.name!r},"
        extra = "The recording holds only part of this stage." if stage.cut else ""
        event = stage.peak_event
        return self._checked("max-stage", name, what, stage.peak_bytes, limit, event, extra=extra)

    def _find_stage(self, name: str) -> StageUse:
        """Return the stage with the highest peak of those that a name or glob matches."""
        stages = self.figures.stages
        fits_name = compile_glob(name)
        fits = [each for each in stages if fits_name(each.name)]
        if fits and name not in {each.name for each in stages}:
            return max(fits, key=lambda each: each.peak_bytes or 0)
        return stages[find_stage(stages, name)]

    def _category(self, name: str, limit: int) -> Check:
        device, what = self.device, f"The most that category {name!r} holds"
        number, categories = device.categories(self.rules)
        names = [each.name for each in categories]
        if name not in names:
            chosen = DEFAULT_RULES if self.rules is None else self.rules
            known = list(dict.fromkeys([*names, *(each.category for each in chosen), "unknown"]))
            if name not in known:
                reason = f"there is no such category; there are {', '.join(sorted(known))}"
                return self._unknown("max-category", name, what, reason, limit)
            return self._checked("max-category", name, what, 0, limit, None)
        among = number == names.index(name)
        rows = device.allocations
        held = sum_live(
            rows.block_size[among],
            rows.alloc_event[among],
            rows.free_requested_event[among],
            device.events,
        )
        event = int(held.argmax()) - 1
        check = self._checked("max-category", name, what, int(held.max()), limit, event)
        sites = find_sites(device.history, device.file.stacks, event, among)
        return replace(check, sites=sites)

    def _checked(
        self,
        name: str,
        subject: str,
        what: str,
        value: int,
        limit: int,
        event: int | None,
        *,
        width: int = 0,
        extra: str = "",
    ) -> Check:
        if not self.figures.recorded and value <= limit:
            return self._unknown(name, subject, what, _NO_HISTORY, limit)
        notes = [extra] if extra else []
        if value <= limit < value + width:
            notes.append(
                f"It may be up to {format_bytes(value + width)}, which is over the budget."
            )
        found = self.device.diagnosis.findings
        if value <= limit and any(each.code == "ring-overflowed" for each in found):
            notes.append(
                "The oldest events were overwritten, so it may have been higher before the"
                " recording begins."
            )
        text = budget_text(what, value, limit, " ".join(notes))
        device, sites = self.device.name, self._sites(event)
        return Check.judged(name, subject, device, value, limit, text, event=event, sites=sites)

    def _unknown(self, name: str, subject: str, what: str, reason: str, limit: int) -> Check:
        return Check.unknown(name, subject, self.device.name, what, reason, limit)

    def _sites(self, event: int | None) -> tuple[CallSite, ...]:
        device = self.device
        return () if event is None else find_sites(device.history, device.file.stacks, event)


def _compare(
    device: Device,
    file: Snapshot,
    reference: Snapshot,
    growth: Growth | None,
    rules: Sequence[Rule] | None,
    comparisons: list[Diff],
) -> Iterator[Check]:
    """Compare a device with its counterpart in the other file; keep the comparison."""
    unknown = partial(Check.unknown, "max-growth", "", device.name, "The growth of the peak")
    try:
        partner = _partner(device, file, reference)
        found = diff(reference, file, device=partner, new_device=device.name, rules=rules)
    except DeviceError as error:
        if growth is not None:
            yield unknown(str(error))
        return
    comparisons.append(found)
    if growth is None:
        return
    for side, name in ((found.base, "the other snapshot"), (found.new, "the snapshot")):
        if not side.figures.recorded:
            yield unknown(_NO_HISTORY.replace("the snapshot", name, 1))
            return
    value, before = found.new.bytes, found.base.bytes
    limit = growth.above(before)
    text = growth_text(value, before, limit)
    yield Check.judged(
        "max-growth", "", device.name, value, limit, text,
        base=before, event=found.new.event, changes=found.sites,
    )  # fmt: skip


def _partner(device: Device, file: Snapshot, reference: Snapshot) -> str:
    """Name the device to compare with: the same one or, if each file has one GPU, that GPU."""
    names = [each.name for each in _devices(reference, None)]
    if device.name not in names and len(names) == 1 and len(_devices(file, None)) == 1:
        return names[0]
    return device.name


def sort_raised(
    found: Sequence[Raised], budget: Budget
) -> tuple[tuple[Raised, ...], tuple[Raised, ...]]:
    """Mark the findings that fail the check and put them first; separate the ignored ones."""
    kept, ignored = [], []
    for each in found:
        finding = each.finding
        if any(map(finding.is_named_by, budget.ignore)):
            ignored.append(each)
            continue
        fails = any(_names(finding, name) for name in budget.fail_on)
        kept.append(Raised(each.device, finding, fails))
    kept.sort(key=lambda each: (not each.fails, SEVERITIES.index(each.finding.severity)))
    return tuple(kept), tuple(ignored)


def _names(finding: Finding, name: str) -> bool:
    if name in SEVERITIES:
        return SEVERITIES.index(finding.severity) <= SEVERITIES.index(name)
    return finding.is_named_by(name)

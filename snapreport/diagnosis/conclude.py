"""Draw all conclusions about a history that a reporter prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np

from snapreport.diagnosis.allocator_use import find_allocator_faults
from snapreport.diagnosis.answer import reserved_sentences, write_answer
from snapreport.diagnosis.card_fit import fit_card
from snapreport.diagnosis.churn import find_churn
from snapreport.diagnosis.growth import find_growth
from snapreport.diagnosis.oom.finding import cpu_oom_finding, cpu_request_words, oom_findings
from snapreport.diagnosis.peak import peak_finding
from snapreport.diagnosis.recording_mistakes import recorded
from snapreport.diagnosis.recording_warnings import (
    device_warnings,
    file_warnings,
    find_closing,
    find_ooms,
)
from snapreport.diagnosis.trust import judge_recording, own_counters
from snapreport.figures.allocator.factual import model_device
from snapreport.figures.allocator.settings import is_quick, study_settings
from snapreport.figures.callsites import find_call_tree, find_site_frames, find_sites
from snapreport.figures.curves import (
    event_times,
    find_amounts,
    find_curves,
    find_peaks,
)
from snapreport.figures.grouping import own_labels
from snapreport.figures.moments import first_time
from snapreport.figures.segments import allocator_of
from snapreport.figures.uses import (
    allocation_statistics,
    curves_statistics,
    find_role_use,
    find_stage_use,
    find_steps,
)
from snapreport.ground.cards import CardWanted
from snapreport.ground.later import changed, later
from snapreport.ground.progress import Progress, silent
from snapreport.ground.units import format_bytes
from snapreport.history.allocator_settings import large_page
from snapreport.history.segments import reserved_changes
from snapreport.model.asked import Question
from snapreport.model.diagnoses import (
    Diagnosis,
    Figure,
    Finding,
    Suggestion,
    by_severity,
    in_order,
    silence,
)
from snapreport.model.findings import (
    DeviceFigures,
    DeviceFindings,
    Findings,
)
from snapreport.model.forecasts import forecast_words
from snapreport.model.history import START, DeviceHistory, History
from snapreport.model.replays import SettingsStudy
from snapreport.model.roles import Rule
from snapreport.model.snapshot import OTHER_CARDS, Failure
from snapreport.roles.frames import site_frames, tree_frames, tree_kinds
from snapreport.roles.lifetimes import find_roles
from snapreport.roles.stack_kinds import classify, missing_reason


def find(
    history: History,
    figures: Sequence[DeviceFigures] | None = None,
    title: str = "",
    notes: str = "",
    colour: str | None = None,
    ignore: Sequence[str] = (),
    card: CardWanted | None = None,
    allocator: bool | None = None,
    progress: Progress = silent,
    known: dict[DeviceFigures, Diagnosis] | None = None,
) -> Findings:
    """Return all conclusions about a file, or about some of its devices.

    Args:
        history: the file.
        figures: of the devices to show; None for all devices of the file.
        title: of the report; if empty, the history's title.
        notes: the user's Markdown; if empty, the notes given when recording.
        colour: what the page's timeline is coloured by at first; None for what tells the most.
        ignore: ids, codes or topics of findings to leave out.
        card: the card on which every used GPU is to fit.
        allocator: True to compare allocator settings, False to do so only if that is quick, None
            for not at all.
        progress: called with what takes long.
        known: diagnoses that were made before; those made now are put in.
    """
    known = {} if known is None else known
    if figures is None:
        figures = [find_figures(history, place) for place in range(len(history.devices))]
    studied = {} if allocator is None else _study(history, figures, allocator, progress)
    noted = history.recorder
    opens = history.devices[history.default_device] if history.devices else None
    default = next((i for i, each in enumerate(figures) if each.history is opens), 0)
    return Findings(
        history=history,
        title=title or history.title,
        notes=notes or (noted.notes if noted else ""),
        frame_kinds=later(lambda: tree_kinds(history.stacks)),
        stack_sites=find_site_frames(history.stacks),
        site_frames=site_frames(history.stacks),
        tree_frames=later(lambda: tree_frames(history.stacks)),
        devices=tuple(_conclude(history, each, ignore, card, studied, known) for each in figures),
        default=default,
        settings=history.settings,
        colour=colour or later(lambda: _telling_colour(figures[default] if figures else None)),
        warnings=silence(
            by_severity([*file_warnings(history), *find_uneven_split(figures)]), ignore
        )[0],
    )


def _conclude(
    tables: History,
    device: DeviceFigures,
    ignore: Sequence[str],
    card: CardWanted | None,
    studied: Mapping[DeviceFigures, SettingsStudy],
    known: dict[DeviceFigures, Diagnosis],
) -> DeviceFindings:
    cards = any(each.device.on_card for each in tables.devices if len(each.allocations))
    used = device.device.on_card or not cards
    page = large_page(tables.settings, device.history)
    return DeviceFindings(
        **vars(device),
        allocator=later(lambda: replace(allocator_of(device), large_page=page)),
        diagnosis=later(lambda: diagnose(device, tables, known).without(ignore)),
        trust=judge_recording(tables, device),
        card=fit_card(tables, device, card)
        if card and used and len(device.history.allocations)
        else None,
        settings=studied.get(device),
        labels=later(lambda: own_labels(tables, device.history)),
    )


def _study(
    tables: History, figures: Sequence[DeviceFigures], allocator: bool, progress: Progress
) -> dict[DeviceFigures, SettingsStudy]:
    """Study other allocator settings for each device that can be replayed."""
    found = {each: model_device(tables, each.history) for each in figures}
    modelled = {each: one for each, one in found.items() if one is not None}
    compare = allocator or is_quick(list(modelled.values()))
    return {
        each: study_settings(one, compare=compare, progress=progress)
        for each, one in modelled.items()
    }


_MOST_SHARE = 0.9
"""Of the peak: so much must have a known role, and no role may have so much."""


def _telling_colour(device: DeviceFigures | None) -> str:
    """Choose what a timeline is coloured by: roles where they tell more than call sites do.

    A model has so many call sites that each is a thin stripe. But where nearly all is of one role,
    one colour would tell nothing.
    """
    held = device.held_by_role if device is not None else ()
    known = [each.bytes for each in held if each.role != "unknown"]
    most_of_it = _MOST_SHARE * sum(each.bytes for each in held)
    return "role" if sum(known) >= most_of_it > max(known, default=0) else "site"


def find_figures(
    tables: History, device: int, rules: Sequence[Rule] | None = None
) -> DeviceFigures:
    """Work out the figures of one device, without its diagnosis.

    Args:
        device: its position in ``tables.devices``.
        rules: for categories; None for the built-in ones.
    """
    history = tables.devices[device]
    reserves = tables.layout != "profiler"
    curves = find_curves(history, reserves)
    times = event_times(history)
    peaks = find_peaks(history, curves, times)
    # Without a usable history only the state after the last event is known.
    event = peaks["allocated"].event if recorded(history, tables) else history.events - 1
    start = find_amounts(history, curves, times, START)
    peak = find_amounts(history, curves, times, event)
    ooms = find_ooms(history, curves)
    closing = find_closing(history, curves, tables.layout != "no-segments")
    sites = find_sites(history, tables.stacks, event)
    stages = find_stage_use(history, curves, times)
    steps = find_steps(history, tables, curves["allocated"])
    none = np.empty(0, np.int64)
    known = "reserved" in curves
    reserved_events, reserved_bytes = reserved_changes(history) if known else (none, none)
    classified = cache(lambda: classify(tables, history, rules))
    roles = partial(find_roles, history, tables)
    figures = DeviceFigures(
        history=history,
        recorded=recorded(history, tables),
        first_time_us=first_time(times),
        last_time_us=first_time(times[::-1]),
        start=start,
        peak=peak,
        end=find_amounts(history, curves, times, history.events - 1),
        peaks=peaks,
        over_time=later(lambda: curves_statistics({"": curves["allocated"]}, times)[""]),
        statistics=later(lambda: curves_statistics(curves.known(), times)),
        sizes=allocation_statistics(history),
        curves=curves,
        reserved_from=curves.reserved_from,
        times=times,
        reserved_events=reserved_events,
        reserved_bytes=reserved_bytes,
        category=later(lambda: classified()[0]),
        categories=later(lambda: classified()[1]),
        roles=later(roles),
        held_by_role=later(lambda: find_role_use(history, roles(), event)),
        missing=missing_reason(history, tables.stacks),
        tree=later(
            lambda: find_call_tree(
                history, tables.stacks, Question(alive=(event, event)), folded=True
            )
        ),
        sites=sites,
        stages=stages,
        steps=steps,
        ooms=ooms,
        closing=closing,
        own_counters=own_counters(tables.noted(history.device), peaks)
        if tables.forecast is None
        else None,  # they were asked of a card that is not there
        inferred_blocks=int(
            (history.allocations.block_size_max > history.allocations.block_size).sum()
        ),
        answer=_ended(history, tables)
        + write_answer(
            peak,
            history.events,
            sites,
            stages,
            steps,
            ooms,
            recorded(history, tables),
            forecast=tables.forecast is not None,
        ),
        warnings=device_warnings(history, tables, curves, ooms, closing, peaks["allocated"], roles),
    )
    unused = reserved_sentences(tables, figures)
    if not unused:
        return figures
    # Not replace(), which would ask for all that is worked out later.
    return DeviceFigures(**vars(figures) | {"answer": f"{figures.answer} {unused}"})


def _ended(history: DeviceHistory, tables: History) -> str:
    """Return the answer's first sentence on the CPU: the request that ended the program, if any."""
    failed = None if tables.recorder is None else tables.recorder.cpu_failure
    if failed is None or history.device.kind != "cpu":
        return ""
    return f"The program ran out of memory: {cpu_request_words(failed)}. "


# What is found about a device, the worst first.


def diagnose(
    device: DeviceFigures, tables: History, known: dict[DeviceFigures, Diagnosis]
) -> Diagnosis:
    """Return everything found about a device, which is kept among what is known.

    A diagnosis keeps its device in use, so that the two cannot be in a cache of all files.
    """
    if device not in known:
        found = _find_all(tables, device)
        known[device] = Diagnosis(_in_its_words(tables, device, found))
    return known[device]


def _in_its_words(
    tables: History, device: DeviceFigures, findings: Iterable[Finding]
) -> tuple[Finding, ...]:
    """Put findings in order and in the words of the device's backend, or of a forecast."""
    found = _each_change_once(in_order(findings))
    kind = device.history.device.kind
    if tables.forecast is not None:
        return tuple(map(in_words_of_forecast, found))
    if kind in OTHER_CARDS:
        return tuple(_in_words_of(kind, each) for each in found)
    return tuple(found)


def _each_change_once(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Leave a suggestion to the first of the findings that make it, in the very same words."""
    before: list[Finding] = []
    for finding in findings:
        yield changed(finding, suggestions=later(partial(_not_said, finding, tuple(before))))
        before.append(finding)


def _not_said(finding: Finding, before: Iterable[Finding]) -> tuple[Suggestion, ...]:
    said = {suggestion for each in before for suggestion in each.suggestions}
    return tuple(each for each in finding.suggestions if each not in said)


def _in_words_of(kind: str, finding: Finding) -> Finding:
    """Name another backend's modules and settings in place of CUDA's."""

    def put(text: str) -> str:
        return text.replace("torch.cuda.", f"torch.{kind}.").replace(
            "PYTORCH_CUDA_ALLOC_CONF", f"PYTORCH_{kind.upper()}_ALLOC_CONF"
        )

    def suggestions() -> tuple[Suggestion, ...]:
        return tuple(
            replace(each, text=put(each.text), change=put(each.change))
            for each in finding.suggestions
        )

    explanation = later(lambda: put(finding.explanation))
    return changed(finding, explanation=explanation, suggestions=later(suggestions))


def in_words_of_forecast(finding: Finding) -> Finding:
    """Say of a run that has not happened that it would, and call it a forecast."""
    figures = tuple(
        replace(each, label=forecast_words(each.label), meaning=forecast_words(each.meaning))
        for each in finding.evidence
    )

    def suggestions() -> tuple[Suggestion, ...]:
        return tuple(replace(each, text=forecast_words(each.text)) for each in finding.suggestions)

    return changed(
        finding,
        title=forecast_words(finding.title),
        explanation=later(lambda: forecast_words(finding.explanation)),
        evidence=figures,
        suggestions=later(suggestions),
    )


def _find_all(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    yield from find_memory(tables, device)
    # The warnings that are also in a bundle's manifest; a failed request has a verdict instead.
    yield from (warning for warning in device.warnings if warning.code != "oom")
    yield from find_growth(tables, device)
    yield from find_churn(tables, device)
    yield from find_allocator_faults(tables, device)


def _cpu_failure(tables: History, device: DeviceFigures) -> Failure | None:
    failed = None if tables.recorder is None else tables.recorder.cpu_failure
    return failed if device.history.device.kind == "cpu" else None


def find_memory(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    """Yield a verdict for each place at which requests failed, or else what held the peak."""
    failed = _cpu_failure(tables, device)
    if device.ooms:
        yield from oom_findings(tables, device)
    elif failed is not None:
        yield cpu_oom_finding(tables, device, failed)
    elif device.peak.allocated:
        yield peak_finding(tables, device)


# One device of a program that holds far more than the others.


_UNEVEN = 1.5
"""The fullest device must hold at least this many times the mean."""
_MATTERS = 1 << 30
"""The fullest device must exceed the mean by this many bytes: less is not worth another split."""


def find_uneven_split(figures: Sequence[DeviceFigures]) -> Iterator[Finding]:
    """Yield the finding that a program's memory is spread unevenly over its devices.

    Args:
        figures: of the devices to compare; CPUs and devices that hold nothing are left out.
    """
    used = [
        each
        for each in figures
        if each.recorded and each.history.device.kind != "cpu" and each.peak.allocated
    ]
    if len(used) < 2:
        return
    fullest = max(used, key=lambda each: each.peak.allocated)
    top = fullest.peak.allocated
    mean = sum(each.peak.allocated for each in used) // len(used)
    if top < _UNEVEN * mean or top - mean < _MATTERS:
        return
    name = str(fullest.device)
    yield Finding(
        "uneven-split",
        "warning" if fullest.ooms else "note",
        f"{name} peaked at {format_bytes(top)}, {top / mean:.1f} times the mean of the"
        f" {len(used)} devices",
        "The devices of one program fill up unevenly, and the fullest sets the limit for all."
        + (" A request for memory failed on it." if fullest.ooms else ""),
        evidence=(
            Figure("mean of the peaks", mean),
            *(Figure(f"peak of {each.device}", each.peak.allocated) for each in used),
        ),
        suggestions=(
            Suggestion(
                "split-evenly",
                f"Move layers, experts or samples from {name} to the others. If all of it could be"
                f" split evenly, each device would hold {format_bytes(mean)}.",
                unless="Not possible where the devices have different tasks on purpose.",
            ),
        ),
        bytes=top - mean,
    )

"""Draw all conclusions about a history that a reporter prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from snapreport.allocator.factual import model_device
from snapreport.allocator.settings_study import is_quick, study_settings
from snapreport.diagnosis.answer import reserved_sentences, write_answer
from snapreport.diagnosis.card_fitting.card_fit_measure import fit_card
from snapreport.diagnosis.collect import diagnose
from snapreport.diagnosis.device_split import find_uneven_split
from snapreport.diagnosis.oom.cpu_oom import cpu_request_words
from snapreport.diagnosis.trust.pytorch_counters import own_counters
from snapreport.diagnosis.trust.recording_mistakes import recorded
from snapreport.diagnosis.trust.recording_warnings import device_warnings, file_warnings
from snapreport.diagnosis.trust.self_checks import find_closing, find_ooms
from snapreport.diagnosis.trust.trust_checks import judge_recording
from snapreport.figures.amounts import find_amounts
from snapreport.figures.callsites import find_site_frames, find_sites
from snapreport.figures.curves import (
    event_times,
    find_curves,
    find_peaks,
    known_curves,
    reserved_from,
)
from snapreport.figures.fragmentation import allocator_of
from snapreport.figures.grouping import own_labels
from snapreport.figures.moment_lookup import first_time
from snapreport.figures.role_use import find_role_use
from snapreport.figures.stage_use import find_stage_use
from snapreport.figures.statistics import allocation_statistics, curves_statistics
from snapreport.figures.step_use import find_steps
from snapreport.figures.trees.calltree import find_call_tree
from snapreport.frames.categories import classify
from snapreport.frames.missing_stacks import missing_reason
from snapreport.frames.site_names import site_frames, tree_frames, tree_kinds
from snapreport.ground.cards.card_lookup import CardWanted
from snapreport.ground.progress import Progress, silent
from snapreport.history.allocator_settings import large_page
from snapreport.history.segment_replay import reserved_changes
from snapreport.model.category_rules import Rule
from snapreport.model.diagnoses import by_severity, silence
from snapreport.model.findings import DeviceFigures, DeviceFindings, Findings
from snapreport.model.history import START, DeviceHistory, History
from snapreport.model.replay.replays import SettingsStudy
from snapreport.roles.lifetimes import find_roles


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
    """
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
        frame_kinds=tree_kinds(history.stacks),
        stack_sites=find_site_frames(history.stacks),
        site_frames=site_frames(history.stacks),
        tree_frames=tree_frames(history.stacks),
        devices=tuple(_conclude(history, each, ignore, card, studied) for each in figures),
        default=default,
        settings=history.settings,
        colour=colour or _telling_colour(figures[default] if figures else None),
        warnings=silence(
            by_severity([*file_warnings(history), *find_uneven_split(figures)]), ignore
        )[0],
    )


def _telling_colour(device: DeviceFigures | None) -> str:
    """Choose what a timeline is coloured by: roles where they tell more than call sites do.

    A model has so many call sites that each is a thin stripe. But where nearly all is of one role,
    one colour would tell nothing.
    """
    held = device.held_by_role if device is not None else ()
    known = [each.bytes for each in held if each.role != "unknown"]
    most_of_it = _MOST_SHARE * sum(each.bytes for each in held)
    return "role" if sum(known) >= most_of_it > max(known, default=0) else "site"


_MOST_SHARE = 0.9
"""Of the peak: so much must have a known role, and no role may have so much."""


def _conclude(
    tables: History,
    device: DeviceFigures,
    ignore: Sequence[str],
    card: CardWanted | None,
    studied: Mapping[DeviceFigures, SettingsStudy],
) -> DeviceFindings:
    cards = any(each.device.on_card for each in tables.devices if len(each.allocations))
    used = device.device.on_card or not cards
    page = large_page(tables.settings, device.history)
    return DeviceFindings(
        **vars(device),
        allocator=replace(allocator_of(device), large_page=page),
        diagnosis=diagnose(device, tables).without(tuple(ignore)),
        trust=judge_recording(tables, device),
        card=fit_card(tables, device, card)
        if card and used and len(device.history.allocations)
        else None,
        settings=studied.get(device),
        labels=own_labels(tables, device.history),
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
    stages = find_stage_use(history, curves)
    steps = find_steps(history, tables, curves["allocated"])
    none = np.empty(0, np.int64)
    known = "reserved" in curves
    reserved_events, reserved_bytes = reserved_changes(history) if known else (none, none)
    category, categories = classify(tables, history, rules)
    roles = find_roles(history, tables)
    figures = DeviceFigures(
        history=history,
        recorded=recorded(history, tables),
        first_time_us=first_time(times),
        last_time_us=first_time(times[::-1]),
        start=start,
        peak=peak,
        end=find_amounts(history, curves, times, history.events - 1),
        peaks=peaks,
        statistics=curves_statistics(known_curves(curves), times),
        sizes=allocation_statistics(history),
        curves=curves,
        reserved_from=reserved_from(curves),
        times=times,
        reserved_events=reserved_events,
        reserved_bytes=reserved_bytes,
        category=category,
        categories=categories,
        roles=roles,
        held_by_role=find_role_use(history, roles, event),
        missing=missing_reason(history, tables.stacks),
        tree=find_call_tree(history, tables.stacks, event, folded=True),
        sites=sites,
        stages=stages,
        steps=steps,
        ooms=ooms,
        closing=closing,
        own_counters=own_counters(tables.noted(history.device), peaks),
        inferred_blocks=int(
            (history.allocations.block_size_max > history.allocations.block_size).sum()
        ),
        answer=_ended(history, tables)
        + write_answer(peak, history.events, sites, stages, steps, ooms, recorded(history, tables)),
        warnings=device_warnings(
            history, tables, curves, ooms, closing, peaks["allocated"], lambda: roles
        ),
    )
    unused = reserved_sentences(tables, figures)
    return replace(figures, answer=f"{figures.answer} {unused}") if unused else figures


def _ended(history: DeviceHistory, tables: History) -> str:
    """Return the answer's first sentence on the CPU: the request that ended the program, if any."""
    failed = None if tables.recorder is None else tables.recorder.cpu_failure
    if failed is None or history.device.kind != "cpu":
        return ""
    return f"The program ran out of memory: {cpu_request_words(failed)}. "

"""Draw all conclusions about a history that a reporter prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from snapreport.diagnosis.allocator_use import find_allocator_faults
from snapreport.diagnosis.card_fit import fit_card
from snapreport.diagnosis.churn import find_churn
from snapreport.diagnosis.growth import find_growth
from snapreport.diagnosis.oom.finding import oom_findings
from snapreport.diagnosis.oom.peak import cpu_oom_finding, cpu_request_words, peak_finding
from snapreport.diagnosis.recording_mistakes import recorded
from snapreport.diagnosis.recording_warnings import device_warnings, file_warnings
from snapreport.diagnosis.trust import find_closing, find_ooms, judge_recording, own_counters
from snapreport.figures.allocator.factual import model_device
from snapreport.figures.allocator.settings import is_quick, study_settings
from snapreport.figures.callsites import find_call_tree, find_site_frames, find_sites
from snapreport.figures.curves import (
    event_times,
    find_amounts,
    find_curves,
    find_peaks,
    known_curves,
    reserved_from,
)
from snapreport.figures.grouping import own_labels
from snapreport.figures.moments import first_time
from snapreport.figures.segments import allocator_of, find_holes, heap_at, returnable_bytes
from snapreport.figures.uses import (
    allocation_statistics,
    curves_statistics,
    find_role_use,
    find_stage_use,
    find_steps,
)
from snapreport.ground.cards import CardWanted
from snapreport.ground.memoize import once_for_both
from snapreport.ground.progress import Progress, silent
from snapreport.ground.units import format_bytes, format_count, list_of, plural, rounded_share
from snapreport.history.allocator_settings import large_page
from snapreport.history.segments import reserved_changes
from snapreport.model.diagnoses import (
    Diagnosis,
    Figure,
    Finding,
    OomEvent,
    Suggestion,
    by_severity,
    in_order,
    silence,
)
from snapreport.model.findings import (
    Amounts,
    CallSite,
    DeviceFigures,
    DeviceFindings,
    Findings,
    StageUse,
)
from snapreport.model.history import START, DeviceHistory, History
from snapreport.model.replays import SettingsStudy
from snapreport.model.roles import Rule, Steps, StepUse, step_range
from snapreport.model.snapshot import OTHER_CARDS
from snapreport.roles.frames import site_frames, tree_frames, tree_kinds
from snapreport.roles.lifetimes import find_roles
from snapreport.roles.stack_kinds import classify, missing_reason

# One sentence about the program's steps: which one has the peak, and which are alike.


_WORTH_SAYING = 0.01
"""Differences below this part of the peak are not mentioned."""
_MOST_NAMED = 5
"""Up to this many numbers or ranges of steps are listed; more are only counted."""


def steps_sentence(steps: Steps) -> str:
    """Return the sentence, such as ``The peak is in step 4 of 5; steps 2 to 5 are alike, ...``."""
    return f"{_where(steps)}; {_alike(steps)}." if len(steps) > 1 else f"{_where(steps)}."


def _where(steps: Steps) -> str:
    count = format_count(len(steps))
    if steps.peak is not None:
        step = steps.steps[steps.peak - 1]
        named = f" ({step.name})" if step.name else ""
        place = f"in step {format_count(step.number)} of {count}{named}"
    elif steps.peak_before:
        place = f"before the first of {count} steps"
        if steps.as_high is not None:
            place += f" (step {format_count(steps.as_high)} gets as high)"
    else:
        place = f"after the last of {count} complete steps"
    source = ", judging by repeating allocations" if steps.source == "pattern" else ""
    return f"The peak is {place}{source}"


def _alike(steps: Steps) -> str:
    steady = steps.of_kind("steady")
    if not steady:
        return _spread(steps.steps)
    if len(steady) == len(steps):
        text = "both are alike" if len(steps) == 2 else "all are alike"
    else:
        text = f"{_which(steps)} are alike"
    top = max(step.peak_bytes for step in steps.steps)
    worth = _WORTH_SAYING * top
    more = steady[-1].start_bytes - steady[0].start_bytes
    parts = [text]
    if abs(more) >= max(worth, 1):
        parts.append(
            f"step {format_count(steady[-1].number)} begins with {format_bytes(abs(more))}"
            f" {'more' if more > 0 else 'less'} than step {format_count(steady[0].number)}"
        )
    others = [step for step in steps.steps if step.kind != "steady"]
    if len(others) == 1:
        parts.append(_apart(others[0], steady, max(worth, 1)))
    elif others:
        parts.append(f"the other {format_count(len(others))} peak at {_peaks(others)}")
    return list_of(parts, ", and ")


def _spread(steps: Sequence[StepUse]) -> str:
    """Say how much the peaks differ between steps that are not alike."""
    least, most = (pick(step.peak_bytes for step in steps) for pick in (min, max))
    if len(steps) == 2:
        lower = min(steps, key=lambda step: step.peak_bytes)
        if least < most:
            return f"step {lower.number} peaks {format_bytes(most - least)} lower"
    if least == most:
        return f"{'both' if len(steps) == 2 else 'all'} peak as high and differ otherwise"
    return f"they differ, and peak at {_peaks(steps)}"


def _apart(one: StepUse, steady: Sequence[StepUse], worth: float) -> str:
    """Say how much the peak of the only step unlike the others differs from theirs."""
    # Compare with the nearest one: where memory grows, one further away would differ by more.
    nearest = min(steady, key=lambda step: abs(step.number - one.number))
    less = nearest.peak_bytes - one.peak_bytes
    if abs(less) < worth:
        return f"step {format_count(one.number)} differs, but peaks about as high"
    far = f"{format_bytes(abs(less))} {'lower' if less > 0 else 'higher'}"
    return f"step {format_count(one.number)} peaks {far}"


def _peaks(steps: Sequence[StepUse]) -> str:
    least, most = (format_bytes(pick(step.peak_bytes for step in steps)) for pick in (min, max))
    return least if least == most else f"{least} to {most}"


def _which(steps: Steps) -> str:
    """Name the steps that are alike: by number, as all but some others, or by their count."""
    named: dict[bool, list[str]] = {True: [], False: []}
    for alike, group in groupby(steps.steps, key=lambda step: step.kind == "steady"):
        run = tuple(group)
        named[alike] += [step_range(run)] if len(run) > 2 else [step_range([one]) for one in run]
    for alike, before in ((True, ""), (False, "all but ")):
        names = named[alike]
        if len(names) <= _MOST_NAMED:
            listed = list_of(names)
            return f"{before}step{'' if names[0] == listed and ' ' not in listed else 's'} {listed}"
    return f"{format_count(len(steps.of_kind('steady')))} of them"


# One paragraph that says what held the memory at the peak.


_MANY_TIMES = 3
"""From this many times the allocated peak on, what was reserved is worth a sentence ..."""
_MUCH = 100 << 20
"""... if it is this much more: a few segments are more than a small program uses."""
_PART = 0.1
_NAMED = 3
_WORTH_NAMING = 0.01


def write_answer(
    peak: Amounts,
    events: int,
    sites: tuple[CallSite, ...],
    stages: tuple[StageUse, ...],
    steps: Steps | None,
    ooms: tuple[OomEvent, ...],
    recorded: bool,
) -> str:
    """Say in plain words what was live at the allocated peak.

    Args:
        peak: the amounts at the peak.
        events: the number of trace events.
        sites: every call site live at the peak, largest first.
        stages: the device's stages.
        steps: of the program's loop, if known.
        ooms: the device's failed requests.
        recorded: whether there is a usable trace; else the peak is the state at the end.
    """
    sentences = [_failure(oom) for oom in ooms[-1:]]
    if not peak.allocated:
        return " ".join([*sentences, "Nothing was allocated on this device."])
    sentences += [_when(peak, events, stages, recorded)]
    if steps is not None and recorded:
        sentences.append(steps_sentence(steps))
    named = [site for site in sites if site.frame is not None]
    unnamed = [site for site in sites if site.frame is None]
    held = []
    if named:
        held.append(_who(named, peak.allocated))
    if unnamed:
        held.append(_unnamed(unnamed, peak.allocated))
    if len(held) == 2 and sum(site.bytes for site in unnamed) > named[0].bytes:
        held.reverse()  # largest first
    sentences.extend(held)
    sentences.extend(_overhead(peak))
    return " ".join(sentences)


def _failure(oom: OomEvent) -> str:
    return (
        f"The program ran out of memory at event {format_count(oom.event)}: it asked for"
        f" {format_bytes(oom.size)} when the device had {format_bytes(oom.device_free)} free and"
        f" {format_bytes(oom.allocated)} were allocated."
    )


def _when(peak: Amounts, events: int, stages: tuple[StageUse, ...], recorded: bool) -> str:
    live = plural(peak.live, "allocation")
    if not recorded:
        return (
            f"When the snapshot was written, {live} held {format_bytes(peak.allocated)};"
            " no history was recorded, so an earlier peak is not known."
        )
    if peak.event < 0:
        where = "before the first event"
    else:
        where = f"at event {format_count(peak.event)} of {format_count(events)}"
        inside = [stage for stage in stages if stage.start_event <= peak.event < stage.end_event]
        if inside:
            where += f", in “{max(inside, key=lambda stage: stage.depth).name}”"
    return f"Allocated memory peaked {where}: {live} held {format_bytes(peak.allocated)}."


def _who(named: list[CallSite], total: int) -> str:
    """Name the largest call sites; where all are small, say so instead."""
    first = named[0]
    if first.bytes < _WORTH_NAMING * total:
        size = sum(site.bytes for site in named)
        return (
            f"{_part(size, total)} is spread over {format_count(len(named))} call sites; the"
            f" largest, {_site(first)}, held {format_bytes(first.bytes)}."
        )
    rest = [site for site in named[1:_NAMED] if site.bytes >= _WORTH_NAMING * total]
    text = f"The largest call site, {_site(first)}, held {_part(first.bytes, total)}"
    if rest:
        text += ", followed by " + " and ".join(
            f"{_site(site)} with {_part(site.bytes, total)}" for site in rest
        )
    return text + "."


def _unnamed(sites: list[CallSite], total: int) -> str:
    """Say how much has no call stack, and why most of it has none."""
    size = sum(site.bytes for site in sites)
    most = max(sites, key=lambda site: site.bytes)
    mostly = "mostly " if len(sites) > 1 else ""
    return f"{_part(size, total)} has no call stack: {mostly}{most.name}."


def _site(site: CallSite) -> str:
    place = site.filename.replace("\\", "/").rsplit("/", 1)[-1]
    if site.line is None or not place or place == "??":
        return site.name
    return f"{site.name} ({place}:{site.line})"


def _part(size: int, total: int) -> str:
    return f"{format_bytes(size)} ({rounded_share(size, total)})"


def reserved_sentences(tables: History, device: DeviceFigures) -> str:
    """Say where the memory went if far more was reserved than allocated; ``""`` if not.

    Source of what is given back before a request fails, and in which order:
    CUDACachingAllocator.cpp, ``release_cached_blocks``.
    """
    if "reserved" not in device.peaks:
        return ""
    if device.recorded:
        event, reserved = device.peaks["reserved"].event, device.peaks["reserved"].bytes
        most, what = device.peaks["allocated"].bytes, "the allocated peak"
        where = "before the first event" if event < 0 else f"at event {format_count(event)}"
    else:
        event, reserved = device.peak.event, device.peak.reserved or 0
        most, what, where = device.peak.allocated, "what was allocated", "then"
    if reserved < max(_MANY_TIMES * most, most + _MUCH):
        return ""
    # A segment is got for the allocation of the next event, whose block is no unused memory.
    curve = device.curves["reserved"]
    got = event + 2 < len(curve) and curve[event + 2] == reserved
    heap = heap_at(tables, device, event + got)
    free = int(returnable_bytes(heap, find_holes(heap)).sum())
    waiting = int(heap.bytes[heap.pending].sum())
    stuck = reserved - int(heap.bytes.sum()) - free
    times = f", {reserved / most:.0f} times {what}" if most else ""
    found = [f"PyTorch had reserved {format_bytes(reserved)} {where}{times}."]
    if waiting >= _PART * reserved:
        found.append(
            f"{format_bytes(waiting)} of it had been freed, but waited for another stream; PyTorch"
            " waits for that stream before it lets a request fail."
        )
    if free >= _PART * reserved:
        found.append(
            f"{format_bytes(free)} of it was unused, and goes back to the driver before a request"
            " fails."
        )
    if stuck >= _PART * reserved:
        found.append(
            f"{format_bytes(stuck)} of it was unused but cannot go back to the driver: it lay in"
            " segments partly in use, or in private pools."
        )
    return " ".join(found)


def _overhead(peak: Amounts) -> list[str]:
    """Name slack and fragmentation where they are large enough to matter."""
    found = []
    if peak.reserved and peak.slack > 0.05 * peak.reserved:
        found.append(f"{format_bytes(peak.slack)} of it is slack: blocks larger than asked for.")
    if peak.reserved and peak.fragmentation and peak.fragmentation > 0.1 * peak.reserved:
        found.append(
            f"Another {format_bytes(peak.fragmentation)} was reserved and unused, in segments still"
            " partly in use (fragmentation)."
        )
    return found


# Collect the findings about a device from every detector, the worst first.


@once_for_both
def diagnose(device: DeviceFigures, tables: History) -> Diagnosis:
    """Return everything found about a device."""
    found = _each_change_once(in_order(_find_all(tables, device)))
    kind = device.history.device.kind
    if kind in OTHER_CARDS:
        return Diagnosis(tuple(_in_words_of(kind, each) for each in found))
    return Diagnosis(tuple(found))


def _each_change_once(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Leave a suggestion to the first of the findings that make it, in the very same words."""
    said: set[Suggestion] = set()
    for finding in findings:
        own = tuple(each for each in finding.suggestions if each not in said)
        said.update(own)
        yield finding if own == finding.suggestions else replace(finding, suggestions=own)


def _in_words_of(kind: str, finding: Finding) -> Finding:
    """Name another backend's modules and settings in place of CUDA's."""

    def put(text: str) -> str:
        return text.replace("torch.cuda.", f"torch.{kind}.").replace(
            "PYTORCH_CUDA_ALLOC_CONF", f"PYTORCH_{kind.upper()}_ALLOC_CONF"
        )

    said = (
        replace(each, text=put(each.text), change=put(each.change)) for each in finding.suggestions
    )
    return replace(finding, explanation=put(finding.explanation), suggestions=tuple(said))


def _find_all(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    yield from find_memory(tables, device)
    # The warnings that are also in a bundle's manifest; a failed request has a verdict instead.
    yield from (warning for warning in device.warnings if warning.code != "oom")
    yield from find_growth(tables, device)
    yield from find_churn(tables, device)
    yield from find_allocator_faults(tables, device)


def find_memory(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    """Yield a verdict for each place at which requests failed, or else what held the peak."""
    failed = None if tables.recorder is None else tables.recorder.cpu_failure
    if device.ooms:
        yield from oom_findings(tables, device)
    elif failed is not None and device.history.device.kind == "cpu":
        yield cpu_oom_finding(tables, device, failed)
    elif device.peak.allocated:
        yield peak_finding(tables, device)


# The finding that one device of a program holds far more than the others.


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

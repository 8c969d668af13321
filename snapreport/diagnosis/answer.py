"""The answer to what held the memory: one paragraph on the peak, in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from snapreport.figures.segments import find_holes, heap_at, returnable_bytes
from snapreport.ground.units import format_bytes, format_count, list_of, plural, rounded_share
from snapreport.model.diagnoses import (
    OomEvent,
)
from snapreport.model.findings import (
    Amounts,
    CallSite,
    DeviceFigures,
    StageUse,
)
from snapreport.model.history import History
from snapreport.model.roles import Steps, StepUse, step_range

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
    *,
    forecast: bool = False,
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
        forecast: whether all this is of a run that has not happened.
    """
    sentences = [_failure(oom, forecast) for oom in ooms[-1:]]
    if not peak.allocated:
        return " ".join([*sentences, "Nothing was allocated on this device."])
    sentences += [_when(peak, events, stages, recorded, forecast)]
    if steps is not None and recorded:
        sentences.append(steps_sentence(steps))
    named = [site for site in sites if site.frame is not None]
    unnamed = [site for site in sites if site.frame is None]
    held = []
    if named:
        held.append(_who(named, peak.allocated, "would hold" if forecast else "held"))
    if unnamed:
        held.append(_unnamed(unnamed, peak.allocated))
    if len(held) == 2 and sum(site.bytes for site in unnamed) > named[0].bytes:
        held.reverse()  # largest first
    sentences.extend(held)
    sentences.extend(_overhead(peak))
    return " ".join(sentences)


def _failure(oom: OomEvent, forecast: bool) -> str:
    if forecast:
        return (
            f"The program would run out of memory at event {format_count(oom.event)}: it would ask"
            f" for {format_bytes(oom.size)} when the card has {format_bytes(oom.device_free)} free"
            f" and {format_bytes(oom.allocated)} are allocated."
        )
    return (
        f"The program ran out of memory at event {format_count(oom.event)}: it asked for"
        f" {format_bytes(oom.size)} when the device had {format_bytes(oom.device_free)} free and"
        f" {format_bytes(oom.allocated)} were allocated."
    )


def _when(
    peak: Amounts, events: int, stages: tuple[StageUse, ...], recorded: bool, forecast: bool
) -> str:
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
    if forecast:
        held = format_bytes(peak.allocated)
        return f"Allocated memory would peak {where}: {live} would hold {held}."
    return f"Allocated memory peaked {where}: {live} held {format_bytes(peak.allocated)}."


def _who(named: list[CallSite], total: int, held: str) -> str:
    """Name the largest call sites; where all are small, say so instead."""
    first = named[0]
    if first.bytes < _WORTH_NAMING * total:
        size = sum(site.bytes for site in named)
        return (
            f"{_part(size, total)} is spread over {format_count(len(named))} call sites; the"
            f" largest, {_site(first)}, {held} {format_bytes(first.bytes)}."
        )
    rest = [site for site in named[1:_NAMED] if site.bytes >= _WORTH_NAMING * total]
    text = f"The largest call site, {_site(first)}, {held} {_part(first.bytes, total)}"
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


# The sentence about the program's steps: which one has the peak, and which are alike.


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

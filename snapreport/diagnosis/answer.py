"""One paragraph that says what held the memory at the peak."""

from __future__ import annotations

from snapreport.diagnosis.step_words import steps_sentence
from snapreport.figures.heap import find_holes, heap_at, returnable_bytes
from snapreport.ground.units import format_bytes, format_count, plural, rounded_share
from snapreport.model.findings import Amounts, CallSite, DeviceFigures, OomEvent, StageUse
from snapreport.model.history import History
from snapreport.model.iterations import Steps

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

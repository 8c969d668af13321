"""Findings about requests for memory that failed: the verdict in words, evidence, advice."""

from __future__ import annotations

import re
from collections.abc import Iterator

from snapreport.diagnosis.advice.planning import make_plan, situation_of, suggest
from snapreport.diagnosis.advice.situation import Situation, layers_sentence, only_at
from snapreport.diagnosis.finding_tables import (
    HOLDERS,
    KeptBySmall,
    held_tables,
    tell_of_kept,
    top_table,
)
from snapreport.diagnosis.oom.settings import (
    advise_on_settings,
    judge_settings,
    settings_words,
)
from snapreport.diagnosis.oom.verdict import CAUSES, Cause, OomVerdict, judge
from snapreport.diagnosis.peak import look_into_compiled, peak_finding
from snapreport.figures.callsites import find_site_frames, short_site, site_text
from snapreport.figures.segments import heap_at
from snapreport.ground.cards import LEAST_CONTEXT, card_of
from snapreport.ground.later import later
from snapreport.ground.units import format_bytes, format_count, list_of, rounded_share
from snapreport.model.diagnoses import (
    Column,
    Figure,
    Finding,
    Frees,
    OomEvent,
    Suggestion,
    Table,
    View,
)
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History
from snapreport.model.snapshot import NO_STACK, Failure, StackTable
from snapreport.roles.frames import function_of, tree_frames

_MOST = 5
"""How many functions in which requests failed are judged, the latest first."""


def oom_findings(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    """Yield a verdict for each function in which requests failed, on its last failure."""
    sites = find_site_frames(tables.stacks)
    places: dict[str, list[OomEvent]] = {}
    frames: dict[str, int] = {}
    for oom in device.ooms:
        frame = int(sites[oom.stack]) if oom.stack != NO_STACK else -1
        place = _subject(tables.stacks, frame) if frame >= 0 else ""
        places.setdefault(place, []).append(oom)
        frames[place] = frame
    latest = sorted(places.items(), key=lambda item: -item[1][-1].event)[:_MOST]
    for place, ooms in latest:
        where = site_text(tables.stacks, frames[place]) if frames[place] >= 0 else ""
        yield _finding(tables, device, ooms, place, where)


def _subject(stacks: StackTable, frame: int) -> str:
    """Name the function without its line and folder, which change between versions."""
    file = re.split(r"[/\\]", tree_frames(stacks).filenames[frame])[-1]
    return f"{function_of(stacks.frames, frame)} {file}"


def _finding(
    tables: History, device: DeviceFigures, ooms: list[OomEvent], subject: str, where: str
) -> Finding:
    oom = ooms[-1]
    verdict = judge(tables, device, oom)
    asked = f" The request came from {short_site(where)}." if where else ""
    if len(ooms) > 1:
        asked += (
            f" {format_count(len(ooms))} requests failed there; the figures are of the last one."
        )
    view = View(event=oom.event, curve="allocated", oom=True)
    held = held_tables(tables, device, oom.event, "What held it,")
    free = format_bytes(oom.device_free)
    title = f"Out of memory: {format_bytes(oom.size)} asked for, {free} free on the device"
    if verdict is None:
        return Finding(
            "oom",
            "critical",
            title,
            f"A request for memory failed at event {format_count(oom.event)}.{asked} Why is not"
            " known: the recording does not show what PyTorch had reserved.",
            subject=subject,
            tables=held,
            view=view,
            bytes=oom.size,
        )
    if verdict.recovered:
        asked += " The program went on: it allocated at least as much again afterwards."
    situation = situation_of(tables, device) if verdict.missing > 0 else None
    layers = layers_sentence(situation, oom.event) if situation is not None else ""
    # Small blocks that kept fragmented memory.
    kept = KeptBySmall()
    if verdict.cause == "fragmented":
        heap = heap_at(tables, device, oom.event)
        kept = tell_of_kept(tables, device, heap, verdict.pieces, heap.stream == verdict.stream)
    settings = judge_settings(tables, device, verdict)
    noted = tables.noted(device.device)
    capacity = None if noted is None else noted.total_after or noted.capacity
    forecast = tables.forecast is not None
    outside = _OF_FORECAST if forecast else _outside(verdict, capacity)
    said = (_why(verdict), settings_words(settings), asked, layers, outside)
    return Finding(
        "oom",
        "warning" if verdict.recovered else "critical",
        f"{title}{_TITLES[verdict.cause]}",
        " ".join(text.strip() for text in said if text),
        subject=subject,
        evidence=(
            *_figures(verdict, capacity, forecast=forecast),
            Figure(
                "needed under any setting",
                settings.needed,
                meaning="live requests with the failed one, each rounded to 512 bytes",
            ),
            *kept.figures,
        ),
        tables=(*_removals(verdict), *kept.tables, *held, _pools(verdict)),
        suggestions=later(
            lambda: (
                *_remedies(verdict),
                *_enough_changes(situation, verdict),
                *kept.suggestions,
                *advise_on_settings(tables, device, verdict, settings),
                *(suggest(situation) if situation is not None else ()),
                *look_into_compiled(tables, device, situation, verdict.event),
                *_make_room(verdict),
            )
        ),
        view=view,
        bytes=verdict.size,
    )


def _enough_changes(situation: Situation | None, verdict: OomVerdict) -> Iterator[Suggestion]:
    """Yield the cheapest changes that would have freed the missing bytes, if any could.

    Only if memory was truly full: where it was fragmented, freeing some need not help.
    """
    if verdict.cause != "full" or situation is None:
        return
    missing = verdict.missing + verdict.needed_most - verdict.needed
    there = only_at(situation, verdict.event)
    plan = make_plan(there, there.peak - missing)
    if plan.reached == "no" or not plan.steps:
        return
    offered = [step.suggestion for step in plan.steps]
    names = [f"{each.code} ({each.number} parts)" if each.number else each.code for each in offered]
    which = f"{list_of(names)} {'together' if len(names) > 1 else 'alone'}"
    yield Suggestion(
        "plan",
        f"The cheapest changes that make room for this request: {which}. About"
        f" {format_bytes(plan.peak - plan.expected)} less would have been live when it failed;"
        f" {format_bytes(missing)} were missing. Other moments may need more: snapreport plan"
        " --fit SIZE looks at all of them.",
        "\n".join(each.change for each in offered if each.change),
    )


def _figures(of: OomVerdict, capacity: int | None, *, forecast: bool) -> Iterator[Figure]:
    yield Figure("cause", of.cause, "text", CAUSES[of.cause])
    yield Figure("asked for", of.size, meaning="rounded up as the allocator does")
    yield Figure(
        "free on the device", of.device_free, meaning="by the driver's count at that moment"
    )
    if of.missing > 0:
        yield Figure(
            "missing",
            of.missing,
            most=of.missing + of.needed_most - of.needed,
            meaning=f"of the {format_bytes(of.needed)} that the device had to give for it",
        )
    yield Figure("allocated", of.allocated, meaning="in use by the program")
    yield Figure("slack", of.slack, meaning="what blocks hold beyond what was asked for")
    yield Figure("awaiting free", of.pending, meaning="freed, but another stream may still use it")
    yield Figure("inactive", of.inactive, meaning="reserved, and free for later requests")
    yield Figure(
        "largest hole",
        of.hole,
        meaning="in segments that could have served the request",
    )
    yield Figure(
        "could go back",
        of.returnable,
        meaning="to the driver: what is in segments that nothing uses",
    )
    yield Figure("reserved", of.reserved, meaning="got from the driver by PyTorch")
    yield Figure("reserved and free", of.ceiling, meaning="all that PyTorch could have had then")
    if of.foreign:
        yield Figure("taken by others", of.foreign, meaning="at least, since the recording began")
    if capacity is not None:
        yield Figure("memory of the device", capacity, meaning="measured while recording")
        others = None if forecast else max(capacity - of.ceiling, 0)
        yield Figure("held by others", others, meaning="other programs, and CUDA's own context")
    elif not of.foreign:
        yield Figure("held by others", None, meaning="not recorded")


def _removals(verdict: OomVerdict) -> Iterator[Table]:
    if not verdict.removals:
        return
    size = len(verdict.removals[0].sites)
    checked = format_count(verdict.checked)
    if size == 1:
        title = "Without any one of these, all else unchanged, there would have been room"
    else:
        title = (
            f"No call site alone would have made room ({checked} tried). Without these together,"
            " all else unchanged, there would have been room"
        )
    yield Table(
        title,
        (Column("bytes"), Column("call sites", "text")),
        tuple((each.bytes, " + ".join(each.sites)) for each in verdict.removals),
    )


def _pools(verdict: OomVerdict) -> Table:
    return top_table(
        "Reserved memory by pool, stream and kind of segment",
        {
            "reserved": "bytes", "allocated": "bytes", "awaiting free": "bytes",
            "inactive": "bytes", "largest hole": "bytes", "could serve it": "text", "pool": "text",
        },
        [
            (
                each.reserved,
                each.allocated,
                each.pending,
                each.inactive,
                each.largest_hole,
                "yes" if each.serves else "no",
                f"{each.pool}, {_stream_name(each.stream)}, {each.kind}",
            )
            for each in verdict.pools
        ],
        HOLDERS,
    )  # fmt: skip


def _stream_name(stream: int) -> str:
    return "default stream" if stream == 0 else f"stream {stream:#x}"


# Why it failed.


_THERE = ("fragmented", "stranded", "locked", "waiting", "other-stream")
"""Causes where free memory existed, but not for this request."""
_TIGHT = 0.9
"""With at least this part in use, even if this request were served, another would soon fail."""
_TITLES = {
    "full": "",
    "fragmented": "; free memory was in pieces",
    "stranded": "; a private pool kept its free memory",
    "locked": "; free memory was locked in another pool",
    "waiting": "; freed memory waited for another stream",
    "other-stream": "; free memory belonged to another stream",
    "giant": "; the request was too large for this device",
    "foreign": "; something outside PyTorch had taken memory",
    "limit": "; refused although it would have fit",
    "unclear": "",
}


def _why(verdict: OomVerdict) -> str:
    """Return the cause, in a sentence or two."""
    text = _cause_texts(verdict)[verdict.cause]
    if not verdict.alone and verdict.cause != "unclear":
        text += (
            " That alone would not have been enough; more was free that could not be used either."
        )
    if verdict.cause in _THERE and verdict.allocated >= _TIGHT * verdict.ceiling:
        share = rounded_share(verdict.allocated, verdict.ceiling)
        text += f" Even so, {share} of all that PyTorch could have had was in use."
    return text


def _cause_texts(of: OomVerdict) -> dict[Cause, str]:
    """Return the text for each cause, with the verdict's figures."""
    used, reserved = format_bytes(of.allocated), format_bytes(of.reserved)
    limits = f" It was recorded with {list_of(of.limits)}." if of.limits else ""
    part = f"all of the {reserved}" if used == reserved else f"{used} of the {reserved}"
    hole, locked, ceiling = format_bytes(of.hole), format_bytes(of.locked), format_bytes(of.ceiling)
    missing = f"{format_bytes(of.missing)} were missing"
    return {
        "full": (
            f"The memory was truly full: {part} that PyTorch had reserved were in use. {missing}:"
            " more than all free memory of PyTorch put together."
        ),
        "fragmented": (
            f"The memory was there, but in pieces: {format_bytes(of.pieces)} of what PyTorch had"
            f" reserved were free, and the largest hole was {hole}. The pieces were in segments"
            f" partly in use, so they could not go back to the driver. {missing}."
            + (
                " That hole is large enough, but max_split_size_mb forbids splitting it."
                if of.hole >= of.size
                else ""
            )
        ),
        "stranded": (
            f"{_pool_sentence(of, of.pool)} Such a pool, of a MemPool or a CUDA graph, gives no"
            f" segment back while it lives, and its largest hole was {hole}. {missing}."
        ),
        "locked": (
            f"{locked} were free, but in private pools (of CUDA graphs or a MemPool). These serve"
            f" nothing else and keep their memory. {_fullest_pool(of)}{missing}."
            if of.pool == "default"
            else "As far as the recording shows, the request was for a private pool"
            f" ({of.pool.removeprefix('private ')}), as while a CUDA graph is captured. The"
            f" {locked} that were free in other pools could not serve it, nor go back to the driver"
            f" meanwhile. {missing}."
        ),
        "waiting": (
            f"{format_bytes(of.pending)} were freed already, but could not be used again yet:"
            f" another stream might still be using them. {missing}."
        ),
        "other-stream": (
            f"{format_bytes(of.other_streams)} were free, but for other streams: a block is only"
            " used again on the stream that it was made on. They were in segments partly in use,"
            f" so they could not go back to the driver either. {missing}."
        ),
        "giant": (
            f"The request is larger than the {ceiling} that PyTorch could have had here with"
            " everything of its own freed: the program must ask for less."
            if of.size > of.ceiling
            else f"One giant request: it asked for more than half of the {ceiling} that PyTorch"
            f" could have had at that moment, and {used} were in use."
        ),
        "foreign": (
            f"At least {format_bytes(of.foreign)} had been taken by something outside PyTorch's"
            " allocator (another process, NCCL, another library): earlier in this recording"
            f" PyTorch could have had that much more. {missing}."
        ),
        "limit": (
            f"The device had room: only {format_bytes(of.needed)} were needed. So the process is"
            f" probably limited to between {format_bytes(of.most_reserved)} and"
            f" {format_bytes(of.reserved + of.needed)}, as by set_per_process_memory_fraction(); or"
            f" the device's memory became free just after the request.{limits}"
        ),
        "unclear": (
            f"The recording does not show why. The largest hole was {hole}, and"
            f" {format_bytes(of.returnable)} could go back to the driver: enough for a normal"
            " request. This one may have been for a private pool, as while a CUDA graph is"
            f" captured.{limits}"
        ),
    }


def _pool_sentence(of: OomVerdict, name: str) -> str:
    """Say how much of a private pool is in use and free, and how much of that in whole segments."""
    parts = [each for each in of.pools if each.pool == name]
    free, whole = sum(each.inactive for each in parts), sum(each.whole for each in parts)
    segments = "all of it" if whole == free else format_bytes(whole)
    return (
        f"Private pool {name.removeprefix('private ')} held"
        f" {format_bytes(sum(each.reserved for each in parts))}, of which {format_bytes(free)}"
        f" were free, {segments} in whole segments that nothing used."
    )


def _fullest_pool(of: OomVerdict) -> str:
    """Describe the private pool with the most free memory, as a sentence with a space after it."""
    private = [each for each in of.pools if each.pool != "default"]
    if not private:
        return ""
    return f"{_pool_sentence(of, max(private, key=lambda each: each.inactive).pool)} "


_NEAR = 0.9
"""A card is only guessed if PyTorch could have had at least this part of its memory."""


_OF_FORECAST = (
    f"The forecast leaves {format_bytes(LEAST_CONTEXT)} of the card to CUDA's context, the least"
    " that it takes; with other programs and libraries on the card, requests fail earlier."
)


def _outside(verdict: OomVerdict, capacity: int | None) -> str:
    """Say what is held outside PyTorch's allocator, as far as that is known.

    Args:
        capacity: all memory of the device in bytes, None if it was not recorded.
    """
    text = (
        f"PyTorch could have had {format_bytes(verdict.ceiling)} in all: what it had reserved, and"
        " what was free."
    )
    if capacity is not None:
        others = format_bytes(max(capacity - verdict.ceiling, 0))
        return f"{text} Of the device's {format_bytes(capacity)}, {others} were not PyTorch's."
    text += " The file does not say how large the device is"
    card = card_of(verdict.ceiling, _NEAR)
    if card is None:
        return f"{text}."
    rest = format_bytes(card.bytes - verdict.ceiling)
    return (
        f"{text}. Of {card.title}, for example, with {format_bytes(card.bytes)}, {rest} would have"
        " been held by others and by CUDA itself."
    )


# What to do about it.


def _make_room(verdict: OomVerdict) -> Iterator[Suggestion]:
    """Yield the smallest removal with which the request would have been served."""
    for least in verdict.removals[:1]:
        which = list_of([short_site(site) for site in least.sites])
        keep = "keep" if len(least.sites) > 1 else "keeps"
        yield Suggestion(
            "make-room",
            f"Reduce what {which} {keep}: {format_bytes(least.bytes)} made there was live. Without"
            " it, all else unchanged, the request would have been served.",
            frees=Frees.exactly(least.bytes),
            sites=least.sites,
        )


def _remedies(verdict: OomVerdict) -> Iterator[Suggestion]:
    """Yield suggestions that follow from the cause itself."""
    if verdict.cause == "giant":
        served = max(verdict.hole, verdict.device_free + verdict.returnable)
        yield Suggestion(
            "ask-for-less",
            "Ask for less at a time, in several requests or with smaller tensors: a request of up"
            f" to {format_bytes(served)} could have been served at that moment.",
        )
    if verdict.cause == "stranded":
        yield Suggestion(
            "release-pool",
            "Begin with the pool. Make what is soon freed outside of it, so that only what stays is"
            " made under torch.cuda.use_mem_pool(). Or let the whole pool go: once its last tensor"
            f" and the MemPool itself (or the graph) are deleted, {format_bytes(verdict.stranded)}"
            " can go back to the driver.",
            "del tensors, pool; torch.cuda.empty_cache()",
        )
    usable = [
        each.largest_hole
        for each in verdict.pools
        if each.pool not in ("default", verdict.pool) and each.largest_hole >= verdict.size
    ]
    if verdict.cause == "locked" and verdict.pool == "default" and usable:
        yield Suggestion(
            "release-pool",
            f"A private pool had a hole of {format_bytes(max(usable))}, enough for this request."
            " If it is a MemPool, let other requests use it before they fail, where your PyTorch"
            " has this option; or delete its last tensor and the MemPool itself, so that its"
            " segments can go back to the driver.",
            "pool = torch.cuda.MemPool(use_on_oom=True)",
        )
    if verdict.cause == "limit":
        yield Suggestion(
            "raise-limit",
            "Raise the limit of the process, if it has one: the device had"
            f" {format_bytes(verdict.device_free)} free.",
            "torch.cuda.set_per_process_memory_fraction(1.0)",
            Frees.exactly(verdict.device_free),
        )
    if verdict.foreign:
        yield Suggestion(
            "other-programs",
            "Find out what else uses the device: nvidia-smi lists its processes. Earlier in the"
            f" recording PyTorch had {format_bytes(verdict.foreign)} more, reserved or free.",
            "nvidia-smi",
        )


# A program that ended because the CPU ran out of memory: the profiler records no failed request.


def cpu_oom_finding(tables: History, device: DeviceFigures, failed: Failure) -> Finding:
    """Say what was asked for and what was live, though the profiler records no failed request.

    Args:
        device: the CPU's figures; the failure came after its last event.
        failed: what ended the program.
    """
    last, asked = device.history.events - 1, failed.cpu_request or 0
    held = device.end.allocated
    noted = tables.noted(device.device)
    there = (noted.capacity if noted else 0) or 0
    figures = [Figure("asked for", asked)] if asked else []
    if there:
        figures.append(Figure("the machine's memory", there))
    peak = None
    said = f"That ended the program, when PyTorch held {format_bytes(held)} of the CPU's memory."
    if asked > there > 0:
        said += (
            f" The request alone is for more than the {format_bytes(there)} that this machine has:"
            " freeing memory would not be enough. The request must be smaller."
        )
    else:
        said += (
            " The rest of the machine's memory was not recorded: other programs, and memory of this"
            " one outside PyTorch."
        )
        if device.peak.allocated:
            peak = peak_finding(tables, device)
            said += " The suggestions would have lowered what PyTorch held at its peak."
    return Finding(
        "oom",
        "critical",
        f"Out of memory: {cpu_request_words(failed)}",
        said,
        evidence=(
            *figures,
            Figure("allocated", held, meaning="by PyTorch, when the request failed"),
            Figure("most allocated", device.peak.allocated, meaning="at the peak"),
        ),
        tables=(
            *held_tables(tables, device, last, "What held it,"),
            *(peak.tables if peak else ()),
        ),
        suggestions=later(lambda: peak.suggestions if peak else ()),
        view=View(event=last, curve="allocated"),
        bytes=asked,
    )


def cpu_request_words(failed: Failure) -> str:
    """Say in a few words which request failed."""
    asked = failed.cpu_request
    what = f"{format_bytes(asked)} of the CPU's memory" if asked else "the CPU's memory"
    return f"a request for {what} failed" + (f" in {failed.place}" if failed.place else "")

"""The finding about requests for memory that failed: verdict, evidence, advice."""

from __future__ import annotations

import re
from collections.abc import Iterator

from snapreport.diagnosis.advice.alike_layers import layers_sentence
from snapreport.diagnosis.advice.planning import make_plan
from snapreport.diagnosis.advice.program_advice import situation_of, suggest
from snapreport.diagnosis.advice.situation import Situation, only_at
from snapreport.diagnosis.finding_tables import HOLDERS, held_tables, top_table
from snapreport.diagnosis.kept_blocks import KeptBySmall, tell_of_kept
from snapreport.diagnosis.oom.largest_site import look_into_compiled
from snapreport.diagnosis.oom.oom_words import (
    make_room,
    oom_title,
    out_of_memory,
    outside,
    remedies,
    why,
)
from snapreport.diagnosis.oom.setting_verdict import (
    judge_settings,
    settings_figure,
    settings_words,
)
from snapreport.diagnosis.oom.settings_advice import advise_on_settings
from snapreport.diagnosis.oom.verdict import judge
from snapreport.diagnosis.oom.verdict_types import CAUSES, OomVerdict
from snapreport.figures.callsites import find_site_frames, short_site, site_text
from snapreport.figures.heap import heap_at
from snapreport.frames.site_names import function_of, tree_frames
from snapreport.ground.units import format_bytes, format_count, list_of
from snapreport.model.diagnoses import Column, Figure, Finding, Suggestion, Table, View
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History
from snapreport.model.recording_facts import OomEvent
from snapreport.model.stacks import NO_STACK, StackTable

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
    if verdict is None:
        return Finding(
            "oom",
            "critical",
            out_of_memory(oom.size, oom.device_free),
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
    kept = _kept(tables, device, verdict)
    settings = judge_settings(tables, device, verdict)
    capacity = _capacity(tables, device)
    said = (why(verdict), settings_words(settings), asked, layers, outside(verdict, capacity))
    return Finding(
        "oom",
        "warning" if verdict.recovered else "critical",
        oom_title(verdict),
        " ".join(text.strip() for text in said if text),
        subject=subject,
        evidence=(
            *_figures(verdict, capacity),
            settings_figure(settings),
            *kept.figures,
        ),
        tables=(*_removals(verdict), *kept.tables, *held, _pools(verdict)),
        suggestions=(
            *remedies(verdict),
            *_enough_changes(situation, verdict),
            *kept.suggestions,
            *advise_on_settings(tables, device, verdict, settings),
            *(suggest(situation) if situation is not None else ()),
            *look_into_compiled(tables, device, situation, verdict.event),
            *make_room(verdict),
        ),
        view=view,
        bytes=verdict.size,
    )


def _kept(tables: History, device: DeviceFigures, verdict: OomVerdict) -> KeptBySmall:
    """Say which small blocks kept fragmented memory, if fragmentation was the cause."""
    if verdict.cause != "fragmented":
        return KeptBySmall()
    heap = heap_at(tables, device, verdict.event)
    return tell_of_kept(tables, device, heap, verdict.pieces, heap.stream == verdict.stream)


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


def _capacity(tables: History, device: DeviceFigures) -> int | None:
    """Return all memory of the device, as the driver counts it; None if it was not recorded."""
    noted = tables.noted(device.device)
    return None if noted is None else noted.total_after or noted.capacity


def _figures(of: OomVerdict, capacity: int | None) -> Iterator[Figure]:
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
        others = max(capacity - of.ceiling, 0)
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
                f"{each.pool}, {_stream(each.stream)}, {each.kind}",
            )
            for each in verdict.pools
        ],
        HOLDERS,
    )  # fmt: skip


def _stream(stream: int) -> str:
    return "default stream" if stream == 0 else f"stream {stream:#x}"

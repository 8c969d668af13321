"""How far the figures of a recording can be trusted: what it covers, lost, and knows exactly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.allocator.factual import model_device
from snapreport.diagnosis.trust.recording_warnings import file_warnings, unknown_actions
from snapreport.diagnosis.trust.ring_loss import find_loss
from snapreport.diagnosis.trust.trust_sentences import verdict_sentence, write_checks
from snapreport.figures.reserved_parts import find_reserved_parts
from snapreport.frames.stack_kinds import find_stack_kind
from snapreport.model.diagnoses import Finding, Suggestion
from snapreport.model.findings import MISSING_REASONS, Amounts, DeviceFigures
from snapreport.model.history import START, History
from snapreport.model.trust import MissingStacks, ReservedParts, Trust, TrustFacts, Verdict, Window

_MORE_RESERVED = 1.1
"""If what was reserved before the first event exceeds the later active peak by this factor, more
must have been in use before: fragmentation alone explains less."""


def judge_recording(tables: History, device: DeviceFigures) -> Trust:
    """Return everything that shows whether a device's figures can be trusted."""
    facts = _facts(tables, device)
    found = (*device.warnings, *file_warnings(tables))
    verdict = _verdict(device, facts)
    return Trust(
        verdict=verdict,
        sentence=verdict_sentence(verdict, device, facts),
        facts=facts,
        checks=tuple(write_checks(found, tables, device, facts)),
        fixes=_fixes(found),
    )


def _facts(tables: History, device: DeviceFigures) -> TrustFacts:
    history = device.history
    modelled = model_device(tables, history)
    return TrustFacts(
        window=_window(device),
        loss=find_loss(history, tables, device.missing, device.start.reserved or 0),
        missing=_missing(device),
        stack_kind=find_stack_kind(tables),
        inferred_blocks=device.inferred_blocks,
        peaks=device.peaks,
        closing=device.closing,
        at_peak=_parts(device, device.peak) if device.recorded else None,
        at_end=_parts(device, device.end),
        unknown_actions=unknown_actions(history),
        anomalies=history.anomalies,
        blocks_known=history.blocks_known,
        oddities=tables.oddities,
        replay=None if modelled is None else modelled.factual,
    )


def _window(device: DeviceFigures) -> Window:
    rows, events = device.history.allocations, device.history.events
    freed = (rows.alloc_event == START) & (rows.free_event < events)
    return Window(
        events=events,
        first_time_us=device.first_time_us,
        last_time_us=device.last_time_us,
        stages=len(device.stages),
        cut_at_start=sum(stage.cut in ("start", "both") for stage in device.stages),
        cut_at_end=sum(stage.cut in ("end", "both") for stage in device.stages),
        start_allocated=device.start.allocated,
        start_reserved=device.start.reserved,
        unmatched=int(freed.sum()),
        unmatched_bytes=int(rows.size[freed].sum()),
    )


def _missing(device: DeviceFigures) -> tuple[MissingStacks, ...]:
    rows, live = device.history.allocations, device.history.allocations.live_at(device.peak.event)

    def count(chosen: NDArray[np.bool_]) -> tuple[int, int]:
        return int(chosen.sum()), int(rows.block_size[chosen].sum())

    found = [
        MissingStacks(
            text, *count(device.missing == place), *count(live & (device.missing == place))
        )
        for place, text in enumerate(MISSING_REASONS)
        if text and (device.missing == place).any()
    ]
    return tuple(sorted(found, key=lambda each: (-each.peak_bytes, -each.bytes)))


def _parts(device: DeviceFigures, amounts: Amounts) -> ReservedParts | None:
    if amounts.reserved is None or amounts.inactive is None:
        return None
    return find_reserved_parts(device.history, amounts.reserved, amounts.event)


def _verdict(device: DeviceFigures, facts: TrustFacts) -> Verdict:
    codes = {each.code for each in device.warnings}
    loss, peak = facts.loss, device.peaks["allocated"]
    if not device.history.events and not len(device.history.segments):
        return "nothing"
    differs = any(each is not None and each.difference for each in (facts.at_peak, facts.at_end))
    if codes & {"does-not-close", "odd-events", "reserved-too-low"} or differs:
        return "doubtful"
    if not device.history.blocks_known:
        return "doubtful"
    if not device.recorded:
        return "no history"
    if loss.state in ("lost", "missing") or (loss.state == "suspected" and loss.full):
        return "earlier"
    if used_more_before(device) or (peak.event == START and peak.bytes):
        return "earlier"
    if "dumped-early" in codes:
        return "later"
    if "started-late" in codes:
        return "window"
    return "trusted"


def used_more_before(device: DeviceFigures) -> bool:
    """Say whether more was reserved before the first event than was ever in use after it."""
    reserved = device.start.reserved
    return reserved is not None and reserved > _MORE_RESERVED * device.peaks["active"].bytes


def _fixes(warnings: Sequence[Finding]) -> tuple[Suggestion, ...]:
    """Return each way to record better once, that of the most pressing finding first."""
    found: dict[str, Suggestion] = {}
    for finding in warnings:
        if finding.code != "oom":
            for each in finding.suggestions:
                found.setdefault(each.text, each)
    return tuple(found.values())

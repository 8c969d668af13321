"""How far the figures of a recording can be trusted: what it covers, lost, and knows exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.recording_mistakes import GONE, find_loss
from snapreport.diagnosis.recording_warnings import (
    file_warnings,
    unknown_actions,
)
from snapreport.figures.allocator.factual import model_device
from snapreport.figures.curves import (
    find_reserved_parts,
)
from snapreport.ground.later import later
from snapreport.ground.units import (
    format_bytes,
    format_count,
    format_signed_bytes,
    list_of,
    plural,
    share_in_words,
)
from snapreport.model.diagnoses import (
    Check,
    CurvePeak,
    Figure,
    Finding,
    Mark,
    MissingStacks,
    OwnCounters,
    ReservedParts,
    Suggestion,
    Trust,
    TrustFacts,
    Verdict,
    Window,
)
from snapreport.model.findings import MISSING_REASONS, Amounts, DeviceFigures
from snapreport.model.forecasts import (
    BESIDES,
    assumed_text,
    how_far,
    peak_range,
    range_text,
    sizes_assumed,
    unknown_text,
)
from snapreport.model.history import START, History
from snapreport.model.replays import CAUSES, FactualReplay
from snapreport.model.snapshot import NO_TIME, Forecast, RecordedDevice
from snapreport.roles.stack_kinds import find_stack_kind


def judge_recording(tables: History, device: DeviceFigures) -> Trust:
    """Return everything that shows whether a device's figures can be trusted."""
    facts = _facts(tables, device)
    found = (*device.warnings, *file_warnings(tables))
    verdict = _verdict(device, facts)
    forecast = tables.forecast if verdict != "nothing" else None

    def check() -> tuple[Check, ...]:
        if forecast is not None:
            return tuple(_check_forecast(found, forecast, device, facts))
        return tuple(_write_checks(found, tables, device, facts))

    return Trust(
        verdict=verdict,
        sentence=_verdict_sentence(verdict, device, facts)
        if forecast is None
        else _forecast_sentence(verdict, forecast, device, facts),
        facts=facts,
        checks=later(check),
        fixes=_fixes(found),
    )


def _facts(tables: History, device: DeviceFigures) -> TrustFacts:
    history = device.history

    def replay() -> FactualReplay | None:
        modelled = model_device(tables, history)
        return None if modelled is None else modelled.factual

    def parts(amounts: Amounts) -> ReservedParts | None:
        if amounts.reserved is None or amounts.inactive is None:
            return None
        return find_reserved_parts(history, amounts.reserved, amounts.event)

    return TrustFacts(
        window=_window(device),
        loss=find_loss(history, tables, device.missing, device.start.reserved or 0),
        missing=_missing(device),
        stack_kind=find_stack_kind(tables),
        inferred_blocks=device.inferred_blocks,
        peaks=device.peaks,
        closing=device.closing,
        at_peak=parts(device.peak) if device.recorded else None,
        at_end=parts(device.end),
        unknown_actions=unknown_actions(history),
        anomalies=history.anomalies,
        blocks_known=history.blocks_known,
        oddities=tables.oddities,
        replay=later(replay),
    )


def _window(device: DeviceFigures) -> Window:
    rows, events = device.history.allocations, device.history.events
    freed = np.flatnonzero(rows.free_event[rows.baseline] < events)  # they come first
    return Window(
        events=events,
        first_time_us=device.first_time_us,
        last_time_us=device.last_time_us,
        stages=len(device.stages),
        cut_at_start=sum(stage.cut in ("start", "both") for stage in device.stages),
        cut_at_end=sum(stage.cut in ("end", "both") for stage in device.stages),
        start_allocated=device.start.allocated,
        start_reserved=device.start.reserved,
        unmatched=len(freed),
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


_MORE_RESERVED = 1.1
"""If what was reserved before the first event exceeds the later active peak by this factor, more
must have been in use before: fragmentation alone explains less."""


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


# The verdict in a sentence: first what can be trusted, then why.


def _verdict_sentence(verdict: Verdict, device: DeviceFigures, facts: TrustFacts) -> str:
    """Say the verdict: first what can be trusted, then why."""
    closing = facts.closing
    sound = (
        "they add up to the final state, to the byte"
        if closing is not None and closing.closes
        else "nothing in the file contradicts them"
    )
    if verdict == "nothing":
        return "There is nothing to judge: nothing was allocated on this device."
    if verdict == "no history" and any(
        each.code == "no-history" and each.severity == "note" for each in device.warnings
    ):
        return (
            "You can trust the final state, to the byte: next to nothing was allocated or freed"
            " here while other devices were recorded."
        )
    if verdict == "no history":
        return (
            "You can trust the final state, to the byte; but no history was recorded, so the peak"
            " is not known."
        )
    if verdict == "doubtful":
        return f"Take the figures with care: {_doubt(facts)}."
    if verdict == "earlier":
        return f"The peak may be earlier than shown: {_why_earlier(device, facts)}. {_exact(facts)}"
    if verdict == "later":
        return (
            "The peak may be later than shown: memory was still growing when the file was written."
            f" {_exact(facts)}"
        )
    if verdict == "window":
        return (
            f"You can trust the figures from the first event on: {sound}."
            f" {format_bytes(device.start.allocated)} was allocated before it: that is counted, but"
            f" what happened before it was not recorded.{_width(facts)}"
        )
    before, peak = device.start.allocated, device.peaks["allocated"].bytes
    began = (
        f"only {format_bytes(before)}, {share_in_words(before, peak)} of the peak, was allocated"
        " before the first event"
        if before
        else "nothing was allocated before the first event"
    )
    return f"You can trust the figures: {sound}, and {began}.{_width(facts)}"


def _doubt(facts: TrustFacts) -> str:
    closing = facts.closing
    reasons = []
    if closing is not None and not closing.closes:
        worst = max((closing.requested, closing.allocated, closing.active), key=abs)
        reasons.append(f"the events miss the final state by {format_bytes(abs(worst))}")
    if not facts.blocks_known:
        reasons.append(
            "the memory is from an allocator other than CUDA's, and only known to be at least what"
            " was asked for"
        )
    if facts.anomalies:
        count = sum(facts.anomalies.values())
        reasons.append(f"{plural(count, 'event contradicts', 'events contradict')} the rest")
    off = [
        parts.difference
        for parts in (facts.at_peak, facts.at_end)
        if parts is not None and parts.difference
    ]
    if off:
        reasons.append(f"the parts of reserved memory miss it by {format_bytes(abs(off[0]))}")
    return " and ".join(reasons) or "events of segments are missing"


def _why_earlier(device: DeviceFigures, facts: TrustFacts) -> str:
    if facts.loss.state in GONE:
        return f"{GONE[facts.loss.state].lower()} ({facts.loss.signs[0]})"
    if device.peaks["allocated"].event == START:
        return "the most was allocated before the first event"
    return (
        f"{format_bytes(device.start.reserved or 0)} was reserved before the first event, more"
        f" than was ever in use after it ({format_bytes(device.peaks['active'].bytes)})"
    )


def _exact(facts: TrustFacts) -> str:
    closes = facts.closing is not None and facts.closing.closes
    how = "add up to the final state, to the byte" if closes else "are not contradicted by the file"
    return f"The figures of the recorded part {how}.{_width(facts)}"


def _width(facts: TrustFacts) -> str:
    width = facts.peaks["allocated"].width
    return f" The allocated peak may be up to {format_bytes(width)} higher." if width else ""


# Of a forecast: what its figures rest on, and what it cannot know.


def _forecast_sentence(
    verdict: Verdict, forecast: Forecast, device: DeviceFigures, facts: TrustFacts
) -> str:
    rests = (
        "every request for memory is the program's own, and a model of PyTorch's allocator serves"
        " it"
    )
    if verdict == "doubtful":
        said = f"Take the figures with care: {_doubt(facts)}."
    elif verdict == "later":
        said = "The peak may be later than shown: memory was still growing when the forecast ended."
    elif verdict == "trusted":
        said = f"You can trust the figures as far as a forecast goes: {rests}."
    else:
        before = format_bytes(device.start.allocated)
        said = (
            f"You can trust the figures from the first event on as far as a forecast goes: {rests}."
            f" {before} was allocated before it, when the program began its own recording."
        )
    limits = []
    if sizes := sizes_assumed(forecast):
        decide = "value that decides a size was" if sizes == 1 else "values that decide sizes were"
        limits.append(f"{format_count(sizes)} {decide} assumed")
    if forecast.unknown:
        kernels = plural(len(forecast.unknown), "kernel takes", "kernels take")
        limits.append(f"what {kernels} inside is not known")
    if limits:
        said += f" But {list_of(limits, ', and ')}."
    return f"{said} It cannot know {BESIDES}."


def _check_forecast(
    found: Sequence[Finding], forecast: Forecast, device: DeviceFigures, facts: TrustFacts
) -> Iterator[Check]:
    """Yield what is known of each thing that a forecast rests on, the most important first."""
    account = _Account(found)
    events = plural(facts.window.events, "event")
    far = f"{events}. {how_far(forecast.steps, repeats=forecast.repeats)}"
    yield account.check("history", "How far it went", far, mark="ok", dumped_early="unknown")
    if device.recorded and device.start.allocated:
        yield _beginning(account, device)
    ranged = peak_range(forecast, str(device.device), device.peaks["allocated"].bytes)
    mark: Mark = "unknown" if ranged.parts else "ok"
    yield Check("peak", mark, "Peak", range_text(ranged, fails=bool(device.ooms)))
    mark = "unknown" if sizes_assumed(forecast) else "ok"
    none = "No value was asked for that does not exist."
    yield Check("values", mark, "Assumed values", assumed_text(forecast) or none)
    mark = "unknown" if forecast.unknown else "ok"
    none = "What every kernel takes inside is known, exactly or within the range."
    yield Check("kernels", mark, "Inside kernels", unknown_text(forecast) or none)
    if forecast.notes:
        yield Check("left-out", "unknown", "Left out", " ".join(forecast.notes))
    yield _stacks(account, device, facts)
    yield _closing(account, facts)
    yield _reserved(account, device, facts)
    besides = f"{BESIDES[0].upper()}{BESIDES[1:]} are in no figure."
    yield Check("besides", "unknown", "Not in it", besides)


# The answer to every check.


_MARKS: tuple[Mark, ...] = ("ok", "unknown", "not ok")
"""The worst last."""


class _Account:
    """Answers checks from the findings: if a finding concerns a check, it is the answer."""

    def __init__(self, found: Sequence[Finding]) -> None:
        self._found = {each.code: each for each in found}

    def check(
        self,
        code: str,
        title: str,
        good: str,
        figures: Sequence[Figure] = (),
        *,
        mark: Mark = "ok",
        always: str = "",
        **bad: Mark,
    ) -> Check:
        """Return the answer to a check.

        Args:
            code: of the check.
            title: of the check.
            good: the answer if no finding concerns the check.
            figures: of that answer.
            mark: of that answer.
            always: text before the answer in either case; ``figures`` and ``mark`` then always
                count.
            bad: the mark of each finding that concerns the check, by code with ``_`` for ``-``.
        """
        marks = {name.replace("_", "-"): each for name, each in bad.items()}
        found = [self._found[name] for name in marks if name in self._found]
        if not found:
            return Check(code, mark, title, f"{always} {good}".strip(), tuple(figures))
        worst = max((marks[each.code] for each in found), key=_MARKS.index)
        titles = " ".join(f"{each.title}." for each in found)
        if not always:
            figures = [figure for each in found for figure in each.evidence]
        elif _MARKS.index(mark) > _MARKS.index(worst):
            worst = mark
        codes = tuple(each.code for each in found)
        return Check(code, worst, title, f"{always} {titles}".strip(), tuple(figures), codes)


# Call stacks missing for less than this part of the peak change no answer.
_FEW_MISSING = 0.05


def _write_checks(
    found: Sequence[Finding], tables: History, device: DeviceFigures, facts: TrustFacts
) -> Iterator[Check]:
    """Yield the answer to each check of a recording, the most important first."""
    if not device.history.events and not len(device.history.segments):
        return
    account = _Account(found)
    good = f"{plural(facts.window.events, 'event was', 'events were')} recorded."
    covered = _covered(facts.window)
    yield account.check("history", "History", good, covered, no_history="not ok")
    if device.recorded:
        yield _beginning(account, device)
        yield _end(account, device)
        yield _loss(account, facts)
        good = "No memory from before the recording was freed during it."
        yield account.check("frees", "Frees", good, unmatched_frees="unknown")
    yield _stacks(account, device, facts)
    if device.recorded:
        mark: Mark = "unknown" if device.peaks["allocated"].width else "ok"
        good = "Every block's size is exact."
        yield account.check(
            "sizes", "Block sizes", good,
            inferred_sizes=mark, other_allocator="ok" if facts.blocks_known else "not ok",
        )  # fmt: skip
    yield _closing(account, facts)
    yield _reserved(account, device, facts)
    if facts.replay is not None:
        yield check_replay(facts.replay)
    if device.history.events:
        good = "Every event is of a known kind and fits the others."
        yield account.check(
            "events", "Kinds of events", good,
            odd_events="not ok", unknown_actions="not ok", skipped_actions="unknown",
        )  # fmt: skip
    if device.recorded:
        known = bool((device.times != NO_TIME).any())
        good = "Events carry times." if known else "No event carries a time."
        mark = "ok" if known else "unknown"
        yield account.check("times", "Times", good, mark=mark, no_times="unknown")
    oddities = (Figure(name, n, "count") for name, n in sorted(tables.oddities.items())[:8])
    good = "Every part of the file is known."
    file = account.check("file", "Parts of the file", good, unknown_keys="unknown")
    yield replace(file, figures=tuple(oddities))


def _covered(window: Window) -> list[Figure]:
    first, last = window.first_time_us, window.last_time_us
    figures = []
    if first is not None and last is not None and last > first:
        figures.append(Figure("time covered", last - first, "time_us"))
    counts = {
        "stages": window.stages,
        "stages cut off at the start": window.cut_at_start,
        "stages cut off at the end": window.cut_at_end,
    }
    return figures + [Figure(label, n, "count") for label, n in counts.items() if n]


def _beginning(account: _Account, device: DeviceFigures) -> Check:
    start, peak = device.start.allocated, device.peaks["allocated"].bytes
    good = (
        f"Only {format_bytes(start)} was allocated before the first event,"
        f" {share_in_words(start, peak)} of the peak. It is counted."
        if start
        else "Nothing was allocated before the first event."
    )
    reserved = device.start.reserved
    figures = [Figure("reserved before the first event", reserved)] if reserved else []
    return account.check("beginning", "Beginning", good, figures, started_late="not ok")


def _end(account: _Account, device: DeviceFigures) -> Check:
    last = device.peak.event == device.history.events - 1
    good = (
        f"The file was written with {format_bytes(device.end.allocated)} allocated,"
        f" {'at' if last else 'after'} the peak."
    )
    return account.check("end", "End", good, dumped_early="unknown", dumped_late="ok")


def _loss(account: _Account, facts: TrustFacts) -> Check:
    loss = facts.loss
    signs = "; ".join(loss.signs)
    if loss.state in GONE:
        mark: Mark = "unknown" if loss.state == "suspected" else "not ok"
        check = account.check("loss", "Lost events", "", ring_overflowed=mark)
        return replace(check, mark=mark, text=f"{GONE[loss.state]}: {signs}.")
    if loss.state == "none":
        good = f"As far as the file shows, no older event is missing{signs and f': {signs}'}."
        return account.check("loss", "Lost events", good)
    good = "Nothing suggests that older events were overwritten, but the file does not say."
    return account.check("loss", "Lost events", good, mark="unknown")


def _stacks(account: _Account, device: DeviceFigures, facts: TrustFacts) -> Check:
    missing, total = sum(each.peak_bytes for each in facts.missing), device.peak.allocated
    moment = "at the peak" if device.recorded else "at the end"
    text = (
        f"{format_bytes(missing)} of what was live {moment}, {share_in_words(missing, total)},"
        " has no call stack."
        if missing
        else f"Everything that was live {moment} has a call stack."
    )
    return account.check(
        "stacks",
        "Call stacks",
        "",
        [Figure(each.reason, each.peak_bytes) for each in facts.missing if each.peak_bytes],
        mark="ok" if missing <= _FEW_MISSING * total else "not ok",
        always=text,
        missing_stacks="not ok",
        native_stacks_only="not ok",
        python_stacks_only="ok",
    )


def _closing(account: _Account, facts: TrustFacts) -> Check:
    if facts.closing is None:
        good = "The file lists no final segments of this device to compare with."
        return account.check("closing", "Final state", good, mark="unknown")
    good = (
        "The events add up to the final state that the file lists: requested, allocated and"
        " active bytes agree to the byte."
    )
    return account.check("closing", "Final state", good, does_not_close="not ok")


def _reserved(account: _Account, device: DeviceFigures, facts: TrustFacts) -> Check:
    known = [
        (name, each) for name, each in (("peak", facts.at_peak), ("end", facts.at_end)) if each
    ]
    off = [f"{format_signed_bytes(e.difference)} at the {n}" for n, e in known if e.difference]
    mark: Mark = "ok"
    if device.end.reserved is None:
        mark, good = "unknown", "No allocator reserved memory here."
    elif off:
        mark, good = "not ok", f"Its parts do not add up to it: {', '.join(off)}."
    else:
        when = " and at the ".join(name for name, _ in known)
        good = (
            f"Requested, slack, awaiting free and inactive bytes add up to it at the {when},"
            " to the byte."
        )
    return account.check(
        "reserved", "Reserved memory", good,
        mark=mark, no_allocator="unknown", reserved_too_low="not ok",
    )  # fmt: skip


_MODEL = "A model of PyTorch's allocator puts"


def check_replay(found: FactualReplay) -> Check:
    """Say how far the model matches the allocator, and what follows if it does not fully.

    No other figure depends on it.
    """
    figures = [Figure("at their recorded address", found.placed, "count")]
    if found.segment_events:
        figures.append(Figure("segment events the same", found.segment_events_met, "count"))
    if found.divergence is not None:
        figures.insert(0, Figure("allocations", found.allocations, "count"))
        figures.insert(2, Figure("segment events", found.segment_events, "count"))
        figures.append(Figure("reserved at most, by the model", found.peak_reserved_model))
        figures.append(Figure("first departs at event", found.divergence, "count"))
    mark: Mark = "ok" if found.explains else "unknown"
    return Check("replay", mark, "Replay", _how_replayed(found), tuple(figures))


def _how_replayed(found: FactualReplay) -> str:
    if found.cause == "other-allocator":
        return (
            "The model covers only CUDA's own allocator, and another allocator made this recording."
        )
    count = format_count(found.allocations)
    if found.exact and found.not_modelled:
        return (
            f"{_MODEL} all {count} allocations at their recorded addresses; but no other settings"
            f" are tried on this recording: {found.not_modelled}."
        )
    if found.exact:
        same = ", and reserves the same at every event, to the byte" if found.reserved_equal else ""
        if found.allocations == 1:
            return f"{_MODEL} the only allocation at its recorded address{same}."
        return f"{_MODEL} all {count} allocations at their recorded addresses{same}."
    if found.placed == found.allocations:
        how = f"all {count} allocations at their recorded addresses, but handles segments otherwise"
    else:
        share = share_in_words(found.placed, found.allocations)
        how = f"{share} of the allocations at their recorded addresses"
    return (
        f"{_MODEL} {how}; so no other settings are tried on this recording. Likely cause:"
        f" {CAUSES[found.cause]}."
    )


# PyTorch's own counters, where a recording has them.


def own_counters(noted: RecordedDevice | None, peaks: dict[str, CurvePeak]) -> OwnCounters | None:
    """Compare PyTorch's allocated peak with ours; None if its counters were not read.

    PyTorch's peak counts from its last reset, which may be before the recording or during it. Only
    a peak that rose during the recording must equal ours, to the byte.

    Args:
        noted: what the recorder noted about the device.
        peaks: of the device's curves.
    """
    after = None if noted is None else noted.stat("allocated_bytes.all.peak")
    if noted is None or after is None:
        return None
    before = noted.stat("allocated_bytes.all.peak", "before") or 0
    ours = peaks["allocated"]
    if after > before:
        when = "inside"
        agrees = ours.bytes <= after <= ours.bytes + ours.width
    elif after == before:
        when = "before"
        agrees = ours.bytes <= after
    else:
        when = "reset"
        agrees = after <= ours.bytes + ours.width
    return OwnCounters(
        allocated_peak=after,
        reserved_peak=noted.stat("reserved_bytes.all.peak") or 0,
        when=when,
        agrees=agrees,
        foreign_before=_foreign(noted, "before"),
        foreign_after=_foreign(noted, "after"),
    )


def _foreign(noted: RecordedDevice, when: str) -> int | None:
    """Return the bytes held outside PyTorch's allocator: other processes, and the CUDA context."""
    free = noted.free_before if when == "before" else noted.free_after
    total = noted.total_before if when == "before" else noted.total_after
    if free is None or total is None:
        return None
    return max(total - free - (noted.stat("reserved_bytes.all.current", when) or 0), 0)

"""The words of a recording's trust: one sentence, and the answer to every check."""

from __future__ import annotations

from snapreport.diagnosis.trust.recording_mistakes import GONE, LATE
from snapreport.ground.units import format_bytes, format_count, format_signed_bytes, share_in_words
from snapreport.model.diagnoses import Figure
from snapreport.model.findings import DeviceFindings
from snapreport.model.history import START, History
from snapreport.model.snapshot import NO_TIME
from snapreport.model.trust import Check, Mark, ReservedParts, TrustFacts, Verdict

# Call stacks that are missing for less of the peak change no answer.
_FEW_MISSING = 0.05
_FRAMES = {
    "python": " The others hold only Python frames.",
    "native": " The others hold only C++ frames.",
}


def verdict_sentence(verdict: Verdict, device: DeviceFindings, facts: TrustFacts) -> str:
    """Say the verdict as a reader needs it: first what, then why."""
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
            f" what happened before was not recorded.{_width(facts)}"
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
    if facts.anomalies:
        count = sum(facts.anomalies.values())
        reasons.append(f"{_plural(count, 'event does', 'events do')} not fit the others")
    off = [
        parts.difference
        for parts in (facts.at_peak, facts.at_end)
        if parts is not None and parts.difference
    ]
    if off:
        reasons.append(f"the parts of reserved memory miss it by {format_bytes(abs(off[0]))}")
    return " and ".join(reasons) or "events of segments are missing"


def _why_earlier(device: DeviceFindings, facts: TrustFacts) -> str:
    if facts.loss.state in GONE:
        return f"{GONE[facts.loss.state].lower()} ({facts.loss.signs[0]})"
    if device.peaks["allocated"].step == START:
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


def write_checks(tables: History, device: DeviceFindings, facts: TrustFacts) -> tuple[Check, ...]:
    """Answer every question that there is about a recording, in the order of their weight."""
    if not device.history.events and not len(device.history.segments):
        return ()
    checks = [_history(device, facts)]
    if device.recorded:
        checks += [_beginning(device), _end(device), _loss(facts), _frees(facts)]
    checks += [_stacks(device, facts)]
    if device.recorded:
        checks += [_sizes(device, facts)]
    checks += [_closing(facts), _reserved(device, facts)]
    if device.history.events:
        checks += [_kinds(facts)]
    if device.recorded:
        checks += [_times(device)]
    return (*checks, _file(tables))


def _history(device: DeviceFindings, facts: TrustFacts) -> Check:
    window = facts.window
    first, last = window.first_time_us, window.last_time_us
    figures = []
    if first is not None and last is not None and last > first:
        figures.append(Figure("time covered", last - first, "time_us"))
    if window.stages:
        figures.append(Figure("stages", window.stages, "count"))
    if window.cut_at_start:
        figures.append(Figure("stages cut off at the start", window.cut_at_start, "count"))
    if window.cut_at_end:
        figures.append(Figure("stages cut off at the end", window.cut_at_end, "count"))
    text = f"{_plural(window.events, 'event was', 'events were')} recorded."
    if not device.recorded:
        text += " That is no history: the file shows the final state only."
    return Check("history", _mark(device.recorded), "History", text, tuple(figures))


def _beginning(device: DeviceFindings) -> Check:
    start, peak = device.start.allocated, device.peaks["allocated"].bytes
    figures = []
    if device.start.reserved:
        figures.append(Figure("reserved before the first event", device.start.reserved))
    if not start:
        text = "Nothing was allocated before the first event."
    else:
        text = (
            f"{format_bytes(start)} was allocated before the first event,"
            f" {share_in_words(start, peak)} of the peak. It is counted; what made it was not"
            " recorded."
        )
    return Check("beginning", _mark(start <= LATE * peak), "Beginning", text, tuple(figures))


def _end(device: DeviceFindings) -> Check:
    codes = {each.code: each for each in device.warnings}
    end = device.end.allocated
    mark: Mark = "ok"
    if "dumped-early" in codes:
        mark, text = "unknown", "Memory was still growing when the file was written."
    elif "dumped-late" in codes:
        text = f"{codes['dumped-late'].title}; the failure itself is in the recording."
    else:
        text = f"The file was written with {format_bytes(end)} allocated, after the peak."
        if device.peak.step == device.history.events - 1:
            text = f"The file was written with {format_bytes(end)} allocated, at the peak."
    return Check("end", mark, "End", text)


def _loss(facts: TrustFacts) -> Check:
    loss = facts.loss
    figures = tuple(
        Figure(label, value, "count")
        for label, value in (
            ("size of the ring (max_entries)", loss.max_entries),
            ("events per iteration", loss.events_per_step),
        )
        if value is not None
    )
    signs = f" {'; '.join(loss.signs)}." if loss.signs else ""
    marks: dict[str, tuple[Mark, str]] = {
        "lost": ("not ok", f"{GONE['lost']}:{signs}"),
        "missing": ("not ok", f"{GONE['missing']}:{signs}"),
        "suspected": ("unknown", f"{GONE['suspected']}:{signs}"),
        "not known": (
            "unknown",
            "Nothing suggests that older events were overwritten, but the file does not say.",
        ),
        "none": ("ok", f"No older event is missing as far as the file shows:{signs}"),
    }
    mark, text = marks[loss.state]
    return Check("loss", mark, "Lost events", text, figures)


def _frees(facts: TrustFacts) -> Check:
    count, size = facts.window.unmatched, facts.window.unmatched_bytes
    if not count:
        return Check("frees", "ok", "Frees", "No free is of memory from before the recording.")
    return Check(
        "frees",
        "unknown",
        "Frees",
        f"{_plural(count, 'free is', 'frees are')} of memory from before the recording:"
        f" {format_bytes(size)}, counted from the start. Who made it is not known.",
    )


def _stacks(device: DeviceFindings, facts: TrustFacts) -> Check:
    missing = sum(each.peak_bytes for each in facts.missing)
    total = device.peak.allocated
    moment = "at the peak" if device.recorded else "at the end"
    if not missing:
        text = f"Everything that was live {moment} has a call stack."
        frames = {
            "python": " They hold only Python frames.",
            "native": " They hold only C++ frames.",
        }.get(facts.stack_kind, "")
        return Check("stacks", _mark(facts.stack_kind != "native"), "Call stacks", text + frames)
    text = (
        f"{format_bytes(missing)} of what was live {moment}, {share_in_words(missing, total)},"
        " has no call stack."
    )
    if missing < total:
        text += _FRAMES.get(facts.stack_kind, "")
    return Check(
        "stacks",
        _mark(missing <= _FEW_MISSING * total),
        "Call stacks",
        text,
        tuple(Figure(each.reason, each.peak_bytes) for each in facts.missing if each.peak_bytes),
    )


def _sizes(device: DeviceFindings, facts: TrustFacts) -> Check:
    if not facts.inferred_blocks:
        return Check("sizes", "ok", "Block sizes", "Every block's size is exact.")
    peak = device.peaks["allocated"]
    blocks = _plural(facts.inferred_blocks, "block", "blocks")
    text = f"The exact size of {blocks} is not recorded: the smallest possible size is used. "
    text += (
        f"The allocated peak may be up to {format_bytes(peak.width)} higher."
        if peak.width
        else "The allocated peak is exact."
    )
    return Check("sizes", "unknown" if peak.width else "ok", "Block sizes", text)


def _closing(facts: TrustFacts) -> Check:
    closing = facts.closing
    title = "Final state"
    if closing is None:
        text = "The file lists no final segments of this device to compare with."
        return Check("closing", "unknown", title, text)
    if closing.closes:
        text = (
            "The events add up to the final state that the file lists too: requested, allocated and"
            " active bytes, to the byte."
        )
        return Check("closing", "ok", title, text)
    figures = tuple(
        Figure(f"{name} off by", by)
        for name, by in (
            ("requested", closing.requested),
            ("allocated", closing.allocated),
            ("active", closing.active),
        )
    )
    text = "The events do not add up to the final state that the file lists too."
    return Check("closing", "not ok", title, text, figures)


def _reserved(device: DeviceFindings, facts: TrustFacts) -> Check:
    title = "Reserved memory"
    moments = [("peak", facts.at_peak), ("end", facts.at_end)]
    known: list[tuple[str, ReservedParts]] = [(name, each) for name, each in moments if each]
    if device.end.reserved is None:
        text = "No allocator reserved memory here: there are no blocks and no segments."
        return Check("reserved", "unknown", title, text)
    if any(each.code == "reserved-too-low" for each in device.warnings):
        text = "At some steps more is active than reserved: events of segments are missing."
        return Check("reserved", "not ok", title, text)
    off = [(name, each.difference) for name, each in known if each.difference]
    if off:
        text = "Its parts do not add up to it: " + ", ".join(
            f"{format_signed_bytes(by)} at the {name}" for name, by in off
        )
        return Check("reserved", "not ok", title, f"{text}.")
    when = " and at the ".join(name for name, _ in known)
    text = (
        f"Requested, slack, awaiting free and inactive bytes add up to it at the {when},"
        " to the byte."
    )
    return Check("reserved", "ok", title, text)


def _kinds(facts: TrustFacts) -> Check:
    unknown, odd = sum(facts.unknown_actions.values()), sum(facts.anomalies.values())
    figures = tuple(
        Figure(name, count, "count")
        for name, count in sorted({**facts.unknown_actions, **facts.anomalies}.items())
    )
    parts = []
    if odd:
        parts.append(f"{_plural(odd, 'event does', 'events do')} not fit the others.")
    if unknown:
        kinds = _plural(unknown, "event is", "events are")
        parts.append(f"{kinds} of an unknown kind and counted as no bytes.")
    text = " ".join(parts) or "Every event is of a known kind and fits the others."
    return Check(
        "events", "not ok" if odd else _mark(not unknown), "Kinds of events", text, figures
    )


def _times(device: DeviceFindings) -> Check:
    known = bool((device.times != NO_TIME).any())
    text = "Events carry times." if known else "No event carries a time: steps alone are shown."
    return Check("times", "ok" if known else "unknown", "Times", text)


def _file(tables: History) -> Check:
    count = sum(tables.oddities.values())
    if not count:
        return Check("file", "ok", "Parts of the file", "Every part of the file is known.")
    return Check(
        "file",
        "unknown",
        "Parts of the file",
        f"{_plural(count, 'part was', 'parts were')} left out: this version does not know them.",
        tuple(Figure(name, n, "count") for name, n in sorted(tables.oddities.items())[:8]),
    )


def _mark(good: bool) -> Mark:
    return "ok" if good else "not ok"


def _plural(count: int, one: str, many: str) -> str:
    return f"{format_count(count)} {one if count == 1 else many}"

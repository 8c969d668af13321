"""Say how far a recording can be trusted: one sentence, and the answer to every check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from snapreport.diagnosis.trust.recording_mistakes import GONE
from snapreport.diagnosis.trust.replay_check import check_replay
from snapreport.ground.units import format_bytes, format_signed_bytes, plural, share_in_words
from snapreport.model.diagnoses import Figure, Finding
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import START, History
from snapreport.model.snapshot import NO_TIME
from snapreport.model.trust import Check, Mark, TrustFacts, Verdict, Window

# Call stacks missing for less than this part of the peak change no answer.
_FEW_MISSING = 0.05


def verdict_sentence(verdict: Verdict, device: DeviceFigures, facts: TrustFacts) -> str:
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


_MARKS: tuple[Mark, ...] = ("ok", "unknown", "not ok")
"""The worst last."""


def write_checks(
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

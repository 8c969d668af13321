"""A diagnosis as text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, TypeVar

from snapreport.ground.units import (
    format_bytes,
    format_count,
    format_share,
    list_of,
    plural,
    share_in_words,
)
from snapreport.model.answers import (
    LARGEST_BATCH,
    MOST_CHANGES,
    BatchGrowth,
    BatchPeak,
    Plan,
    RoleGrowth,
    RoleLeft,
)
from snapreport.model.diagnoses import (
    Check,
    Figure,
    Finding,
    Frees,
    ReservedParts,
    Suggestion,
    Table,
    Trust,
)
from snapreport.model.findings import Findings
from snapreport.reporters.plain_text import location, one_line
from snapreport.reporters.text_tables import Page
from snapreport.reporters.words import (
    PARTS,
    cells_of,
    conditions,
    difference_text,
    exactness,
    figure_text,
    frees_text,
    part_rows,
    plural_of,
    reasons,
    reserved_moments,
    tally,
    texts_of,
)

_INDENT = "  "
_ROWS = 6
"""Rows of a table without ``--full``."""
_VALUE = 24
"""The widest value that the column of meanings makes room for."""
_MEANING = 20
"""The least columns for a meaning to be readable."""


def write_diagnoses(page: Page, found: Findings, full: bool, *, named: bool = False) -> None:
    """Write the findings about the file, and those of each device; ``named``: its name is said."""
    if found.warnings:
        if not named:
            page.say(one_line(found.history.source.name), "title")
        findings(page, found.warnings, full=True)
    for each in found.devices:
        if each.history.events or len(each.history.allocations) or len(found.devices) == 1:
            page.part(f"{each.device}: {tally(each.diagnosis.findings)}")
            findings(page, each.diagnosis.findings, full=full)
            if each.diagnosis.silenced:
                page.say()
                page.say(f"Silenced: {', '.join(each.diagnosis.silenced)}")


def findings(page: Page, found: Sequence[Finding], *, full: bool) -> None:
    """Write findings, the worst first; unless ``full``, those that do not lead as one line each."""
    for finding in found:
        if not (finding.leads or full):
            continue
        page.say()
        _finding(page, finding, None if full else _ROWS)
    notes = [each for each in found if not each.leads]
    if notes and not full:
        page.part("Notes (--full explains them)")
        for note in notes:
            _indented(page, f"{one_line(note.title)}  [{note.id}]", "- ")


def _finding(page: Page, finding: Finding, most: int | None) -> None:
    head = f"{finding.severity.upper()}: {one_line(finding.title)}  [{finding.id}]"
    for line in textwrap.wrap(head, page.width, subsequent_indent=_INDENT, break_on_hyphens=False):
        page.say(line, finding.severity)
    _indented(page, one_line(finding.explanation))
    _figures(page, finding.evidence)
    for table in finding.tables:
        _table(page, table, most)
    if finding.suggestions:
        page.part(f"{_INDENT}What would help")
        for each in finding.suggestions:
            suggestion(page, each, full=most is None)


def _figures(page: Page, figures: Sequence[Figure]) -> None:
    """Write each figure as a line, with what it means beside it."""
    if not figures:
        return
    page.say()
    labels = [one_line(each.label) for each in figures]
    values = [one_line(figure_text(each)) for each in figures]
    # A longer value, such as a cause, would leave no room for any meaning.
    wide = max((len(text) for text in values if len(text) <= _VALUE), default=0)
    left = max(map(len, labels))
    for figure, label, value in zip(figures, labels, values, strict=True):
        head = f"{_INDENT}{label:<{left}}  {value:>{wide}}"
        meaning = one_line(figure.meaning)
        if not meaning or page.width - len(head) < _MEANING:
            page.say(head)
            continue
        for line in textwrap.wrap(
            meaning,
            page.width,
            initial_indent=f"{head}  ",
            subsequent_indent=" " * (len(head) + 2),
            break_on_hyphens=False,
        ):
            page.say(line)


def _table(page: Page, table: Table, most: int | None) -> None:
    page.say()
    _indented(page, one_line(table.title))
    shown = cells_of(table, most)
    headings = [column.title for column in table.columns]
    page.table(headings, shown, texts_of(table), indent=_INDENT * 2)
    rest = len(table.rows) - len(shown) + table.left_out
    if rest:
        page.say(f"{_INDENT * 2}and {rest:,} more")


def suggestion(page: Page, offered: Suggestion, *, full: bool = False) -> None:
    """Write a suggestion and the change to make; ``full``: with the reasons for its figures."""
    frees = frees_text(offered.frees)
    text = f"{offered.text}{f' ({frees})' if frees else ''} {conditions(offered)}"
    _indented(page, one_line(text).rstrip(), "- ")
    for line in reasons(offered.frees) if full else ():
        _indented(page, one_line(line), "  ")
    for line in offered.change.splitlines():
        page.say(f"{_INDENT * 3}{one_line(line)}")


def _indented(page: Page, text: str, mark: str = "") -> None:
    wrapped = textwrap.wrap(
        text,
        page.width,
        initial_indent=_INDENT + mark,
        subsequent_indent=_INDENT + " " * len(mark),
        break_long_words=False,
        break_on_hyphens=False,
    )
    for line in wrapped:
        page.say(line)


# A plan as text for a terminal: whether the target is reached, the steps, what remains.


_NAMED = 3
"""The most roles that the sentence names."""
_LITTLE = 0.05
"""A role with a smaller share of what remains is not named."""


def write_plan(
    page: Page, device: str, plan: Plan, beyond: int | None, *, failed: bool, full: bool
) -> None:
    """Write a plan.

    Args:
        page: to write to.
        device: the device's name.
        plan: for the device's allocated peak.
        beyond: reserved minus allocated bytes at the recorded peak; None where that is not known.
        failed: whether a request for memory failed in the recording.
        full: with the reasons for each figure.
    """
    page.say(f"{device}: {verdict(plan)}")
    for number, step in enumerate(plan.steps, start=1):
        peak, most = format_bytes(step.expected), format_bytes(step.most)
        bound = f"{most} at most"
        page.part(f"{number}. {step.suggestion.code}: the peak is then {peak}, {bound}")
        suggestion(page, step.suggestion, full=full)
    if plan.steps or plan.reached == "no":
        page.say()
        page.say("What the peak then consists of" if plan.steps else "What the peak consists of")
        rows = [
            (format_bytes(each.bytes), format_share(each.bytes, plan.expected), each.role)
            for each in plan.left
        ]
        page.table(("bytes", "share", "role"), rows)
    notes = plan_notes(beyond, failed)
    if notes:
        page.say()
        page.say(notes)


def verdict(plan: Plan) -> str:
    """Say in a sentence or two whether the target is reached, and what remains if it is not."""
    peak, target = format_bytes(plan.peak), format_bytes(plan.target)
    then, most = format_bytes(plan.expected), format_bytes(plan.most)
    changes = plural(len(plan.steps), "change")
    if plan.reached == "yes" and not plan.steps:
        return f"the allocated peak is {peak}, within the target of {target} as it is."
    if plan.reached == "yes":
        bounded = f"about {then}, {most} at most" if plan.most > plan.expected else then
        return (
            f"{changes} {'lowers' if len(plan.steps) == 1 else 'lower'} the allocated peak from"
            f" {peak} to {bounded}: within the target of {target}."
        )
    if plan.reached == "expected":
        return (
            f"with {changes} the allocated peak is expected to fall from {peak} to {then}, within"
            f" the target of {target}. That is not certain: it may be up to {most}."
        )
    if not plan.steps:
        return (
            f"the allocated peak is {peak}, and the target of {target} is not reached: this"
            f" recording supports no change that would lower it much. {_remains(plan.left)}"
        )
    return (
        f"the target of {target} is not reached. No combination of up to {MOST_CHANGES} changes"
        f" that this recording supports is expected to get the allocated peak of {peak} below"
        f" {then}. {_remains(plan.left)}"
    )


def _remains(left: tuple[RoleLeft, ...]) -> str:
    whole = sum(each.bytes for each in left)
    named = [each for each in left[:_NAMED] if each.bytes >= _LITTLE * whole]
    words = [plural_of(each.role) for each in named]
    if not words:
        return ""
    held = sum(each.bytes for each in named)
    return f"Of that {format_bytes(held)} ({share_in_words(held, whole)}) are {list_of(words)}."


def plan_notes(beyond: int | None, failed: bool) -> str:
    """Say what a plan leaves out: requests after a failed one, and reserved bytes."""
    said = []
    if failed:
        said.append(
            "A request for memory failed in this recording: what the program would have allocated"
            " then and later is not counted."
        )
    if beyond:
        said.append(
            "These are allocated bytes, and the driver has to provide more: at the recorded peak"
            f" {format_bytes(beyond)} were reserved on top of them."
        )
    return " ".join(said)


# How the peak grows with the batch, and the largest batch that fits, as text for a terminal.


_DOUBTS = {
    "other work": "The recordings do not allocate and free the same tensors in the same order.",
    "no law": "Some sizes grow neither evenly nor with the square of the batch.",
    "convolutions": "Convolutions choose an algorithm, and so its memory, by the batch size.",
    "data": "Sizes differ from step to step, so they depend on the data, too.",
    "one step": "With only one step recorded, nothing shows whether sizes depend on the data, too.",
    "extrapolated": "Some of these sizes are outside of the recorded range.",
}
"""What makes the estimates less sure, by ``BatchGrowth.doubt``."""


def write_growth(
    page: Page, device: str, growth: BatchGrowth, beyond: int | None, *, failed: bool
) -> None:
    """Write how a peak grows.

    Args:
        page: to write to.
        device: the device's name.
        growth: of the device's allocated peak.
        beyond: reserved minus allocated bytes at the peak of the largest recording, or None.
        failed: whether a request for memory failed in any of the recordings.
    """
    page.say(f"{device}: {growth_verdict(growth)}")
    page.say()
    page.say("The allocated peak by batch")
    page.table(("batch", "expected", "recorded", "in"), map(_peak_row, growth.peaks))
    page.say()
    page.say(f"What it consists of at batch {format_count(growth.at_batch)}")
    curved = any(role.square for role in growth.roles)
    names = ("bytes", "fixed", "per sample", *(("per sample²",) if curved else ()), "role")
    page.table(names, [_role_row(each, curved) for each in growth.roles])
    page.say()
    page.say(" ".join(filter(None, (how_sure(growth), plan_notes(beyond, failed)))))


def growth_verdict(growth: BatchGrowth) -> str:
    """Say in a sentence or two which batch fits, and what grows."""
    return " ".join(filter(None, (_largest(growth), _what_grows(growth))))


def _largest(growth: BatchGrowth) -> str:
    if growth.target is None:
        return ""
    target = format_bytes(growth.target)
    if growth.fits is None:
        return f"any batch up to {format_count(LARGEST_BATCH)} is expected to fit into {target}."
    peak = next(each for each in growth.peaks if each.batch == max(growth.fits, 1))
    size = format_bytes(peak.expected)
    if not growth.fits:
        return f"not even a batch of 1 is expected to fit into {target}: its peak would be {size}."
    batch = format_count(growth.fits)
    return f"a batch of {batch} is the largest expected to fit into {target}: {size}."


def _what_grows(growth: BatchGrowth) -> str:
    sizes = growth.at_batch
    added = [(each.bytes - each.fixed, each.role) for each in growth.roles]
    whole = sum(size for size, _ in added)
    if whole <= 0:
        return "Nothing in the peak grows with the batch."
    most, role = max(added)
    held = sum(each.bytes for each in growth.roles)
    return (
        f"At {format_count(sizes)}, {share_in_words(whole, held)} of the peak grows with the batch;"
        f" {share_in_words(most, whole)} of that are {plural_of(role)}."
    )


def how_sure(growth: BatchGrowth) -> str:
    """Say how good the estimates are, and what may make them wrong."""
    recorded = {each.batch: each.recorded for each in growth.peaks if each.recorded is not None}
    off = max(
        abs(each.expected - recorded[each.batch]) for each in growth.peaks if each.batch in recorded
    )
    advice = (
        ""
        if growth.at_batch in recorded
        else f": record at {format_count(growth.at_batch)} to be sure"
    )
    said = (
        f"These are estimates, at most {format_bytes(off)} off at the recorded sizes.",
        _DOUBTS.get(growth.doubt, ""),
        f"Splitting, padding and other thresholds may change other sizes{advice}.",
    )
    return " ".join(filter(None, said))


def _peak_row(peak: BatchPeak) -> tuple[str, ...]:
    return (
        format_count(peak.batch),
        format_bytes(peak.expected),
        "" if peak.recorded is None else format_bytes(peak.recorded),
        peak.phase,
    )


def _role_row(growth: RoleGrowth, curved: bool) -> tuple[str, ...]:
    figures = (growth.bytes, growth.fixed, growth.each, *((growth.square,) if curved else ()))
    return (*(_signed(figure) for figure in figures), growth.role)


def _signed(size: int) -> str:
    return format_bytes(size) if size >= 0 else f"-{format_bytes(-size)}"


# Whether a recording can be trusted, as text for a terminal.


_TITLE = 28
"""Columns that a check's mark and title take before its text."""


def write_trust(page: Page, findings: Findings) -> None:
    """Write whether the recording of each device can be trusted."""
    for each in findings.devices:
        page.part()
        device_trust(page, str(each.device), each.trust)


def device_trust(page: Page, name: str, found: Trust) -> None:
    """Write the verdict, every check, what reserved memory consists of, and how to improve."""
    page.say(f"{name}: {found.sentence}", "title")
    if found.checks:
        page.say()
    for check in found.checks:
        _check(page, check)
    facts = found.facts
    _reserved(page, reserved_moments(found))
    recorded = found.verdict not in ("nothing", "no history")
    if recorded:
        page.part("How exact the peaks are")
        page.table(
            ("curve", "peak", ""),
            [
                (name, format_bytes(peak.bytes), exactness(peak))
                for name, peak in facts.peaks.items()
            ],
            left=(0, 2),
        )
    if facts.missing:
        page.part("Allocations without a call stack")
        page.table(
            ("at the peak" if recorded else "at the end", "count", "in all", "count", "reason"),
            [
                (
                    format_bytes(each.peak_bytes),
                    format_count(each.peak_count),
                    format_bytes(each.bytes),
                    format_count(each.count),
                    each.reason,
                )
                for each in facts.missing
            ],
        )
    if found.fixes:
        page.part("To record better")
        for fix in found.fixes:
            suggestion(page, fix)


def _check(page: Page, check: Check) -> None:
    figures = "; ".join(
        f"{one_line(each.label)} {one_line(figure_text(each))}" for each in check.figures
    )
    head = f"{check.mark:<9}{check.title}"
    text = " ".join((one_line(check.text), *(f"[{code}]" for code in check.findings)))
    lines = [*_wrapped(page, text), *_wrapped(page, figures)]
    for i, line in enumerate(lines):
        page.say(f"{head if i == 0 else '':<{_TITLE}}{line}")


def _wrapped(page: Page, text: str) -> list[str]:
    return textwrap.wrap(text, page.width - _TITLE, break_on_hyphens=False)


def _reserved(page: Page, moments: list[tuple[str, ReservedParts]]) -> None:
    if not moments:
        return
    page.part("What reserved memory consists of")
    columns = [part_rows(parts) for _, parts in moments]
    rows = [
        (title, *(cell for column in columns for cell in column[i]))
        for i, (_, title) in enumerate(PARTS)
    ]
    total = ["reserved"]
    for _, parts in moments:
        total += [format_bytes(parts.reserved), difference_text(parts) or "to the byte"]
    headings = ["", *(heading for title, _ in moments for heading in (title, "share"))]
    page.table(headings, [*rows, total], left=(0,))


# The summary stored in a page, as text for a terminal; a stranger may have made its JSON.


Plain = dict[str, Any]
_Kind = TypeVar("_Kind")
_LONGEST = 2000
"""Most letters of a text that are shown; texts from snapreport are shorter."""


def write_saved(page: Page, summary: Plain) -> None:
    """Write each device's answer, findings, peaks and call sites, or a run's conclusions."""
    page.say(_text(summary, "title"), "title")
    for warning in _rows(summary, "warnings"):
        page.say(f"! {_text(warning, 'text')}", "warning")
    for device in _rows(summary, "devices"):
        _device(page, device)
    if "headline" in summary:  # a run's page
        _run(page, summary)


def _run(page: Page, summary: Plain) -> None:
    page.say(_text(summary, "headline"))
    for part in ("odd", "groups", "imbalances", "replicated"):
        for row in _rows(summary, part):
            _saved_paragraph(page, _text(row, "sentence"), "- ")
    for row in _rows(summary, "broken"):
        _saved_paragraph(page, f"{_text(row, 'file')}: {_text(row, 'error')}", "- ")


def _device(page: Page, device: Plain) -> None:
    page.part()
    events, made = _number(device, "events"), _number(device, "allocations")
    about = f"{format_count(events)} events, {format_count(made)} allocations"
    page.say(f"{_text(device, 'device')}  {about}", "title")
    page.say(_text(device, "answer"))
    for finding in _rows(_row(device, "diagnosis"), "findings"):
        _saved_finding(page, finding)
    peaks = _row(device, "peaks")
    curves = [(name, peak) for name, peak in peaks.items() if isinstance(peak, dict)]
    if curves:
        page.part()
        rows = [
            (one_line(name), format_bytes(_number(peak, "bytes")), str(_number(peak, "event")))
            for name, peak in curves
        ]
        page.table(("memory", "peak", "event"), rows, left=(0,))
    _sites(page, device)


def _saved_finding(page: Page, finding: Plain) -> None:
    page.say()
    severity = _text(finding, "severity")
    title = f"{severity.upper()}: {_text(finding, 'title')}  [{_text(finding, 'id')}]"
    page.say(title, severity if severity in ("critical", "warning", "note") else "")
    _saved_paragraph(page, _text(finding, "explanation"), "")
    for each in _rows(finding, "suggestions"):
        promise = _promise(_row(each, "frees"))
        _saved_paragraph(page, f"{_text(each, 'text')} {promise}".rstrip(), "- ")


def _promise(frees: Plain) -> str:
    least, about, most = (_number(frees, name) for name in ("least", "expected", "most"))
    if not frees or not 0 <= least <= about <= most:
        return ""
    return f"({frees_text(Frees(least, about, most))})"


def _sites(page: Page, device: Plain) -> None:
    sites = _rows(device, "sites")
    if not sites:
        return
    peak = max(_number(_row(device, "peak"), "allocated"), 1)
    page.part("Held at the peak, by call site")
    rows, shares = [], []
    for site in sites:
        held, line = _number(site, "bytes"), _number(site, "line")
        place = location(_text(site, "file"), line or None)
        what = f"{_text(site, 'name')}  {place}".rstrip()
        shares.append(held / peak)
        share = format_share(held, peak)
        rows.append((format_bytes(held), share, format_count(_number(site, "count")), what))
    page.table(("bytes", "share", "count", "call site"), rows, shares=shares)


def _saved_paragraph(page: Page, text: str, mark: str) -> None:
    width = max(page.width - len(_INDENT), 1)
    for line in textwrap.wrap(
        text,
        width,
        initial_indent=_INDENT + mark,
        subsequent_indent=_INDENT + " " * len(mark),
        break_on_hyphens=False,
    ):
        page.say(line)


def _of(row: Plain, name: str, kind: type[_Kind], otherwise: _Kind) -> _Kind:
    value = row.get(name)
    return value if isinstance(value, kind) else otherwise


def _text(row: Plain, name: str) -> str:
    return one_line(_of(row, name, str, ""))[:_LONGEST]


def _number(row: Plain, name: str) -> int:
    value = _of(row, name, int, 0)
    return value if -(2**63) <= value < 2**63 else 0


def _row(row: Plain, name: str) -> Plain:
    return _of(row, name, dict, {})


def _rows(row: Plain, name: str) -> list[Plain]:
    return [each for each in _of(row, name, list, []) if isinstance(each, dict)]

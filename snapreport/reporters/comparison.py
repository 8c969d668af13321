"""The answers of ``diff`` and ``check`` as documents: two recordings, and one against a budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from snapreport.diagnosis.compare.diff_types import (
    EXACT,
    MOVED_FILE,
    MOVED_LINE,
    ONLY_BASE,
    Change,
    Diff,
    DiffSide,
    Figure,
)
from snapreport.diagnosis.compare.gate import Check, Raised, Verdict
from snapreport.ground.units import (
    format_bytes,
    format_change,
    format_count,
    format_signed_bytes,
    plural,
)
from snapreport.ground.version import __version__
from snapreport.reporters.both_curves import draw_diff
from snapreport.reporters.document import (
    Block,
    Bullets,
    Code,
    Column,
    Cut,
    Document,
    Drawing,
    Folded,
    Heading,
    Item,
    Mark,
    Pairs,
    Paragraph,
    Part,
    Severity,
    Site,
    Size,
    Strong,
    Table,
    Tag,
    Words,
    columns,
    joined,
    sentence,
)
from snapreport.reporters.plain_text import location
from snapreport.reporters.svg import HEIGHT, WIDTH
from snapreport.reporters.words import memory_name, site_of, when_text

_WHEN = {"peak": "peak", "start": "at the start", "average": "on average", "end": "at the end"}

_AMOUNTS = ("reserved", "slack", "inactive", "fragmentation")

_GROUP_WORDS = {
    "site": "call site",
    "file": "file",
    "function": "function",
    "module": "module",
    "category": "category",
    "role": "role",
    "stage": "stage it was made in",
    "stream": "stream",
    "pool": "pool",
    "context": "compile context",
    "layer": "layer (the forward line behind a gradient, else the call site)",
    "forward": "forward line",
    "metadata": "metadata",
    "size": "requested size",
}
"""What one row is when changes are grouped by this key."""

DIFF_ROWS, VERDICT_ROWS = (25, 12, 5, 2), (10, 5, 2, 1)
"""Rows of each table to try where the length is limited."""

_HOW = (
    "Call sites match if their file, function and line do. Lines that an edit moved are matched by"
    " the lines around them and by what they call; files, by their path within their project or"
    " package, wherever that is installed."
)


def diff_document(diff: Diff, most: int | None, more: str = "") -> Document:
    """Say what differs between two recordings, the conclusion first.

    Args:
        diff: what ``diff()`` returned.
        most: the most rows of each table; None for all.
        more: how to see the rows left out, such as ``--full shows all``; ``""`` for no way.
    """
    memory = memory_name(side.figures.device for side in (diff.base, diff.new))
    return Document(
        f"{memory}: {diff.new.source.name} against {diff.base.source.name}",
        [
            Paragraph(diff.conclusion, "title"),
            Pairs(
                [
                    *(
                        (name, Size(side.bytes), _side(side))
                        for name, side in (("BASE", diff.base), ("NEW", diff.new))
                    ),
                    (
                        "change",
                        Size(diff.change, is_change=True),
                        format_change(diff.change, diff.base.bytes),
                    ),
                ],
                ("recording", "bytes", "where"),
            ),
            *(Paragraph(note, is_note=True) for note in diff.notes),
            Drawing("both.html.j2", lambda: _picture(diff)),
            _figures(diff),
            changes_table(diff, diff.groups, diff.by, most, more),
            _parts(diff),
            *(
                [changes_table(diff, diff.roles, "role", most, more)]
                if diff.roles and diff.by != "role"
                else []
            ),
            *(
                [changes_table(diff, diff.categories, "category", most, more)]
                if diff.by == "site"
                else []
            ),
            *_stages(diff, most, more),
            *_settings(diff),
            Folded("About this comparison", [Bullets(list(_about(diff)))], only_folded=True),
        ],
    )


def _picture(diff: Diff) -> dict[str, object]:
    return {"diff": diff, "picture": draw_diff(diff), "width": WIDTH, "height": HEIGHT}


def _side(side: DiffSide) -> Words:
    """Say which moment of a recording is compared, and how many allocations are live there."""
    when = when_text(side.device, side.event, side.time_us)
    kind = "forecast, " if side.forecast is not None else ""
    return (Code(side.source.name), f", {kind}{when}, in {plural(side.count, 'allocation')}")


def _figures(diff: Diff) -> Table:
    """Return the table of curves: not every curve at every moment."""
    found: list[tuple[str, Figure]] = []
    for figure in diff.figures:
        if figure.when == "peak":
            found.append((f"{figure.name}, its own peak", figure))
        elif figure.when in _WHEN and figure.name == diff.curve:
            found.append((f"{figure.name} {_WHEN[figure.when]}", figure))
    there = "then" if "against" in diff.moment else diff.moment
    found += [
        (f"{figure.name} {there}", figure)
        for figure in diff.figures
        if figure.when == "moment" and figure.name in _AMOUNTS and figure.base is not None
    ]
    return Table(
        columns("BASE", "NEW", "change", "percent", text="memory"),
        [
            (
                Size(figure.base),
                Size(figure.new),
                Size(figure.change, is_change=True),
                format_change(figure.change, figure.base),
                name,
            )
            for name, figure in found
        ],
        title="Curves and peaks",
    )


def changes_table(
    diff: Diff, changes: Sequence[Change], by: str, most: int | None, more: str = ""
) -> Table:
    """Return a table of changes, largest first; a call site says how it was matched."""
    shown, rest = _split_rows(changes, most)
    if not shown:  # nothing changed: show what there is
        shown, rest = changes[:most], ""
    cut: Cut = "place" if by == "file" else "site"
    notes = [_match_text(change) for change in shown]
    noted = [Column("match", True, "end")] if any(notes) else []
    return Table(
        [*_SIZES, Column("count", minor=True), Column(_GROUP_WORDS[by], True, cut), *noted],
        [
            (
                *_sizes_of(change),
                f"{format_count(change.base_count)} → {format_count(change.new_count)}",
                _name(change),
                *([note] if noted else []),
            )
            for change, note in zip(shown, notes, strict=True)
        ],
        title=f"{diff.curve.capitalize()} bytes {diff.moment}, by {_GROUP_WORDS[by]}",
        rest=_rest(rest, more),
    )


def _rest(left_out: str, more: str) -> str:
    """Say what was left out, if anything, and how to see it, if there is a way."""
    return sentence("; ".join(filter(None, (left_out, more)))) if left_out else ""


_SIZES = (Column("change", bar=True), Column("BASE"), Column("NEW"))


def _sizes_of(change: Change) -> tuple[Size, Size, Size]:
    """Return the change in bytes, and the bytes in BASE and in NEW."""
    return Size(change.change, is_change=True), Size(change.base_bytes), Size(change.new_bytes)


def _split_rows(changes: Sequence[Change], most: int | None) -> tuple[Sequence[Change], str]:
    """Return the rows to show, and words about those left out, empty if there are none.

    Args:
        changes: largest change first.
        most: the most rows, all with a change; None for all rows, changed or not.
    """
    if most is None:
        return changes, ""
    changed = [change for change in changes if change.change]
    same = [change for change in changes if not change.change]
    texts = []
    if rest := changed[most:]:
        by = format_signed_bytes(sum(change.change for change in rest))
        texts.append(f"{len(rest):,} more changed by {by} in all")
    if same:
        held = format_bytes(sum(change.new_bytes for change in same))
        texts.append(f"{len(same):,} did not change, with {held}")
    return changed[:most], "; ".join(texts)


def _name(change: Change) -> Words:
    if change.kind in ("no stack", "unused"):
        return change.name
    if change.kind != "site":
        return Code(change.name)
    place = change.new_place or change.base_place
    return Site(change.name, "" if place is None else location(place.filename, place.line))


def _match_text(change: Change) -> str:
    """Say how a row was matched, empty for an exact match."""
    before = change.base_place
    if change.match == MOVED_LINE and before is not None:
        return f"was line {'unknown' if before.line is None else before.line}"
    if change.match == MOVED_FILE and before is not None:
        return f"was {location(before.filename, before.line, 60)}"
    if change.kind == "site" or change.match == EXACT:
        return "" if change.match == EXACT else change.match
    return "nothing in NEW" if change.match == ONLY_BASE else "nothing in BASE"


def _parts(diff: Diff) -> Table:
    """Return the parts that the change adds up from, to the byte."""
    return Table(
        columns("change", "BASE", "NEW", "in bytes", text="part"),
        [(*_sizes_of(part), Size(part.change, True, exact=True), part.name) for part in diff.parts],
        title="Where the change comes from",
        total=(
            *(Size(diff.change, is_change=True), Size(diff.base.bytes), Size(diff.new.bytes)),
            Size(diff.change, True, exact=True),
            "in all",
        ),
    )


def _stages(diff: Diff, most: int | None, more: str) -> Iterator[Table]:
    if not diff.stages:
        return
    shown = diff.stages[:most]
    yield Table(
        [*_SIZES, Column("stage", True, "end")],
        [
            (
                Size(each.change, is_change=True),
                Size(each.base_peak),
                Size(each.new_peak),
                (Code(each.name), "" if each.match == EXACT else f" ({each.match})"),
            )
            for each in shown
        ],
        title="Peaks inside stages, in allocated bytes",
        rest=_rest(_more(len(diff.stages) - len(shown)), more),
        depths=[each.depth for each in shown],
    )


def _settings(diff: Diff) -> Iterator[Block]:
    if diff.settings:
        yield Heading("Allocator settings that differ")
        yield Bullets(
            [
                (Code(key), ": ", _setting(base), " in BASE, ", _setting(new), " in NEW")
                for key, base, new in diff.settings
            ]
        )


def _setting(value: object) -> Part:
    return "not set" if value is None or value == "" else Code(str(value), 200)


def _about(diff: Diff) -> Iterator[Words]:
    for name, side in (("BASE", diff.base), ("NEW", diff.new)):
        size, events = format_count(side.source.size), side.figures.history.events
        yield (
            *(f"{name}: ", Code(side.source.name)),
            f", {size} bytes, {plural(events, 'event')} on {side.device}, SHA-256 ",
            side.source.sha256,
        )
    yield _HOW
    yield f"Made with snapreport {__version__}"


# A verdict.


_SHOWN_ADVICE = 3
_MOST_CHECKS = 100
"""A run of a thousand ranks has more of them than anybody reads; those that failed come first."""


def verdict_document(verdict: Verdict, most: int) -> Document:
    """Say how a check ended, the conclusion first.

    Args:
        verdict: what ``check()`` returned.
        most: the most call sites for each budget that is not kept; twice as many findings.
    """
    checks = verdict.checks
    if len(checks) > _MOST_CHECKS:
        checks = tuple(sorted(checks, key=lambda each: each.passed)[:_MOST_CHECKS])
    return Document(
        (
            Mark("", verdict.passed),
            f" {memory_name(verdict.devices)} of {verdict.source.name}",
        ),
        [
            Paragraph(f"{conclusion(verdict)}.", "good" if verdict.passed else "critical"),
            Paragraph(verdict.forecast, "warning", is_note=True),
            Paragraph(_checked(verdict)),
            *([_checks(checks, len(verdict.checks))] if checks else []),
            *(block for check in checks for block in _failed(check, most)),
            *_findings(verdict, 2 * most),
            *(block for diff in verdict.comparisons for block in _compared(diff, most)),
            Folded("About this check", [Bullets(list(_about_check(verdict)))], only_folded=True),
        ],
    )


def conclusion(verdict: Verdict) -> str:
    """Say in one line how the check ended."""
    checks = len(verdict.checks)
    failed = sum(not each.passed for each in verdict.checks)
    raised = sum(each.fails for each in verdict.findings)
    parts = []
    if failed:
        kept = f"{'is' if failed == 1 else 'are'} not kept"
        parts.append(f"{format_count(failed)} of {plural(checks, 'budget')} {kept}")
    if raised:
        parts.append(f"{plural(raised, 'finding')} {'fails' if raised == 1 else 'fail'} it")
    if parts:
        return f"Failed: {', and '.join(parts)}"
    kept = f"{plural(checks, 'budget')} kept" if checks else "no budget was given"
    if not verdict.fail_on:
        return f"Passed: {kept}, findings were not checked"
    return f"Passed: {kept}, no {' or '.join(verdict.fail_on)} finding"


def _checked(verdict: Verdict) -> str:
    by = "" if verdict.budget is None else f", with budgets from {verdict.budget}"
    return f"{verdict.source.name}, {', '.join(verdict.devices)}{by}"


_RESULTS = {"passed": ("pass", True), "failed": ("FAIL", False), "unknown": ("FAIL", None)}


def _checks(shown: Sequence[Check], count: int) -> Table:
    texts = [Column(title, True) for title in ("result", "device", "check")]
    return Table(
        [*texts, *map(Column, ("is", "budget", "over"))],
        [
            (
                Mark(*_RESULTS[check.outcome]),
                check.device,
                Code(f"{check.name} {check.subject}".rstrip()),
                "not known" if check.value is None else Size(check.value),
                Size(check.limit),
                Size(check.over, is_change=True),
            )
            for check in shown
        ],
        rest=sentence(_more(count - len(shown))),
    )


def _more(left: int) -> str:
    return f"{format_count(left)} more" if left > 0 else ""


def _failed(check: Check, most: int) -> Iterator[Block]:
    """Yield what a check says beyond its figures, and who held the memory."""
    if not check.passed or check.text.count(". "):
        yield Paragraph((Strong(check.device), f": {check.text}"))
    if not check.passed and check.sites and not check.changes:  # else the comparison has them
        yield Table(
            columns("bytes", "count", text="held then, by call site"),
            [
                (Size(site.bytes), format_count(site.count), site_of(site))
                for site in check.sites[:most]
            ],
        )


def _findings(verdict: Verdict, most: int) -> Iterator[Block]:
    failing = [each for each in verdict.findings if each.fails]
    if failing:
        yield Heading("Findings that fail the check")
        yield Bullets(
            [
                Item(
                    (*_line(each), f" {each.finding.explanation}".rstrip()),
                    tuple(text.text for text in each.finding.suggestions[:_SHOWN_ADVICE]),
                )
                for each in failing[:most]
            ]
        )
        if len(failing) > most:
            yield Paragraph(f"And {format_count(len(failing) - most)} more.")
    others = [
        each for each in verdict.findings if not each.fails and each.finding.severity != "note"
    ]
    if others:
        yield Folded("Other findings", [Bullets([_line(each) for each in others[:most]])])
    if verdict.ignored:
        ids = dict.fromkeys(each.finding.id for each in verdict.ignored)
        names = joined([Code(each) for each in ids], ", ")
        yield Paragraph((f"{plural(len(verdict.ignored), 'finding')} ignored: ", *names))


def _line(raised: Raised) -> tuple[Part, ...]:
    finding = raised.finding
    where = f"{raised.device}: " if raised.device else ""
    title = f" {where}{finding.title} "
    return (Severity(finding.severity), title, Tag(finding.id))


def _compared(diff: Diff, most: int) -> Iterator[Block]:
    against = f"{diff.new.device} against {diff.base.source.name}"
    yield Paragraph((Strong(against), f": {diff.conclusion}"))
    if changed := [each for each in diff.sites if each.change][:most]:
        yield Table(
            columns("change", "before", "now", text="call site"),
            [(*_sizes_of(change), _name(change)) for change in changed],
        )


def _about_check(verdict: Verdict) -> Iterator[Words]:
    if verdict.source.sha256:
        yield f"SHA-256 {verdict.source.sha256}"
    if verdict.fail_on:
        yield ("fails on ", *joined([Code(each) for each in verdict.fail_on], ", "))
    yield f"made with snapreport {__version__}"

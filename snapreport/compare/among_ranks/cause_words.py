"""Say why a rank or a group holds more or less than others: the call sites, with their sizes."""

from __future__ import annotations

from collections.abc import Sequence

from snapreport.ground.units import MOST_SHARE, format_bytes, format_count, list_of
from snapreport.model.findings import MISSING_REASONS
from snapreport.model.run.run_findings import Difference

_MOSTLY = 0.5
_WORTH_NAMING = 0.25
_MOST_NAMED = 3
_SEVERAL = 3
_ALIKE = 0.25
_SIGN = "\N{MULTIPLICATION SIGN}"


def main_cause(differences: Sequence[Difference], total: int) -> Difference | None:
    """Return the call site that makes at least half of a difference by itself, or None."""
    along = _along(differences, total)
    return along[0] if along and abs(_change(along[0])) >= _MOSTLY * abs(total) else None


def because(differences: Sequence[Difference], total: int, whose: str = "") -> str:
    """Return a clause that gives the cause, including the space or comma before it; may be ``""``.

    Args:
        differences: what is held compared with what is usual, the most significant first.
        total: the difference of the peaks, in bytes.
        whose: the rank that the sizes are from, if the sentence is about several ranks.
    """
    if not total:
        return ""
    along = _along(differences, total)
    first = main_cause(differences, total)
    if first is not None:
        return f" because {_holds(first, whose)}{_against(differences, total, first)}"
    if not along:
        return ", and no single call site accounts for it"
    if share := _alike(differences, total):
        return f" because all of its large call sites hold {share}"
    named = sorted(along, key=lambda each: -abs(_change(each)))[:_MOST_NAMED]
    explained = sum(_change(each) for each in named)
    text = list_of([_holds_short(each, total) for each in named])
    if abs(explained) >= _MOSTLY * abs(total):
        return f" because {text}"
    return f"; many call sites differ, most of all {text}"


def _alike(differences: Sequence[Difference], total: int) -> str:
    """Return how much all call sites differ, ``about 10% more``; ``""`` unless all do alike."""
    sites = [d for d in _sites(differences) if d.kind == "site"]
    if len(sites) < _SEVERAL or not all(d.usual for d in sites):
        return ""
    change = sum(_change(d) for d in sites)
    share = change / sum(d.usual for d in sites)
    if abs(change) < _MOSTLY * abs(total) or share * total < 0:
        return ""
    if any(abs(_change(d) / d.usual - share) > _ALIKE * abs(share) for d in sites):
        return ""
    if share >= MOST_SHARE:
        return f"about {1 + share:,.0f} times as much"
    return f"about {abs(share):.0%} {'more' if total > 0 else 'less'}"


def instead(difference: Difference) -> str:
    """Return what is held and what is usual: ``24 x 192.0 MiB instead of 24 x 96.00 MiB``.

    It counts allocations of the commonest size if these make the difference, else bytes.
    """
    d = difference
    change = _change(d)
    by_size = d.size * d.of_size - d.usual_size * d.usual_of_size
    if change and abs(by_size - change) <= _MOSTLY * abs(change):
        have = _times(d.of_size, d.size) if d.of_size else "nothing"
        usual = _times(d.usual_of_size, d.usual_size) if d.usual_of_size else "nothing"
    else:
        have = format_bytes(d.bytes) if d.bytes else "nothing"
        usual = format_bytes(d.usual) if d.usual else "nothing"
    return f"{have} instead of {usual}"


def holder_words(difference: Difference) -> str:
    """Return what holds it: ```softmax nn_utils.py:6```, or a role, or memory without a stack."""
    if difference.key in MISSING_REASONS[1:]:
        return f"memory without a call stack ({difference.key})"
    return f"`{difference.key}`" if difference.kind == "site" else difference.key


def _holds(difference: Difference, whose: str) -> str:
    change = _change(difference)
    amount = f"{format_bytes(abs(change))} {'more' if change > 0 else 'less'}"
    of = f"on {whose} " if whose else ""
    return f"{holder_words(difference)} holds {amount} ({of}{instead(difference)})"


def _holds_short(difference: Difference, total: int) -> str:
    change = format_bytes(abs(_change(difference)))
    return f"{holder_words(difference)} holds {change} {'more' if total > 0 else 'less'}"


def _against(differences: Sequence[Difference], total: int, first: Difference) -> str:
    sign = 1 if total > 0 else -1
    against = [d for d in _sites(differences) if _change(d) * sign < 0]
    if not against:
        return ""
    most = max(against, key=lambda d: abs(_change(d)))
    if abs(_change(most)) < _WORTH_NAMING * abs(_change(first)):
        return ""
    word = "less" if sign > 0 else "more"
    return f", though {holder_words(most)} holds {format_bytes(abs(_change(most)))} {word}"


def _along(differences: Sequence[Difference], total: int) -> list[Difference]:
    return [d for d in _sites(differences) if _change(d) * total > 0]


def _sites(differences: Sequence[Difference]) -> list[Difference]:
    """Return the differences of named call sites, or of roles if there are none."""
    for kind in ("site", "role"):
        found = [d for d in differences if d.kind == kind and d.key]
        if found:
            return found
    return []


def _change(difference: Difference) -> int:
    return difference.bytes - difference.usual


def _times(count: int, size: int) -> str:
    return f"{format_count(count)} {_SIGN} {format_bytes(size)}"

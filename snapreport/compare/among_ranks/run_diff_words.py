"""Say how a run differs from an earlier one: a sentence for each group, and one for all."""

from __future__ import annotations

from collections.abc import Sequence

from snapreport.compare.among_ranks.cause_words import because
from snapreport.compare.among_ranks.likeness import MEGABYTE
from snapreport.compare.among_ranks.odd_words import sentence
from snapreport.compare.among_ranks.rank_words import some_of
from snapreport.ground.units import bytes_and_share, format_bytes, format_count
from snapreport.model.run.run_diff import GroupChange, RankChange
from snapreport.model.run.run_findings import Difference

_MOST_NAMED = 3
_APART = 0.03
"""Groups whose changes differ by at most this part of the peak share a part of the headline."""


def group_change(
    name: str, count: int, base: int, new: int, differences: Sequence[Difference]
) -> str:
    """Say how the median peak of a group changed, and why.

    Args:
        name: the group's.
        count: how many ranks it has.
        base: the median before, in bytes.
        new: the median now, in bytes.
        differences: what is held now, compared with before.
    """
    whose = f"the median peak of {name}" if count > 1 else f"the peak of {name}"
    if base == new:
        return sentence(f"{whose} is as high as before, {format_bytes(new)}")
    way = "rose" if new > base else "fell"
    return sentence(
        f"{whose} {way} by {bytes_and_share(new - base, base)}, from {format_bytes(base)} to"
        f" {format_bytes(new)}{because(differences, new - base)}"
    )


def run_headline(
    ranks: Sequence[RankChange],
    groups: Sequence[GroupChange],
    only_base: Sequence[str],
    only_new: Sequence[str],
) -> str:
    """Say how NEW differs from BASE: at the median, by group, on odd ranks, and in its ranks."""
    if not ranks:
        return "BASE and NEW have no rank in common that could be compared."
    parts = []
    largest = max(groups, key=lambda group: len(group.ranks))
    apart = [
        group
        for group in groups
        if group is not largest
        and abs(group.change - largest.change) > _APART * max(group.base, largest.base)
    ]
    count = len(ranks) if not apart else len(largest.ranks)
    whom = _whom(largest.name if apart else "", count)
    if largest.change:
        way = "higher" if largest.change > 0 else "lower"
        cause = because(largest.differences, largest.change)
        amount = bytes_and_share(largest.change, largest.base)
        parts.append(f"NEW peaks {amount} {way}{whom}{cause}")
    else:
        parts.append(f"NEW peaks as high as BASE{whom}, {format_bytes(largest.new)}")
    alike = [group for group in groups if group not in apart]
    parts += _some_of_them(ranks, [(ranks[at], group) for group in alike for at in group.ranks])
    parts += [
        f"on {group.name} it peaks {_way(group.change, group.base)}"
        f"{because(group.differences, group.change)}"
        for group in sorted(apart, key=lambda group: -abs(group.change))[:_MOST_NAMED]
    ]
    odd = sorted((rank for rank in ranks if rank.odd), key=lambda rank: -abs(rank.change))
    parts += [
        f"{rank.name} peaks {_way(rank.change, rank.base)}{because(rank.differences, rank.change)}"
        for rank in odd[:_MOST_NAMED]
    ]
    if len(odd) > _MOST_NAMED:
        parts.append(f"{format_count(len(odd) - _MOST_NAMED)} more ranks are unlike their group")
    for names, side in ((only_base, "BASE"), (only_new, "NEW")):
        if names:
            parts.append(f"only {side} has {some_of(names, _MOST_NAMED + 1)}")
    return sentence("; ".join(parts))


def _some_of_them(
    ranks: Sequence[RankChange], members: Sequence[tuple[RankChange, GroupChange]]
) -> list[str]:
    """Name ranks that changed unlike their group's median, but are too many to be called odd."""
    some = [
        rank
        for rank, group in members
        if not rank.odd
        and abs(rank.change - group.change) > max(_APART * max(rank.base, rank.new), MEGABYTE)
    ]
    parts = []
    for higher in (True, False):
        these = [rank for rank in some if (rank.change > 0) == higher and rank.change]
        if these:
            most = max(these, key=lambda rank: abs(rank.change))
            way = _way(most.change, most.base)
            parts.append(
                f"{format_count(len(these))} of the {format_count(len(ranks))} ranks peak up to"
                f" {way}, most {most.name}{because(most.differences, most.change)}"
                if len(these) > 1
                else f"{most.name} peaks {way}{because(most.differences, most.change)}"
            )
    same = [rank for rank in some if not rank.change]
    if same:
        who = some_of([rank.name for rank in same], _MOST_NAMED + 1)
        parts.append(f"{who} peak{'s' * (len(same) == 1)} as high as before")
    return parts


def _whom(name: str, count: int) -> str:
    if name:
        return f" on {name}"
    return f" at the median of {format_count(count)} ranks" if count > 1 else ""


def _way(change: int, base: int) -> str:
    if not change:
        return "as high as before"
    return f"{bytes_and_share(change, base)} {'higher' if change > 0 else 'lower'}"

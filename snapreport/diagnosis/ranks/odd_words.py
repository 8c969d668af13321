"""Sentences about odd ranks, groups and imbalances."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

from snapreport.diagnosis.ranks.odd_ranks import Growth
from snapreport.diagnosis.ranks.rows import Row
from snapreport.ground.native.columns import whole_median
from snapreport.ground.units import (
    MOST_SHARE,
    bytes_and_share,
    change_in_words,
    format_bytes,
    format_count,
    list_of,
)
from snapreport.model.findings import MISSING_REASONS
from snapreport.model.run import Difference, FailedRequest

# Say why a rank or a group holds more or less than others: the call sites, with their sizes.


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


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_WHOLE = ("all ranks", "all devices")


def sentence(text: str) -> str:
    """Return text as a sentence, with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."


def clock(time_us: int) -> str:
    """Return a time of day to the millisecond: ``12:03:11.208 UTC``."""
    moment = _EPOCH + timedelta(microseconds=time_us // 1000 * 1000)
    return f"{moment:%H:%M:%S.%f}"[:-3] + " UTC"


def peaks_text(row: Row) -> str:
    """Return ``peaks``, or ``holds`` if no history was recorded."""
    return "peaks" if row.device.recorded else "holds"


def above(total: int) -> str:
    """Return ``above`` or ``below``."""
    return "above" if total > 0 else "below"


def median_of(group: str) -> str:
    """Return ``the median``, with the group's name unless the group is all ranks."""
    return "the median" if group.startswith(_WHOLE) else f"the median of {group}"


def unlike_peak(
    row: Row,
    total: int,
    differences: Sequence[Difference],
    group: str,
    event: int | None,
    step: int | None,
) -> str:
    """Say how much a rank's peak differs from its group's, why, and since when."""
    amount = bytes_and_share(total, row.allocated - total)
    return sentence(
        f"{row.words} {peaks_text(row)} {amount} {above(total)} {median_of(group)}"
        f"{because(differences, total)}{parts_text(event, step)}"
    )


def parts_text(event: int | None, step: int | None) -> str:
    """Say since when a rank differs, as a clause; ``""`` if not known."""
    if event is None and step is None:
        return ""
    if event == 0:
        return "; it differs from the start of the recording"
    places = []
    if event is not None:
        places.append(f"about event {format_count(event)}")
    if step is not None:
        places.append(f"step {format_count(step)}")
    return f"; it diverges from the others at {' in '.join(places)}"


def grows(
    row: Row,
    growth: Growth,
    usual: int,
    differences: Sequence[Difference],
    group: str,
    step: int | None,
    first: bool,
) -> str:
    """Say what a rank gains per step, and what the rest of its group gains."""
    others = "the others gain nothing" if not usual else f"the others gain {format_bytes(usual)}"
    if usual < 0:
        others = f"the others give back {format_bytes(-usual)}"
    if not group.startswith(_WHOLE):
        others = others.replace("the others", f"the others of {group}", 1)
    how = "between the dumps" if growth.between_dumps else "in the recording"
    text = (
        f"{row.words} gains {format_bytes(growth.each)} a step,"
        f" {format_bytes(growth.total)} in {format_count(growth.steps)} steps {how}; {others}"
    )
    named = [d for d in differences if d.kind == "site" and d.key and d.bytes > d.usual]
    if named:
        text += f". At its peak {holder_words(named[0])} holds {instead(named[0])}"
    if step is not None:
        text += f". It diverges at step {format_count(step)}" + ", before all others" * first
    return sentence(text)


def failed_text(
    row: Row,
    request: FailedRequest,
    first: bool,
    total: int,
    differences: Sequence[Difference],
    group: str,
    telling: bool,
) -> str:
    """Say when a rank ran out of memory, what it asked for, and how its peak compares."""
    text = f"{row.words} ran out of memory" + " first" * first
    if request.time_us is not None:
        text += f", at {clock(request.time_us)}"
    text += f" (event {format_count(request.event)}), when "
    text += f"`{request.site}` asked for " if request.site else "it asked for "
    text += format_bytes(request.size)
    if row.device.capacity:
        text += f" on a card with {format_bytes(row.device.capacity)}"
    if telling and total > 0:
        text += (
            f"; it peaked {format_bytes(total)} above {median_of(group)}"
            f"{because(differences, total)}"
        )
    elif telling:
        text += (
            f"; until then it had peaked {format_bytes(-total)} below {median_of(group)},"
            " which went on"
        )
    else:
        text += f"; until then it had peaked like {median_of(group)}"
    return sentence(text)


def group_text(
    name: str,
    count: int,
    peaks: Sequence[int],
    others: int | None,
    differences: Sequence[Difference],
) -> str:
    """Say where the ranks of a group peak, and how they differ from the others.

    Args:
        name: the group's.
        count: how many ranks it has.
        peaks: of those that are not odd, in bytes.
        others: the median peak of all other ranks; None if there are none.
        differences: from the other ranks.
    """
    whose = name.replace("all ", f"all {format_count(count)} ") if name.startswith(_WHOLE) else name
    if count > 1 and whose == name and not name.startswith("rank") and not name[:1].isdigit():
        whose += f" ({format_count(count)} ranks)"
    middle = whole_median(peaks)
    if count == 2 and len(set(peaks)) == 2:
        least, most = map(format_bytes, sorted(peaks))
        whose = whose.replace("all 2 ", "both ")
        text = f"the peaks of {whose} are {least} and {most}"
        theirs, same = "and their mean is ", "and their mean is"
    else:
        peak = "the peak" if count == 1 else "the median peak"
        text = f"{peak} of {whose} is {format_bytes(middle)}"
        theirs, same = "", "and so is"
    if others is None:
        return sentence(text)
    total = middle - others
    if not total:
        return sentence(f"{text}, {same} that of the other ranks")
    return sentence(
        f"{text}, {theirs}{bytes_and_share(total, others)} {above(total)} that of the other ranks"
        f"{because(differences, total)}"
    )


def within_text(name: str, least: int, most: int, without_odd: bool) -> str:
    """Say how far apart the peaks of a group are, without odd ranks."""
    whose = f"{name}, the odd ones left out," if without_odd else name
    if least == most:
        return sentence(f"the peaks of {whose} are equal to the byte, {format_bytes(most)}")
    return sentence(
        f"the peaks of {whose} are between {format_bytes(least)} and {format_bytes(most)},"
        f" {bytes_and_share(most - least, least)} apart"
    )


def along_text(dimension: str, lowest: str, highest: str, least: int, most: int) -> str:
    """Say how much the peaks differ along a dimension of the layout, all else being equal."""
    if least == most:
        return sentence(f"along {dimension} the peaks are equal at the median")
    amount, times = bytes_and_share(most - least, least), ""
    if least and not change_in_words(most - least, least):
        times = f" ({most / least:,.0f} times as high)"
    return sentence(
        f"along {dimension} the peaks are {amount} higher on {highest} than on {lowest}{times}, at"
        " the median"
    )


def copies_text(dimension: str, copies: int, role: str, held: int, saved: int) -> str:
    """Say what ranks along a dimension hold in equal amounts, which may be copies."""
    return sentence(
        f"each of the {format_count(copies)} ranks along {dimension} holds the same amount of"
        f" {role}, {format_bytes(held)}; if these are copies, sharding them over {dimension} would"
        f" save each rank {format_bytes(saved)}"
    )

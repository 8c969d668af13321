"""Sentences about odd ranks, groups and imbalances."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

from snapreport.compare.among_ranks.cause_words import because, holder_words, instead
from snapreport.compare.among_ranks.compared_rows import Row
from snapreport.compare.among_ranks.rank_growth import Growth
from snapreport.ground.units import bytes_and_share, change_in_words, format_bytes, format_count
from snapreport.model.run.rank_facts import FailedRequest
from snapreport.model.run.run_findings import Difference
from snapreport.native.sorting import whole_median

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

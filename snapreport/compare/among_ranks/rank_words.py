"""Name ranks: ``rank 17``, ``ranks 8 to 15``, ``every second rank from 1 to 63``."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from snapreport.ground.units import format_count, list_of

_MOST_RANGES = 5


def some_of(words: Sequence[str], most: int, named: int = 3) -> str:
    """Join words; if there are more than ``most``, the first few and how many more there are."""
    if len(words) <= most:
        return list_of(words)
    return list_of([*words[:named], f"{format_count(len(words) - named)} more"])


def number_ranges(numbers: Sequence[int], known: Collection[int] = ()) -> list[str]:
    """Return numbers as ``5``, ``8 to 15``; two in a row stay two numbers.

    Args:
        numbers: to be named.
        known: all numbers that exist, if some are missing: a missing one does not split a range.
    """
    found: list[list[int]] = []
    for number in sorted(numbers):
        if (
            found
            and not any(each in known for each in range(found[-1][-1] + 1, number))
            and (known or number == found[-1][-1] + 1)
        ):
            found[-1].append(number)
        else:
            found.append([number])
    words = []
    for each in found:
        words += [f"{each[0]} to {each[-1]}"] if len(each) > 2 else [str(n) for n in each]
    return words


def ranks_in_words(
    numbers: Sequence[int], known: Collection[int] = (), most: int = _MOST_RANGES
) -> str:
    """Name ranks; in more than ``most`` ranges, only the first few and how many there are.

    ``known`` is as in ``number_ranges()``.
    """
    ordered = sorted(numbers)
    if len(ordered) == 1:
        return f"rank {ordered[0]}"
    parts = number_ranges(ordered, known)
    if len(parts) <= most:
        return f"ranks {list_of(parts)}"
    step = ordered[1] - ordered[0]
    regular = set(range(ordered[0], ordered[-1] + 1, step))
    if step > 1 and regular.issuperset(ordered) and regular & set(known) <= set(ordered):
        return f"every {_ordinal(step)} rank from {ordered[0]} to {ordered[-1]}"
    first = ", ".join(str(number) for number in ordered[:3])
    return f"{format_count(len(ordered))} ranks ({first} and so on)"


def rows_in_words(
    numbers: Sequence[int | None], words: Sequence[str], everyone: Sequence[int | None] = ()
) -> str:
    """Name ranks by their numbers, or by their words if one has no number.

    Args:
        numbers: of ranks; None where a number is not enough.
        words: what each is called.
        everyone: the numbers of all ranks that exist.
    """
    known = [number for number in numbers if number is not None]
    if len(known) == len(numbers) == len(set(known)):
        return ranks_in_words(known, {number for number in everyone if number is not None})
    return some_of(words, _MOST_RANGES)


def _ordinal(number: int) -> str:
    if number == 2:
        return "second"
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10)
    return f"{number}{ending or 'th'}"

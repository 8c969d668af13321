"""Format and parse numbers: bytes and times in their units, counts, shares; and lists of words."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from snapreport.ground.later import expression

if TYPE_CHECKING:
    from fractions import Fraction

MOST_SHARE = 10
"""Sentences give a change of this many times the base, or more, without a percentage."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")

# (digits after the point, the scaled value below which they are used): 3 to 4 figures in all.
_STEPS = ((2, 100), (1, 1000), (0, 1024))

_SIZE = expression(
    r"([0-9]{1,19}(?:\.[0-9]{1,18})?|\.[0-9]{1,18}) ?(?:([kmgtpe])?(i)?(b|bytes?)?)", re.I
)
_LARGEST = 2**63 - 1


def format_bytes(count: int) -> str:
    """Write a number of bytes in the largest binary unit that it fills.

    Below 1 KiB the number is exact; from there it has 3 or 4 figures, rounded half up, as
    ``toFixed`` in the page does: ``512 B``, ``1.00 KiB``, ``11.58 GiB``, ``115.8 MiB``.

    Args:
        count: bytes; may be negative.
    """
    sign, size = ("-", -int(count)) if count < 0 else ("", int(count))
    if size < 1024:
        return f"{sign}{size} B"
    for power, unit in enumerate(_UNITS[1:], start=1):
        whole = 1024**power
        for digits, bound in _STEPS:
            # Integers throughout: a float would round a tie such as 1.125 KiB to even.
            scaled = (2 * size * 10**digits + whole) // (2 * whole)
            if scaled < bound * 10**digits:
                return f"{sign}{scaled / 10**digits:.{digits}f} {unit}"
    return f"{sign}{size >> 60:,} EiB"


def format_signed_bytes(count: int) -> str:
    """Write a change in bytes with its sign, ``+34.50 MiB``; no change is ``0 B``."""
    return f"+{format_bytes(count)}" if count > 0 else format_bytes(count)


def true_minus(text: str) -> str:
    """Write the hyphens of negative numbers in a text as minus signs, for pages."""
    return _NEGATIVE.sub("\u2212", text)


_NEGATIVE = expression(r"(?<![\w./\\-])-(?=\d)")
"""Not in names such as ``run-2``."""


def format_count(count: float) -> str:
    """Write a count with thousands separators: ``22,332``."""
    return f"{int(count):,}"


def plural(number: int, noun: str, several: str = "") -> str:
    """Write a count with its noun: ``1 event``, ``22,332 events``.

    Args:
        number: how many there are.
        noun: what one of them is called.
        several: the plural; ``""`` if it only adds an s.
    """
    return f"{format_count(number)} {noun if number == 1 else several or f'{noun}s'}"


def times(number: int) -> str:
    """Write how often something happened: ``once``, ``twice``, ``22,332 times``."""
    return {1: "once", 2: "twice"}.get(number, f"{format_count(number)} times")


def list_of(words: Sequence[str], joint: str = " and ") -> str:
    """Join words as a sentence does: ``5``, ``5 and 6``, ``0, 8 and 16``.

    Args:
        words: in order.
        joint: what stands before the last of them; clauses want a comma in it.
    """
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])}{joint}{words[-1]}"


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


def format_number(value: float) -> str:
    """Write a count, or a number with one digit of its fraction: ``1,024.5``."""
    return f"{value:,.1f}" if value % 1 else format_count(value)


def format_range(least: int, most: int) -> str:
    """Write a range of bytes: ``1.50 to 2.00 GiB``; a single figure if both ends are equal."""
    low, high = format_bytes(least), format_bytes(most)
    if low == high:
        return low
    number, unit = low.split()
    return f"{number} to {high}" if high.endswith(unit) else f"{low} to {high}"


def format_share(part: float, whole: float = 1) -> str:
    """Write a part of a whole in percent: ``12.3%``; ``0%`` for nothing, ``-`` without a whole."""
    if not whole:
        return "-"
    if not part:
        return "0%"
    return "<0.1%" if abs(part / whole) < 0.001 else f"{part / whole:.1%}"


def share_in_words(part: float, whole: float) -> str:
    """Write the same for a sentence: ``12.3%``, ``under 0.1%``."""
    return format_share(part, whole).replace("<", "under ")


def rounded_share(part: float, whole: float = 1) -> str:
    """Write a share without a fraction, but never nearly all as 100% or little as 0%: ``13%``."""
    share = part / whole
    if 0 < share < 0.01:
        return "under 1%"
    return "over 99%" if 0.995 <= share < 1 else f"{share:.0%}"


def format_change(change: float | None, base: float | None) -> str:
    """Write a change in percent of what there was: ``+47%``, ``-3.2%``; ``""`` for none."""
    if not change or not base:
        return ""
    share = change / base
    if abs(share) < 0.001:
        return "<0.1%"
    return f"{share:+,.{0 if abs(share) >= 0.1 else 1}%}"


def change_in_words(change: int, base: int, *, signed: bool = False) -> str:
    """Write a change in percent for a sentence: ``47%``, ``under 0.1%``; signed, ``+47%``.

    ``""`` for none, and from ``MOST_SHARE`` on: thousands of percent tell nobody anything.
    """
    if abs(change) >= MOST_SHARE * base:
        return ""
    text = format_change(change, base).replace("<", "under ")
    return text if signed else text.lstrip("+-")


def bytes_and_share(change: int, base: int) -> str:
    """Write a change in bytes and in percent of what there was: ``4.50 GiB (62%)``; no sign."""
    share = change_in_words(change, base)
    return f"{format_bytes(abs(change))} ({share})" if share else format_bytes(abs(change))


def format_duration(micros: int) -> str:
    """Write microseconds in the unit that suits: ``850 µs``, ``12.1 ms``, ``4 min 07 s``."""
    if micros < 1000:
        return f"{micros} µs"
    # Integers: a float would round a tie such as 12.25 ms to even.
    tenths = (micros + 50) // 100
    if tenths < 10_000:
        return f"{tenths / 10:.1f} ms"
    hundredths = (micros + 5000) // 10_000
    if hundredths < 12_000:
        return f"{hundredths / 100:.2f} s"
    minutes, seconds = divmod((micros + 500_000) // 1_000_000, 60)
    return f"{minutes} min {seconds:02d} s"


def parse_size(value: float | str) -> int:
    """Read a size: ``40GiB``, ``40 GB``, ``1.5G`` or bytes, ``42949672960``.

    It is how every option, setting, file and function of ours takes one. KiB to EiB are powers of
    1024 and kB to EB powers of 1000; the bare letters are powers of 1024, as in PyTorch's and most
    schedulers' settings. Case does not count, and a fraction of a byte is dropped.

    Args:
        value: the text, or a number of bytes.

    Raises:
        ValueError: it is not a size, is negative, or exceeds 64 bits; the message says so and
            names examples.
    """
    size = _of_text(value) if isinstance(value, str) else _of_number(value)
    if size is None or not 0 <= size <= _LARGEST:
        raise ValueError(f"{value!r} is not a size; write 40GiB, 40GB or a number of bytes")
    return size


def _of_text(text: str) -> int | None:
    match = _SIZE.fullmatch(text.strip().replace("_", ""))
    if match is None:
        return None
    prefix, binary, unit = match[2], match[3], match[4]
    if (binary and not prefix) or (prefix and (unit or "b")[1:]):  # 4iB, 4Gbytes
        return None
    from fractions import Fraction  # few commands are given a size

    power = "kmgtpe".index(prefix.lower()) + 1 if prefix else 0
    return int(Fraction(match[1]) * (1000 if unit and not binary else 1024) ** power)


def _of_number(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None  # 0.02 is a share, or a slip
    try:
        return operator.index(value)  # type: ignore[arg-type]  # NumPy's integers, too
    except TypeError:
        return None


def parse_share(text: str) -> Fraction:
    """Read a percentage, ``2%`` or ``2.5 %``, as a part of 1.

    Raises:
        ValueError: the text is not a percentage.
    """
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?|\.\d{1,9})\s*%", text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a percentage; write 2%")
    from fractions import Fraction

    return Fraction(match[1]) / 100

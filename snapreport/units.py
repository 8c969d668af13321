"""Numbers as text: bytes in binary units and counts with thousands separators."""

from __future__ import annotations

import re
from fractions import Fraction

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")

# (digits after the point, the scaled value below which they are used): 3 to 4 figures in all.
_STEPS = ((2, 100), (1, 1000), (0, 1024))

_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,18})?|\.\d{1,18})\s*(?:([kmgtpe])?(i)?(b|bytes?)?)", re.I)


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


def format_count(count: int) -> str:
    """Write a count with thousands separators: ``22,332``."""
    return f"{int(count):,}"


def format_share(part: int, whole: int) -> str:
    """Write a part of a whole in percent: ``12.3%``, or ``-`` where there is no whole."""
    return f"{part / whole:.1%}" if whole else "-"


def parse_bytes(text: str) -> int:
    """Read a size: ``40GiB``, ``40 GB``, ``1.5G`` or bytes, ``42949672960``.

    KiB to EiB are powers of 1024 and kB to EB powers of 1000; the bare letters are powers of 1024,
    as in PyTorch's and most schedulers' settings. A fraction of a byte is dropped.

    Raises:
        ValueError: the text is none; the message says so and names examples.
    """
    match = _SIZE.fullmatch(text.strip().replace("_", ""))
    if match is None or (match[3] and not match[2]) or (match[2] and (match[4] or "b")[1:]):
        raise ValueError(f"{text!r} is no size; write 40GiB, 40GB or a number of bytes")
    prefix, binary, unit = match[2], match[3], match[4]
    power = "kmgtpe".index(prefix.lower()) + 1 if prefix else 0
    scale = 1000 if unit and not binary else 1024
    size: int = int(Fraction(match[1]) * scale**power)
    return size


def parse_share(text: str) -> Fraction:
    """Read a percentage, ``2%`` or ``2.5 %``, as a part of 1.

    Raises:
        ValueError: the text is none.
    """
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?|\.\d{1,9})\s*%", text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no percentage; write 2%")
    return Fraction(match[1]) / 100

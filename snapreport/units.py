"""Numbers as text: bytes in binary units and counts with thousands separators."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")

# (digits after the point, the scaled value below which they are used): 3 to 4 figures in all.
_STEPS = ((2, 100), (1, 1000), (0, 1024))


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

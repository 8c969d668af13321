"""Say how a check against a budget ended, in a sentence or two."""

from __future__ import annotations

from snapreport.ground.units import bytes_and_share, format_bytes


def budget_text(what: str, value: int, limit: int, extra: str = "") -> str:
    """Say how a figure compares with its budget.

    Args:
        what: the figure's name, capitalized.
        value: bytes.
        limit: bytes.
        extra: more sentences.
    """
    room = limit - value
    if room < 0:
        against = f"{bytes_and_share(room, limit)} over the budget of {_exact(limit, value)}"
    elif room:
        left = bytes_and_share(room, limit)
        against = f"within the budget of {_exact(limit, value)}, with {left} left"
    else:
        against = "exactly its budget"
    return f"{what} is {format_bytes(value)}, {against}.{extra and ' ' + extra}"


def growth_text(value: int, base: int, limit: int, extra: str = "") -> str:
    """Say how a peak compares with the other recording's, and what growth is allowed."""
    allowed = f"{'+' * (limit > base)}{bytes_and_share(limit - base, base)} is allowed"
    if value > base:
        text = (
            f"The peak grew by {bytes_and_share(value - base, base)}, from {format_bytes(base)}"
            f" to {format_bytes(value)}"
        )
    elif value < base:
        text = f"The peak fell by {format_bytes(base - value)} to {format_bytes(value)}"
    else:
        text = f"The peak is as high as in the other recording, {format_bytes(value)}"
    over = f", {format_bytes(value - limit)} too much" if value > limit else ""
    return f"{text}; {allowed}{over}.{extra and ' ' + extra}"


def _exact(limit: int, value: int) -> str:
    """Write the budget; also in bytes if rounding would hide the difference."""
    text = format_bytes(limit)
    return f"{text} ({limit:,} bytes)" if text == format_bytes(value) and limit >= 1024 else text

"""The fragment of a page's address that shows the same view there: ``#event=12&tab=lines``."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

KEYS = ("device", "axis", "view", "curve", "event", "tab", "search", "stacks", "frames")
"""What a fragment holds, in the page's order; it knows some more, which nothing here has."""
_PLAIN = "-_.!~*'(),:"


def encode_link(values: Mapping[str, object]) -> str:
    """Return a fragment without its ``#``; what is None or empty is as the page opens."""
    parts = [
        f"{key}={quote(_text(values[key]), safe=_PLAIN)}"
        for key in KEYS
        if values.get(key) not in (None, "")
    ]
    return "&".join(parts)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(_number(each) for each in value)
    return _number(value) if isinstance(value, float) else str(value)


def _number(value: float) -> str:
    """Write enough digits to find the same pixel again, as the page does."""
    return str(int(value)) if value == int(value) else f"{value:.9g}"

"""Values of answers as JSON without control or hidden characters, and with long texts cut."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from snapreport.ground.safe_text import replaced

LONGEST = 1500
"""The most characters of one text in an answer."""
_LARGEST = 2**53
"""Larger numbers, such as addresses, are written as texts: many JSON readers would round them."""

# Invisible characters, such as variation selectors: no name needs them, and they can hide text.
_HIDING = re.compile("[\ufe00-\ufe0f\U000e0000-\U000e01ef\u115f\u1160\u3164\uffa0\u2800\u034f]")


def clean_text(text: str, longest: int = LONGEST) -> str:
    """Return a text without control or hidden characters, cut to ``longest``."""
    short = text if len(text) <= longest else f"{text[: longest - 1]}…"
    if short.isascii() and short.isprintable():
        return short
    return _HIDING.sub("\ufffd", replaced(short, "\n\t"))


def clean(value: Any, longest: int = LONGEST) -> Any:
    """Return a value as plain JSON, with every text in it cleaned."""
    if isinstance(value, str):
        return clean_text(value, longest)
    if isinstance(value, Mapping):
        return {
            clean_text(str(key), longest): clean(each, longest)
            for key, each in value.items()
            if each is not None
        }
    if isinstance(value, list | tuple):
        return [clean(each, longest) for each in value]
    if isinstance(value, bytes):
        return f"0x{value[: longest // 2].hex()}"
    if isinstance(value, int) and abs(value) > _LARGEST:
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int | float | None):
        return value
    return clean(value.item() if hasattr(value, "item") else str(value), longest)

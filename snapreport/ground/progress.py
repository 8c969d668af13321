"""How long work reports its progress: a callback that is silent by default."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, float | None], None]
"""Called with what is being done and the fraction done (0 to 1), or None where it is unknown."""


def silent(what: str, fraction: float | None) -> None:
    """Take a progress report and say nothing: what the library does by default."""

"""Keys: what each is called, what it does, and which method does it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

ARROWS = {
    "left": "←",
    "right": "→",
    "up": "↑",
    "down": "↓",
    "enter": "Enter",
    "escape": "Esc",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "home": "Home",
    "end": "End",
    "tab": "Tab",
    "shift+tab": "Shift+Tab",
    "ctrl+c": "Ctrl+C",
}
"""Keys that are no letters, as the terminal names them and as they are shown."""


@dataclass(frozen=True)
class Key:
    """One thing that keys do."""

    names: tuple[str, ...]
    """Each does it: a letter as typed, or one of ``ARROWS``."""
    what: str
    act: str
    """A method of the screen, without arguments."""
    short: str = ""
    """For the line at the foot; ``""`` where it is not worth the room."""

    @property
    def label(self) -> str:
        """Such as ``← a``."""
        return " ".join(ARROWS.get(name, name) for name in self.names)


def key(names: str, what: str, act: str, short: str = "") -> Key:
    """Make one from its names with spaces between."""
    return Key(tuple(names.split()), what, act, short)


def find_key(keys: Iterable[Key], name: str) -> Key | None:
    """Return what a key does, None for nothing."""
    return next((each for each in keys if name in each.names), None)

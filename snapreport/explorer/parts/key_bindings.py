"""Key bindings: the names of keys, what they do, and the method that they call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

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
"""Keys other than letters, as the terminal names them and as they are shown."""


@dataclass(frozen=True)
class Key:
    """One action, and the keys that trigger it."""

    names: tuple[str, ...]
    """Each a letter as typed, or one of ``ARROWS``."""
    what: str
    act: str
    """A method of the screen."""
    short: str = ""
    """For the line at the bottom; ``""`` to leave it out there."""
    given: dict[str, Any] = field(default_factory=dict)
    """The method's arguments."""

    @property
    def label(self) -> str:
        """Such as ``← a``."""
        return " ".join(ARROWS.get(name, name) for name in self.names)


def key(names: str, what: str, act: str, short: str = "", **given: Any) -> Key:
    """Make a binding; ``names`` has spaces between, ``given`` are the method's arguments."""
    return Key(tuple(names.split()), what, act, short, given)


def press_key(owner: object, keys: Iterable[Key], name: str) -> bool:
    """Call the owner's method for a key; False if the key has none."""
    found = next((each for each in keys if name in each.names), None)
    if found is not None:
        getattr(owner, found.act)(**found.given)
    return found is not None

"""Keys: what each is called, what it does, and which method does it."""

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
"""Keys that are no letters, as the terminal names them and as they are shown."""


@dataclass(frozen=True)
class Key:
    """One thing that keys do."""

    names: tuple[str, ...]
    """Each does it: a letter as typed, or one of ``ARROWS``."""
    what: str
    act: str
    """A method of the screen."""
    short: str = ""
    """For the line at the foot; ``""`` where it is not worth the room."""
    given: dict[str, Any] = field(default_factory=dict)
    """The method's arguments."""

    @property
    def label(self) -> str:
        """Such as ``← a``."""
        return " ".join(ARROWS.get(name, name) for name in self.names)


def key(names: str, what: str, act: str, short: str = "", **given: Any) -> Key:
    """Make one from its names with spaces between; the rest is what the method is given."""
    return Key(tuple(names.split()), what, act, short, given)


def press_key(owner: object, keys: Iterable[Key], name: str) -> bool:
    """Let the owner do what a key does; False where it does nothing."""
    found = next((each for each in keys if name in each.names), None)
    if found is not None:
        getattr(owner, found.act)(**found.given)
    return found is not None

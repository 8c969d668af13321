"""The style of each role: on a dark background, a light one, and in the terminal's own colours."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache

from rich.style import Style

THEMES = ("dark", "light", "terminal")
"""``terminal``: its own 16 colours, for terminals with no more, and for readers who set them."""

_ROLES: dict[str, tuple[str, str, str]] = {
    # role: on a dark background, on a light one, with the terminal's own colours
    "": ("#d5dae3 on #14171c", "#20252d on #fbfbf9", "default"),
    "dim": ("#8b93a1", "#6a7180", "bright_black"),
    "pale": ("#5f6672", "#9aa1ac", "bright_black"),
    "title": ("bold #ffffff", "bold #000000", "bold"),
    "brand": ("bold #14171c on #7cc4ff", "bold #ffffff on #1f6fb2", "bold reverse"),
    "key": ("bold #8ec7ff", "bold #1a5f9e", "bold cyan"),
    "caret": ("#14171c on #d5dae3", "#fbfbf9 on #20252d", "reverse"),
    "tab": ("#aab2bf", "#4b5360", "default"),
    "tab.on": ("bold #14171c on #8ec7ff", "bold #ffffff on #1a5f9e", "bold reverse"),
    "critical": ("bold #ff7a70", "bold #b3261e", "bold red"),
    "warning": ("bold #ffc857", "bold #8a5a00", "bold yellow"),
    "note": ("bold #8ec7ff", "bold #1a5f9e", "bold blue"),
    "good": ("bold #7fd99a", "bold #1b7a3d", "bold green"),
    "heat0": ("#8aa9ff", "#2f55c4", "blue"),
    "heat1": ("#67d5e0", "#0b7285", "cyan"),
    "heat2": ("#8fd977", "#2b7a1f", "green"),
    "heat3": ("#ffd166", "#8a5a00", "yellow"),
    "heat4": ("bold #ff8a73", "bold #b3261e", "bold red"),
    "found": ("bold underline #fff2a8", "bold underline #6b4e00", "bold underline"),
    "axis": ("#4d5562", "#b6bcc6", "bright_black"),
    "peak": ("bold #ffb86b", "bold #a04c00", "bold yellow"),
    "bar": ("#5b9bd5", "#3a7ab8", "blue"),
    "bar.both": ("#5b9bd5 on #35577a", "#3a7ab8 on #a9c8e6", "blue on cyan"),
    "bar.cursor": ("#fff2a8", "#c06000", "bold yellow"),
    "slack": ("#35577a", "#a9c8e6", "cyan"),
    "pending": ("#b68cd8", "#7a4aa8", "magenta"),
    "reserved": ("#ff9f6e", "#b85a1e", "red"),
    "stage0": ("#d5dae3 on #2c3e57", "#20252d on #d3e2f2", "reverse"),
    "stage1": ("#d5dae3 on #3f3457", "#20252d on #e3daf2", "bold reverse"),
    "stage2": ("#d5dae3 on #2c4a42", "#20252d on #d3eee4", "reverse dim"),
    "inactive": ("#4d5562", "#b6bcc6", "bright_black"),
    "more": ("#ff8a73", "#b3261e", "red"),
    "less": ("#8fd977", "#2b7a1f", "green"),
}
_MARKS: dict[str, tuple[str, str, str]] = {
    "cursor": ("on #33445c", "on #cfe0f3", "reverse"),
    "match": ("on #3d3a22", "on #fff3c2", "underline"),
    "bar": ("on #20252d", "on #e8eaed", ""),
}


@cache
def style_of(role: str, theme: str) -> Style:
    """Return the style of a role, or of a role and the mark of its row, ``dim|cursor``."""
    role, _, mark = role.partition("|")
    place = THEMES.index(theme)
    style = Style.parse(_ROLES[""][place]) + Style.parse(_ROLES[role][place])
    if mark and not (role in _GROUND and mark == "bar"):
        style += Style.parse(_MARKS[mark][place])
    return style


_GROUND = frozenset({"brand", "tab.on", "caret"})
"""Roles that keep their own background."""

ROLES = frozenset(_ROLES)


def fitting_theme(environ: Mapping[str, str] = os.environ) -> str:
    """Return the theme for a terminal: its own colours if it has few, or if NO_COLOR is set."""
    if environ.get("NO_COLOR"):
        return "terminal"
    many = "256" in environ.get("TERM", "") or environ.get("COLORTERM", "") in (
        "truecolor",
        "24bit",
    )
    return "dark" if many or "WT_SESSION" in environ else "terminal"

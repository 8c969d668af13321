"""What a file gives away: its strings, and those that should not be in public."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Given:
    """A distinct string in a file."""

    kind: str
    """Such as ``file``, ``function``, ``stage``, ``setting``, or where it stands."""
    text: str
    count: int
    """How often it stands there: in tables that hold every string once, once."""


@dataclass(frozen=True, order=True)
class Leak:
    """A part of a string that tells who or where, or that opens a door."""

    what: str
    """``home directory``, ``user name``, ``host name``, ``e-mail address``, ``URL``, ``token``."""
    found: str
    """That part; of a token only its beginning."""
    why: str
    """What makes it one."""
    kind: str
    """Of the string that it is in; likewise the next."""
    text: str

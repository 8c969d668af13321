"""What a user asks for: moments, lifetimes, a grouping, a part of the recording, treated names.

Nothing here needs NumPy: commands read it before they know what to do.
"""

from __future__ import annotations

import re
from typing import Any

from snapreport.ground.errors import CutError, MomentError
from snapreport.ground.later import expression
from snapreport.ground.records import dataclass
from snapreport.ground.units import parse_size

GROUPINGS = (
    "stack",
    "site",
    "line",
    "file",
    "function",
    "module",
    "category",
    "role",
    "stage",
    "stream",
    "pool",
    "context",
    "layer",
    "forward",
    "metadata",
    "size",
)
"""What live allocations can be grouped by; also by a key of their metadata, KEYED and its name.

The layer is the forward line behind a gradient, and else the call site: so a line of the model has
what it allocates in the forward pass, and what the backward pass allocates for it."""


KEYED = "metadata:"


WHAT_IF_GROUPINGS = (
    "site",
    "category",
    "role",
    "stage",
    "line",
    "file",
    "function",
    "module",
    "context",
)
"""What can be taken away together: all that one call site made, all of one role, and so on."""


CURVES = ("allocated", "requested", "active", "reserved")
"""The curves of a device."""


COUNTED = CURVES[:3]
"""The curves that allocations add up to; reserved memory is not made of allocations."""


Address = tuple[int, int | None]
"""An address, and how many allocations came before at it; None for the only one."""


_ADDRESS = expression(r"b?(?:0x)?([0-9a-fA-F]{1,16})(?:_(\d{1,9}))?")


def parse_address(text: str) -> Address:
    """Read ``0x7f3a00000000``, ``7f3a00000000_2`` or, as PyTorch's viewer has it, ``b7f3a..._2``.

    Raises:
        MomentError: the text is not an address.
    """
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise MomentError(f"{text!r} is not an address; write it as 0x7f3a00000000 or ..._2")
    return int(match[1], 16), None if match[2] is None else int(match[2])


@dataclass(frozen=True)
class MomentWanted:
    """A moment by one of its names, as ``Device.at()`` takes it; by none, the curve's peak."""

    event: int | None = None
    time_us: int | None = None
    stage: str | None = None
    between: tuple[int, int] | None = None
    alloc: Address | int | None = None
    free: Address | int | None = None
    curve: str = "allocated"

    def __post_init__(self) -> None:
        """Check that it has one name.

        Raises:
            MomentError: it has two.
        """
        if len(self.names) > 1:
            raise MomentError(f"a moment has only one name, not {' and '.join(self.names)}.")

    @property
    def names(self) -> list[str]:
        """Which of its names are given."""
        return [name for name, value in vars(self).items() if name != "curve" and value is not None]


MOMENTS = ("peak", "start", "end")
"""Moments that every recording has."""


@dataclass(frozen=True)
class Question:
    """Which allocations are asked for, by when they live; every condition narrows the answer.

    An allocation born at event ``b`` and freed at ``d``, as a curve counts it, is live after every
    event ``s`` with ``b <= s < d``. An event stands for the state after it; -1 is the start.
    """

    curve: str = "allocated"
    made: tuple[int, int] | None = None
    """Markers A and B with ``A < b <= B``: what was live at A was made before."""
    freed: tuple[int, int] | None = None
    """Markers A and B with ``A < d <= B``."""
    alive: tuple[int, int] | None = None
    """Markers A and B with ``b <= A`` and ``B < d``: live at both and throughout; or one twice."""

    def __str__(self) -> str:
        """Say it: ``made between the start and event 793, alive at event 900``."""
        spans = [("made", self.made), ("freed", self.freed)]
        if self.made == self.freed:
            spans = [("made and freed", self.made)]
        said = [
            f"{what} between {event_in_words(span[0])} and {event_in_words(span[1])}"
            for what, span in spans
            if span is not None
        ]
        if self.alive is not None:
            first, last = map(event_in_words, self.alive)
            at = "alive at" if said else "at"
            said.append(f"{at} {first}" if first == last else f"alive from {first} to {last}")
        return ", ".join(said)


def event_in_words(event: int) -> str:
    """Name an event within a sentence: ``event 793``, and ``the start`` for -1."""
    return "the start" if event < 0 else f"event {event:,}"


@dataclass(frozen=True)
class Bound:
    """One end of a window: an event, or a time after the first event; the other one is None."""

    event: int | None
    time_us: int | None = None


@dataclass(frozen=True)
class Cut:
    """Which allocations are drawn individually; the others are drawn as one band, their sum."""

    first: Bound | None = None
    """The first event drawn; None for the start."""
    last: Bound | None = None
    """The last event drawn; None for the end."""
    min_size: int = 0
    """Allocations of fewer requested bytes are not drawn."""

    @property
    def nothing(self) -> bool:
        """Whether everything is drawn."""
        return self.first is None and self.last is None and self.min_size <= 0

    @property
    def arguments(self) -> dict[str, Any]:
        """The same as ``render()`` takes it."""
        return {"from_": self.first, "to": self.last, "min_size": self.min_size}

    def as_plain(self) -> dict[str, Any]:
        """The same as numbers, for JSON."""

        def plain(bound: Bound | None) -> list[int | None] | None:
            return None if bound is None else [bound.event, bound.time_us]

        return {"first": plain(self.first), "last": plain(self.last), "min_size": self.min_size}


NO_CUT = Cut()


def cut_from_plain(plain: dict[str, Any] | None) -> Cut | None:
    """Return the cut that ``Cut.as_plain`` gave.

    Raises:
        ValueError, TypeError, KeyError: it is not from ``Cut.as_plain``.
    """
    if plain is None:
        return None

    def number(value: Any) -> int:
        if type(value) is not int or not 0 <= value < 2**63:
            raise ValueError("what was cut is not understood")
        return value

    def bound(name: str) -> Bound | None:
        if plain[name] is None:
            return None
        event, time_us = plain[name]
        if (event is None) == (time_us is None):
            raise ValueError("what was cut is not understood")
        return Bound(number(event)) if time_us is None else Bound(None, number(time_us))

    return Cut(bound("first"), bound("last"), number(plain["min_size"]))


_TIME = expression(r"(\d{1,15}(?:\.\d{1,9})?|\.\d{1,9})\s*(us|µs|ms|s|min)")


_MICROS = {"us": 1, "µs": 1, "ms": 1000, "s": 1_000_000, "min": 60_000_000}


def parse_bound(value: int | str | Bound) -> Bound:
    """Read an event, ``1200``, or a time after the first event: ``1.5s``, ``200ms``, ``2min``.

    Raises:
        CutError: it is neither.
    """
    if isinstance(value, Bound):
        return value
    text = str(value).strip()
    digits = text.replace(",", "").replace("_", "")
    if digits.isdecimal() and len(digits) <= 15:
        return Bound(int(digits))
    match = _TIME.fullmatch(text)
    if match is None:
        raise CutError(f"{text!r} is neither an event nor a time; write 1200, 1.5s or 200ms.")
    from fractions import Fraction  # few commands are given a time

    return Bound(None, int(Fraction(match[1]) * _MICROS[match[2]]))


def parse_marker(value: int | str) -> int | str | Bound:
    """Read a marker: an event (-1 is the start) or a time, ``1.5s``; other text stays as it is."""
    if isinstance(value, int) or re.fullmatch(r"\s*-\d{1,15}\s*", value):
        return int(value)
    try:
        found = parse_bound(value)
    except CutError:
        return value
    return found if found.event is None else found.event


def cut_size(value: float | str) -> int:
    """Read a size as ``units.parse_size`` does.

    Raises:
        CutError: it is not a size.
    """
    try:
        return parse_size(value)
    except ValueError as error:
        raise CutError(f"{error}.") from None


def make_cut(
    from_: int | str | Bound | None = None,
    to: int | str | Bound | None = None,
    min_size: int | str | None = None,
) -> Cut | None:
    """Build a cut from a user's arguments; None if all are missing.

    Raises:
        CutError: an argument is malformed.
    """
    if from_ is None and to is None and min_size is None:
        return None
    return Cut(
        None if from_ is None else parse_bound(from_),
        None if to is None else parse_bound(to),
        0 if min_size is None else cut_size(min_size),
    )


KEPT, SHORT, REDACTED = "kept", "short", "redacted"


@dataclass(frozen=True)
class NamesWanted:
    """How ``load()`` should treat the names in a file; by default they are shortened."""

    keep_paths: bool = False
    redact: bool = False
    redact_functions: bool = False
    """Redacts everything else, too."""
    salt: str | None = None

    def __post_init__(self) -> None:
        """Check that they go together.

        Raises:
            ValueError: paths cannot be kept in what is redacted.
        """
        if self.keep_paths and self.redacted:
            raise ValueError("keep_paths and redact contradict each other")

    @property
    def redacted(self) -> bool:
        """Whether anything is."""
        return self.redact or self.redact_functions


SHORT_SALT = (
    "has fewer than 16 characters, so others could try all of them and then guess names; make one"
    " with `openssl rand -hex 16`, and keep it to yourself"
)
"""Why a short salt is refused."""


def is_short_salt(salt: str) -> bool:
    """Say whether a salt could be found by trying; an empty one means an unset variable."""
    return len(salt) < 16

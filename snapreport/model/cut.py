"""Which part of a recording to draw, and what is drawn; totals always include everything."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from snapreport.ground.errors import CutError
from snapreport.ground.units import parse_size

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TIME = re.compile(r"(\d{1,15}(?:\.\d{1,9})?|\.\d{1,9})\s*(us|µs|ms|s|min)")
_MICROS = {"us": 1, "µs": 1, "ms": 1000, "s": 1_000_000, "min": 60_000_000}


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
    return Bound(None, int(Fraction(match[1]) * _MICROS[match[2]]))


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


@dataclass(frozen=True, eq=False)
class Rest:
    """The sum of what is not drawn individually, where it changes; int64, arrays of shape (n,)."""

    event: NDArray[np.int64]
    """The event from which a row is valid; the first is START."""
    requested: NDArray[np.int64]
    """Bytes that count in this curve, as in the next two."""
    allocated: NDArray[np.int64]
    active: NDArray[np.int64]
    count_allocated: NDArray[np.int64]
    """Number of allocations that count in the allocated curve; next, in the other curves."""
    count_requested: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Drawn:
    """What is drawn of one device."""

    rows: NDArray[np.int64]
    """Rows of ``Allocations`` that are drawn one by one, ascending."""
    rest: Rest
    window: tuple[int, int] | None
    """The first and last event asked for; None for all."""
    left_out: int
    """Allocations that are not drawn one by one."""
    left_out_bytes: int
    """Block bytes of those."""
    left_out_requested: int
    all_bytes: int
    """Block bytes of all allocations."""
    left_out_at_peak: int
    """Block bytes of those live at the allocated peak."""
    error: int
    """The curves of the picture are at most this many bytes too low at some event, never too high;
    0 where they are exact at every event."""
    times: NDArray[np.int64] | None
    """Each event's time where not all are kept; shape (n_events,)."""
    time_error_us: int
    """The most by which these differ from the recorded times."""

    def as_plain(self) -> dict[str, Any]:
        """The figures, for JSON."""
        return {
            "first_event": None if self.window is None else self.window[0],
            "last_event": None if self.window is None else self.window[1],
            "not_drawn": self.left_out,
            "not_drawn_bytes": self.left_out_bytes,
            "not_drawn_requested_bytes": self.left_out_requested,
            "not_drawn_share": self.left_out_bytes / self.all_bytes if self.all_bytes else 0.0,
            "not_drawn_at_peak_bytes": self.left_out_at_peak,
            "error_bytes": self.error,
            "error_time_us": self.time_error_us,
        }


@dataclass(frozen=True, eq=False)
class Picture:
    """What is drawn of a file, and what was asked for."""

    cut: Cut
    fit: int | None
    """The most bytes that the page may have; None for any."""
    devices: tuple[Drawn, ...]
    """In the order of ``Findings.devices``."""

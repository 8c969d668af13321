"""Check a snapshot against a budget: the budget, its checks, and the verdict in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Literal

from snapreport.diagnosis.compare.diff_types import Change, Diff
from snapreport.ground.cards import CardWanted, wanted_card
from snapreport.ground.errors import BudgetError, CardError
from snapreport.ground.records import dataclass
from snapreport.ground.safe_text import titled_table, visible
from snapreport.ground.units import bytes_and_share, format_bytes, parse_share, parse_size
from snapreport.model.diagnoses import CODES, SEVERITIES, TOPICS, Finding, names_a_finding
from snapreport.model.findings import CallSite
from snapreport.model.snapshot import Source

NONE = "none"
"""Removes a limit from a budget; as ``fail_on``, no finding fails the check."""
FAIL_ON = ("critical",)
"""What fails a check by default: findings about what made the program fail, or will."""

_SIZES = ("max_peak", "max_reserved")
_TABLES = ("stages", "categories")
_NAMES = ("fail_on", "ignore")
_TEXTS = ("base", "device")
_GROWTHS = ("max_growth", "max_imbalance")
KEYS = (*_SIZES, *_GROWTHS, *_TABLES, "fits", "allow", *_NAMES, *_TEXTS)
"""The keys of a budget; files may write ``-`` for ``_``."""

_NO_SIZES: Mapping[str, int] = MappingProxyType({})

Outcome = Literal["passed", "failed", "unknown"]
"""``unknown`` means that the recording does not show it; the check then fails, too."""


@dataclass(frozen=True)
class Growth:
    """How much higher a peak may be than that of another recording."""

    share: Fraction | None
    """As a part of the other's peak; None if given in bytes."""
    bytes: int | None

    def above(self, base: int) -> int:
        """Return the highest peak allowed, in bytes."""
        if self.share is None:
            return base + (self.bytes or 0)
        return base + int(base * self.share)


@dataclass(frozen=True)
class Budget:
    """What a snapshot may use, and which findings it must not have."""

    max_peak: int | None = None
    """Allocated bytes at the peak of each device; None for no limit, as in the other limits."""
    max_reserved: int | None = None
    """Reserved bytes at the peak of each device."""
    max_growth: Growth | None = None
    max_imbalance: Growth | None = None
    """How much higher a rank's peak may be than the median of its run; not for single files."""
    stages: Mapping[str, int] = field(default_factory=lambda: _NO_SIZES)
    """Allocated bytes at the peak inside a stage, by its name or a glob."""
    categories: Mapping[str, int] = field(default_factory=lambda: _NO_SIZES)
    """The most allocated bytes that a category holds, by its name."""
    fits: CardWanted | None = None
    """The card that the recording must fit on."""
    fail_on: tuple[str, ...] = FAIL_ON
    """Ids, codes, topics and severities that fail the check; a severity includes worse ones."""
    ignore: tuple[str, ...] = ()
    """Ids, codes and topics to ignore."""
    base: str | None = None
    """The file to compare with."""
    device: str | None = None

    @staticmethod
    def of(values: Mapping[str, Any], where: str) -> Budget:
        """Build a budget from the texts and numbers of options, files and callers.

        Args:
            values: keyed by ``KEYS``. A size is a text such as ``40GiB`` or a number of bytes, a
                growth is ``2%`` or a size; ``none`` removes a limit. None counts as not given.
            where: the source of the values, for messages.

        Raises:
            BudgetError: a key is not known, or its value is not valid.
        """
        given = {str(key).replace("-", "_"): value for key, value in values.items()}
        given = {key: value for key, value in given.items() if value is not None}
        for key in given:
            if key not in KEYS:
                raise BudgetError(f"{where}: there is no {key!r}; there are {', '.join(KEYS)}.")
        made: dict[str, Any] = {}
        for key, value in given.items():
            label = f"{where}: {key}"
            if key in _SIZES:
                made[key] = _size(value, label)
            elif key in _GROWTHS:
                made[key] = _growth(value, label)
            elif key in _TABLES:
                made[key] = _sizes(value, label)
            elif key == "fits":
                made[key] = _card(value, given.get("allow"), label)
            elif key == "allow":
                _size(value, label)  # checked here; used with ``fits`` above
            elif key in _NAMES:
                made[key] = _names(value, label, severities=key == "fail_on")
            else:
                made[key] = str(value)
        return Budget(**made)


def merge(first: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two budgets; the second wins, in tables entry by entry.

    Findings to ignore add up: a project ignores some, and one run of it others.
    """
    merged = {str(key).replace("-", "_"): value for key, value in first.items()}
    for key, value in over.items():
        before = merged.get(key)
        if value is None:
            continue
        if key in _TABLES and isinstance(before, Mapping):
            merged[key] = {**before, **value}
        elif key == "ignore" and before:
            merged[key] = [*_listed(before), *_listed(value)]
        else:
            merged[key] = value
    return merged


def _size(value: Any, label: str) -> int | None:
    if value == NONE:
        return None
    try:
        return parse_size(value)
    except ValueError as error:
        raise BudgetError(f"{label}: {error}.") from None


def _growth(value: Any, label: str) -> Growth | None:
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            return Growth(parse_share(value), None)
        except ValueError as error:
            raise BudgetError(f"{label}: {error}.") from None
    try:
        size = _size(value, label)
    except BudgetError:
        raise BudgetError(f"{label}: {value!r} is not a growth; write 2% or 200MiB.") from None
    return None if size is None else Growth(None, size)


def _card(value: Any, allow: Any, label: str) -> CardWanted | None:
    if value == NONE:
        return None
    try:
        return wanted_card(str(value), None if allow == NONE else allow)
    except CardError as error:
        raise BudgetError(f"{label}: {error}") from None


def _sizes(value: Any, label: str) -> dict[str, int]:
    if not isinstance(value, Mapping):
        raise BudgetError(f"{label}: expected a size for each name, not {value!r}.")
    found = {str(name): _size(size, f"{label}: {name}") for name, size in value.items()}
    return {name: size for name, size in found.items() if size is not None}


def _listed(value: Any) -> list[Any]:
    return value.split(",") if isinstance(value, str) else list(value)


def _names(value: Any, label: str, *, severities: bool) -> tuple[str, ...]:
    if not isinstance(value, str | Sequence) or not all(isinstance(each, str) for each in value):
        raise BudgetError(f"{label}: expected names of findings, not {value!r}.")
    names = [name.strip() for each in _listed(value) for name in each.split(",") if name.strip()]
    if severities and not names and (value or isinstance(value, str)):
        # An unset variable of a CI job must not switch the gate off.
        raise BudgetError(f"{label}: no finding is named; write {NONE} to fail on none.")
    known = (*(SEVERITIES if severities else ()), *TOPICS, *CODES)
    for name in names:
        if names_a_finding(name) or name in known or (severities and names == [NONE]):
            continue
        raise BudgetError(
            f"{label}: no finding is called {name!r}; there are {', '.join(known)}, and ids such"
            " as leak/1a2b3c."
        )
    return () if names == [NONE] else tuple(dict.fromkeys(names))


@dataclass(frozen=True)
class Check:
    """One limit checked on one device."""

    name: str
    """The option: ``max-peak``, ``max-reserved``, ``max-growth``, ``max-imbalance``, ``max-stage``,
    ``max-category``, ``fits``."""
    subject: str
    """The stage, category or card, else ``""``."""
    device: str
    outcome: Outcome
    value: int | None
    """The figure in bytes; None if the recording does not show it."""
    limit: int | None
    """The most bytes allowed; None if not known."""
    base: int | None
    """The other recording's bytes, if the limit is a growth."""
    event: int | None
    """The event at which the figure was reached."""
    text: str
    """The figure, the limit and the difference, in a sentence or two."""
    sites: tuple[CallSite, ...] = ()
    """The call sites that held it at that event, largest first."""
    changes: tuple[Change, ...] = ()
    """The call sites that hold more or less than in the other recording, largest change first."""

    @classmethod
    def judged(
        cls,
        name: str,
        subject: str,
        device: str,
        value: int,
        limit: int,
        text: str,
        *,
        base: int | None = None,
        event: int | None = None,
        sites: tuple[CallSite, ...] = (),
        changes: tuple[Change, ...] = (),
    ) -> Check:
        """Return the check of a known figure, which passes up to its limit."""
        outcome: Outcome = "passed" if value <= limit else "failed"
        return cls(name, subject, device, outcome, value, limit, base, event, text, sites, changes)

    @classmethod
    def unknown(
        cls, name: str, subject: str, device: str, what: str, reason: str, limit: int | None = None
    ) -> Check:
        """Return the check of a figure that is not known.

        Args:
            name, subject, device, limit: as in the fields.
            what: the figure's name, capitalized.
            reason: why it is not known, a sentence or a clause.
        """
        text = f"{what} cannot be checked: {reason.rstrip('.')}."
        return cls(name, subject, device, "unknown", None, limit, None, None, text)

    @property
    def over(self) -> int | None:
        """Bytes over the limit; negative if there is room."""
        return None if self.value is None or self.limit is None else self.value - self.limit

    @property
    def passed(self) -> bool:
        """Whether the figure is known to be within the limit."""
        return self.outcome == "passed"


@dataclass(frozen=True)
class Raised:
    """A finding, and whether it fails the check."""

    device: str
    """``""`` if it is about the file."""
    finding: Finding
    fails: bool


@dataclass(frozen=True, eq=False)
class Verdict:
    """The result of checking a snapshot against its budget."""

    source: Source
    devices: tuple[str, ...]
    """The devices that were checked."""
    budget: str | None
    """The file that the budget was read from."""
    fail_on: tuple[str, ...]
    checks: tuple[Check, ...]
    findings: tuple[Raised, ...]
    """All that are not ignored; those that fail the check first, then by severity."""
    ignored: tuple[Raised, ...]
    comparisons: tuple[Diff, ...]
    """The comparison with the other recording at the peak, for each device; empty without one."""
    forecast: str = ""
    """Says of a forecast that it is one; ``""`` for a recording."""

    @property
    def failures(self) -> tuple[str, ...]:
        """What failed, a line each."""
        return (
            *(f"{each.device}: {each.text}" for each in self.checks if not each.passed),
            *(
                f"{each.device or 'the file'}: {each.finding.title} ({each.finding.id})"
                for each in self.findings
                if each.fails
            ),
        )

    @property
    def passed(self) -> bool:
        """Whether all limits are kept and no finding fails the check."""
        return not self.failures

    def __repr__(self) -> str:
        failures = len(self.failures)
        state = f"failed for {failures} reason{'' if failures == 1 else 's'}"
        return visible(f"<Verdict on {self.source.name}: {state if failures else 'passed'}>")

    def _repr_html_(self) -> str:
        return titled_table(self, self.checks)


def budget_text(what: str, value: int, limit: int, extra: str = "") -> str:
    """Say how a figure compares with its budget.

    Args:
        what: the figure's name, capitalized.
        value: bytes.
        limit: bytes.
        extra: more sentences.
    """
    room = limit - value
    if room < 0:
        against = f"{bytes_and_share(room, limit)} over the budget of {_exact(limit, value)}"
    elif room:
        left = bytes_and_share(room, limit)
        against = f"within the budget of {_exact(limit, value)}, with {left} left"
    else:
        against = "exactly its budget"
    return f"{what} is {format_bytes(value)}, {against}.{extra and ' ' + extra}"


def growth_text(value: int, base: int, limit: int, extra: str = "") -> str:
    """Say how a peak compares with the other recording's, and what growth is allowed."""
    allowed = f"{'+' * (limit > base)}{bytes_and_share(limit - base, base)} is allowed"
    if value > base:
        text = (
            f"The peak grew by {bytes_and_share(value - base, base)}, from {format_bytes(base)}"
            f" to {format_bytes(value)}"
        )
    elif value < base:
        text = f"The peak fell by {format_bytes(base - value)} to {format_bytes(value)}"
    else:
        text = f"The peak is as high as in the other recording, {format_bytes(value)}"
    over = f", {format_bytes(value - limit)} too much" if value > limit else ""
    return f"{text}; {allowed}{over}.{extra and ' ' + extra}"


def _exact(limit: int, value: int) -> str:
    """Write the budget; also in bytes if rounding would hide the difference."""
    text = format_bytes(limit)
    return f"{text} ({limit:,} bytes)" if text == format_bytes(value) and limit >= 1024 else text

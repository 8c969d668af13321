"""Advice against reality: what a change was said to free, and what it freed when it was made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from snapreport.api.device import Device
from snapreport.diagnosis.advice.planning import suggest
from snapreport.diagnosis.advice.situation import look_at
from snapreport.ground.units import format_bytes
from snapreport.model.diagnoses import Suggestion
from tests.laboratory.programs import all_programs
from tests.laboratory.recording import Job, make, recorded
from tests.laboratory.tables import markdown

STEPS = 4
NOTHING = 0.001
"""A change that lowers the peak by no more than this share of it frees nothing."""
_OF_FINDINGS = ("break-cycle",)
"""What findings of their own suggest, besides the peak's."""

COLUMNS = ("program", "change", "peak", "least", "expected", "most", "measured", "holds", "error")


@dataclass(frozen=True)
class Predicted:
    """What a suggestion says it frees, in bytes."""

    least: int
    expected: int
    most: int


@dataclass(frozen=True)
class Pair:
    """One change of one program."""

    program: str
    variant: str
    peak: int
    """Of the program as it is."""
    measured: int
    """By how much the peak fell, in bytes."""
    predicted: Predicted | None
    """None where it was not suggested."""

    @property
    def within(self) -> bool:
        """Whether the bounds hold."""
        said = self.predicted
        return said is None or said.least <= self.measured <= said.most

    @property
    def error(self) -> float | None:
        """By which share of the measured saving the expected one is wrong."""
        if self.predicted is None or self.measured <= 0:
            return None
        return abs(self.predicted.expected - self.measured) / self.measured

    @property
    def frees_nothing(self) -> bool:
        """Whether it was suggested and does not help."""
        return self.predicted is not None and self.measured <= self.peak * NOTHING


def predictions(device: Device) -> Mapping[str, Predicted]:
    """Return what is judged: each suggestion of a recording, by its code and its number."""
    situation = look_at(device.file, device.history)
    situation = replace(situation, to_host=True)
    found: dict[str, Predicted] = {}
    for each in suggest(situation, parts=(2, 4), chunks=(4, 8)):
        frees = each.frees
        if frees is not None:
            predicted = Predicted(frees.least, frees.expected, frees.most)
            found.setdefault(variant_of(each), predicted)
    for finding in device.diagnosis.findings:
        for each in finding.suggestions:
            if each.code in _OF_FINDINGS and each.frees is not None:
                frees = each.frees
                found[each.code] = Predicted(frees.least, frees.expected, frees.most)
    return found


def variant_of(suggestion: Suggestion) -> str:
    """Return the variant of a program that takes a suggestion."""
    return f"{suggestion.code}:{suggestion.number}" if suggestion.number else suggestion.code


def pairs_of(program: str, variants: Sequence[str], steps: int = STEPS) -> Iterator[Pair]:
    """Make changes of a program, and yield what came of each."""
    base = recorded(Job(program, steps=steps))
    said = predictions(base)
    for variant in variants:
        changed = recorded(Job(program, variant, steps))
        saved = base.peak.allocated - changed.peak.allocated
        wanted = said.get(variant)
        yield Pair(program, variant, base.peak.allocated, saved, wanted)


def all_pairs(programs: Sequence[str], steps: int = STEPS) -> list[Pair]:
    """Make every change of some programs."""
    known = {name: made.variants for name, made in all_programs().items() if name in programs}
    make([Job(name, variant, steps) for name in known for variant in ("", *known[name])])
    return [pair for name in known for pair in pairs_of(name, known[name], steps)]


def report(programs: Sequence[str]) -> str:
    """Return the table and its summary as Markdown."""
    pairs = all_pairs(programs)
    return f"{markdown(COLUMNS, [row_of(pair) for pair in pairs])}\n\n{summary(pairs)}"


def row_of(pair: Pair) -> list[str]:
    """Return a row of the table, under ``COLUMNS``."""
    said = pair.predicted
    figures = (said.least, said.expected, said.most) if said is not None else ()
    return [
        pair.program,
        pair.variant,
        format_bytes(pair.peak),
        *([format_bytes(figure) for figure in figures] or [""] * 3),
        _signed(pair.measured),
        "" if said is None else "yes" if pair.within else "NO",
        "" if pair.error is None else f"{pair.error:.1%}",
    ]


def _signed(size: int) -> str:
    return format_bytes(size) if size >= 0 else f"-{format_bytes(-size)}"


def quantiles(pairs: Sequence[Pair]) -> tuple[float, float]:
    """Return the median of the errors, and what 90 % of them are below."""
    errors = [pair.error for pair in pairs if pair.error is not None]
    median, ninth = np.quantile(errors, [0.5, 0.9]).tolist()
    return median, ninth


def summary(pairs: Sequence[Pair]) -> str:
    """Return how good the advice is, a line each."""
    said = [pair for pair in pairs if pair.predicted is not None]
    missed = [pair for pair in pairs if pair.predicted is None and pair.measured > pair.peak / 20]
    lines = [
        f"- programs: {len({pair.program for pair in pairs})}",
        f"- changes made: {len(pairs)}, of them suggested: {len(said)}",
        f"- bounds that do not hold: {sum(not pair.within for pair in said)}",
        f"- suggestions that free nothing: {sum(pair.frees_nothing for pair in said)}",
    ]
    if said:
        median, ninth = quantiles(pairs)
        lines.append(f"- error of the expected figure: median {median:.1%}, 90 % below {ninth:.1%}")
    lines.append(f"- changes that free over 5 % and are not suggested: {len(missed)}")
    return "\n".join(lines)

"""The law of a batch against reality: the peak at sizes that were not recorded, and what fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from snapreport.api.comparison import growth_of
from snapreport.api.device import Device
from snapreport.ground.units import format_bytes
from snapreport.model.answers import BatchGrowth, BatchPeak
from tests.laboratory.advice import STEPS
from tests.laboratory.recording import Job, make, recorded
from tests.laboratory.tables import markdown

FROM = {
    "sized-transformer": (2, 4),
    "sized-large-vocabulary": (2, 4),
    "sized-unet": (2, 4),
    "sized-wide-model": (2, 4),
    "sized-contrastive": (128, 256),
    "sized-naive-attention": (64, 128),
    "sized-experts": (2, 4),
}
"""The recorded sizes of each program."""
TIMES = (1.5, 3, 4, 8)
"""Sizes that are told, as multiples of the smaller one."""
ROOM = 1.7
"""What is to hold the largest batch, as a multiple of the larger recorded peak."""


@dataclass(frozen=True)
class Told:
    """What is said of a size of a program, and the peak that it has."""

    program: str
    peak: BatchPeak
    measured: int
    """In bytes."""

    @property
    def error(self) -> float:
        """By which part of the measured peak the expected one is wrong."""
        return abs(self.peak.expected - self.measured) / self.measured


@dataclass(frozen=True)
class Largest:
    """The largest size that is said to fit, and the peaks with it and with one more."""

    program: str
    growth: BatchGrowth
    measured: int
    one_more: int

    @property
    def holds(self) -> bool:
        """Whether it fits, and one more does not."""
        target = self.growth.target
        return target is not None and self.measured <= target < self.one_more


def _job(program: str, size: int) -> Job:
    return Job(program, f"size:{size}", STEPS)


@cache
def _devices(program: str) -> dict[int, Device]:
    return {size: recorded(_job(program, size)) for size in FROM[program]}


def told(program: str) -> Iterator[Told]:
    """Yield what is said of sizes that were not recorded."""
    sizes = [int(FROM[program][0] * times) for times in TIMES]
    growth = growth_of(_devices(program), at=sizes)
    for peak in growth.peaks:
        if peak.batch in sizes:
            yield Told(program, peak, recorded(_job(program, peak.batch)).peak.allocated)


def largest(program: str) -> Largest:
    """Return what fits into some more than the larger recording holds."""
    growth = fitted(program)
    size = growth.at_batch
    peaks = (recorded(_job(program, each)).peak.allocated for each in (size, size + 1))
    return Largest(program, growth, *peaks)


@cache
def fitted(program: str) -> BatchGrowth:
    """Return how a program grows, and what fits."""
    devices = _devices(program)
    return growth_of(devices, int(ROOM * devices[FROM[program][1]].peak.allocated))


def run_all(programs: Sequence[str] = tuple(FROM)) -> tuple[list[Told], list[Largest]]:
    """Run every program at every size that is told."""
    sizes = {
        name: [*FROM[name], *(int(FROM[name][0] * times) for times in TIMES)] for name in programs
    }
    make([_job(name, size) for name in programs for size in sizes[name]])
    make([_job(name, fitted(name).at_batch + more) for name in programs for more in (0, 1)])
    return [each for name in programs for each in told(name)], [largest(name) for name in programs]


def report(programs: Sequence[str] = tuple(FROM)) -> str:
    """Return the two tables and their summary as Markdown."""
    said, fits = run_all(programs)
    names = ("program", "recorded at", "size", "expected", "measured", "error")
    first = markdown(names, [_row(each) for each in said])
    columns = ("program", "into", "expected", "measured", "one more", "holds")
    second = markdown(columns, [_fit_row(each) for each in fits])
    errors = sorted(each.error for each in said)
    median, most = errors[len(errors) // 2], errors[-1]
    lines = [
        f"- sizes predicted: {len(said)}",
        f"- error of the expected peak: median {median:.1%}, at most {most:.1%}",
    ]
    return f"{first}\n\n{second}\n\n" + "\n".join(lines)


def _row(each: Told) -> list[str]:
    peak = each.peak
    return [
        each.program.removeprefix("sized-"),
        " and ".join(map(str, FROM[each.program])),
        str(peak.batch),
        format_bytes(peak.expected),
        format_bytes(each.measured),
        f"{each.error:.1%}",
    ]


def _fit_row(each: Largest) -> list[str]:
    growth = each.growth
    return [
        each.program.removeprefix("sized-"),
        format_bytes(growth.target or 0),
        str(growth.fits),
        format_bytes(each.measured),
        format_bytes(each.one_more),
        "yes" if each.holds else "NO",
    ]

"""Roles against the truth: which bytes at the peak are called what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from snapreport.api.device import Device
from snapreport.ground.units import format_bytes
from snapreport.model.roles import ROLES, UNKNOWN
from tests.laboratory.recording import Job, Run, make, run
from tests.laboratory.tables import markdown

if TYPE_CHECKING:
    from numpy.typing import NDArray

LATE = 2
"""The step with which a late recording begins."""


def roles_of(device: Device) -> NDArray[np.int8]:
    """Return what is judged: the role of each allocation, as places in ``ROLES``."""
    return device.roles.role


@dataclass(frozen=True)
class Judged:
    """What is said of one recording at one moment."""

    run: Run
    event: int
    said: NDArray[np.int8]
    live: NDArray[np.bool_]

    @property
    def bytes(self) -> NDArray[np.int64]:
        """The confusion: int64, (roles, roles); rows are the truth, columns what is said."""
        found = np.zeros((len(ROLES), len(ROLES)), np.int64)
        size = self.run.device.allocations.block_size
        rows = (self.run.truth.roles[self.live], self.said[self.live])
        np.add.at(found, rows, size[self.live])
        return found

    def wrong(self) -> list[tuple[int, int, str, str, str]]:
        """Return bytes, number, truth, what is said, and call stack of what is not right."""
        rows = self.run.device.allocations
        groups: dict[tuple[int, int, int], list[int]] = {}
        for row in np.flatnonzero(self.live & (self.said != self.run.truth.roles)).tolist():
            key = (int(self.run.truth.roles[row]), int(self.said[row]), int(rows.stack[row]))
            groups.setdefault(key, []).append(int(rows.block_size[row]))
        found = [
            (sum(sizes), len(sizes), ROLES[true], ROLES[said], self._stack(stack))
            for (true, said, stack), sizes in groups.items()
        ]
        return sorted(found, reverse=True)

    def _stack(self, stack: int) -> str:
        stacks = self.run.device.file.stacks
        names = [stacks.frames.names[frame] for frame in stacks.path(stack)] if stack >= 0 else []
        return " < ".join(names[:8]) or "no stack"


def judge(made: Run, begins: int = 0) -> Judged:
    """Ask for the roles of a recording, and look at the peak from a step on."""
    curve = made.device.curve("allocated")
    first = int(made.truth.steps[begins]) if len(made.truth.steps) > begins else 0
    event = first + int(curve[first + 1 :].argmax()) if first < made.device.events else -1
    rows = made.device.allocations
    live = (rows.alloc_event <= event) & (event < rows.free_requested_event)
    return Judged(made, event, roles_of(made.device), live)


def judge_program(
    program: str, variant: str = "", recorded_late: bool = False
) -> dict[str, Judged]:
    """Judge a program recorded from its beginning, and recorded late.

    Args:
        program: its name.
        variant: the change that is made in it.
        recorded_late: run it once more, too, with the profiler on from the late step.
    """
    whole = run(program, variant)
    found = {"first": judge(whole), "steady": judge(whole, 1), "late": judge(whole.late(LATE))}
    if recorded_late:
        found["late, by the profiler"] = judge(run(program, variant, start=LATE))
    return found


def right_in_sum(confusion: NDArray[np.int64]) -> float:
    """Return the share of bytes that are right as each role's sum, whichever block has them."""
    total = int(confusion.sum())
    return float(np.minimum(confusion.sum(0), confusion.sum(1)).sum()) / total if total else 1.0


def right(confusion: NDArray[np.int64]) -> float:
    """Return the share of bytes that are called what they are."""
    total = int(confusion.sum())
    return float(np.trace(confusion)) / total if total else 1.0


def report(jobs: Sequence[Job], wrong: int = 0, recorded_late: bool = False) -> str:
    """Return the tables as Markdown.

    Args:
        jobs: programs, with a change or without.
        wrong: so many lines of what is not right are told of each.
        recorded_late: see ``judge_program()``.
    """
    totals: dict[str, NDArray[np.int64]] = {}
    rows: list[list[str]] = []
    lines: list[list[str]] = []
    make(each for job in jobs for each in (job, replace(job, observed=True)))
    for job in jobs:
        program = f"{job.program} {job.variant}".rstrip()
        for when, judged in judge_program(job.program, job.variant, recorded_late).items():
            confusion = judged.bytes
            totals[when] = totals.get(when, np.zeros_like(confusion)) + confusion
            rows.append([program, when, *_shares(confusion)])
            lines += [
                [program, when, format_bytes(size), str(count), true, said, stack]
                for size, count, true, said, stack in judged.wrong()[:wrong]
            ]
    rows += [["all", when, *_shares(confusion)] for when, confusion in totals.items()]
    parts = [markdown(("program", "recorded", "peak", "right", "in sum", "unknown"), rows)]
    for when, confusion in totals.items():
        parts.append(
            f"{when}: true roles by row, assigned roles by column, in MiB\n\n{_matrix(confusion)}"
        )
    if lines:
        names = ("program", "recorded", "bytes", "count", "truth", "said", "stack")
        parts.append(markdown(names, lines))
    return "\n\n".join(parts)


def _shares(confusion: NDArray[np.int64]) -> Iterable[str]:
    total = int(confusion.sum())
    unknown = int(confusion[:, UNKNOWN].sum() - confusion[UNKNOWN, UNKNOWN])
    yield format_bytes(total)
    yield f"{right(confusion):.1%}"
    yield f"{right_in_sum(confusion):.1%}"
    yield f"{unknown / max(total, 1):.1%}"


def _matrix(confusion: NDArray[np.int64]) -> str:
    used = [i for i in range(len(ROLES)) if confusion[i].any() or confusion[:, i].any()]
    rows = [
        [ROLES[i], *(f"{confusion[i, j] / 2**20:.1f}" if confusion[i, j] else "" for j in used)]
        for i in used
    ]
    return markdown(("", *(ROLES[j] for j in used)), rows)

"""Plans against reality: all changes of a plan made together, and the peak that is left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from snapreport.diagnosis.advice.planning import make_plan
from snapreport.diagnosis.advice.situation import look_at
from snapreport.ground.units import format_bytes
from snapreport.model.answers import Plan
from tests.laboratory.advice import STEPS, variant_of
from tests.laboratory.recording import Job, make, recorded
from tests.laboratory.tables import markdown

PROGRAMS = ("transformer", "large-vocabulary", "wide-model")
"""Each has a variant for whatever its plans pick."""
SHARES = (0.9, 0.75, 0.6)
"""Targets as shares of the peak."""
_NEAR = 0.05


@dataclass(frozen=True)
class Applied:
    """A plan for a program, and the peak with all its changes made."""

    program: str
    plan: Plan
    measured: int
    """In bytes."""

    @property
    def variant(self) -> str:
        """The changes, as a variant of the program."""
        return variant_of_plan(self.plan)

    @property
    def most(self) -> int:
        """What the plan says is left at the most, in bytes."""
        return self.plan.steps[-1].most if self.plan.steps else self.plan.peak

    @property
    def holds(self) -> bool:
        """Whether the target was reached as said, else whether the estimate is near."""
        if self.measured > self.most:
            return False
        if self.plan.reached == "yes":
            return self.measured <= self.plan.target
        return abs(self.measured - self.plan.expected) <= _NEAR * self.plan.expected


def variant_of_plan(plan: Plan) -> str:
    """Return the variant of a program that takes all steps of a plan."""
    return "+".join(variant_of(step.suggestion) for step in plan.steps)


def plans_of(program: str) -> Iterator[Plan]:
    """Yield a plan for each target."""
    device = recorded(Job(program, steps=STEPS))
    situation = look_at(device.file, device.history)
    for share in SHARES:
        yield make_plan(situation, int(situation.peak * share))


def apply_plans(programs: Sequence[str] = PROGRAMS) -> list[Applied]:
    """Make the changes of every plan."""
    make([Job(program, steps=STEPS) for program in programs])
    plans = [(program, plan) for program in programs for plan in plans_of(program)]
    jobs = [Job(program, variant_of_plan(plan), STEPS) for program, plan in plans]
    make(dict.fromkeys(jobs))
    return [
        Applied(program, plan, recorded(job).peak.allocated)
        for (program, plan), job in zip(plans, jobs, strict=True)
    ]


def report(programs: Sequence[str] = PROGRAMS) -> str:
    """Return the table as Markdown."""
    names = ("program", "peak", "target", "changes", "reached", "expected", "most", "measured",
             "holds")  # fmt: skip
    return markdown(names, [_row(each) for each in apply_plans(programs)])


def _row(each: Applied) -> list[str]:
    plan = each.plan
    return [
        each.program,
        format_bytes(plan.peak),
        format_bytes(plan.target),
        each.variant.replace("+", ", "),
        plan.reached,
        format_bytes(plan.expected),
        format_bytes(each.most),
        format_bytes(each.measured),
        "yes" if each.holds else "NO",
    ]

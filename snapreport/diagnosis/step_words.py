"""One sentence about the program's steps: which one has the peak, and which are alike."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from snapreport.ground.units import format_bytes, format_count, list_of
from snapreport.model.iterations import Steps, StepUse, step_range

_WORTH_SAYING = 0.01
"""Differences below this part of the peak are not mentioned."""
_MOST_NAMED = 5
"""Up to this many numbers or ranges of steps are listed; more are only counted."""


def steps_sentence(steps: Steps) -> str:
    """Return the sentence, such as ``The peak is in step 4 of 5; steps 2 to 5 are alike, ...``."""
    return f"{_where(steps)}; {_alike(steps)}." if len(steps) > 1 else f"{_where(steps)}."


def _where(steps: Steps) -> str:
    count = format_count(len(steps))
    if steps.peak is not None:
        step = steps.steps[steps.peak - 1]
        named = f" ({step.name})" if step.name else ""
        place = f"in step {format_count(step.number)} of {count}{named}"
    elif steps.peak_before:
        place = f"before the first of {count} steps"
        if steps.as_high is not None:
            place += f" (step {format_count(steps.as_high)} gets as high)"
    else:
        place = f"after the last of {count} complete steps"
    source = ", judging by repeating allocations" if steps.source == "pattern" else ""
    return f"The peak is {place}{source}"


def _alike(steps: Steps) -> str:
    steady = steps.of_kind("steady")
    if not steady:
        return _spread(steps.steps)
    if len(steady) == len(steps):
        text = "both are alike" if len(steps) == 2 else "all are alike"
    else:
        text = f"{_which(steps)} are alike"
    top = max(step.peak_bytes for step in steps.steps)
    worth = _WORTH_SAYING * top
    more = steady[-1].start_bytes - steady[0].start_bytes
    parts = [text]
    if abs(more) >= max(worth, 1):
        parts.append(
            f"step {format_count(steady[-1].number)} begins with {format_bytes(abs(more))}"
            f" {'more' if more > 0 else 'less'} than step {format_count(steady[0].number)}"
        )
    others = [step for step in steps.steps if step.kind != "steady"]
    if len(others) == 1:
        parts.append(_apart(others[0], steady, max(worth, 1)))
    elif others:
        parts.append(f"the other {format_count(len(others))} peak at {_peaks(others)}")
    return list_of(parts, ", and ")


def _spread(steps: Sequence[StepUse]) -> str:
    """Say how much the peaks differ between steps that are not alike."""
    least, most = (pick(step.peak_bytes for step in steps) for pick in (min, max))
    if len(steps) == 2:
        lower = min(steps, key=lambda step: step.peak_bytes)
        if least < most:
            return f"step {lower.number} peaks {format_bytes(most - least)} lower"
    if least == most:
        return f"{'both' if len(steps) == 2 else 'all'} peak as high and differ otherwise"
    return f"they differ, and peak at {_peaks(steps)}"


def _apart(one: StepUse, steady: Sequence[StepUse], worth: float) -> str:
    """Say how much the peak of the only step unlike the others differs from theirs."""
    # Compare with the nearest one: where memory grows, one further away would differ by more.
    nearest = min(steady, key=lambda step: abs(step.number - one.number))
    less = nearest.peak_bytes - one.peak_bytes
    if abs(less) < worth:
        return f"step {format_count(one.number)} differs, but peaks about as high"
    far = f"{format_bytes(abs(less))} {'lower' if less > 0 else 'higher'}"
    return f"step {format_count(one.number)} peaks {far}"


def _peaks(steps: Sequence[StepUse]) -> str:
    least, most = (format_bytes(pick(step.peak_bytes for step in steps)) for pick in (min, max))
    return least if least == most else f"{least} to {most}"


def _which(steps: Steps) -> str:
    """Name the steps that are alike: by number, as all but some others, or by their count."""
    named: dict[bool, list[str]] = {True: [], False: []}
    for alike, group in groupby(steps.steps, key=lambda step: step.kind == "steady"):
        run = tuple(group)
        named[alike] += [step_range(run)] if len(run) > 2 else [step_range([one]) for one in run]
    for alike, before in ((True, ""), (False, "all but ")):
        names = named[alike]
        if len(names) <= _MOST_NAMED:
            listed = list_of(names)
            return f"{before}step{'' if names[0] == listed and ' ' not in listed else 's'} {listed}"
    return f"{format_count(len(steps.of_kind('steady')))} of them"

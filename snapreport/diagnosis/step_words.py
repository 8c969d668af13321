"""One sentence about the program's steps: which of them the peak is in, and which are alike."""

from __future__ import annotations

from collections.abc import Sequence

from snapreport.ground.units import format_bytes, format_count
from snapreport.model.iterations import Steps, StepUse, runs_of, step_range

_WORTH_SAYING = 0.01
"""Of the peak: by less than this, no step is said to peak lower or to begin with more."""
_MOST_RUNS = 2


def steps_sentence(steps: Steps) -> str:
    """Return it, such as ``The peak is in step 4 of 5; steps 2 to 5 are alike, ...``."""
    return f"{_where(steps)}; {_alike(steps)}." if len(steps) > 1 else f"{_where(steps)}."


def _where(steps: Steps) -> str:
    count = format_count(len(steps))
    if steps.peak is not None:
        step = steps.steps[steps.peak - 1]
        named = f" ({step.name})" if step.name else ""
        place = f"in step {format_count(step.number)} of {count}{named}"
    elif steps.peak_before:
        place = f"before the first of {count} steps"
    else:
        place = f"after the last of {count} complete steps"
    told = ", as allocations repeat" if steps.source == "pattern" else ""
    return f"The peak is {place}{told}"


def _alike(steps: Steps) -> str:
    steady = steps.of_kind("steady")
    if not steady:
        return _spread(steps.steps)
    if len(steady) == len(steps):
        text = "both are alike" if len(steps) == 2 else "all are alike"
    else:
        runs = [run for run in runs_of(steps.steps) if run[0].kind == "steady"]
        text = f"{_numbers(runs, len(steady))} are alike"
    top = max(step.peak_bytes for step in steps.steps)
    worth = _WORTH_SAYING * top
    more = steady[-1].start_bytes - steady[0].start_bytes
    parts = [text]
    if abs(more) >= max(worth, 1):
        parts.append(
            f"step {format_count(steady[-1].number)} begins with {format_bytes(abs(more))}"
            f" {'more' if more > 0 else 'less'} than step {format_count(steady[0].number)}"
        )
    warm = steps.of_kind("warm-up")
    if warm:
        highest = max(warm, key=lambda step: step.peak_bytes)
        # The next of the steady: where memory grows, the last would differ by more.
        less = steady[0].peak_bytes - highest.peak_bytes
        if abs(less) >= max(worth, 1):
            who = (
                f"step {highest.number} peaks"
                if len(warm) == 1
                else f"the highest of the {format_count(len(warm))} before peaks"
            )
            parts.append(f"{who} {format_bytes(abs(less))} {'lower' if less > 0 else 'higher'}")
    return ", ".join(parts[:-1]) + (f", and {parts[-1]}" if len(parts) > 1 else parts[0])


def _spread(steps: Sequence[StepUse]) -> str:
    """Say how far the peaks of steps that are not alike lie apart."""
    least, most = (pick(step.peak_bytes for step in steps) for pick in (min, max))
    if len(steps) == 2:
        lower = min(steps, key=lambda step: step.peak_bytes)
        if least < most:
            return f"step {lower.number} peaks {format_bytes(most - least)} lower"
    if least == most:
        return f"{'both' if len(steps) == 2 else 'all'} peak as high and differ otherwise"
    return f"they differ, and peak at {format_bytes(least)} to {format_bytes(most)}"


def _numbers(runs: Sequence[Sequence[StepUse]], count: int) -> str:
    """Name steps by their numbers where that is short: ``steps 2 to 5 and 7 to 9``."""
    if len(runs) > _MOST_RUNS:
        return f"{format_count(count)} of them"
    joined = ", and " if any(len(run) == 2 for run in runs) else " and "
    return "steps " + joined.join(step_range(run) for run in runs)

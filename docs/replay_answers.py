"""Two sections of docs/allocator-replay.md: predictions for other settings, and what happens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from snapreport.ground.units import format_bytes
from snapreport.model.replays import Between
from tests.counterfactuals import QUESTIONS, Answer, ask
from tests.published import CASES, remake

_PROGRAMS = 72
_DRAWS = 5

Table = Callable[[tuple[str, ...], Sequence[tuple[str, ...]]], str]


def counterfactuals(table: Table) -> str:
    """Ask about simulated programs, and run them under the settings asked about."""
    rows = []
    for name, question in QUESTIONS.items():
        answers = [ask(question, seed) for seed in range(_PROGRAMS)]
        given = [each for each in answers if each is not None]
        served = [each for each in given if each.served is not None]
        failed = [each for each in given if each.failed is not None]
        rows.append(
            (
                name,
                f"{_PROGRAMS - len(given)}",
                _of(sum(each.outcome.peak.one for each in given), given),
                _of(sum(each.peak_within for each in given), given),
                _of(sum(bool(each.served) for each in served), served),
                _of(sum(bool(each.failed) for each in failed), failed),
                _of(sum(_retries_within(each) for each in given), given),
                _of(sum(each.told.floor <= each.peak for each in given), given),
            )
        )
    return (
        "## Predictions for other settings, and what then happens\n\nSimulated programs, each"
        " recorded under one setting and then run under another: 36 pairs of settings, twice each."
        " *Peak* is the most that is reserved without a limit, *capacity* the smallest that serves"
        " every request. A capacity is right if the program succeeds with the upper end of the"
        " predicted range, and fails with 2 MiB less than the lower end.\n\n"
        + table(
            ("programs", "refused", "peak is one figure", "peak in the range", "served",
             "fails below", "retries in the range", "floor holds"),
            rows,
        )
        + "\nWhat the ranges do not cover:\n\n"
        "- **A late start.** No file says how memory looked under another setting when the"
        " recording began. The range covers two states, the recorded one and the tidiest, so it is"
        " an estimate. We say that a given capacity suffices only if it does even with every large"
        " block in a segment of its own, and never that it does not.\n"
        "- **Calls of `empty_cache()` that returned nothing** leave no trace; under another setting"
        " they would have returned something.\n"
        "- **Addresses.** Eight ways in which the driver may place segments are tried; it may use"
        " another.\n"
        "- **Private pools** can be returned from some moment on, which no event records.\n"
    )  # fmt: skip


def published(table: Table) -> str:
    """Rebuild published cases, run them under both settings, and ask the model."""
    rows = []
    for case in CASES:
        made = [remake(case, seed) for seed in range(1, _DRAWS + 1)]
        changes = sorted(each.after / each.before for each in made)
        rows.append(
            (
                f"{case.report}: {case.what}",
                f"`{case.after}`",
                _from_to(*case.published),
                _factor(case.published[1] / case.published[0]),
                _from_to(made[0].before, made[0].after),
                _between(made[0].told),
                _spread([_factor(changes[0]), _factor(changes[-1])]),
            )
        )
    return (
        "## Published cases, rebuilt\n\nReports of what a setting did to reserved memory, rebuilt"
        " as programs for the simulator: the model sizes are those of the reports, the batch"
        " lengths are random. Our model gets only the recording under the first setting"
        f" (`default`). The last column is the range over {_DRAWS} draws.\n\n"
        + table(
            ("report", "second setting", "published", "change", "rebuilt",
             "predicted for the second", "change, rebuilt"),
            rows,
        )
        + "\nIn pytorch#193400 the first figure is that of the first cycle; with one of the two"
        " settings alone less than 500 MiB are reserved, and here 226 MiB.\n\n"
        "Not rebuilt, because the reports do not say how large the tensors were: cp2k/cp2k#5672"
        " (12,394 to 8,926 MiB on one GPU), facebookresearch/fairchem#775 (4 GB less), and"
        " torchtune with `compile` (16.63 to 10.92 GiB). Nor is it known why PyTorch 2.9.1 on ROCm"
        " stays at 782 MiB in the case of pytorch#193400, where all later versions reserve the"
        " entire card.\n"
    )  # fmt: skip


def _of(count: int, every: Sequence[Answer]) -> str:
    return f"{count} of {len(every)}"


def _retries_within(each: Answer) -> bool:
    return each.outcome.retries.least <= each.retries <= each.outcome.retries.most


def _factor(ratio: float) -> str:
    return f"{ratio - 1:+.0%}" if ratio < 2 else f"× {ratio:.0f}"  # noqa: RUF001


def _spread(ends: list[str]) -> str:
    return " to ".join(dict.fromkeys(ends))


def _from_to(before: int, after: int) -> str:
    return f"{format_bytes(before)} to {format_bytes(after)}"


def _between(each: Between) -> str:
    return _spread([format_bytes(each.least), format_bytes(each.most)])

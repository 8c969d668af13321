"""Two sections of docs/allocator-replay.md: what is told of other settings, beside what happens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from snapreport.ground.units import format_bytes
from snapreport.model.replay.replays import Between
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
        told = [each for each in answers if each is not None]
        served = [each for each in told if each.served is not None]
        failed = [each for each in told if each.failed is not None]
        rows.append(
            (
                name,
                f"{_PROGRAMS - len(told)}",
                _of(sum(each.outcome.peak.one for each in told), told),
                _of(sum(each.peak_within for each in told), told),
                _of(sum(bool(each.served) for each in served), served),
                _of(sum(bool(each.failed) for each in failed), failed),
                _of(sum(_retries_within(each) for each in told), told),
                _of(sum(each.told.floor <= each.peak for each in told), told),
            )
        )
    return (
        "## Told of other settings, and what then happens\n\nSimulated programs, each recorded"
        " under one setting and really run under another: 36 pairs of settings, twice each."
        " *Peak* is what is reserved at most without a limit, *capacity* the smallest that serves"
        " every request. A capacity is right if the program gets through with the most that is"
        " told, and fails with 2 MiB less than the least.\n\n"
        + table(
            ("programs", "refused", "peak told as one figure", "peak in the range", "served",
             "fails below", "retries in the range", "floor holds"),
            rows,
        )
        + "\nWhat the ranges do not cover:\n\n"
        "- **A late start.** What lay in memory under another setting when the recording began is"
        " in no file. The range has two states, the recorded one and the tidiest, so it is an"
        " estimate. The capacity that was asked about is said to serve only where it does even with"
        " every large block in a segment of its own, and never said not to.\n"
        "- **Calls of `empty_cache()` that gave nothing back** leave no trace; under another"
        " setting they would have given something back.\n"
        "- **Addresses.** Eight ways in which the driver may place segments are tried; it may have"
        " another.\n"
        "- **Private pools** can be given back from a moment on that no event tells.\n"
    )  # fmt: skip


def published(table: Table) -> str:
    """Make published cases anew, run them under both settings, and ask the model."""
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
        "## Published cases, made anew\n\nReports of what a setting did to reserved memory, made"
        " anew as programs for the simulator: the sizes of the models are those of the reports, how"
        " long the batches were is drawn. The model is told the recording under the first setting"
        f" (`default`) alone. The last column is over {_DRAWS} draws.\n\n"
        + table(
            ("report", "second setting", "published", "change", "made anew", "told of the second",
             "change, made anew"),
            rows,
        )
        + "\nIn pytorch#193400 the first figure is that of the first cycle; with one of the two"
        " settings alone less than 500 MiB are reserved, and here 226 MiB.\n\n"
        "Not made anew, as nothing is said of the sizes of the tensors: cp2k/cp2k#5672 (12,394 to"
        " 8,926 MiB on one GPU), facebookresearch/fairchem#775 (4 GB less), and torchtune with"
        " `compile` (16.63 to 10.92 GiB). Nor is it known why PyTorch 2.9.1 on ROCm stays at"
        " 782 MiB in the case of pytorch#193400, where all later versions reserve the whole card.\n"
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

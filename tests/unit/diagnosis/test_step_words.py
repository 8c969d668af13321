"""The sentence about steps: which the peak is in, and how the others differ."""

from __future__ import annotations

import pytest

from snapreport.diagnosis.answer import steps_sentence
from snapreport.model.roles import Kind, Source, Steps, StepUse
from snapreport.reporters.answers import step_rows
from snapreport.reporters.words import identified_text

MIB = 2**20


def use(
    number: int, peak: int, kind: Kind = "steady", *, start: int = 10, name: str = ""
) -> StepUse:
    return StepUse(
        number, name, kind, 10 * number, 10 * number + 10,
        start * MIB, peak * MIB, 10 * number + 3, start * MIB, 0, 5, 50 * MIB,
    )  # fmt: skip


def steps(
    *each: StepUse,
    peak: int | None = None,
    before: bool = False,
    high: int | None = None,
    how: str = "",
) -> Steps:
    source: Source = "pattern" if how else "optimizer"
    return Steps(source, 0.5, how or "by the stage x", peak, before, high or peak, each)


FOUR = (use(1, 100, "warm-up"), *(use(number, 140) for number in (2, 3, 4)))


def test_the_step_of_the_peak_the_steady_ones_and_how_far_below_the_first_stays() -> None:
    assert steps_sentence(steps(*FOUR, peak=2)) == (
        "The peak is in step 2 of 4; steps 2 to 4 are alike, and step 1 peaks 40.00 MiB lower."
    )


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (
            steps(*FOUR, before=True),
            (
                "The peak is before the first of 4 steps; steps 2 to 4 are alike, and step 1 peaks"
                " 40.00 MiB lower."
            ),
        ),
        (
            steps(use(1, 100), use(2, 100), use(3, 100), before=True, high=1, how="by a pattern"),
            (
                "The peak is before the first of 3 steps (step 1 gets as high), judging by"
                " repeating allocations; all are alike."
            ),
        ),
        (
            steps(use(1, 100), use(2, 100)),
            "The peak is after the last of 2 complete steps; both are alike.",
        ),
        (
            steps(use(1, 100), use(2, 100), use(3, 100), peak=1, how="by a pattern"),
            "The peak is in step 1 of 3, judging by repeating allocations; all are alike.",
        ),
        (
            steps(*(use(i, 100 + i, start=10 * i) for i in (1, 2, 3)), peak=3),
            (
                "The peak is in step 3 of 3; all are alike, and step 3 begins with 20.00 MiB more"
                " than step 1."
            ),
        ),
        (
            steps(use(1, 100), use(2, 100), use(3, 180, "other"), use(4, 100), peak=3),
            (
                "The peak is in step 3 of 4; steps 1, 2 and 4 are alike, and step 3 peaks"
                " 80.00 MiB higher."
            ),
        ),
        (
            steps(*(use(i, 100, "steady" if i % 2 else "other") for i in range(1, 8)), peak=1),
            (
                "The peak is in step 1 of 7; steps 1, 3, 5 and 7 are alike, and the other 3 peak at"
                " 100.0 MiB."
            ),
        ),
        (
            steps(*(use(i, 100, "steady" if i % 5 else "other") for i in range(1, 40)), peak=1),
            (
                "The peak is in step 1 of 39; 32 of them are alike, and the other 7 peak at"
                " 100.0 MiB."
            ),
        ),
        (
            steps(
                *(use(i, 999 + i % 2, "other" if i == 9 else "steady") for i in range(1, 30)),
                peak=1,
            ),
            (
                "The peak is in step 1 of 29; steps 1 to 8 and 10 to 29 are alike, and step 9"
                " differs, but peaks about as high."
            ),
        ),
        (
            steps(*(use(i, 100, "steady" if i % 6 else "other") for i in range(1, 37)), peak=1),
            (
                "The peak is in step 1 of 36; 30 of them are alike, and the other 6 peak at"
                " 100.0 MiB."
            ),
        ),
        (
            steps(*(use(i, 100, "steady" if i % 7 else "other") for i in range(1, 37)), peak=1),
            (
                "The peak is in step 1 of 36; all but steps 7, 14, 21, 28 and 35 are alike, and the"
                " other 5 peak at 100.0 MiB."
            ),
        ),
        (
            steps(use(1, 9, "warm-up"), use(2, 300, "warm-up"), use(3, 80), use(4, 80), peak=2),
            (
                "The peak is in step 2 of 4; steps 3 and 4 are alike, and the other 2 peak at"
                " 9.00 MiB to 300.0 MiB."
            ),
        ),
        (
            steps(use(1, 60, "unknown", name="epoch 1"), use(2, 90, "unknown", name="b"), peak=2),
            "The peak is in step 2 of 2 (b); step 1 peaks 30.00 MiB lower.",
        ),
        (
            steps(*(use(i, 10 * i, "unknown") for i in (1, 2, 3)), peak=3),
            "The peak is in step 3 of 3; they differ, and peak at 10.00 MiB to 30.00 MiB.",
        ),
        (
            steps(use(1, 60, "unknown"), use(2, 60, "unknown"), peak=1),
            "The peak is in step 1 of 2; both peak as high and differ otherwise.",
        ),
    ],
)
def test_what_is_said_is_true_of_the_steps(found: Steps, text: str) -> None:
    assert steps_sentence(found) == text


def test_steady_steps_are_one_row_and_the_row_of_the_peak_is_never_left_out() -> None:
    rows, left = step_rows(steps(*FOUR, peak=3))
    assert rows == [
        ("1", "10 to 19", "10.00 MiB", "100.0 MiB", "0 B", "warm-up"),
        ("2 to 4", "20 to 49", "10.00 MiB", "140.0 MiB", "0 B", "peak in 3, alike"),
    ]
    assert left == 0
    rows, left = step_rows(steps(*(use(i, i, "unknown") for i in range(1, 9)), peak=7), 2)
    assert [row[0] for row in rows] == ["1", "2", "7"]
    assert (rows[2][-1], left) == ("peak", 5)


def test_a_range_names_its_unit_once() -> None:
    rows, _ = step_rows(steps(use(1, 80), use(2, 90), use(3, 2048)))
    assert rows[0][3] == "80.00 MiB to 2.00 GiB"
    rows, _ = step_rows(steps(use(1, 80), use(2, 90)))
    assert rows[0][3] == "80.00 to 90.00 MiB"


def test_how_steps_are_told_is_said_and_how_sure_that_is() -> None:
    assert identified_text(steps(use(1, 1), use(2, 1))) == "Identified by the stage x (50% sure)."

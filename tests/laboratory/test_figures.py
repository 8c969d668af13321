"""The figures of docs/advice.md, made anew: advice, plans and roles against all programs."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.laboratory import batches, document, plans
from tests.laboratory.advice import all_pairs, quantiles
from tests.laboratory.document import PATH
from tests.laboratory.programs import all_programs
from tests.laboratory.recording import Job, make
from tests.laboratory.roles import judge_program, right, right_in_sum
from tests.needed import needed
from tests.thorough import IN_FULL

needed("torch")
only_in_full = pytest.mark.skipif(not IN_FULL, reason="takes minutes: make thorough")


def programs() -> list[str]:
    return [name for name, made in all_programs().items() if made.variants]


def test_the_document_has_every_program_and_change() -> None:
    rows = re.findall(r"^\| (\S+) +\| (\S+) +\|", PATH.read_text(encoding="utf-8"), re.MULTILINE)
    made = [(name, each) for name in programs() for each in all_programs()[name].variants]
    assert not set(made) - set(rows), "python -m tests.laboratory document"


def test_the_document_has_the_first_suggestions_for_each_sample_and_a_remark_on_them() -> None:
    text = PATH.read_text(encoding="utf-8")
    lines = {tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in text.splitlines()}
    for path in document.snapshot_paths():
        for row in document.rows_of(path):
            assert tuple(row) in lines, "python -m tests.laboratory document"
    for line in document.remarks_of(document.snapshot_paths()).splitlines():
        assert line in text.splitlines(), "python -m tests.laboratory document"


@only_in_full
def test_no_bound_is_false_and_most_estimates_are_near() -> None:
    pairs = all_pairs(programs())
    said = [pair for pair in pairs if pair.predicted is not None]
    assert len(said) >= 60
    assert [pair for pair in said if not pair.within] == []
    assert [pair for pair in said if pair.frees_nothing] == []
    median, ninth = quantiles(pairs)
    assert median < 0.1
    assert ninth < 0.25


@only_in_full
def test_a_plan_that_is_made_reaches_its_target() -> None:
    assert [each for each in plans.apply_plans() if not each.holds] == []


@only_in_full
def test_estimates_of_a_batch_are_near() -> None:
    told, largest = batches.run_all()
    assert len(told) >= 20
    assert [each for each in told if each.error > 0.05] == []
    assert [each for each in largest if not each.holds] == []


@only_in_full
def test_roles_are_those_of_the_truth() -> None:
    make([Job(name, observed=observed) for name in programs() for observed in (False, True)])
    judged = [judge_program(name) for name in programs()]
    steady, late = (
        np.sum([each[when].bytes for each in judged], axis=0) for when in ("steady", "late")
    )
    assert right(steady) >= 0.98
    assert right(late) >= 0.95
    assert right_in_sum(late) >= 0.98

"""Redaction takes names, and no role with them: the rules look for public names alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from snapreport.model.asked import (
    NamesWanted,
)
from snapreport.names.redaction import redact
from snapreport.roles.lifetimes import find_roles
from tests.corpus import corpus_files, loaded

SAMPLES = Path(__file__).resolve().parents[2] / "sample_snapshots"
FILES = [
    *corpus_files(),
    *(path for path in sorted(SAMPLES.glob("*.*")) if path.suffix not in (".py", ".md")),
]


@pytest.mark.parametrize("functions", [False, True])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_roles_and_their_evidence_are_the_same_without_names(path: Path, functions: bool) -> None:
    plain = loaded(path).history
    hidden = redact(plain, NamesWanted(redact=True, redact_functions=functions))
    for one, other in zip(plain.devices, hidden.devices, strict=True):
        before, after = find_roles(one, plain), find_roles(other, hidden)
        assert np.array_equal(before.role, after.role)
        assert before.seen == after.seen
        assert np.array_equal(before.evidence, after.evidence)


def test_a_profile_keeps_the_names_of_pytorchs_files() -> None:
    plain = loaded(SAMPLES / "cpu_profile.pickle").history
    hidden = redact(plain, NamesWanted(redact=True))
    kept = set(hidden.stacks.frames.filenames)
    assert "torch/optim/adam.py" in kept
    assert "record_cpu.py" not in kept

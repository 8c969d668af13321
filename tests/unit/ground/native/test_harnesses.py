"""A short run of the fuzzer finds nothing in the native library; ``make fuzz`` makes long ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev.fuzz import native
from dev.fuzz.native import HARNESSES, NoFuzzerError
from tests.thorough import IN_FULL

RUNS = 20_000 if IN_FULL else 2_000
"""Half a second or so of one core for each, always the same: all files, and some like them."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", HARNESSES)
def test_a_short_run_finds_nothing(name: str, tmp_path: Path) -> None:
    try:
        program = native.harness(name)
    except NoFuzzerError as error:
        pytest.skip(str(error))
    found = native.write_files(tmp_path, native.corpus(name))
    status, said = native.run(
        *(program, "-seed=1", "-reload=0", f"-runs={RUNS}", "-max_len=8192", "-timeout=60"),
        *(f"-artifact_prefix={native.OUT}/test-{name}-", str(found)),
    )
    assert status == 0, said[-4000:]
    assert f"Done {RUNS} runs" in said


@pytest.mark.parametrize("name", HARNESSES)
def test_there_are_files_to_begin_with(name: str) -> None:
    assert native.corpus(name)

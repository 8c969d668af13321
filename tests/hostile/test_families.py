"""What runs hostile inputs sees what it is there to see; and a share of the bundles."""

from __future__ import annotations

import mmap
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from snapreport.ground.errors import BundleError
from tests.hostile import bundles
from tests.hostile.cost import assert_within
from tests.hostile.families import MEMORY, MIB, Family, run_family, table
from tests.thorough import IN_FULL

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="inputs are tried in forks")

SECONDS = 0.6
"""Of the processor. Trimming the heap of a process that has read much takes a part of it."""

SHORT = 0.1
"""Likewise, for what hangs: it takes all that it may."""


def words(*inputs: bytes) -> Iterator[tuple[str, bytes]]:
    for data in inputs:
        yield data.decode()[:20], data


def misbehave(source: Path, output: Path) -> None:
    deed = source.read_bytes()
    if deed == b"refuse":
        raise BundleError("It is refused.")
    if deed == b"two lines":
        raise BundleError("It is\nrefused.")
    if deed == b"fail":
        raise ZeroDivisionError
    if deed == b"die":
        os.kill(os.getpid(), signal.SIGKILL)
    if deed == b"hang":
        while True:
            pass
    if deed == b"hoard":
        bytes(64 * 2**30)
    if deed == b"grow":
        assert len(b"x" * (64 * MIB)) > 0
    if deed == b"run":
        os.system("true")
    if deed == b"litter":
        Path(".output.part").touch()
    if deed == b"write and refuse":
        output.touch()
        raise BundleError("It is refused.")


def run(*deeds: bytes) -> Family:
    seconds = SHORT if b"hang" in deeds else SECONDS
    return run_family("deeds", lambda: words(*deeds), misbehave, ".zip", seconds=seconds)


def test_success_and_expected_errors_are_no_crashes() -> None:
    family = run(b"fine", b"refuse", b"fine")
    assert (family.tried, family.crashes, family.code_run, family.left_over) == (3, 0, 0, 0)


@pytest.mark.parametrize(
    "deed", [b"fail", b"die", b"hang", b"hoard", b"two lines", b"write and refuse"]
)
def test_a_crash_is_counted_and_the_rest_is_tried(deed: bytes) -> None:
    family = run(b"fine", deed, b"refuse", deed, b"fine")
    assert (family.tried, family.crashes) == (5, 2)
    assert len(family.notes) == 2


def test_inputs_that_cannot_be_made_are_no_crash_of_what_reads_them(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def make() -> Iterator[tuple[str, bytes]]:
        yield "fine", b"fine"
        raise ZeroDivisionError

    with pytest.raises(RuntimeError, match="input 2 could not be made"):
        run_family("deeds", make, misbehave, ".zip", seconds=SECONDS)
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_code_that_runs_is_counted() -> None:
    assert run(b"fine", b"run").code_run == 1


def test_what_is_left_over_is_counted_and_removed() -> None:
    assert run(b"litter", b"fine").left_over == 1


def test_memory_is_that_of_one_input() -> None:
    assert run(b"fine").worst_bytes < 32 * MIB
    assert run(b"fine", b"grow", b"fine").worst_bytes > 60 * MIB


def test_memory_that_was_freed_before_is_no_gift_to_an_input() -> None:
    freed = [b"x" * 100_000 for _ in range(1500)]
    above = b"x" * 100_000
    freed.clear()
    assert run(b"fine", b"grow", b"fine").worst_bytes > 60 * MIB
    assert len(above) == 100_000


def test_what_was_there_before_counts_for_nothing() -> None:
    with mmap.mmap(-1, MEMORY) as there:
        assert run(b"fine", b"grow").crashes == 0
        assert len(there) == MEMORY


def test_the_table_has_a_line_for_each_family_and_its_crashes() -> None:
    lines = list(table([run(b"fine"), run(b"fail")]))
    assert len(lines) == 4
    assert lines[1].split() == ["deeds", "1", *lines[1].split()[2:4], "0", "0", "0"]
    assert "ZeroDivisionError" in lines[3]


@pytest.mark.parametrize(
    ("deed", "wrong"),
    [
        (b"fail", "ZeroDivisionError"),
        (b"hang", "SIGPROF"),
        (b"grow", "MiB, and may take 32"),
        (b"run", "ran"),
    ],
)
def test_what_costs_more_than_it_may_fails_the_test(deed: bytes, wrong: str) -> None:
    seconds = SHORT if deed == b"hang" else SECONDS
    assert_within(b"fine", seconds=seconds, mib=32, attempt=misbehave)
    with pytest.raises(AssertionError, match=wrong):
        assert_within(deed, seconds=seconds, mib=32, attempt=misbehave)


@pytest.fixture(scope="module")
def tried() -> list[Family]:
    """Every family of bundles; ``make hostile`` tries fifty times as many."""
    return list(bundles.families(0.05 if IN_FULL else 0.02))


def test_no_hostile_bundle_crashes_runs_code_or_leaves_files(tried: list[Family]) -> None:
    assert [f.notes for f in tried if f.crashes or f.code_run or f.left_over] == []
    assert len(tried) == 10
    assert sum(family.tried for family in tried) > 280


def test_memory_is_bounded_by_what_a_small_bundle_may_unpack_to(tried: list[Family]) -> None:
    assert max(family.worst_bytes for family in tried) < 256 * MIB

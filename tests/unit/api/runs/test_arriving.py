"""Snapshots that arrive one by one: each is taken once, and none while it grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from snapreport.api.runs.many_files import convert_arriving


def arrivals(folder: Path, output: Path, steps: Sequence[Callable[[], object]]) -> list[list[str]]:
    """Do a step between each two looks, and return the bundles that each round made."""
    left = iter(steps)

    def wait(_: float) -> None:
        step = next(left, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    with ThreadPoolExecutor(1) as executor:
        return [
            [path.name for path in batch.paths]
            for batch in convert_arriving([folder], output, wait=wait, engine=executor)
        ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "run"
    made.mkdir()
    return made


def nothing() -> None:
    """Wait for another round."""


def test_a_file_is_taken_when_it_grows_no_more(folder: Path, samples: Path, tmp_path: Path) -> None:
    content = (samples / "two_streams.pickle").read_bytes()
    growing = folder / "rank0.pickle"

    def grow(size: int) -> Callable[[], object]:
        return lambda: growing.write_bytes(content[:size])

    steps = [grow(0), grow(9000), grow(10000), grow(len(content)), nothing, nothing, nothing]
    assert arrivals(folder, tmp_path / "out", steps) == [["rank0.zip"]]


def test_one_that_comes_later_is_taken_by_itself(
    folder: Path, samples: Path, tmp_path: Path
) -> None:
    content = (samples / "two_streams.pickle").read_bytes()
    (folder / "rank0.pickle").write_bytes(content)
    steps = [nothing, lambda: (folder / "rank1.pickle").write_bytes(content), nothing, nothing]
    assert arrivals(folder, tmp_path / "out", steps) == [["rank0.zip"], ["rank1.zip"]]


def test_what_was_converted_before_is_left_as_it_is(
    folder: Path, samples: Path, tmp_path: Path
) -> None:
    (folder / "rank0.pickle").write_bytes((samples / "two_streams.pickle").read_bytes())
    arrivals(folder, tmp_path / "out", [nothing])
    before = (tmp_path / "out" / "rank0.zip").stat().st_mtime_ns
    assert arrivals(folder, tmp_path / "out", [nothing]) == [["rank0.zip"]]
    assert (tmp_path / "out" / "rank0.zip").stat().st_mtime_ns == before

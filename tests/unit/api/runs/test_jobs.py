"""How many files are worked on at once."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import zstandard

from snapreport.api.making import convert
from snapreport.api.runs.tasks import fit_jobs, memory_needed

GIB = 1 << 30
MIB = 1 << 20


@pytest.mark.parametrize(
    ("needs", "cpus", "memory", "jobs"),
    [
        ([GIB] * 8, 4, None, 4),
        ([GIB] * 2, 4, None, 2),
        ([GIB] * 8, 4, 3 * GIB, 3),
        ([GIB] * 8, 4, GIB - 1, 1),
        ([GIB, 3 * GIB, GIB], 4, 4 * GIB, 2),  # whichever two come together
        ([], 4, GIB, 1),
    ],
)
def test_as_many_as_processors_files_and_memory_allow(
    needs: list[int], cpus: int, memory: int | None, jobs: int
) -> None:
    assert fit_jobs(needs, cpus, memory) == jobs


def test_packed_files_need_what_they_unpack_to(tmp_path: Path) -> None:
    data = b"\x80\x04" + bytes(20 * MIB)
    (tmp_path / "a.pickle").write_bytes(data)
    (tmp_path / "a.pickle.gz").write_bytes(gzip.compress(data))
    (tmp_path / "a.pickle.zst").write_bytes(zstandard.compress(data))
    plain = memory_needed(tmp_path / "a.pickle")
    assert plain > 5 * len(data)
    assert memory_needed(tmp_path / "a.pickle.gz") >= plain
    assert memory_needed(tmp_path / "a.pickle.zst") >= plain
    assert memory_needed(tmp_path / "missing") < plain


def test_a_bundle_needs_less_than_its_snapshot_but_more_than_its_size(
    samples: Path, tmp_path: Path
) -> None:
    bundle = convert(samples / "training_step.pickle", tmp_path / "a.zip")
    base = memory_needed(tmp_path / "missing")
    assert memory_needed(bundle) - base > 10 * bundle.stat().st_size
    (tmp_path / "other.zip").write_bytes(b"PK\x03\x04")
    assert memory_needed(tmp_path / "other.zip") == base

"""The committed samples are what their makers make."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import zstandard

from dev.simulator.invariants import violations
from sample_snapshots.make_samples import FOLDER, SAMPLES


def read(path: Path) -> tuple[bytes, Any]:
    """Return the bytes without compression, and the snapshot."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    elif path.suffix == ".zst":
        data = zstandard.ZstdDecompressor().decompress(data)
    return data, json.loads(data) if path.suffix == ".json" else pickle.loads(data)


@pytest.mark.parametrize("name", list(SAMPLES))
def test_a_sample_is_made_again_byte_by_byte(name: str, tmp_path: Path) -> None:
    make, write = SAMPLES[name]
    (tmp_path / name).write_bytes(write(make().snapshot()))
    # Compressed bytes depend on the library's version, so what they hold is compared.
    assert read(tmp_path / name)[0] == read(FOLDER / name)[0]
    assert violations(read(FOLDER / name)[1]) == []


def test_samples_are_small() -> None:
    sizes = [
        path.stat().st_size for path in FOLDER.iterdir() if ".p" in path.name or ".j" in path.name
    ]
    assert max(sizes) < 150_000
    assert sum(sizes) < 700_000


def test_the_readme_names_every_sample() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in [*SAMPLES, "cpu_profile.pickle"])


def test_the_profile_says_nothing_about_the_machine_it_was_made_on() -> None:
    snapshot = pickle.loads((FOLDER / "cpu_profile.pickle").read_bytes())
    names = {frame["name"] for event in snapshot["device_traces"][0] for frame in event["frames"]}
    assert not [name for name in names if name.startswith("/") or "/home/" in name]

"""Packed files that unpack without an end, and files of rules and budgets that explode."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path
from typing import Any

import pytest
import zstandard

import snapreport
from snapreport.ground import processes
from snapreport.ground.errors import (
    BudgetError,
    InputError,
    NotASnapshotError,
    NotEnoughMemoryError,
    PatternError,
    SnapreportError,
)
from snapreport.model.history import DEEPEST_SETTINGS
from snapreport.read import parsed, read_budget, read_snapshot
from snapreport.read.source import has_budget, read_rules
from tests import bombs
from tests.builders import trace


def test_packed_bombs_end_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    told = {}
    for name, data in bombs.packed():
        if name == "gzip of empty lists":  # it takes seconds, and so does the next
            break
        path.write_bytes(data)
        with pytest.raises(SnapreportError) as caught:
            read_snapshot(path)
        told[name] = str(caught.value)
        assert told[name].startswith(f"{path} ")
        assert "\n" not in told[name]
    assert "unpacks to more than 64.00 MiB" in told["zstd of zeros that does not say how many"]


def without_size(data: bytes) -> bytes:
    packer = zstandard.ZstdCompressor().compressobj()
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress, without_size])
def test_the_most_that_may_be_unpacked_is_a_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: object
) -> None:
    assert callable(pack)
    data = pickle.dumps(bombs.sample(), 4)
    path = tmp_path / "a.gz"
    path.write_bytes(pack(data))
    monkeypatch.setenv(processes.MAX_UNPACKED, str(len(data)))
    assert len(read_snapshot(path).traces[0]) == 3 + 1
    monkeypatch.setenv(processes.MAX_UNPACKED, str(len(data) - 1))
    with pytest.raises(NotEnoughMemoryError, match=processes.MAX_UNPACKED):
        read_snapshot(path)
    monkeypatch.setenv(processes.MAX_UNPACKED, "much")
    with pytest.raises(InputError, match="'much' is not a size; write 40GiB"):
        read_snapshot(path)


@pytest.mark.parametrize(
    ("said", "most"),
    [("7", 7), ("50GiB", 50 << 30), ("2 mb", 2 * 10**6), ("1.5GiB", 3 << 29), (" 3TiB ", 3 << 40)],
)
def test_sizes_have_units(monkeypatch: pytest.MonkeyPatch, said: str, most: int) -> None:
    monkeypatch.setenv(processes.MAX_UNPACKED, said)
    assert processes.most_unpacked(1, parsed.UNPACKED_ALWAYS) == most


def test_the_most_follows_from_the_file() -> None:
    assert processes.most_unpacked(1, parsed.UNPACKED_ALWAYS) == parsed.UNPACKED_ALWAYS
    assert processes.most_unpacked(1 << 30, parsed.UNPACKED_ALWAYS) == processes.RATIO << 30


def test_a_file_of_nothing_is_refused_before_all_of_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "sparse.pickle"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # to take its SHA-256 would take an hour
    with pytest.raises(SnapreportError, match="neither a pickle"):
        read_snapshot(path)


def test_rules_do_not_multiply(tmp_path: Path) -> None:
    text = "a0: &a0 {x: y}\n"
    for i in range(1, 40):
        text += f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}\n"
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    with pytest.raises(PatternError, match="aliases"):
        read_rules(str(path))
    path.write_text("a: b\n" * 60_000)
    with pytest.raises(InputError, match=r"rules\.yaml cannot be read: it is larger than"):
        read_rules(str(path))


def test_an_integer_of_thousands_of_digits_is_no_budget(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text("[tool.snapreport.check]\nx = " + "9" * 5000)
    assert has_budget(path)
    with pytest.raises(BudgetError, match="not valid TOML"):
        read_budget(path)


def test_the_limits_are_as_documented() -> None:
    text = Path(__file__).parents[3].joinpath("docs", "safety.md").read_text(encoding="utf-8")
    for name, what in {
        f"{processes.RATIO} for each packed byte, and always 64 MiB": "unpacks to",
        f"integers of {8 * (parsed.MOST_INTEGER - 1)} bits": "Numbers",
        f"{parsed.MOST_TEXT:,}": "a text in",
        f"{parsed.MOST_DEVICES}": "Devices",
        f"{parsed.MOST_POOLS:,}": "pools",
        f"{parsed.MOST_RULES:,} bytes": "rules",
    }.items():
        assert any(name in line and what in line for line in text.splitlines()), what
    assert parsed.UNPACKED_ALWAYS == 64 << 20


@pytest.mark.parametrize("kind", [list, dict])
def test_settings_of_many_levels_are_refused_before_they_cannot_be_written(
    tmp_path: Path, kind: type
) -> None:
    def nested(levels: int) -> Path:
        value: Any = 1
        for _ in range(levels - 1):
            value = [value] if kind is list else {"a": value}
        path = tmp_path / f"{levels}.pickle"
        path.write_bytes(pickle.dumps(trace().settings(odd=value).snapshot()))
        return path

    settings = snapreport.load(nested(DEEPEST_SETTINGS)).history.settings
    bundle = snapreport.convert(nested(DEEPEST_SETTINGS), tmp_path / "b.zip")
    assert snapreport.load(bundle).history.settings == settings
    for levels in (DEEPEST_SETTINGS + 1, 300):
        with pytest.raises(NotASnapshotError, match="settings are nested over 16 deep"):
            snapreport.convert(nested(levels), tmp_path / "b.zip", force=True)

"""What ``make gpu-check`` compares of forecasts, on forecasts alone: there is no GPU here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from snapreport.ground.cards import find_card
from tests.conftest import REPOSITORY
from tests.forecast import on_gpu
from tests.forecast.on_gpu import Compared, Peaks, card_of, compare
from tests.laboratory.programs import all_programs
from tests.needed import needed
from tests.recording import ready

needed("torch")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Forecasts of two programs, as ``on_gpu.run`` makes them, but with no new Python for each."""
    found = {}
    for name in ("decoder-inference", "wide-model"):
        folder = tmp_path_factory.mktemp(name)
        done = ready.run(["-m", on_gpu.__name__, name, "a100-40", str(folder)], REPOSITORY, {})
        assert done.returncode == 0, done.stderr
        found[name] = folder / "snapshot.pickle"
    return found


def test_what_equals_its_forecast_has_no_difference(made: dict[str, Path]) -> None:
    found = compare(made["wide-model"], made["wide-model"])
    assert found.first_difference == ""
    assert found.error == 0
    assert found.holds


def test_another_program_has_a_first_difference(made: dict[str, Path]) -> None:
    found = compare(made["decoder-inference"], made["wide-model"])
    assert found.first_difference
    assert not found.holds
    assert on_gpu.row_of("wide-model", found)[3] == f"{found.error:+.3%}"


def test_a_peak_within_the_range_holds() -> None:
    found = Compared(Peaks(1000, 2000), Peaks(900, 2000), 850, 1100, "")
    assert found.holds
    assert not replace(found, most=950).holds
    assert replace(found, most=950, made=Peaks(1001, 2000)).holds


def test_a_card_is_found_by_its_name_and_size() -> None:
    assert card_of("NVIDIA H100 80GB HBM3", 81003 << 20) == "h100-80"
    assert card_of("NVIDIA A100-SXM4-40GB", 40326 << 20) == "a100-40"
    assert card_of("NVIDIA GeForce RTX 4090", 24079 << 20) == "rtx-4090"
    assert find_card(card_of("Unheard Of", 12 << 30)).bytes == 12 << 30


def test_all_twenty_programs_are_there() -> None:
    assert len(set(on_gpu.PROGRAMS)) == 20
    assert set(on_gpu.LABORATORY) <= set(all_programs())

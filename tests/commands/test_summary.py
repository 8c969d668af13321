"""``snapreport summary``: the table, and the figures as JSON."""

from __future__ import annotations

import os
from pathlib import Path

import orjson

from tests.commands.conftest import MIB, Run
from tests.commands.test_errors import assert_one_line_error


def test_the_table_shows_the_peak_and_writes_nothing(
    run: Run, snapshot: Path, folder: Path
) -> None:
    result = run("summary", snapshot)
    assert result.exit_code == 0
    assert "2.00 MiB" in result.stdout
    assert "20.00 MiB" in result.stdout
    assert result.stderr == ""
    assert os.listdir(folder) == []


def test_json_has_every_figure_in_bytes(run: Run, snapshot: Path) -> None:
    result = run("summary", snapshot, "--json")
    figures = orjson.loads(result.stdout)
    (device,) = figures["devices"]
    assert device["device"] == "cuda:0"
    assert device["peaks"]["allocated"]["bytes"] == 2 * MIB
    assert device["peaks"]["allocated"]["event"] == 2
    assert device["end"]["reserved"] == 20 * MIB
    assert device["closing"]["closes"]
    assert result.stdout.endswith("\n")
    assert not result.stdout.endswith("\n\n")


def test_a_bundle_gives_the_same_figures_as_its_snapshot(
    run: Run, snapshot: Path, bundle: Path
) -> None:
    assert run("summary", bundle).stdout == run("summary", snapshot).stdout
    assert run("summary", bundle, "--json").stdout == run("summary", snapshot, "--json").stdout


def test_one_device_is_picked_by_number_or_name(run: Run, snapshot: Path) -> None:
    whole = run("summary", snapshot, "--json").stdout
    assert orjson.loads(run("summary", snapshot, "--json", "--device", "0").stdout)["devices"]
    assert run("summary", snapshot, "--json", "--device", "cuda:0").stdout == whole


def test_a_card_that_is_asked_about_gets_its_line(run: Run, snapshot: Path, tmp_path: Path) -> None:
    said = run("summary", snapshot, "--card", "t4")
    assert "on a T4" in said.stdout
    assert "the card has 14.55 GiB." in " ".join(said.stdout.split())
    kept = run("summary", snapshot, "--card", "t4", "--allow", "3GiB")
    assert "3.00 GiB are kept for what is outside of PyTorch's allocator" in " ".join(
        kept.stdout.split()
    )
    for name in ("report.md", "report.html"):
        assert run("render", snapshot, "-o", tmp_path / name, "--card", "t4").exit_code == 0
        assert "on a T4" in (tmp_path / name).read_text()
    assert "on a T4" not in run("summary", snapshot).stdout


def test_an_allowance_without_a_card_is_refused(run: Run, snapshot: Path) -> None:
    assert_one_line_error(run("summary", snapshot, "--allow", "1GiB"), "an allowance is for a card")

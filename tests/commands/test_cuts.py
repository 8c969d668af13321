"""``--from``, ``--to``, ``--min-size`` and ``--fit``: what is drawn, and that it is said."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import orjson
import pytest

import snapreport
from tests.commands.conftest import Run
from tests.payloads import payload_of

MIB = 2**20
_SAMPLE = Path(__file__).resolve().parents[2] / "sample_snapshots" / "training_step.pickle"


def cut_of(page: Path) -> dict[str, Any]:
    found = re.search(r'id="summary">(.*?)</script>', page.read_text(encoding="utf-8"))
    assert found is not None
    cut: dict[str, Any] = orjson.loads(found[1])["devices"][0].get("cut", {})
    return cut


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        (["--min-size", "1MiB"], [0, 1]),
        (["--min-size", "1048577"], []),
        (["--from", "0", "--to", "1"], [0]),
        (["--from", "15us"], [0, 1]),
        (["--to", "10us"], [0]),
        (["--from", "2", "--min-size", "2MB"], []),
    ],
)
def test_what_is_cut_is_not_drawn(
    run: Run, snapshot: Path, folder: Path, options: list[str], rows: list[int]
) -> None:
    result = run("render", snapshot, "-o", "a.html", *options)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "a.html\n", "")
    assert payload_of((folder / "a.html").read_bytes()).device("row") == rows
    assert cut_of(folder / "a.html")["not_drawn"] == 2 - len(rows)


def test_the_page_says_near_the_headline_what_is_not_drawn(
    run: Run, snapshot: Path, folder: Path
) -> None:
    run("render", snapshot, "-o", "a.html", "--to", "1")
    page = (folder / "a.html").read_text(encoding="utf-8")
    line = re.search(r'class="cut-line">([^<]*)', page)
    assert line is not None
    assert line[1] == (
        "Not drawn one by one: 1 of 2 allocations, 50.0% of all bytes allocated; their sum is one"
        " band. All figures are exact. To see everything, render without --to."
    )
    assert "<dt>Events drawn</dt><dd>start to 1</dd>" in page
    run("render", snapshot, "-o", "b.html")
    assert 'class="cut-line"' not in (folder / "b.html").read_text(encoding="utf-8")


def test_markdown_says_that_its_figures_are_whole(run: Run, snapshot: Path, folder: Path) -> None:
    run("render", snapshot, "-o", "whole.md")
    run("render", snapshot, "-o", "cut.md", "--min-size", "2MiB")
    whole, cut = ((folder / name).read_text("utf-8") for name in ("whole.md", "cut.md"))
    lines = [line for line in cut.splitlines() if line not in whole.splitlines()]
    said = (
        "Every figure counts all allocations. A page with the same cuts draws all but 2 of 2"
        " allocations (100.0% of all bytes allocated) one by one."
    )
    assert lines == [said]


def test_a_page_fits_and_says_what_it_was_made_to_fit(run: Run, folder: Path) -> None:
    run("render", _SAMPLE, "-o", "whole.html")
    size = (folder / "whole.html").stat().st_size
    least = run("render", _SAMPLE, "-o", "no.html", "--fit", "1kB")
    assert (least.exit_code, least.stdout) == (1, "")
    assert re.fullmatch(
        r"Error: the report cannot be made to fit 1,000 bytes; it can be made to fit [\d,]+"
        r" \([\d.]+ KiB\): --fit \d+\.\n",
        least.stderr,
    )
    assert not (folder / "no.html").exists()
    for text in (str(size), "25MB", "1GiB"):
        run("render", _SAMPLE, "-o", "a.html", "--fit", text, "--force")
        assert (folder / "a.html").read_bytes() == (folder / "whole.html").read_bytes()


def test_for_github_fits_and_says_how_to_attach(run: Run, snapshot: Path, folder: Path) -> None:
    result = run("render", snapshot, "--for", "github")
    assert result.exit_code == 0
    assert result.stdout == "snap.html\n"
    assert result.stderr == "Drag snap.html into the issue: GitHub takes .html of up to 25MB.\n"
    assert run("render", snapshot, "--for", "github", "-q", "--force").stderr == ""
    result = run("render", snapshot, "-o", "a.md", "--for", "github")
    assert result.stderr == "gh issue comment NUMBER -F a.md posts it as a comment.\n"


def test_a_cut_bundle_is_whole_and_its_page_is_cut(
    run: Run, snapshot: Path, bundle: Path, folder: Path
) -> None:
    assert run("convert", snapshot, "-o", "cut.zip", "--to", "1", "-q").exit_code == 0
    with zipfile.ZipFile("cut.zip") as cut, zipfile.ZipFile(bundle) as whole:
        manifest = orjson.loads(cut.read("manifest.json"))
        strips = orjson.loads(cut.read("allocations.json"))
        before = orjson.loads(whole.read("allocations.json"))
    assert manifest["devices"][0]["cut"]["not_drawn"] == 1
    assert manifest["devices"][0]["allocations"] == 2
    assert [row["size"] for row in strips] == [MIB, 0, MIB]
    assert strips[0] == before[0]
    assert strips[2]["offsets"] == [MIB, MIB]
    assert run("summary", "cut.zip").stdout == run("summary", bundle).stdout
    assert run("query", "cut.zip", "SELECT count(*) FROM allocations").stdout.split()[-1] == "2"

    run("render", "cut.zip", "-o", "cut.html")
    run("render", snapshot, "-o", "same.html", "--to", "1")
    assert (folder / "cut.html").read_bytes() == (folder / "same.html").read_bytes()
    run("render", "cut.zip", "-o", "all.html", "--min-size", "0")
    run("render", bundle, "-o", "whole.html")
    assert (folder / "all.html").read_bytes() == (folder / "whole.html").read_bytes()


@pytest.mark.parametrize("command", ["render", "convert"])
@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (
            ["--from", "soon"],
            2,
            "'soon' is neither an event nor a time; write 1200, 1.5s or 200ms.",
        ),
        (["--to", "3 weeks"], 2, "'3 weeks' is neither an event nor a time"),
        (["--min-size", "big"], 2, "'big' is not a size; write 40GiB, 40GB or a number of bytes."),
        (["--from", "5"], 1, "--from is behind the end of the recording, which has 5 events."),
        (["--from", "3", "--to", "2"], 1, "--to is before --from; nothing would be drawn."),
    ],
)
def test_wrong_values_are_told_in_a_line(
    run: Run, snapshot: Path, folder: Path, command: str, options: list[str], status: int,
    message: str,
) -> None:  # fmt: skip
    result = run(command, snapshot, "-o", "out.html" if command == "render" else "o.zip", *options)
    assert result.exit_code == status
    assert message in result.stderr
    assert result.stderr.splitlines()[-1].startswith("Error: ")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("text", ["", "25 apples", "-3"])
def test_a_size_to_fit_is_a_size(run: Run, snapshot: Path, text: str) -> None:
    result = run("render", snapshot, f"--fit={text}")
    assert result.exit_code == 2
    assert "is not a size; write 40GiB, 40GB or a number of bytes." in result.stderr


def test_python_takes_the_same(snapshot: Path, tmp_path: Path) -> None:
    page = snapreport.render(
        snapshot, tmp_path / "a.html", from_=0, to="10us", min_size=5, fit="25MB"
    )
    assert payload_of(page.read_bytes()).device("row") == [0]
    made = snapreport.convert(snapshot, tmp_path / "a.zip", from_=0, to="10us", min_size=5)
    again = snapreport.render(made, tmp_path / "b.html", fit=25_000_000)
    assert again.read_bytes() == page.read_bytes()
    with pytest.raises(snapreport.CutError, match="not a size"):
        snapreport.render(snapshot, tmp_path / "c.html", fit="much")
    with pytest.raises(snapreport.CutError, match="neither an event nor a time"):
        snapreport.convert(snapshot, tmp_path / "c.zip", to="later")

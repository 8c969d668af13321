"""A name whose ending belongs to another form is not a name for an output."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapreport.ground.errors import OutputError
from snapreport.ground.files import check_ending, check_folder
from snapreport.reporters.exports import EXPORTS

FORMS = [".zip", ".html", ".md", *EXPORTS.values()]


@pytest.mark.parametrize("own", FORMS)
@pytest.mark.parametrize("other", FORMS)
def test_a_form_has_its_own_ending_and_no_other(own: str, other: str) -> None:
    name = Path(f"a.folder/x.y{other}")
    json = {own, other} == {".json", ".speedscope.json"} and other == ".json"
    if own == other or json:
        check_ending(name, own)
    else:
        with pytest.raises(OutputError, match=r"^[^\n]* has the ending of .* end the name in \."):
            check_ending(name, own)


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("x", ".zip"),
        ("x.2024", ".html"),
        ("x.zip.bak", ".html"),
        ("x.ZIP", ".zip"),
        ("x.HTM", ".html"),
        ("comment.txt", ".md"),
        ("stacks.txt", ".collapsed.txt"),
        ("stacks.folded", ".collapsed.txt"),
        ("table.txt", ".csv"),
        ("profile.gz", ".pb.gz"),
    ],
)
def test_what_is_unknown_or_fits_is_allowed(name: str, own: str) -> None:
    check_ending(Path(name), own)


@pytest.mark.parametrize("name", ["x.pickle.gz", "x.pickle.zst", "x.svg", "x.PDF", "x.db"])
def test_what_no_command_writes_is_refused_too(name: str) -> None:
    with pytest.raises(OutputError, match=r"; end the name in \.pickle\.$"):
        check_ending(Path(name), ".pickle")


def test_the_message_says_which_command_makes_the_other_form() -> None:
    with pytest.raises(OutputError) as refused:
        check_ending(Path("x.html"), ".zip")
    assert str(refused.value) == (
        "x.html has the ending of a page, and a bundle would be written;"
        " end the name in .zip, or make a page with 'snapreport render'."
    )


def test_a_folder_is_not_named_as_a_file_unless_it_is_there(tmp_path: Path) -> None:
    there = tmp_path / "run.zip"
    there.mkdir()
    check_folder(there)
    check_folder(tmp_path / "run.memory")
    with pytest.raises(OutputError, match="names a folder"):
        check_folder(tmp_path / "other.html")

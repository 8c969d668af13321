"""What docs/issue-kit.md promises of the reports that one sends: limits, privacy, and the form."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.commands.conftest import Run
from tests.conftest import REPOSITORY
from tests.corpus import corpus_files

DOCUMENT = (REPOSITORY / "docs" / "issue-kit.md").read_text("utf-8")
GITHUB, SLACK, MAIL = 65_536, 40_000, 10_000_000
"""The most characters of a comment and of a message, and the most bytes of a page in a mail."""
SAMPLES = [
    REPOSITORY / "sample_snapshots" / name
    for name in ("training_step.pickle", "out_of_memory.pickle.gz")
]
LARGEST = max(corpus_files(), key=lambda path: path.stat().st_size, default=None)
LONGEST = "three_gpus_expandable_oom.pickle"
"""Its report has the most to say."""
REAL = [path for path in corpus_files() if path == LARGEST or path.name == LONGEST]


def test_the_document_names_the_limits_that_are_tested_here() -> None:
    for limit in (f"{GITHUB:,} characters", f"{SLACK:,} characters", f"{MAIL // 10**6}MB"):
        assert limit in DOCUMENT


@pytest.mark.parametrize("source", SAMPLES + REAL, ids=lambda path: path.name)
def test_a_report_fits_where_it_goes_and_gives_nobody_away(
    run: Run, folder: Path, source: Path
) -> None:
    for report in ("report.md", "report.html"):
        assert run("render", source, "--redact", "-o", report).exit_code == 0
        checked = run("strings", "--check", report)
        assert checked.exit_code == 0, checked.stdout
    assert len((folder / "report.md").read_text("utf-8")) < GITHUB
    assert (folder / "report.html").stat().st_size < MAIL
    assert 500 < len(run("summary", source).stdout) < SLACK


def test_the_form_asks_for_what_the_kit_makes() -> None:
    """Its grammar is GitHub's; https://json.schemastore.org/github-issue-forms.json has it."""
    (text,) = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)
    form = yaml.safe_load(text)
    assert form.keys() == {"name", "description", "labels", "body"}
    fields = {each["id"]: each for each in form["body"] if each["type"] != "markdown"}
    assert {each["type"] for each in fields.values()} == {"textarea", "upload", "checkboxes"}
    assert ".html" in fields["page"]["validations"]["accept"]
    (told,) = (each for each in form["body"] if each["type"] == "markdown")
    commands = re.findall(r"snapreport (\w+) \S+ --redact -o (\S+)", told["attributes"]["value"])
    assert commands == [("render", "report.md"), ("render", "report.html")]

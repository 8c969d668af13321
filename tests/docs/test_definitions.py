"""A word means the same wherever a user meets it: README, help, reports and page."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

import snapreport
from snapreport.commands import cli
from snapreport.ground.glossary import FIGURES, GLOSSARY
from snapreport.reporters.markdown import escaped
from tests.docs.examples import ROOT, SAMPLES
from tests.documents import report_as


def test_the_readme_begins_each_meaning_as_the_glossary_has_it() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = text.partition("| word | means |")[2].partition("\n\n")[0]
    rows = dict(re.findall(r"^\| (\w+) \| (.*) \|$", table, re.MULTILINE))
    assert list(rows) == list(FIGURES)
    for term, meaning in rows.items():
        assert meaning.startswith(GLOSSARY[term])


def test_the_help_of_a_command_that_prints_the_figures_defines_them() -> None:
    told = " ".join(CliRunner().invoke(cli, ["live", "--help"]).output.split())
    for term in FIGURES:
        assert f"{term}: {GLOSSARY[term]}" in told


def test_reports_define_the_figures() -> None:
    sample = SAMPLES / "training_step.pickle"
    report = report_as(snapreport.load(sample).findings(), "md")
    for term in FIGURES:
        assert f"- **{term}**: {escaped(GLOSSARY[term])}" in report


def test_the_page_tells_the_meaning_of_each_figure(tmp_path: Path) -> None:
    page = snapreport.render(SAMPLES / "training_step.pickle", tmp_path / "r.html")
    text = page.read_text(encoding="utf-8")
    for term in FIGURES:
        assert term == "active" or GLOSSARY[term] in text

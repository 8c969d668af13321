"""What contributors are told: commands and paths that exist, and forms that ask for versions."""

from __future__ import annotations

import re
from pathlib import Path

import orjson
import pytest
import yaml

from tests.conftest import REPOSITORY

DOCUMENTS = ("CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "docs/releasing.md", "docs/versions.md")
GITHUB = REPOSITORY / ".github"
needs_checkout = pytest.mark.skipif(not GITHUB.exists(), reason="not a checkout: no .github")


def text_of(name: str) -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8")


def targets_in(text: str) -> set[str]:
    """Return what commands ask ``make`` to make: those in code, or on a line of their own."""
    asked = re.findall(r"(?m)(?:`|^\s*(?:- run: )?)make ([A-Za-z][^`#\n]*)", text)
    words = " ".join(re.sub(r"\b[A-Z_]+=\S*", "", each) for each in asked).split()
    return set(words)


def test_every_make_target_that_is_named_exists() -> None:
    made = set(re.findall(r"(?m)^([a-z][a-z-]*):", text_of("Makefile")))
    found = {name: targets_in(text_of(name)) for name in DOCUMENTS}
    assert {"report", "quick", "test", "laboratory"} <= found["CONTRIBUTING.md"]
    assert {"test", "places", "thorough", "kills", "gpu-check"} <= found["docs/releasing.md"]
    for name, targets in found.items():
        assert targets <= made, name


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_link_and_path_leads_somewhere(name: str) -> None:
    text = text_of(name)
    for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", text):
        assert ((REPOSITORY / name).parent / target).exists(), target
    for path in re.findall(
        r"`((?:snapreport|sample_snapshots|dev|tests|docs|templates)/\S*)`", text
    ):
        assert (REPOSITORY / path).exists(), path


def test_the_code_that_contributors_are_sent_to_is_there() -> None:
    assert re.search(r"(?m)^CODES\b", text_of("snapreport/model/diagnoses.py"))
    assert (REPOSITORY / "snapreport" / "diagnosis" / "churn.py").exists()


@needs_checkout
def test_issue_forms_ask_for_what_an_answer_needs() -> None:
    forms = {
        path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
        for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml")
    }
    del forms["config"]
    assert set(forms) == {"bug", "idea", "wrong-number"}
    for name, form in forms.items():
        fields = {each["id"]: each for each in form["body"] if each["type"] != "markdown"}
        assert len(fields) == sum(each["type"] != "markdown" for each in form["body"])
        assert any(field.get("validations", {}).get("required") for field in fields.values())
        if name != "idea":
            assert fields["version"]["validations"]["required"]
            asked = yaml.safe_dump(form, width=10_000)
            assert "snapreport --version" in asked
            assert "--redact" in asked
            assert "snapreport strings --check" in asked


@needs_checkout
def test_pull_requests_are_checked_by_make_with_no_right_to_write() -> None:
    text = text_of(".github/workflows/test.yml")
    workflow = yaml.safe_load(text)
    assert "pull_request" in workflow[True]  # YAML 1.1 reads `on` as true
    assert workflow["permissions"] == {"contents": "read"}
    assert "secrets." not in text
    assert {"test", "places", "test-lowest"} <= targets_in(text)


@needs_checkout
def test_the_dev_container_is_set_up_by_make() -> None:
    container = orjson.loads((REPOSITORY / ".devcontainer" / "devcontainer.json").read_bytes())
    assert "3.12" in container["image"]
    made = set(re.findall(r"(?m)^([a-z][a-z-]*):", text_of("Makefile")))
    assert set(container["postCreateCommand"].split()[1:]) <= made
    interpreter = Path(
        container["customizations"]["vscode"]["settings"]["python.defaultInterpreterPath"]
    )
    assert interpreter.parts[-3:] == (".venv", "bin", "python")

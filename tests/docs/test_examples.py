"""What our documents show is what happens: commands with their output, Python, keys and links."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import orjson
import pytest

import snapreport
import tests.counted_card  # noqa: F401  (a document begins a forecast)
from snapreport.commands import cli
from tests.docs.examples import (
    ROOT,
    find_commands,
    find_python,
    host_of,
    is_like,
    lay_out,
    records,
    run_command,
    run_example,
    run_python,
)
from tests.docs.tutorial import TUTORIAL
from tests.ready_workers import fork_workers

TORCH = find_spec("torch") is not None
DOCUMENTS = [ROOT / "README.md", *sorted({*(ROOT / "docs").glob("*.md")} - {TUTORIAL})]
REAL_IN_PLACES = ("mlflow", "wandb", "torch.utils.tensorboard")
"""Libraries with stand-ins here: ``make places`` runs the same blocks with the libraries."""


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _own_signals() -> Iterator[None]:
    """Take back how SIGTERM is handled: Ray sets a handler of its own, and leaves it there."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the samples in it that is the current one."""
    fork_workers(monkeypatch)
    lay_out(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_command_of_the_documents_prints_what_they_show(folder: Path) -> None:
    for document in DOCUMENTS:
        for example in find_commands(document.read_text(encoding="utf-8")):
            if records(example) and not TORCH:
                continue
            printed = run_example(example, folder)
            assert is_like(printed, example.output or ""), (
                f"{document.name}:{example.line}: {example.code}\n{printed}"
            )


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_python_block_of_a_document_runs(
    folder: Path, document: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What PyTorch records itself needs a GPU; the rest of the blocks is real.
    names: dict[str, Any] = {"torch": MagicMock(), "train_step": _train_step}
    names |= {"lightning": MagicMock(), "model": MagicMock(), "trainer": MagicMock()}
    for library in REAL_IN_PLACES if document.name.startswith("howto-") else ():
        monkeypatch.setitem(sys.modules, library, MagicMock())
    for example in find_python(document.read_text(encoding="utf-8")):
        host = host_of(example)
        if (records(example) and not TORCH) or (host and not find_spec(host)):
            continue
        printed = run_python(example.code, names)
        if example.output is not None:
            assert is_like(printed, example.output), f"{document.name}:{example.line}\n{printed}"


def _train_step() -> None:
    import torch

    torch.nn.Linear(64, 64)(torch.randn(8, 64)).sum().backward()


@pytest.mark.parametrize("name", list(cli.commands))
def test_every_command_has_an_example_with_output(name: str) -> None:
    shown = find_commands(text_of("docs/commands.md"))
    assert any(re.match(rf"snapreport {name}\b", example.code) for example in shown)


def test_every_public_name_is_in_the_python_document() -> None:
    document = text_of("docs/python.md") + text_of("docs/recording.md")
    errors = {name for name in snapreport.__all__ if name.endswith("Error")}
    for name in set(snapreport.__all__) - errors - {"__version__"}:
        assert re.search(rf"\b{name}\b", document), name


def test_the_page_document_has_every_key_of_the_help() -> None:
    document = text_of("docs/page.md")
    help_text = text_of("templates/app/views/timeline/help.ts")
    keys = re.findall(r'^  \["(.*?)", "', help_text, re.MULTILINE)
    assert len(keys) > 30
    for key in keys:
        assert f"| {key.encode().decode('unicode_escape')} |" in document, key


def test_the_page_document_has_every_part_of_a_link() -> None:
    document = text_of("docs/page.md")
    link = text_of("templates/app/lib/text/link.ts")
    keys = re.search(r"const PARTS.*?= \{(.*?)\n\}", link, re.DOTALL)
    assert keys is not None
    found = re.findall(r'\w+: \["(\w+)"', keys[1])
    assert len(found) > 8
    for key in found:
        assert f"| `{key}=" in document, key


def test_the_page_document_names_what_the_summary_holds(folder: Path) -> None:
    page = snapreport.render("snap.pickle", "report.html").read_text(encoding="utf-8")
    block = re.search(r'<script type="application/json" id="summary">(.*?)</script>', page)
    assert block is not None
    summary = orjson.loads(block[1])
    document = text_of("docs/page.md")
    for key in [*summary, *summary["devices"][0]]:
        assert f"`{key}`" in document, key


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", text):
        assert (document.parent / target).exists(), target


def test_make_places_runs_every_document_about_a_library() -> None:
    places = text_of("tests/places/test_places.py")
    asked = [path.name for path in DOCUMENTS if find_python(path.read_text("utf-8"))]
    shown = {name for name in asked if name.startswith("howto-")}
    assert shown == set(re.findall(r"howto-\w+\.md", places))
    assert len(shown) == 4


def test_dots_stand_for_left_out_lines_and_for_nothing_else() -> None:
    assert is_like("a\nb\nc\n", "a\n...\nc\n")
    assert is_like("a\nc\n", "a\n...\nc\n")
    assert not is_like("a\nb\nc\n", "a\nc\n")
    assert not is_like("ab\n", "a.\n")


TOLD = [
    *DOCUMENTS,
    TUTORIAL,
    *(ROOT / name for name in ("CHANGELOG.md", "SECURITY.md", "sample_snapshots/README.md")),
    *sorted((ROOT / "snapreport").rglob("*.py")),
    *sorted((ROOT / "templates" / "app").rglob("*.ts")),
]


def test_nobody_is_told_to_install_or_open_what_they_cannot() -> None:
    """No index has snapreport, and only macOS has ``open``; ``xdg-open`` is Linux's."""
    for path in TOLD:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"pip3? install ['\"]?snapreport\b|snapreport\[\w+\]", text), path
        assert not re.search(
            r"(?m)^(\$ )?(xdg-)?open \S+\.\w+( |$)|`(xdg-)?open \S+\.\w+`", text
        ), path


def test_the_readme_s_first_commands_work(folder: Path) -> None:
    if not TORCH:
        pytest.skip("records")
    block = re.search(r"```sh\n(snapreport record .*?)```", text_of("README.md"), re.DOTALL)
    assert block
    browser = folder / "browser"
    browser.write_text('#!/bin/sh\necho "opened $1"\n')
    browser.chmod(0o755)
    program = f"python() {{ BROWSER='{browser} %s' {sys.executable} \"$@\"; }}\n{block[1]}"
    printed = run_command(program, folder)
    assert f"opened file://{folder}/train.memory/latest/report.html" in printed
    assert (folder / "train.memory" / "latest" / "report.html").is_file()

"""``snapreport skill``: every command of the guide works, and it is written where agents look."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import orjson
import pytest
import yaml

from snapreport.commands.skill import GUIDE
from tests.commands.conftest import Run
from tests.commands.test_errors import assert_one_line_error
from tests.conftest import REPOSITORY

TEXT = GUIDE.read_text("utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
COMMANDS = sorted(
    {line for block in BLOCKS for line in block.splitlines()}
    | set(re.findall(r"\| `(snapreport [^`]+)` \|", TEXT))
)


@pytest.fixture
def files(run: Run, samples: Path, folder: Path) -> Path:
    snapshot = (samples / "training_step.pickle").read_bytes()
    for name in ("snap.pickle", "before.pickle", "after.pickle"):
        (folder / name).write_bytes(snapshot)
    assert run("render", "snap.pickle", "-o", "report.html").exit_code == 0
    return folder


def test_the_table_is_read() -> None:
    assert len(COMMANDS) >= 15


def test_every_command_works_and_those_that_print_have_json(run: Run, files: Path) -> None:
    for command in COMMANDS:
        _, *arguments = shlex.split(command)
        result = run(*arguments)
        assert result.exit_code == 0, (command, result.stderr)
        assert result.stdout, command
        if arguments[0] != "render":
            orjson.loads(run(*arguments, "--json").stdout)


def test_the_statuses_are_those_of_the_guide(run: Run, files: Path) -> None:
    assert_one_line_error(run("summary", "missing.pickle"))
    assert run("summary", "missing.pickle").exit_code == 1
    assert run("summary").exit_code == 2
    assert run("check", "snap.pickle", "--max-peak", "1MiB").exit_code == 3
    assert run("plan", "snap.pickle", "--fit", "1MiB").exit_code == 3


def test_its_head_is_what_agents_read_first() -> None:
    _, head, body = TEXT.split("---\n", 2)
    about = yaml.safe_load(head)
    assert about["name"] == "snapreport"
    assert len(about["description"]) <= 1024
    assert len(body) < 6000


def test_it_is_printed_or_written_and_replaces_nothing_unasked(run: Run, folder: Path) -> None:
    assert run("skill").stdout == TEXT
    written = run("skill", "--write", "skills")
    assert written.exit_code == 0
    path = folder / "skills" / "snapreport" / "SKILL.md"
    assert path.read_text("utf-8") == TEXT
    assert_one_line_error(run("skill", "--write", "skills"))
    assert run("skill", "--write", "skills", "--force").exit_code == 0
    assert_one_line_error(run("skill", "--write", "skills/snapreport/SKILL.md"))


def test_the_index_for_language_models_names_every_page_of_the_documents() -> None:
    docs = REPOSITORY / "docs"
    links = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): .", (docs / "llms.txt").read_text("utf-8"), re.M)
    assert sorted(links) == sorted(path.name for path in docs.glob("*.md"))

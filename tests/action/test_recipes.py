"""The recipes of docs/ci.md: those for GitHub fit the Action, the others are run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml

import snapreport
from dev import action
from tests.action.test_action import write
from tests.action.workflow import ACTION, Forge
from tests.conftest import REPOSITORY
from tests.docs.examples import run_command

DOCUMENT = (REPOSITORY / "docs" / "ci.md").read_text("utf-8")
RECIPES = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)]
(GITLAB,) = (recipe["memory"] for recipe in RECIPES if "memory" in recipe)
WORKFLOWS = [recipe for recipe in RECIPES if "jobs" in recipe]


def test_each_workflow_uses_the_action_with_inputs_that_it_has() -> None:
    steps = [
        each for recipe in WORKFLOWS for job in recipe["jobs"].values() for each in job["steps"]
    ]
    ours = [
        step["with"]
        for step in steps
        if re.fullmatch(r"OWNER/snapreport@v[\d.]+", step.get("uses", ""))
    ]
    assert len(ours) == len(WORKFLOWS) == 2
    required = {name for name, each in ACTION["inputs"].items() if each.get("required")}
    for given in ours:
        assert required <= given.keys() <= ACTION["inputs"].keys()
    for recipe in WORKFLOWS:
        assert recipe["permissions"]["pull-requests"] == "write"
        assert "pull_request_target" not in recipe[True]  # YAML's word for "on"
    for step in steps:
        assert "${{" not in step.get("run", "")


def test_the_document_has_every_input_and_output() -> None:
    tables = "\n".join(line.split(" | ")[0] for line in DOCUMENT.splitlines() if line[:1] == "|")
    for name in (*ACTION["inputs"], *ACTION["outputs"]):
        assert f"`{name}`" in tables, name


class GitLab(Forge):
    """The parts of GitLab's API that the recipe uses."""

    baseline: bytes = b""

    def answer(
        self, method: str, target: str, sent: bytes, headers: Mapping[str, str]
    ) -> tuple[int, Any]:
        self.asked.append(f"{method} {target}")
        if target == "/projects/5/jobs/artifacts/main/raw/memory.zip?job=memory":
            assert headers["JOB-TOKEN"] == "of the job"
            return (200, self.baseline) if self.baseline else (404, {})
        assert headers["PRIVATE-TOKEN"] == "of the project"
        notes = "/projects/5/merge_requests/7/notes"
        if method == "GET" and target == "/user":
            return 200, {"id": action.BOT}
        if method == "GET":
            assert target == f"{notes}?per_page=100&sort=asc"
            return 200, [
                {"id": each["id"], "body": each["body"], "author": {"id": each["user"]["login"]}}
                for each in self.comments
            ]
        (body,) = parse_qs(sent.decode())["body"]
        if method == "POST":
            assert target == notes
            return 201, self.comment(body)
        assert method == "PUT"
        (found,) = (each for each in self.comments if target == f"{notes}/{each['id']}")
        found["body"] = body
        return 200, found


def run_gitlab(forge: Forge, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the job's script as GitLab's runner does, in a folder that has ``out.pickle``."""
    programs = folder.parent / "programs"
    programs.mkdir(exist_ok=True)
    ours = f'exec "{sys.executable}" -m snapreport "$@"'
    for name, line in (
        ("pip", "exit"),
        ("snapreport", ours),
        ("python", f'exec "{sys.executable}" "$@"'),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    for made in ("memory.zip", "memory.html", "memory.md", "base.zip"):
        (folder / made).unlink(missing_ok=True)
    variables = {
        "CI_API_V4_URL": forge.url,
        "CI_DEFAULT_BRANCH": "main",
        "CI_JOB_TOKEN": "of the job",
        "CI_MERGE_REQUEST_IID": "7",
        "CI_PROJECT_ID": "5",
        "NOTES_TOKEN": "of the project",
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        **{name: value for name, value in GITLAB["variables"].items() if name != "HERE"},
        "HERE": f"{forge.url}/projects/5",
    }
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", "\n".join(GITLAB["script"])],
        cwd=folder, env=os.environ | variables, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_recipe_for_gitlab_writes_one_note_and_edits_it(tmp_path: Path) -> None:
    if subprocess.run(["bash", "-c", "command -v curl"], capture_output=True).returncode:
        pytest.skip("curl is not installed")
    assert GITLAB["variables"]["HERE"] == "$CI_API_V4_URL/projects/$CI_PROJECT_ID"
    folder = tmp_path / "repository"
    write(folder / "out.pickle", 1)
    (folder / "pyproject.toml").write_text('[tool.snapreport.check]\nfail_on = "none"\n')
    gitlab = GitLab(tmp_path)
    with gitlab.served():
        gitlab.comment("<!-- snapreport -->\nnot ours", "someone")
        done = run_gitlab(gitlab, folder)
        assert done.returncode == 0, done.stderr
        assert "There is no baseline yet." in done.stdout
        assert [name for name in GITLAB["artifacts"]["paths"] if (folder / name).is_file()] == (
            GITLAB["artifacts"]["paths"]
        )
        assert [each["body"][:24] for each in gitlab.comments] == [
            "<!-- snapreport -->\nnot ",
            "<!-- snapreport -->\n\n###",
        ]
        gitlab.baseline = (folder / "memory.zip").read_bytes()
        write(folder / "out.pickle", 4)
        done = run_gitlab(gitlab, folder)
    assert done.returncode == 3, done.stderr
    assert len(gitlab.comments) == 2
    assert "The peak grew by 3.00 MiB" in gitlab.comments[1]["body"]


def test_the_recipe_for_a_shell_fails_with_the_check(tmp_path: Path) -> None:
    (recipe,) = re.findall(r"## Anywhere else.*?```sh\n(.*?)```", DOCUMENT, re.DOTALL)
    write(tmp_path / "out.pickle", 4)
    write(tmp_path / "ci" / "base.pickle", 1)
    snapreport.convert(tmp_path / "ci" / "base.pickle", tmp_path / "ci" / "baseline.zip")
    printed = run_command(f"{recipe}echo $?", tmp_path)
    assert printed.splitlines() == ["memory.html", "memory.md", "3"]
    assert "+3.00 MiB" in (tmp_path / "memory.md").read_text("utf-8")

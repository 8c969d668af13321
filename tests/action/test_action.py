"""The Action's steps, run here on a sample repository: comments, forks, baselines, failures."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import snapreport
from tests.action.workflow import (
    ACTION,
    PULL_REQUEST,
    PUSH,
    WORKFLOW_RUN,
    Ended,
    Forge,
    Job,
    StepError,
)
from tests.builders import MIB, attention
from tests.hostile_text import NAMES, write_snapshot
from tests.ready_workers import fork_workers
from tests.unit.reporters.test_hostile_outputs import check_markdown

HEAD = "ba5eba11" * 5
ABOUT: dict[str, Any] = {"pull_request": {"number": 7, "head": {"sha": HEAD}}}
FORK: dict[str, Any] = {
    "workflow_run": {
        "event": "pull_request",
        "head_branch": "faster",
        "head_sha": HEAD,
        "head_repository": {"owner": {"login": "someone"}},
        "pull_requests": [],
    }
}
MARKER = "<!-- snapreport: gpu-memory -->\n"
LIMITS = {"snapshots": "out.pickle", "max_growth": "2%", "fail_on": "none"}


def write(path: Path, size: int, name: str = "attend") -> Path:
    """Write a snapshot that peaks at ``size`` MiB and two more."""
    made = attention(size, name)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(pickle.dumps(made.snapshot()))
    return path


@pytest.fixture
def forge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Forge]:
    fork_workers(monkeypatch)
    (tmp_path / "forge").mkdir()
    with Forge(tmp_path / "forge").served() as served:
        yield served


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A sample repository, whose program has just recorded ``out.pickle``, 3 MiB."""
    folder = tmp_path / "repository"
    write(folder / "out.pickle", 1)
    return folder


def pull(forge: Forge, repository: Path, *, in_bash: bool = False, **inputs: Any) -> Ended:
    """Run the Action for the pull request."""
    job = Job(forge, repository, PULL_REQUEST, ABOUT)
    return job.run({**LIMITS, **inputs}, in_bash=in_bash)


def push(
    forge: Forge,
    repository: Path,
    *,
    to: dict[str, str] = PUSH,
    in_bash: bool = False,
    **inputs: str,
) -> Ended:
    """Run it for a push, to the default branch if no other is named."""
    return Job(forge, repository, to, {}).run({**LIMITS, **inputs}, in_bash=in_bash)


def test_a_pull_request_that_grows_is_told_so_in_one_comment_that_is_edited(
    forge: Forge, repository: Path
) -> None:
    """For the pull request in bash, each step as it is."""
    assert push(forge, repository).passed
    assert forge.comments == []
    write(repository / "out.pickle", 4)
    ended = pull(forge, repository, in_bash=True)
    assert not ended.passed
    assert ended.outputs == {
        "passed": "false",
        "peak": str(6 * MIB),
        "report": "https://github.example/o/r/actions/runs/101/artifacts/42",
    }
    (comment,) = forge.comments
    body = comment["body"]
    assert body.startswith(f"{MARKER}\n### ❌ GPU memory of out.pickle\n")
    assert "**Failed: 1 of 1 budget is not kept.**" in body
    assert f"[`gpu-memory.html`](<{ended.outputs['report']}>)" in body
    assert f"Commit `{HEAD[:12]}`" in body
    assert "against the baseline of main" in body
    assert "| +3.00 MiB | 1.00 MiB | 4.00 MiB | `attend` `attention.py:40` |" in body
    assert re.search(r"^    [▁▂▃▄▅▆▇█]+$", body, re.MULTILINE)
    assert "#### Allocated bytes at the peak, by role\n" in body
    assert "| +3.00 MiB | 1.00 MiB | 4.00 MiB | 1 → 1 | `activation` |" in body
    assert "<details><summary>cuda:0 compared: curves, categories and stages</summary>" in body
    assert ended.summary == ""
    assert "::error title=snapreport::Failed: 1 of 1 budget" in ended.log
    page = forge.folder / "artifacts" / "gpu-memory.html"
    assert page.read_bytes().startswith(b"<!doctype html>")
    first, second = (forge.folder / "temp" / "pip.txt").read_text().splitlines()
    assert "--require-hashes --requirement" in first
    assert "--no-deps" in second

    write(repository / "out.pickle", 1)  # mended
    ended = pull(forge, repository)
    assert ended.passed
    assert [each["id"] for each in forge.comments] == [comment["id"]]
    assert comment["body"].startswith(f"{MARKER}\n### ✅ GPU memory of out.pickle\n")
    assert not any("POST /repos" in each for each in forge.asked[-3:])


def test_without_a_baseline_the_comment_says_so_and_the_check_passes(
    forge: Forge, repository: Path
) -> None:
    assert pull(forge, repository).passed
    (comment,) = forge.comments
    assert (
        "There is no baseline of main yet, so nothing was compared."
        " The limit on growth was not checked."
    ) in comment["body"]


@pytest.mark.parametrize(
    ("baseline", "said"),
    [
        ("missing.zip", "The baseline cannot be used, so nothing was compared: missing.zip"),
        ("broken.zip", "The baseline cannot be used, so nothing was compared: broken.zip"),
        ("missing", "The baseline cannot be used, so nothing was compared: missing"),
        ("ranks", "The baseline is a run, and this is a file, so nothing was compared."),
        ("bare.pickle", "The baseline has no recorded history, so nothing was compared."),
    ],
)
def test_a_baseline_that_is_no_use_fails_nothing(
    forge: Forge, repository: Path, samples: Path, baseline: str, said: str
) -> None:
    (repository / "broken.zip").write_bytes(b"PK\x03\x04 and no more")
    for rank in (0, 1):
        write(repository / "ranks" / f"rank{rank}.pickle", 1)
    (repository / "bare.pickle").write_bytes((samples / "state_only.pickle").read_bytes())
    assert pull(forge, repository, baseline=baseline, render="false").passed
    shown = re.sub(r"\\(.)", r"\1", forge.comments[0]["body"]).replace("\u200b", "")
    assert said in shown


def test_a_page_that_cannot_be_uploaded_fails_nothing(
    forge: Forge, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Job, given: dict[str, str]) -> dict[str, str]:
        raise StepError("the storage is full")

    monkeypatch.setattr(Job, "_upload_artifact", full)
    ended = pull(forge, repository)
    assert ended.passed
    assert ended.outputs["report"] == ""
    assert "The whole report could not be uploaded. Commit" in forge.comments[0]["body"]


def test_without_github_the_summary_has_it(
    forge: Forge, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forge, "answer", lambda *_: (200, b"<html>Sign in to this network"))
    ended = pull(forge, repository, render="false")
    assert ended.passed
    assert "does not answer as GitHub does" in ended.log
    assert "### ✅ GPU memory of out.pickle" in ended.summary
    job = Job(forge, repository, {**PULL_REQUEST, "GITHUB_API_URL": "http://127.0.0.1:9"}, ABOUT)
    ended = job.run({**LIMITS, "render": "false"})
    assert ended.passed
    assert "GitHub cannot be reached: " in ended.log
    assert "### ✅ GPU memory of out.pickle" in ended.summary


def test_a_fork_s_token_cannot_comment_so_the_summary_has_it(
    forge: Forge, repository: Path
) -> None:
    forge.may_write = False
    ended = pull(forge, repository, max_peak="2MiB")
    assert not ended.passed
    assert forge.comments == []
    assert "GitHub did not accept a comment (HTTP 403)" in ended.log
    assert "### ❌ GPU memory of out.pickle" in ended.summary
    assert "`max-peak`" in ended.summary


def test_a_fork_is_commented_on_from_workflow_run_and_leaves_no_baseline(
    forge: Forge, repository: Path
) -> None:
    forge.pulls = [
        {"number": 5, "head": {"sha": "0" * 40}},
        {"number": 7, "head": {"sha": HEAD}},
    ]
    ended = Job(forge, repository, WORKFLOW_RUN, FORK).run(LIMITS)
    assert ended.passed
    assert [each["body"].startswith(MARKER) for each in forge.comments] == [True]
    assert any(
        each.startswith("GET /repos/o/r/pulls?state=open&head=someone%3Afaster")
        for each in forge.asked
    )
    assert not list(forge.folder.glob("cache/*"))


def test_a_push_has_a_summary_and_nothing_else_becomes_a_baseline(
    forge: Forge, repository: Path
) -> None:
    ended = push(forge, repository, render="false")
    assert ended.outputs["report"] == ""
    assert "### ✅ GPU memory of out.pickle" in ended.summary
    assert [each.name for each in forge.folder.glob("cache/*")] == [
        "snapreport-gpu-memory~main~100-1"
    ]
    other = {**PUSH, "GITHUB_REF": "refs/heads/main-2", "GITHUB_REF_NAME": "main-2"}
    push(forge, repository, to=other, render="false")
    protected = {"GITHUB_REF_PROTECTED": "true"}
    tag = {**PUSH, "GITHUB_REF": "refs/tags/v1", "GITHUB_REF_NAME": "v1", "GITHUB_REF_TYPE": "tag"}
    tag |= protected
    push(forge, repository, to=tag, render="false")
    assert len(list(forge.folder.glob("cache/*"))) == 1
    write(repository / "out.pickle", 4)
    push(forge, repository, to={**other, **protected}, render="false")
    assert len(list(forge.folder.glob("cache/*"))) == 2
    # The baseline of main-2 is not taken for a newer one of main.
    pull(forge, repository, render="false")
    assert "NEW peaks 3.00 MiB higher" in forge.comments[0]["body"]


def test_without_a_baseline_of_the_base_branch_that_of_the_default_branch_counts(
    forge: Forge, repository: Path
) -> None:
    push(forge, repository, render="false")
    into = {**PULL_REQUEST, "GITHUB_BASE_REF": "release/1,0"}
    Job(forge, repository, into, ABOUT).run({**LIMITS, "render": "false"})
    assert "against the baseline of main" in forge.comments[0]["body"]
    name = {"GITHUB_REF": "refs/heads/release/1,0", "GITHUB_REF_NAME": "release/1,0"}
    push(forge, repository, to={**PUSH, **name, "GITHUB_REF_PROTECTED": "true"}, render="false")
    Job(forge, repository, into, ABOUT).run({**LIMITS, "render": "false"})
    assert "against the baseline of release/1,0" in forge.comments[0]["body"]


def test_a_snapshot_that_cannot_be_read_fails_and_says_why(forge: Forge, repository: Path) -> None:
    (repository / "out.pickle").write_bytes(pickle.dumps({"loss": [0.5]}))
    ended = pull(forge, repository)
    assert not ended.passed
    assert ended.outputs == {"passed": "false", "peak": "", "report": ""}
    (comment,) = forge.comments
    assert "**Failed: nothing could be checked.**" in comment["body"]
    assert "out.pickle" in comment["body"]
    assert "::error title=snapreport::Nothing could be checked: out.pickle" in ended.log


def test_every_input_reaches_a_step() -> None:
    passed = {name for step in ACTION["runs"]["steps"] for name in step.get("env", {})}
    names = {f"INPUT_{name.upper().replace('-', '_')}" for name in ACTION["inputs"]}
    assert {name for name in passed if name.startswith("INPUT_")} == names


@pytest.mark.parametrize(
    ("inputs", "shown"),
    [
        ({"max_peak": "2MiB"}, "| ❌ | cuda:0 | `max-peak` | 3.00 MiB | 2.00 MiB |"),
        ({"max_reserved": "30MiB"}, "| ✅ | cuda:0 | `max-reserved` | 20.00 MiB | 30.00 MiB |"),
        ({"max_stage": "forward=4MiB"}, "| ✅ | cuda:0 | `max-stage forward` | 3.00 MiB |"),
        ({"max_category": "activation=1MiB"}, "| cuda:0 | `max-category activation` | "),
        ({"fits": "24MiB", "allow": "2MiB"}, "| ✅ | cuda:0 | `fits 24MiB` | 20.00 MiB | 22.00 "),
        ({"fail_on": "warning"}, "#### Findings that fail the check"),
        ({"ignore": "odd-events does-not-close"}, "2 findings ignored: "),
        ({"device": "cuda:0"}, "out.pickle, cuda:0"),
    ],
)  # fmt: skip
def test_each_limit_is_checked(
    forge: Forge, repository: Path, inputs: dict[str, Any], shown: str
) -> None:
    pull(forge, repository, render="false", **inputs)
    assert shown in forge.comments[0]["body"]


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"snapshots": "*.nothing"}, "there is no file *.nothing"),
        ({"max_peak": "much"}, "max_peak: "),
        ({"max_imbalance": "2%"}, "max-imbalance is for a run of several files"),
        ({"max_stage": "forward"}, "max-stage takes NAME=SIZE on each line"),
        ({"redact": "yes"}, "redact is 'yes'; write true or false"),
        ({"comment": "no"}, "comment is 'no'; write true or false"),
    ],
)
def test_an_input_that_means_nothing_fails_and_is_named(
    forge: Forge, repository: Path, inputs: dict[str, Any], said: str
) -> None:
    ended = pull(forge, repository, render="false", **inputs)
    assert not ended.passed
    assert said in ended.log


def test_a_run_s_folder_is_checked_rank_by_rank(forge: Forge, repository: Path) -> None:
    for rank in (0, 1):
        write(repository / "ranks" / f"rank{rank}.pickle", 1)
    inputs: dict[str, Any] = {"snapshots": "ranks", "max_imbalance": "50%"}
    assert push(forge, repository, **inputs).passed
    write(repository / "ranks" / "rank1.pickle", 9)
    ended = pull(forge, repository, **inputs)
    assert not ended.passed
    assert ended.outputs["peak"] == str(11 * MIB)
    body = forge.comments[0]["body"]
    assert "| ❌ | rank 1 | `max-growth` |" in body
    assert "| ❌ | rank 1 | `max-imbalance` |" in body
    assert "<details><summary>The ranks compared with the baseline</summary>" in body
    (repository / "ranks" / "rank1.pickle").write_bytes(b"no snapshot")
    ended = pull(forge, repository, snapshots="ranks/*.pickle", fail_on="none")
    assert not ended.passed
    assert "**Failed: 1 file of the run cannot be read.**" in forge.comments[0]["body"]


def test_the_folder_of_a_recording_is_one_file(forge: Forge, repository: Path) -> None:
    """Not a run of one rank, which would have another page."""
    path = write(repository / "out" / "snapshot.pickle", 4)
    snapreport.convert(path, path.with_name("snap.zip"))
    path.with_name("report.md").write_text("# A report")
    ended = pull(forge, repository, snapshots="out")
    assert "### ✅ GPU memory of snapshot.pickle" in forge.comments[0]["body"]
    assert ended.outputs["peak"] == str(6 * MIB)


def test_a_comment_of_another_author_is_left_alone(forge: Forge, repository: Path) -> None:
    forge.login = "our-app[bot]"
    theirs = [
        forge.comment(f"{MARKER}Mine now.", "mallory"),
        forge.comment(f"{MARKER}Another app's."),
        forge.comment(f"Quoted: {MARKER}", forge.login),
        *(forge.comment("Nothing to see.", "someone") for _ in range(150)),
    ]
    before = [each["body"] for each in theirs]
    pull(forge, repository, render="false")
    pull(forge, repository, render="false")
    assert [each["body"] for each in theirs] == before
    assert len(forge.comments) == len(theirs) + 1  # found again on the second page


def test_each_title_has_a_comment_a_page_and_a_baseline(forge: Forge, repository: Path) -> None:
    for title in ("training", "Evaluation, 8 GPUs <b>"):
        push(forge, repository, title=title)
        pull(forge, repository, title=title)
    first, second = (each["body"] for each in forge.comments)
    assert first.startswith("<!-- snapreport: training -->\n\n### ✅ training: GPU memory of ")
    assert second.startswith("<!-- snapreport: evaluation-8-gpus-b-")
    assert "### ✅ Evaluation, 8 GPUs \\<b\\>: GPU memory" in second
    names = sorted(each.name for each in forge.folder.glob("artifacts/*"))
    assert names[1] == "training.html"
    assert re.fullmatch(r"evaluation-8-gpus-b-\w{6}\.html", names[0])
    assert "no baseline" not in first + second


def test_budgets_come_from_the_repository_and_inputs_override_them(
    forge: Forge, repository: Path
) -> None:
    (repository / "pyproject.toml").write_text(
        "[tool.snapreport.check]\n"
        'max_peak = "2MiB"\nfail_on = "none"\nstages = {forward = "1GiB"}\n'
    )
    inputs = {"snapshots": "out.pickle", "render": "false"}
    job = Job(forge, repository, PULL_REQUEST, ABOUT)
    assert not job.run(inputs).passed
    assert "with budgets from pyproject" in forge.comments[0]["body"]
    inputs |= {"max_peak": "1GiB", "max_stage": "forward=1GiB\nfor*=2GiB"}
    assert job.run(inputs).passed
    assert forge.comments[0]["body"].count("`max-stage for") == 2


def test_with_redaction_no_name_of_the_project_leaves_the_job(
    forge: Forge, repository: Path
) -> None:
    inputs: dict[str, Any] = {"redact": "true", "salt": "0123456789abcdef"}
    write(repository / "out.pickle", 1, "secret_attention")
    push(forge, repository, **inputs)
    write(repository / "out.pickle", 4, "secret_attention")
    ended = pull(forge, repository, **inputs)
    body = forge.comments[0]["body"]
    page = (forge.folder / "artifacts" / "gpu-memory.html").read_text("utf-8")
    for text in (body, page, ended.log):
        assert "attention.py" not in text
        assert "out.pickle" not in text
    assert "| +3.00 MiB | 1.00 MiB | 4.00 MiB |" in body  # one salt: the call sites match


def test_no_name_in_a_snapshot_is_markup_a_mention_or_a_link(
    forge: Forge, repository: Path
) -> None:
    write_snapshot(repository / "out.pickle")
    write(repository / "base.pickle", 1, MARKER.strip())
    name = f"{NAMES[0].removesuffix('.pickle')} @octocat <img src=x>.pickle"
    write_snapshot(repository / name)
    for source, base in (
        ("out.pickle", "base.pickle"),
        (name, "out.pickle"),
        ("base.pickle", name),
    ):
        limits: dict[str, Any] = {"max_peak": "1", "max_stage": "*=1", "fail_on": "note"}
        pull(forge, repository, snapshots=source, baseline=base, title=f"Of {source}", **limits)
    assert len(forge.comments) == 3
    for comment in forge.comments:
        marker, body = comment["body"].split("\n", 1)
        assert re.fullmatch(r"<!-- snapreport: [a-z0-9-]+ -->", marker)
        links = re.findall(r"<(https://github\.example/o/r/actions/runs/[\d/a-z]+)>", body)
        check_markdown(body, tuple(links[:2]))
        assert " against " in body


def test_no_name_in_a_snapshot_is_a_command_to_the_runner(forge: Forge, repository: Path) -> None:
    name = "::error::so it seems"
    write(repository / "out.pickle", 4, name)
    ended = pull(forge, repository, max_peak="2MiB", render="false")
    paused = re.search(r"::stop-commands::(\w+)\n(.*?)\n::\1::\n", ended.log, re.DOTALL)
    assert paused is not None
    assert name in paused[2]
    assert name not in ended.log.replace(paused[0], "")

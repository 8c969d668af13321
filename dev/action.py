"""What the GitHub Action does; ``action.yml`` has its steps and calls this for three of them.

``prepare`` names the files and the cache's key, ``render`` makes the bundle and the page, and
``check`` compares, comments and decides. Inputs are read from the environment, never from a line of
shell. What a comment says is the document of ``snapreport check`` and that of ``snapreport diff``.
"""

from __future__ import annotations

import glob
import hashlib
import http.client
import json
import os
import re
import secrets
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlencode

import snapreport
from snapreport.api.gate import find_budget, read_wanted
from snapreport.api.loading import load_named
from snapreport.api.making import save_bundle, save_report
from snapreport.api.runs.run_check import check_run
from snapreport.api.runs.run_making import find_run_files
from snapreport.bundle.run_archive import is_run_bundle
from snapreport.diagnosis.compare.gate import Verdict, merge
from snapreport.diagnosis.ranks.two_runs import compare_runs
from snapreport.ground.errors import InputError, SnapreportError
from snapreport.ground.safe_text import visible
from snapreport.ground.units import plural
from snapreport.model.asked import NamesWanted
from snapreport.read import read_budget
from snapreport.reporters.comparison import (
    VERDICT_ROWS,
    changes_table,
    conclusion,
    diff_document,
    verdict_document,
)
from snapreport.reporters.document import (
    Block,
    Bullets,
    Code,
    Document,
    Folded,
    Listing,
    Mark,
    Paragraph,
    Words,
    parts_of,
)
from snapreport.reporters.markdown import write_markdown
from snapreport.reporters.run import run_diff_document
from snapreport.reporters.summary import curve_lines
from snapreport.reporters.text import Page

UNTITLED = "gpu-memory"
BOT = "github-actions[bot]"
"""Who comments with the token of a job, where GitHub does not say who we are."""
_WIDTH = 120


@dataclass(frozen=True)
class Use:
    """One use of the Action in a job, told from the others by its title."""

    title: str

    @property
    def slug(self) -> str:
        """The title as a part of names: of the comment's marker, the page and the cache's key."""
        words = re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")[:40]
        if words == self.title:
            return words or UNTITLED
        return f"{words}-{hashlib.sha256(self.title.encode()).hexdigest()[:6]}".lstrip("-")

    @property
    def folder(self) -> Path:
        """Where its files lie: below the workspace, so that every machine caches the same path."""
        return Path(".snapreport", self.slug)

    @property
    def recording(self) -> Path:
        """The bundle of what is checked, or the zip of the run; the cache keeps it."""
        return self.folder / "recording.zip"

    @property
    def base(self) -> Path:
        """The recording that the cache had."""
        return self.folder / "base.zip"

    @property
    def error(self) -> Path:
        """Why there is no recording."""
        return self.folder / "error.txt"

    @property
    def report(self) -> Path:
        """The page; the artifact has its name."""
        return self.folder / f"{self.slug}.html"

    @property
    def marker(self) -> str:
        """The first line of its comment, which nobody sees."""
        return f"<!-- snapreport: {self.slug} -->"


def given(name: str) -> str | None:
    """Return an input of the Action; None where it is empty."""
    return os.environ.get(f"INPUT_{name}", "").strip() or None


def is_on(name: str) -> bool:
    """Read an input that is true or false.

    Raises:
        InputError: it is neither.
    """
    value = given(name) or "false"
    if value not in ("true", "false"):
        raise InputError(f"{name.lower()} is {value!r}; write true or false.")
    return value == "true"


def write_output(**values: str) -> None:
    """Set outputs of the step, each between lines that no value can have guessed."""
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as out:
        for name, value in values.items():
            end = secrets.token_hex(16)
            out.write(f"{name.replace('_', '-')}<<{end}\n{value}\n{end}\n")


def say(kind: str, text: str) -> None:
    """Write a notice, warning or error that GitHub shows with the run."""
    line = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    print(f"::{kind} title=snapreport::{line}", flush=True)


def event() -> dict[str, Any]:
    """Return what GitHub says of the event that started the workflow."""
    path = os.environ.get("GITHUB_EVENT_PATH")
    found: dict[str, Any] = json.loads(Path(path).read_text("utf-8")) if path else {}
    return found


def default_branch() -> str:
    """Return the branch whose baseline counts where the base branch has none."""
    return str(event().get("repository", {}).get("default_branch", "main"))


def base_branch() -> str:
    """Return the branch that a pull request goes into; for a push, the branch itself."""
    return os.environ.get("GITHUB_BASE_REF") or os.environ.get("GITHUB_REF_NAME", "")


def keeps_baseline() -> bool:
    """Say whether this run's recording is a baseline for others.

    A run for a pull request never is, not even one that ``workflow_run`` started on the default
    branch: its recording is a stranger's.
    """
    return (
        given("BASELINE") == "cache"
        and os.environ.get("GITHUB_EVENT_NAME") == "push"
        and os.environ.get("GITHUB_REF_TYPE") == "branch"
        and (
            os.environ.get("GITHUB_REF_NAME") == default_branch()
            or os.environ.get("GITHUB_REF_PROTECTED") == "true"
        )
    )


# The steps.


def prepare(use: Use) -> int:
    """Name the files and the key of the cache, and leave nothing of an earlier job behind."""
    shutil.rmtree(use.folder, ignore_errors=True)
    use.folder.mkdir(parents=True)
    use.folder.with_name(".gitignore").write_text("*\n", encoding="utf-8")

    def key(branch: str) -> str:  # no branch has a ~, so that of main-2 is not taken for main's
        return f"snapreport-{use.slug}~{quote(branch)}~"  # and no key a comma

    run = f"{os.environ['GITHUB_RUN_ID']}-{os.environ.get('GITHUB_RUN_ATTEMPT', '1')}"
    write_output(
        cached="true" if given("BASELINE") == "cache" else "false",
        kept=use.recording.as_posix(),
        key=f"{key(os.environ.get('GITHUB_REF_NAME', ''))}{run}",
        restore_keys="\n".join(dict.fromkeys((key(base_branch()), key(default_branch())))),
    )
    return 0


def branch_of(key: str) -> str:
    """Return the branch that a recording in the cache is of."""
    return unquote(key.split("~")[1])


def render(use: Use) -> int:
    """Make the bundle, or the zip of the run, and the page; ``check`` says what went wrong."""
    if use.recording.exists():  # as the cache restored it
        use.recording.replace(use.base)
    try:
        _make(use)
    except SnapreportError as error:
        use.recording.unlink(missing_ok=True)
        use.error.write_text(str(error), encoding="utf-8")
    report = use.report.as_posix() if use.report.exists() else ""
    write_output(
        report=report,
        report_name=use.report.name,
        save="true" if use.recording.exists() and keeps_baseline() else "false",
    )
    return 0


def _make(use: Use) -> None:
    sources, draws = find_sources(given("SNAPSHOTS") or ""), is_on("RENDER")
    names = NamesWanted(redact=is_on("REDACT"), salt=given("SALT") if is_on("REDACT") else None)
    single = single_file(sources)
    if single is not None:
        snapshot = load_named(single, names)
        save_bundle(snapshot, use.recording)
        if draws:
            findings = snapshot.findings(given("DEVICE"), use.title or None)
            save_report(findings, use.report, "html")
        return
    run = snapreport.load_run(
        sources, device=given("DEVICE"), title=use.title or None, **vars(names)
    )
    run.save(use.recording)
    if draws:
        snapreport.render_run(use.recording, use.report)


def find_sources(patterns: str) -> list[Path]:
    """Return the files and folders that lines of paths and patterns name.

    Raises:
        InputError: one of them names none.
    """
    found: dict[Path, None] = {}
    for pattern in filter(None, map(str.strip, patterns.splitlines())):
        exact = [pattern] if Path(pattern).exists() else []
        paths = exact or sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207  (or absolute)
        if not paths:
            raise InputError(f"snapshots: there is no file {pattern}.")
        found |= dict.fromkeys(map(Path, paths))
    return list(found)


def single_file(sources: Sequence[Path]) -> Path | None:
    """Return the one recording in files and folders; None if they are a run, or its zip.

    Raises:
        InputError: there is none.
    """
    found = find_run_files(sources)
    return found.files[0].path if found is not None and len(found.files) == 1 else None


def check(use: Use) -> int:
    """Check the recording, say the outcome in a comment or the summary, and return the status."""
    try:
        comments, judged = is_on("COMMENT"), judge(use)
    except SnapreportError as error:
        comments, judged = given("COMMENT") != "false", Judged.failed(visible(str(error)))
    links = Paragraph(_links(use, os.environ.get("REPORT_URL", "")))

    def build(most: int) -> Document:
        first, *others = judged.build(most)
        mark, rest = Mark("", judged.passed), parts_of(judged.title)
        title = (mark, f" {use.title}:" if use.title else "", *rest)
        return Document(title, [first, links, *others] if most else [first, links])

    markdown = BytesIO()
    write_markdown(build, (*VERDICT_ROWS, 0), markdown, level=3, notes=use.marker)
    text = markdown.getvalue().decode()
    _print(Document(judged.title, judged.build(VERDICT_ROWS[1])))
    instead = comment(use, text) if comments else "Comments are off."
    if instead:
        print(f"{instead} The summary of the job has the result.")
        with Path(os.environ["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as out:
            out.write(f"{text}\n")
    write_output(
        passed="true" if judged.passed else "false",
        peak="" if judged.peak is None else str(judged.peak),
    )
    if not judged.passed:
        say("error", judged.conclusion)
    return 0 if judged.passed else 1


def _links(use: Use, report: str) -> Words:
    """Say where the page is, and which commit and run this is about."""
    server, repository = os.environ["GITHUB_SERVER_URL"], os.environ["GITHUB_REPOSITORY"]
    run = f"{server}/{repository}/actions/runs/{os.environ['GITHUB_RUN_ID']}"
    about = event()
    commit = str(
        about.get("pull_request", {}).get("head", {}).get("sha")
        or about.get("workflow_run", {}).get("head_sha")
        or os.environ.get("GITHUB_SHA", "")
    )
    made = ("Commit ", Code(commit[:12]), ", measured in ", Code("this run", link=run), ".")
    if report:
        return ("The whole report: ", Code(use.report.name, link=report), ". ", *made)
    return ("The whole report could not be uploaded. ", *made) if use.report.exists() else made


def _print(document: Document) -> None:
    """Write a document to the log, in which no line of it is a command to GitHub's runner."""
    page = Page(_WIDTH, colour=False)
    page.blocks(document.blocks)
    pause = secrets.token_hex(16)
    print(f"::stop-commands::{pause}\n{page.render().decode()}\n::{pause}::", flush=True)


# What to say.


class Judged(NamedTuple):
    """An outcome, and what to say of it."""

    passed: bool
    conclusion: str
    title: Words
    build: Callable[[int], list[Block]]
    """Makes it with the most rows of each table; the first block is the conclusion."""
    peak: int | None = None

    @classmethod
    def failed(cls, error: str) -> Judged:
        """Return the outcome where nothing could be checked."""
        blocks: list[Block] = [Paragraph("Failed: nothing could be checked.", "critical")]
        blocks.append(Paragraph(error))
        return cls(False, f"Nothing could be checked: {error}", " GPU memory", lambda _: blocks)


def judge(use: Use) -> Judged:
    """Check the recording against its budget and the baseline.

    Raises:
        SnapreportError: there is no recording, or a limit is malformed.
    """
    if use.error.exists():
        raise InputError(use.error.read_text("utf-8"))
    said = _limits()
    named = given("BUDGET")
    budget = Path(named) if named else find_budget(Path.cwd())
    wanted = read_wanted(said, budget)
    is_run = is_run_bundle(use.recording)
    base, note = _baseline(use, is_run, wanted.base)
    if base is None:
        said["max_growth"] = "none"
        if note and wanted.max_growth is not None:
            note += " The limit on growth was not checked."
    notes = [Paragraph(note, "warning", is_note=True)] if note else []
    return (_judge_run if is_run else _judge_file)(use, base, notes, said, budget)


def _limits() -> dict[str, Any]:
    """Return the limits among the inputs, as ``check()`` takes them."""
    said: dict[str, Any] = {
        name: given(name.upper())
        for name in (
            *("max_peak", "max_reserved", "max_growth", "max_imbalance"),
            *("fits", "allow", "fail_on", "device"),
        )
    }
    ignored = given("IGNORE")
    said["ignore"] = ignored.split() if ignored else None
    for name, key in (("MAX_STAGE", "stages"), ("MAX_CATEGORY", "categories")):
        sizes = [line.rpartition("=") for line in (given(name) or "").splitlines() if line.strip()]
        if not all(subject and size for subject, _, size in sizes):
            raise InputError(f"{name.lower().replace('_', '-')} takes NAME=SIZE on each line.")
        said[key] = {subject.strip(): size.strip() for subject, _, size in sizes} or None
    return {name: value for name, value in said.items() if value is not None}


_Recording = snapreport.Snapshot | snapreport.LoadedRun


def _baseline(use: Use, is_run: bool, of_budget: str | None) -> tuple[_Recording | None, str]:
    """Load what to compare with; what cannot be used is no baseline, and a sentence says why.

    Args:
        use: of the Action.
        is_run: whether a run is checked.
        of_budget: the file that the budget names, which counts where the cache has nothing.
    """
    wanted = given("BASELINE") or "none"
    if wanted == "none":
        return None, ""
    path, kept = Path(wanted), ""
    if wanted == "cache" and use.base.exists():
        path, kept = use.base, os.environ.get("BASELINE_KEY", "")
    elif wanted == "cache" and of_budget is not None:
        path = Path(of_budget)
    elif wanted == "cache":
        return None, f"There is no baseline of {base_branch()} yet, so nothing was compared."
    try:
        single = single_file([path])
        if is_run != (single is None):
            kinds = "a single file, and this is a run" if is_run else "a run, and this is a file"
            return None, f"The baseline is {kinds}, so nothing was compared."
        if single is None:
            return snapreport.load_run(path), ""
        found = snapreport.load(single)
    except SnapreportError as error:
        return None, f"The baseline cannot be used, so nothing was compared: {error}"
    if not all(each.recorded for each in found.figures() if len(each.history.allocations)):
        return None, "The baseline has no recorded history, so nothing was compared."
    if kept:
        source = replace(found.history.source, name=f"the baseline of {branch_of(kept)}")
        found = snapreport.Snapshot(replace(found.history, source=source))
    return found, ""


def _judge_file(
    use: Use, base: Any, notes: list[Paragraph], said: dict[str, Any], budget: Path | None
) -> Judged:
    _refuse(said, "a run of several files, and this is a single one", "max_imbalance")
    limits = merge({} if budget is None else read_budget(budget), said)
    limits = {name: limits[name] for name in limits if name not in ("base", "max_imbalance")}
    snapshot = snapreport.load(use.recording)
    verdict = snapreport.check(snapshot, base=base, **limits)
    verdict = replace(verdict, budget=None if budget is None else str(budget))
    checked = [snapshot.device(name) for name in verdict.devices]

    def details(most: int) -> Iterator[Block]:
        for each in verdict.comparisons:
            one, other = each.base.device, each.new.device
            found = snapreport.diff(base, snapshot, by="role", device=one, new_device=other)
            yield changes_table(found, found.groups, "role", most)
            rest = replace(found, by="category", groups=found.categories)
            title = f"{other} compared: curves, categories and stages"
            yield Folded(title, diff_document(rest, most).blocks)
        for device in checked:
            if device.figures.recorded:
                yield Listing(curve_lines(device.figures), title=f"{device.name} over time")

    peak = max((device.peak.allocated for device in checked), default=None)
    return _judged(verdict, notes, details, peak)


def _judge_run(
    use: Use, base: Any, notes: list[Paragraph], said: dict[str, Any], budget: Path | None
) -> Judged:
    _refuse(said, "a single file, and this is a run", "categories", "fits", "allow")
    said.pop("device", None)  # only that one was read
    run = snapreport.load_run(use.recording)
    verdict = check_run(run, base=base, budget=budget, **said)

    def details(most: int) -> Iterator[Block]:
        if base is not None:
            found = run_diff_document(compare_runs(base.run, run.run), most)
            yield Folded("The ranks compared with the baseline", found.blocks)

    peaks = [device.allocated for rank in run.run.ranks for device in rank.devices]
    judged = _judged(verdict, notes, details, max(peaks, default=None))
    if not run.errors:
        return judged
    failed = f"Failed: {plural(len(run.errors), 'file')} of the run cannot be read"

    def build(most: int) -> list[Block]:
        errors = Bullets(list(run.errors[:most]))
        return [Paragraph(f"{failed}.", "critical"), errors, *judged.build(most)]

    return judged._replace(passed=False, conclusion=failed, build=build)


def _refuse(said: dict[str, Any], kind: str, *names: str) -> None:
    for name in names:
        if name in said:
            raise InputError(f"{name.replace('_', '-')} is for {kind}.")


def _judged(
    verdict: Verdict,
    notes: list[Paragraph],
    details: Callable[[int], Iterator[Block]],
    peak: int | None,
) -> Judged:
    def build(most: int) -> list[Block]:
        first, *others, about = verdict_document(verdict, most).blocks
        return [first, *notes, *others, *details(most), about]

    title = parts_of(verdict_document(verdict, 1).title)[1:]
    return Judged(verdict.passed, conclusion(verdict), title, build, peak)


# The comment.


class GitHub:
    """GitHub's API, with the token of the job."""

    def __init__(self, token: str) -> None:
        """Talk to the server that runs the job."""
        self.api, self.token = os.environ["GITHUB_API_URL"], token
        self.repository = f"{self.api}/repos/{os.environ['GITHUB_REPOSITORY']}"

    def ask(self, method: str, url: str, content: object = None) -> Any:
        """Send a request and return the answer.

        Raises:
            OSError: there is none, or it is an error.
        """
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(url, data, method=method)
        request.add_header("Accept", "application/vnd.github+json")
        request.add_header("Content-Type", "application/json")
        # Not for wherever an answer might redirect to.
        request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read())
        except (ValueError, http.client.HTTPException) as error:
            raise OSError(f"{self.api} does not answer as GitHub does") from error

    def pages(self, url: str) -> Iterator[Any]:
        """Yield the entries of a list, of all its pages.

        Raises:
            OSError: as ``ask()``.
        """
        page, found = 1, [None]
        while found:
            found = self.ask("GET", f"{url}{'&' if '?' in url else '?'}per_page=100&page={page}")
            yield from found
            page = page + 1 if len(found) == 100 else 0
            if not page:
                return

    def login(self) -> str:
        """Return who we are to GitHub."""
        url = os.environ.get("GITHUB_GRAPHQL_URL", f"{self.api}/graphql")
        try:
            return str(
                self.ask("POST", url, {"query": "{viewer{login}}"})["data"]["viewer"]["login"]
            )
        except (OSError, LookupError, TypeError):
            return BOT

    def pull_request(self) -> int | None:
        """Return the number of the pull request that this is about; None where it is none.

        Of a fork's, a run that ``workflow_run`` started knows only branch and commit.
        """
        about = event()
        if "pull_request" in about:
            return int(about["pull_request"]["number"])
        run = about.get("workflow_run")
        if not run or run.get("event") != "pull_request":
            return None
        head = f"{run['head_repository']['owner']['login']}:{run['head_branch']}"
        query = urlencode({"state": "open", "head": head})
        for each in self.pages(f"{self.repository}/pulls?{query}"):
            if each["head"]["sha"] == run["head_sha"]:
                return int(each["number"])
        return None


def comment(use: Use, text: str) -> str:
    """Write the comment of this use, or edit it; returns why there is none, ``""`` if there is.

    Only a comment that begins with the marker and is our own is edited: the names in a snapshot
    could have the marker anywhere else, and others may copy it.
    """
    github = GitHub(given("TOKEN") or "")
    try:
        number = github.pull_request()
        if number is None:
            return "This is not about a pull request."
        url, we = f"{github.repository}/issues/{number}/comments", None
        for each in github.pages(url):
            if str(each["body"]).startswith(use.marker):
                we = we or github.login()
                if each["user"] and each["user"]["login"] == we:
                    github.ask(
                        "PATCH", f"{github.repository}/issues/comments/{each['id']}", {"body": text}
                    )
                    return ""
        github.ask("POST", url, {"body": text})
    except urllib.error.HTTPError as error:
        return (
            f"GitHub did not accept a comment (HTTP {error.code}): a fork's token cannot comment,"
            " and any other needs the permission pull-requests: write."
        )
    except OSError as error:
        return f"GitHub cannot be reached: {error}."
    return ""


def main(step: str) -> int:
    """Do one step, and return the status it ends with."""
    use = Use(given("TITLE") or "")
    return {"prepare": prepare, "render": render, "check": check}[step](use)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

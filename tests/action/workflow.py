"""Runs ``action.yml`` as GitHub does, in a folder: its steps in order, and its API on this machine.

Steps that use other actions are played by stand-ins that do here what those do there; steps of
shell run as they are, in bash, or, where that takes too long, only what they call of ours.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, urlsplit

import yaml

from dev import action
from tests.conftest import REPOSITORY

ACTION = yaml.safe_load((REPOSITORY / "action.yml").read_text("utf-8"))
TOKEN = "ghs_token_of_the_job"

# What stands for Python while a step prepares: there is no network to install anything from.
_PYTHON = f"""#!/bin/sh
case "$*" in
  "-I -m venv "*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
  "-I -m pip "*) echo "$*" >> "$RUNNER_TEMP/pip.txt" ;;
  *) exec "{sys.executable}" "$@" ;;
esac
"""


class StepError(Exception):
    """A step failed."""


@dataclass
class Forge:
    """A repository on GitHub: its comments, caches and artifacts, and the API that serves them."""

    folder: Path
    comments: list[dict[str, Any]] = field(default_factory=list)
    pulls: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    """The method and path of each request."""
    may_write: bool = True
    """Whether the token may comment; a fork's may not."""
    login: str = action.BOT
    url: str = ""

    def comment(self, body: str, login: str = action.BOT) -> dict[str, Any]:
        """Add a comment, in the shape that GitHub's API gives it."""
        number = 1000 + len(self.comments)
        made = {
            "id": number,
            "html_url": f"https://github.example/o/r/pull/7#issuecomment-{number}",
            "user": {"login": login, "type": "Bot" if "[bot]" in login else "User"},
            "author_association": "NONE",
            "body": body,
        }
        self.comments.append(made)
        return made

    def answer(
        self, method: str, target: str, sent: bytes, headers: Mapping[str, str]
    ) -> tuple[int, Any]:
        """Return the status and the answer to a request."""
        assert headers["Authorization"] == f"Bearer {TOKEN}"
        content = json.loads(sent or b"null")
        self.asked.append(f"{method} {target}")
        url = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path == "/graphql":
            return 200, {"data": {"viewer": {"login": self.login}}}
        if method == "GET":
            listed = {"/repos/o/r/issues/7/comments": self.comments, "/repos/o/r/pulls": self.pulls}
            size, page = int(query.get("per_page", 30)), int(query.get("page", 1))
            return 200, listed[url.path][size * (page - 1) : size * page]
        if not self.may_write:
            return 403, {"message": "Resource not accessible by integration", "status": "403"}
        assert len(content["body"]) <= 65_536
        if method == "POST" and url.path == "/repos/o/r/issues/7/comments":
            return 201, self.comment(content["body"], self.login)
        assert method == "PATCH"
        number = int(url.path.removeprefix("/repos/o/r/issues/comments/"))
        (found,) = (each for each in self.comments if each["id"] == number)
        found["body"] = content["body"]
        return 200, found

    @contextlib.contextmanager
    def served(self) -> Iterator[Forge]:
        """Serve the API on a port of this machine."""
        forge = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                sent = self.rfile.read(int(self.headers["Content-Length"] or 0))
                status, found = forge.answer(self.command, self.path, sent, dict(self.headers))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(found if isinstance(found, bytes) else json.dumps(found).encode())

            do_POST = do_PATCH = do_PUT = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            self.url = f"http://127.0.0.1:{server.server_port}"
            yield self
            server.shutdown()


@dataclass
class Ended:
    """A run of the Action."""

    passed: bool
    outputs: dict[str, str]
    log: str
    summary: str
    environments: dict[str, dict[str, str]]
    """What each step of shell was given beside the job's environment."""


PULL_REQUEST = {
    "GITHUB_EVENT_NAME": "pull_request",
    "GITHUB_REF": "refs/pull/7/merge",
    "GITHUB_REF_NAME": "7/merge",
    "GITHUB_REF_TYPE": "branch",
    "GITHUB_BASE_REF": "main",
}
PUSH = {
    "GITHUB_EVENT_NAME": "push",
    "GITHUB_REF": "refs/heads/main",
    "GITHUB_REF_NAME": "main",
    "GITHUB_REF_TYPE": "branch",
    "GITHUB_REF_PROTECTED": "false",
}
WORKFLOW_RUN = {**PUSH, "GITHUB_EVENT_NAME": "workflow_run"}


class Job:
    """A job of a workflow with one step, which uses the Action."""

    def __init__(
        self, forge: Forge, workspace: Path, variables: dict[str, str], about: dict[str, Any]
    ) -> None:
        self.forge, self.workspace = forge, workspace
        self.temp = forge.folder / "temp"
        self.temp.mkdir(exist_ok=True)
        (self.temp / "event.json").write_text(
            json.dumps({"repository": {"default_branch": "main"}, **about})
        )
        self.variables = {
            "GITHUB_ACTION_PATH": str(REPOSITORY),
            "GITHUB_API_URL": forge.url,
            "GITHUB_EVENT_PATH": str(self.temp / "event.json"),
            "GITHUB_GRAPHQL_URL": f"{forge.url}/graphql",
            "GITHUB_OUTPUT": str(self.temp / "output"),
            "GITHUB_REPOSITORY": "o/r",
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_RUN_ID": str(100 + len(list(forge.folder.glob("cache/*")))),
            "GITHUB_SERVER_URL": "https://github.example",
            "GITHUB_SHA": "5ca1ab1e" * 5,
            "GITHUB_STEP_SUMMARY": str(self.temp / "summary.md"),
            "RUNNER_TEMP": str(self.temp),
            **variables,
        }

    def run(self, inputs: Mapping[str, str], *, in_bash: bool = False) -> Ended:
        """Run all steps; names of inputs have ``_`` for ``-``."""
        inputs = {name.replace("_", "-"): value for name, value in inputs.items()}
        assert inputs.keys() <= ACTION["inputs"].keys()
        known = {name: str(each.get("default", "")) for name, each in ACTION["inputs"].items()}
        values = {
            **{f"inputs.{name}": value for name, value in (known | inputs).items()},
            "github.token": TOKEN,
        }
        values["inputs.token"] = _filled(values["inputs.token"], values)
        (self.temp / "summary.md").write_text("")
        log, environments, passed = "", {}, True
        for step in ACTION["runs"]["steps"]:
            if "if" in step and not _holds(step["if"], values):
                continue
            name = step.get("id", step.get("uses", ""))
            outputs: dict[str, str] = {}
            try:
                if "uses" in step:
                    given = {key: _filled(_text(v), values) for key, v in step["with"].items()}
                    outputs = getattr(self, _stand_in(step["uses"]))(given)
                else:
                    assert step["shell"] == "bash"
                    assert "${{" not in step["run"], "an input in a script could be a command"
                    given = {key: _filled(value, values) for key, value in step["env"].items()}
                    environments[name] = given
                    (self.temp / "output").write_text("")
                    status, said = self._shell(step["run"], given, in_bash)
                    log += said
                    outputs = _outputs(self.temp / "output")
                    if status:
                        raise StepError(f"{name} ended with {status}")
            except StepError as error:
                if not step.get("continue-on-error"):
                    log, passed = f"{log}{error}\n", False
            values |= {f"steps.{name}.outputs.{key}": value for key, value in outputs.items()}
            if not passed:
                break
        ended = {name: _filled(each["value"], values) for name, each in ACTION["outputs"].items()}
        summary = (self.temp / "summary.md").read_text("utf-8")
        return Ended(passed, ended, log, summary, environments)

    def _shell(self, script: str, given: dict[str, str], in_bash: bool) -> tuple[int, str]:
        (called,) = re.findall(r'"\$\w+" -I "\$GITHUB_ACTION_PATH/dev/action\.py" (\w+)$', script)
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        environment = {**kept, **self.variables, **given}
        if in_bash:
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
                cwd=self.workspace, env=environment, text=True, check=False,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            return done.returncode, done.stdout
        printed = io.StringIO()
        with (
            mock.patch.dict(os.environ, environment),
            _at(self.workspace),
            contextlib.redirect_stdout(printed),
        ):
            return action.main(called), printed.getvalue()

    # Stand-ins for the actions that ours uses.

    def _setup_python(self, given: dict[str, str]) -> dict[str, str]:
        assert given["update-environment"] == "false"
        path = self.temp / "python"
        path.write_text(_PYTHON)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return {"python-path": str(path)}

    def _cache_restore(self, given: dict[str, str]) -> dict[str, str]:
        caches = sorted(self.forge.folder.glob("cache/*"), key=lambda each: each.stat().st_mtime_ns)
        for wanted in (given["key"], *given["restore-keys"].split("\n")):
            found = [each for each in caches if each.name.replace("\\", "/").startswith(wanted)]
            if wanted and found:
                shutil.copy(found[-1], self.workspace / given["path"])
                return {"cache-matched-key": found[-1].name.replace("\\", "/")}
        return {}

    def _cache_save(self, given: dict[str, str]) -> dict[str, str]:
        assert "," not in given["key"]
        target = self.forge.folder / "cache" / given["key"].replace("/", "\\")
        if target.exists():
            raise StepError("a cache is never replaced")
        target.parent.mkdir(exist_ok=True)
        shutil.copy(self.workspace / given["path"], target)
        return {}

    def _upload_artifact(self, given: dict[str, str]) -> dict[str, str]:
        assert given["archive"] == "false", "in a zip it would not open in the browser"
        source = self.workspace / given["path"]
        folder = self.forge.folder / "artifacts"
        folder.mkdir(exist_ok=True)
        # Deleted is the artifact of the name given; the new one is named after the file.
        if given["overwrite"] == "true":
            (folder / given["name"]).unlink(missing_ok=True)
        target = folder / source.name
        if target.exists():
            raise StepError("409: an artifact with this name already exists")
        shutil.copy(source, target)
        run = self.variables["GITHUB_RUN_ID"]
        return {"artifact-url": f"https://github.example/o/r/actions/runs/{run}/artifacts/42"}


@contextlib.contextmanager
def _at(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _stand_in(uses: str) -> str:
    name, _, version = uses.partition("@")
    assert re.fullmatch(r"v\d+", version)
    return f"_{re.sub(r'[-/]', '_', name.removeprefix('actions/'))}"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _filled(text: str, values: dict[str, str]) -> str:
    """Put values where expressions are; an output that no step has set is empty."""

    def value(found: re.Match[str]) -> str:
        name = found[1]
        assert name in values or name.startswith("steps."), name
        return values.get(name, "")

    return re.sub(r"\$\{\{ ([\w.-]+) \}\}", value, text)


def _holds(condition: str, values: dict[str, str]) -> bool:
    found = re.fullmatch(r"(steps\.[\w.-]+) (==|!=) '(\w*)'", condition)
    assert found is not None, condition
    return (values.get(found[1], "") == found[3]) == (found[2] == "==")


def _outputs(path: Path) -> dict[str, str]:
    """Read what a step wrote: ``name=value``, or a value between two lines of its own."""
    found = {}
    lines = iter(path.read_text("utf-8").splitlines())
    for line in lines:
        name, several, end = line.partition("<<")
        if several:
            value = []
            while (each := next(lines)) != end:
                value.append(each)
            found[name] = "\n".join(value)
        else:
            name, _, found_value = line.partition("=")
            found[name] = found_value
    return found

"""Where everything comes from: locked packages, a page that can be built again, its licences."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import orjson
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import snapreport
from snapreport.ground.templates import environment
from snapreport.ground.version import __version__
from snapreport.reporters import whole_page
from snapreport.reporters.page_report import write_report
from tests.conftest import REPOSITORY
from tests.lowest import lowest, pins

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TEMPLATES = REPOSITORY / "templates"
SHIPPED = TEMPLATES / "shipped"
needs_node = pytest.mark.skipif(
    shutil.which("node") is None or not (TEMPLATES / "node_modules" / "esbuild").exists(),
    reason="no node, or no npm ci in templates/: the page was NOT built again",
)


def read_json(name: str) -> Any:
    return orjson.loads((TEMPLATES / name).read_bytes())


def copied(folder: Path) -> Path:
    """Copy what the page is built from, and nothing that was built."""
    ignored = shutil.ignore_patterns("node_modules", "built")
    shutil.copytree(TEMPLATES, folder, ignore=ignored)
    (folder / "node_modules").symlink_to((TEMPLATES / "node_modules").resolve())
    return folder


def build(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["node", str(folder / "build.mjs"), *options],
        cwd=folder.parent,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_package_of_the_page_s_build_is_locked_with_its_hash() -> None:
    wanted, lock = read_json("package.json"), read_json("package-lock.json")
    top = lock["packages"].pop("")
    assert lock["lockfileVersion"] == 3
    assert top["devDependencies"] == wanted["devDependencies"]
    assert "dependencies" not in wanted
    for name, version in wanted["devDependencies"].items():
        assert lock["packages"][f"node_modules/{name}"]["version"] == version  # to the digit
    for name, package in lock["packages"].items():
        assert re.fullmatch(r"sha512-[A-Za-z0-9+/]{86}==", package["integrity"]), name
        assert "resolved" not in package or package["resolved"].startswith(
            "https://registry.npmjs."
        )


def test_packages_are_installed_as_they_are_locked_everywhere() -> None:
    files = [REPOSITORY / "Makefile", REPOSITORY / ".ci" / "run", REPOSITORY / "README.md"]
    files += [*(REPOSITORY / "docs").glob("*.md"), *TEMPLATES.glob("*.mjs")]
    text = "\n".join(path.read_text("utf-8") for path in files if path.exists())
    assert "npm ci" in text
    assert re.findall(r"npm (?:install|i|add|update)\b.*|\b(?:npx|yarn|pnpm) .*", text) == []
    pips = re.findall(
        r"(?:\$\(PIP\)|-m pip|/uv pip)[^\n]* install[^\n]*", text.replace("\\\n", " ")
    )
    checked = ("--constraint", "--require-hashes", "--no-build-isolation")
    assert [line for line in pips if not any(word in line for word in checked)] == [
        "$(PIP) install --no-deps $(ATHERIS)",
        "$(PIP) install --no-compile $(TORCH))",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "dev/locked/all.txt",
        "dev/locked/dev.txt",
        "dev/locked/run.txt",
        "dev/locked/places.txt",
        "dev/locked/compiler.txt",
        "dev/locked/installer.txt",
    ],
)
def test_every_package_is_locked_with_its_hashes(name: str) -> None:
    text, all_text = (
        (REPOSITORY / each).read_text("utf-8") for each in (name, "dev/locked/all.txt")
    )
    for line in text.replace("\\\n", " ").splitlines():
        if not line.startswith("#"):
            pin, *hashes = (word.strip() for word in line.split(" --hash="))
            assert "==" in pin
            assert hashes, pin
            assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes), pin
    versions, all_versions = (
        {line.partition(" ")[0] for line in pins(each.splitlines())} for each in (text, all_text)
    )
    assert versions <= all_versions or name in (
        "dev/locked/places.txt",  # MLflow has upper limits of its own
        "dev/locked/compiler.txt",
        "dev/locked/installer.txt",
    )


def test_what_runs_and_builds_it_is_locked_and_nothing_of_torch_is() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
    names = {
        name: {
            canonicalize_name(Requirement(pin).name) for pin in pins(path.read_text().splitlines())
        }
        for name, path in {
            "run": REPOSITORY / "dev/locked/run.txt",
            "dev": REPOSITORY / "dev/locked/dev.txt",
            "all": REPOSITORY / "dev/locked/all.txt",
        }.items()
    }
    needed = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    assert {canonicalize_name(Requirement(text).name) for text in needed} <= names["run"]
    assert names["run"] <= names["dev"] <= names["all"]
    assert not {"torch", "triton", "torchmetrics", "accelerate", "transformers"} & names["dev"]
    assert "torch" not in names["all"]


def test_the_lowest_versions_are_those_of_the_project() -> None:
    project = {
        "dependencies": ["Some_thing>=2.1,<3", "other>=1; python_version < '3.11'"],
        "optional-dependencies": {"parquet": ["pyarrow>=14"]},
    }
    locked = ["# by hand", "some-thing==2.9", "only-for-tests==4 ; python_version > '3'"]
    assert lowest(project, locked) == [
        "Some_thing==2.1", 'other==1; python_version < "3.11"', "pyarrow==14", locked[2],
    ]  # fmt: skip
    assert all(Requirement(line) for line in lowest(project, locked))
    with pytest.raises(ValueError, match="lowest"):
        lowest(project | {"dependencies": ["free"]}, [])


@needs_node
def test_the_page_is_built_to_the_same_bytes_anywhere(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        one = copied(tmp_path / "one")
        for path in sorted(one.rglob("*.ts"), reverse=True):  # another order on the disk, and time
            content = path.read_bytes()
            path.unlink()
            path.write_bytes(content)
            os.utime(path, (1_000_000_000, 1_000_000_000))
        done = build(one, TZ="Pacific/Kiritimati", LC_ALL="C", NODE_ENV="production")
    finally:
        os.umask(before)
    assert done.returncode == 0, done.stderr
    two = copied(tmp_path / "a longer name, with ünusual letters")
    done = build(two, TZ="America/New_York", LC_ALL="tr_TR.UTF-8", NODE_ENV="development")
    assert done.returncode == 0, done.stderr
    built = {path.name for path in (SHIPPED / "built").iterdir()}
    for folder in (one, two):
        assert {path.name for path in (folder / "shipped" / "built").iterdir()} == built
        for name in built:
            ours = (SHIPPED / "built" / name).read_bytes()
            theirs = (folder / "shipped" / "built" / name).read_bytes()
            assert theirs == ours, f"{name}; run: make front"


@needs_node
def test_every_byte_of_the_built_page_is_ours_or_listed(tmp_path: Path) -> None:
    folder = copied(tmp_path / "page")
    assert build(folder, f"--metafile={tmp_path / 'meta.json'}").returncode == 0
    found = orjson.loads((tmp_path / "meta.json").read_bytes())
    inputs = {
        path
        for output in found["outputs"].values()
        for path, part in output["inputs"].items()
        if part["bytesInOutput"]
    }
    assert "app/main.ts" in inputs
    assert "styles/base.css" in inputs
    others = {path for path in inputs if not re.match(r"app/|styles/|style\.css$", path)}
    packages = {re.sub(r".*node_modules/((@[^/]+/)?[^/]+)/.*", r"\1", path) for path in others}
    for output in found["outputs"].values():
        from_files = sum(part["bytesInOutput"] for part in output["inputs"].values())
        if output["bytes"] - from_files > 64:
            packages.add("esbuild")  # helpers of its own
    assert packages == {each["name"] for each in whole_page.inlined()}


@needs_node
def test_a_build_with_somebody_else_s_code_needs_its_licence(tmp_path: Path) -> None:
    folder = copied(tmp_path / "page")
    listed = folder / "shipped" / "inlined.json"
    main = folder / "app" / "main.ts"
    code = main.read_text("utf-8")
    main.write_text('import lazy from "define-lazy-prop"\nconsole.log(lazy)\n' + code)
    failed = build(folder)
    assert failed.returncode == 1
    assert "define-lazy-prop is inlined, and inlined.json has no entry of it." in failed.stderr
    assert not (folder / "shipped" / "built").exists()
    version = read_json("node_modules/define-lazy-prop/package.json")["version"]
    entry = {"name": "define-lazy-prop", "version": version, "licence": "MIT", "text": " "}
    listed.write_bytes(orjson.dumps([entry]))
    assert "its text for define-lazy-prop" in build(folder).stderr
    listed.write_bytes(orjson.dumps([entry | {"text": "MIT License ..."}]))
    assert build(folder).returncode == 0
    # What is no module yet needs code of esbuild's around it, which has authors as well.
    main.write_text('console.log(require("./old.cjs"))\n' + code)
    (folder / "app" / "old.cjs").write_text("exports.x = 1")
    listed.write_bytes(b"[]")
    assert "esbuild is inlined" in build(folder).stderr


@needs_node
def test_a_list_with_more_than_is_inlined_fails_the_build(tmp_path: Path) -> None:
    folder = copied(tmp_path / "page")
    (folder / "shipped" / "inlined.json").write_bytes(orjson.dumps([{"name": "d3-scale"}]))
    failed = build(folder)
    assert failed.returncode == 1
    assert "lists d3-scale, which is not inlined" in failed.stderr


def page_of(samples: Path) -> str:
    out = BytesIO()
    findings = snapreport.load(samples / "state_only.pickle").findings()
    write_report(findings, out)
    return out.getvalue().decode()


def test_a_page_says_who_made_it_and_which_code_it_may_run(samples: Path) -> None:
    page = page_of(samples)
    policy = page.partition('Content-Security-Policy" content="')[2].partition('"')[0]
    allowed = set(re.findall(r"sha256-[A-Za-z0-9+/=]+", policy))
    colophon = page.partition('<details class="colophon">')[2].partition("</footer>")[0]
    assert f"snapreport {__version__}" in colophon
    assert "MIT" in colophon
    assert set(re.findall(r"sha256-[A-Za-z0-9+/=]{44}", colophon)) == allowed
    for name in ("built/app.js", "built/style.css"):  # as openssl has it
        digest = hashlib.sha256((SHIPPED / name).read_bytes()).digest()
        assert f"{name}</dt>" in colophon
        assert f"sha256-{base64.b64encode(digest).decode()}" in allowed
    assert "no library, font or picture" in colophon


def test_somebody_else_s_code_is_named_with_its_licence(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "Permission <b>to use</b> ..."
    other = {"name": "d3-scale", "version": "4.0.2", "licence": "ISC", "text": text}
    monkeypatch.setattr(whole_page, "inlined", lambda: [other])
    macro = environment().get_template("about.html.j2").module.about  # type: ignore[attr-defined]
    text = str(macro(whole_page.about_page({"a.css": "a"}, {}, 3), "It is small."))
    assert "<summary>d3-scale 4.0.2, ISC</summary>" in text
    assert "Permission &lt;b&gt;to use&lt;/b&gt;" in text
    assert "no library" not in text

"""The wheel and the source archive: each has what it takes to render, and no more."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import snapreport
from snapreport.ground.native.compiling import NAME
from snapreport.ground.version import __version__
from tests.conftest import REPOSITORY
from tests.lowest import pins
from tests.quick_compiler import quick_compiler

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# Building takes seconds: with `--dist loadfile` these tests share one build.


LIBRARY = f"snapreport/ground/native/{NAME}"


@pytest.fixture(scope="module")
def build_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a build: how fast the library is, nobody asks here."""
    variables = dict(os.environ)
    quick_compiler(tmp_path_factory.mktemp("compiler"), variables.__setitem__)
    return variables


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, build_environment: dict[str, str]) -> Path:
    """A folder with the source archive, and the wheel made from it."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, REPOSITORY],
        check=True,
        capture_output=True,
        env=build_environment,
    )
    return folder


def test_the_wheel_has_what_rendering_needs_and_no_more(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"snapreport/bundle/schema.sql", "snapreport/py.typed"} <= names
    shipped = REPOSITORY / "templates" / "shipped"
    templates = {
        f"snapreport/_templates/{path.relative_to(shipped).as_posix()}"
        for path in shipped.rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }
    assert "snapreport/_templates/built/app.js" in templates
    assert {name for name in names if "/_templates/" in name} == templates
    assert {name.split("/")[0] for name in names} == {
        "snapreport",
        f"snapreport-{__version__}.dist-info",
    }
    assert not [name for name in names if name.endswith(".ts") or "node_modules" in name]


def test_the_wheel_has_the_native_library_for_one_platform_and_any_python(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert LIBRARY in zipfile.ZipFile(wheel).namelist()
    assert wheel.name.startswith(f"snapreport-{__version__}-py3-none-")
    assert not wheel.name.endswith("-any.whl")


@pytest.mark.skipif(os.name == "nt", reason="Windows' own compilers are not looked for")
def test_a_build_without_a_compiler_asks_for_one(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    script = "from hatchling.build import get_requires_for_build_wheel as ask; print(*ask())"
    asked = {}
    for name, path in (("none", str(tmp_path / "bin")), ("some", os.environ["PATH"])):
        environment = {key: value for key, value in os.environ.items() if key != "CC"}
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=REPOSITORY,
            env=environment | {"PATH": path},
            check=True,
            capture_output=True,
            text=True,
        )
        asked[name] = done.stdout.split()
    if importlib.util.find_spec("ziglang") is None:
        assert asked["none"] == ["ziglang"]
    if shutil.which("cc") is not None:
        assert asked["some"] == []


def test_a_build_whose_compiler_fails_ends_in_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path],
        cwd=REPOSITORY,
        env=os.environ | {"CC": "no-such-compiler"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    said = (done.stdout + done.stderr).strip().splitlines()
    assert said[-1].startswith("snapreport's native library cannot be made: ")
    assert not list(tmp_path.iterdir())


def test_the_source_archive_can_be_built_and_tested(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    needed = {
        "Makefile",
        "LICENSE",
        "SECURITY.md",
        "templates/package-lock.json",
        "tests/conftest.py",
    }
    assert needed | {"hatch_build.py", "snapreport/ground/native/events.c"} <= names
    assert LIBRARY not in names
    assert not [name for name in names if "node_modules" in name or ".venv" in name]


@pytest.fixture(scope="module")
def unpacked(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source archive, unpacked elsewhere by somebody with another umask."""
    (archive,) = built.glob("*.tar.gz")
    elsewhere = tmp_path_factory.mktemp("a longer name than before")
    before = os.umask(0o077)
    try:
        shutil.unpack_archive(archive, elsewhere)
    finally:
        os.umask(before)
    (folder,) = elsewhere.iterdir()
    return folder


def test_both_archives_are_the_same_wherever_and_whenever_they_are_built(
    built: Path, unpacked: Path, build_environment: dict[str, str], tmp_path: Path
) -> None:
    for path in unpacked.rglob("*"):
        if path.is_file():
            os.utime(path, (1_200_000_000, 1_200_000_000))
    # In one process, where `build` takes five and unpacks the source archive once more.
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", tmp_path],
        cwd=unpacked,
        check=True,
        capture_output=True,
        env=build_environment | {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "PYTHONHASHSEED": "7"},
    )
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in built.iterdir()}
    for path in built.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name


@pytest.mark.skipif(
    shutil.which("node") is None or not (REPOSITORY / "templates/node_modules/esbuild").exists(),
    reason="no node, or no npm ci in templates/: the page was NOT built from the archive",
)
def test_the_page_in_the_source_archive_is_what_its_sources_give(unpacked: Path) -> None:
    templates = unpacked / "templates"
    packages = (REPOSITORY / "templates" / "node_modules").resolve()
    (templates / "node_modules").symlink_to(packages)
    command = ["node", str(templates / "build.mjs"), "--check"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    (templates / "node_modules").unlink()
    assert (done.returncode, done.stderr) == (0, "")


def test_the_installed_wheel_renders_the_same_page_as_the_checkout(
    built: Path, samples: Path, tmp_path: Path
) -> None:
    fresh, bin_name = tmp_path / "venv", "Scripts" if os.name == "nt" else "bin"
    venv.create(fresh, with_pip=False)
    (wheel,) = built.glob("*.whl")
    python = fresh / bin_name / "python"
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-deps",
        "--no-compile",
    ]
    subprocess.run([*pip, wheel], check=True)

    # The libraries come from here; the checkout does not, as PYTHONPATH reads no .pth file.
    environment = os.environ | {"PYTHONPATH": sysconfig.get_path("purelib")}

    def run(*command: str | Path) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    where = run(python, "-c", "import snapreport; print(snapreport.__file__)")
    assert Path(where).is_relative_to(fresh)
    sample = samples / "training_step.pickle"
    run(fresh / bin_name / "snapreport", "render", sample, "-o", "wheel.html")
    snapreport.render(sample, tmp_path / "checkout.html")
    assert (tmp_path / "wheel.html").read_bytes() == (tmp_path / "checkout.html").read_bytes()
    run(fresh / bin_name / "snapreport", "diff", sample, sample, "-o", "diff.html")
    assert "no call site holds more or less" in (tmp_path / "diff.html").read_text("utf-8")


def test_an_editable_install_reads_the_templates_where_they_lie() -> None:
    """An edited template shows without installing again."""
    package = Path(snapreport.__file__).parent
    assert package == REPOSITORY / "snapreport"
    assert not (package / "_templates").exists()
    assert (REPOSITORY / "templates" / "shipped" / "report.html.j2").is_file()


def test_every_dependency_is_bounded_and_locked_for_development() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    lines = (REPOSITORY / "dev/locked/all.txt").read_text().splitlines()
    locked = {Requirement(line).name for line in pins(lines)}
    needed = [Requirement(text) for text in project["dependencies"]]
    assert [str(each) for each in needed if not {">=", "<"} <= operators(each)] == []
    extras = [Requirement(text) for text in project["optional-dependencies"]["dev"]]
    assert {each.name for each in needed + extras} - locked == set()


def operators(requirement: Requirement) -> set[str]:
    return {each.operator for each in requirement.specifier}

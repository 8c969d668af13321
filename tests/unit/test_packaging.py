"""The wheel and the source archive: each has what it takes to render, and no more."""

from __future__ import annotations

import base64
import ctypes
import gzip
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import parse_wheel_filename

import snapreport
from dev import wheels
from snapreport.ground.native import compiling
from snapreport.ground.native.compiling import NAME, PLATFORMS, library_name, system_of
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
        "_snapreport_at_import_torch.py",
        "snapreport",
        f"snapreport-{__version__}.dist-info",
    }
    assert not [name for name in names if name.endswith(".ts") or "node_modules" in name]


def test_the_wheel_has_the_native_library_for_one_platform_and_any_python(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert LIBRARY in zipfile.ZipFile(wheel).namelist()
    assert wheel.name.startswith(f"snapreport-{__version__}-py3-none-")
    assert not wheel.name.endswith("-any.whl")


def test_the_library_in_the_wheel_has_every_function_of_the_sources(
    built: Path, tmp_path: Path
) -> None:
    (wheel,) = built.glob("*.whl")
    library = ctypes.CDLL(zipfile.ZipFile(wheel).extract(LIBRARY, tmp_path))
    wanted = wheels.exported()
    assert {"snapreport_scan", "snapreport_guard_type", "snapreport_sources"} <= wanted
    assert [name for name in wanted if not hasattr(library, name)] == []


def test_the_bill_of_materials_has_the_library_and_what_the_wheel_needs(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        info = f"snapreport-{__version__}.dist-info"
        bill = orjson.loads(archive.read(f"{info}/sboms/snapreport.cdx.json"))
        library = archive.read(LIBRARY)
    assert bill["metadata"]["component"]["purl"] == f"pkg:pypi/snapreport@{__version__}"
    contained, *needed = bill["components"]
    assert contained["name"] == LIBRARY
    assert contained["hashes"][0]["content"] == hashlib.sha256(library).hexdigest()
    assert {each["name"]: each["versionRange"] for each in needed} == {
        each.name: "vers:pypi/" + "|".join(sorted(map(str, each.specifier), reverse=True))
        for each in map(Requirement, project()["dependencies"])
    }
    ours, *others = bill["dependencies"]
    assert ours["dependsOn"] == [each["ref"] for each in others]


def test_a_platform_is_compiled_for_as_its_tag_says() -> None:
    """The versions of glibc and macOS, and the machine, are in the tag and in the target."""
    for tag, target in PLATFORMS.items():
        (parsed,) = parse_wheel_filename(f"snapreport-1-py3-none-{tag}.whl")[3]
        assert parsed.platform == tag
        machine, system = target.split("-", 1)
        assert machine == ("aarch64" if tag.endswith(("aarch64", "arm64")) else "x86_64")
        kind = re.match(r"(manylinux|musllinux|macosx|win)(?:_(\d+)_(\d+))?_", tag)
        assert kind is not None
        version = f"{kind[2]}.{kind[3]}"
        assert (
            system
            == {
                "manylinux": f"linux-gnu.{version}",
                "musllinux": "linux-musl",
                "macosx": f"macos.{version}",
                "win": "windows-gnu",
            }[kind[1]]
        )
    systems = {system_of(target) for target in PLATFORMS.values()}
    names = {system: library_name(system) for system in systems}
    assert names == {"linux": "_native.so", "darwin": "_native.dylib", "win32": "_native.dll"}
    assert library_name(sys.platform) == NAME


@pytest.mark.parametrize("target", PLATFORMS.values())
def test_another_platforms_library_is_made_by_zig_with_its_options(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("only.c", "compiling.py"):
        (tmp_path / name).touch()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setenv("CC", "no-such-compiler")
    compiler = compiling.find_compiler(target)
    assert compiler is not None
    assert compiler[1:] == ["-m", "ziglang", "cc", "-s", "-target", target]
    note = (
        "import pathlib, sys; a = sys.argv; pathlib.Path(a[a.index('-o') + 1]).write_text(repr(a))"
    )
    monkeypatch.setattr(compiling, "find_compiler", lambda target: [sys.executable, "-c", note])
    (tmp_path / "elsewhere").mkdir()
    made = compiling.compile_library(tmp_path, target, tmp_path / "elsewhere")
    options = made.read_text()
    assert made == tmp_path / "elsewhere" / library_name(system_of(target))
    assert not list(tmp_path.glob("_native*"))
    assert ("-fPIC" in options) == ("windows" not in target)
    assert ("-z,relro,-z,now" in options) == ("linux" in target)
    assert ("@rpath/_native.dylib" in options) == ("macos" in target)


def test_a_build_for_an_unknown_platform_ends_in_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path],
        cwd=REPOSITORY,
        env=os.environ | {"SNAPREPORT_PLATFORM": "plan9_x86_64"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    last = (done.stdout + done.stderr).strip().splitlines()[-1]
    assert last == f"SNAPREPORT_PLATFORM must be one of {', '.join(PLATFORMS)}: plan9_x86_64"


def test_a_release_tries_each_wheel_on_a_machine_of_its_kind() -> None:
    machines = {
        "ubuntu-24.04": "x86_64-linux",
        "ubuntu-24.04-arm": "aarch64-linux",
        "macos-15": "aarch64-macos",
        "macos-15-intel": "x86_64-macos",
        "windows-2025": "x86_64-windows",
    }
    jobs = release()["jobs"]
    tried = {
        name: {machines[each] for each in jobs[name]["strategy"]["matrix"]["os"]}
        for name in ("try", "try-musl")
    }
    for target in PLATFORMS.values():
        machine = re.split(r"-(?:gnu|musl)|\.", target)[0]
        assert machine in tried["try-musl" if "musl" in target else "try"], target
    assert set(jobs["release"]["needs"]) == {"build", *tried}
    commands = [step.get("run", "") for step in jobs["build"]["steps"]]
    assert "make wheels WHEELS=build" in commands


def test_a_release_names_versions_of_its_actions_and_publishes_nothing_yet() -> None:
    jobs = release()["jobs"]
    used = [step["uses"] for job in jobs.values() for step in job["steps"] if "uses" in step]
    assert [each for each in used if not re.fullmatch(r"[\w/-]+@v\d+\.\d+\.\d+", each)] == []
    signing = {name for name, job in jobs.items() if "id-token" in job["permissions"]}
    assert signing == {"release", "publish"}
    assert jobs["publish"]["if"] is False


def release() -> Any:
    return yaml.safe_load((REPOSITORY / ".github/workflows/release.yml").read_text("utf-8"))


def test_the_conda_recipe_needs_what_the_project_needs() -> None:
    recipe = yaml.safe_load((REPOSITORY / "dev/conda/recipe.yaml").read_text("utf-8"))
    assert recipe["context"]["version"] == __version__
    listed = {}
    for each in recipe["requirements"]["run"]:
        needed = Requirement(each["then"] if isinstance(each, dict) else each)
        listed[needed.name] = (needed.specifier, isinstance(each, dict))
    assert listed.pop("python") == (Requirement("python").specifier, False)
    assert listed == {
        each.name: (each.specifier, each.marker is not None)
        for each in map(Requirement, project()["dependencies"])
    }


def test_a_wheel_that_cannot_run_here_is_said_not_to_have_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    for tag in PLATFORMS:
        wheel = Path(f"snapreport-1-py3-none-{tag}.whl")
        assert wheels.try_elsewhere(wheel)[:2] == (wheel, "not run")
    monkeypatch.setattr(wheels, "sys_tags", list)
    with pytest.raises(wheels.WheelError, match="for this machine"):
        wheels.try_here([wheel])


def test_outputs_are_the_same_however_another_zlib_packs_them(tmp_path: Path) -> None:
    for level in (1, 9):
        with zipfile.ZipFile(tmp_path / f"{level}.zip", "w", 8, compresslevel=level) as archive:
            archive.writestr("manifest.json", "the same " * 99)
        packed = base64.b64encode(gzip.compress(b"the same " * 99, level)).decode()
        (tmp_path / f"{level}.html").write_text(f"<script>{packed}</script>")
    for ending in ("zip", "html"):
        one, nine = (tmp_path / f"{level}.{ending}" for level in (1, 9))
        assert one.read_bytes() != nine.read_bytes()
        assert wheels.unpacked(one) == wheels.unpacked(nine)
    (tmp_path / "other.html").write_text("<script></script>")
    assert wheels.unpacked(tmp_path / "other.html") != wheels.unpacked(tmp_path / "1.html")


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
    here = importlib.util.find_spec("ziglang") is not None
    assert asked["none"] == ([] if here else ["ziglang"])
    compilers = [name for name in ("cc", "gcc", "clang") if shutil.which(name)]
    assert asked["some"] == ([] if here or compilers else ["ziglang"])


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
        ".github/workflows/release.yml",
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
    lines = (REPOSITORY / "dev/locked/all.txt").read_text().splitlines()
    locked = {Requirement(line).name for line in pins(lines)}
    needed = [Requirement(text) for text in project()["dependencies"]]
    assert [str(each) for each in needed if not {">=", "<"} <= operators(each)] == []
    extras = [Requirement(text) for text in project()["optional-dependencies"]["dev"]]
    assert {each.name for each in needed + extras} - locked == set()


def project() -> Any:
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]


def operators(requirement: Requirement) -> set[str]:
    return {each.operator for each in requirement.specifier}

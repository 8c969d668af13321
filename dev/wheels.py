"""Build the wheels of all platforms and the source archive, check them, and try each one.

``python -m dev.wheels`` builds into ``dist/``, and prints a table of what each wheel was tried on.
``python -m dev.wheels try`` tries those in ``dist/`` that this machine takes, as a release does on
machines of other systems; it needs uv and the package ``packaging``.

Wheels for other machines run here as far as possible: with qemu, under Wine, or only in a small
program that loads the library. The table says what was done, and what was not.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename

from snapreport.ground.native.compiling import PLATFORMS, library_name, sources_hash, system_of

HERE = Path(__file__).resolve().parents[1]
DIST, WORK = HERE / "dist", HERE / "out" / "wheels"
EXPECTED = DIST / "expected"
"""What the commands below make in this checkout."""
NATIVE = PurePosixPath("snapreport", "ground", "native")
SAMPLE = HERE / "sample_snapshots" / "training_step.pickle"
COMMANDS = {
    "sample.zip": ("convert", SAMPLE.name, "-o", "sample.zip"),
    "sample.html": ("render", "sample.zip", "-o", "sample.html"),
    "summary.txt": ("summary", "sample.zip"),
}
"""What is run, and which file has what it makes; of the last one it is what it prints."""
_UV = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


class WheelError(Exception):
    """Something is not as it should be; the message says what."""


def run(
    *command: object, cwd: Path | None = None, variables: Mapping[str, str] | None = None
) -> str:
    """Run a command, with some more environment variables, and return what it printed.

    Raises:
        WheelError: it failed.
    """
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=os.environ | dict(variables or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-1500:]
        raise WheelError(f"{' '.join(map(str, command))} failed: {said}")
    return done.stdout


def emptied(folder: Path) -> Path:
    """Return a folder that is there and empty."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


# Building


def build() -> None:
    """Make the source archive, from it all wheels, and what this checkout gives for the sample.

    Raises:
        WheelError: something cannot be built, or has other bytes when it is built again.
    """
    emptied(DIST)
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", DIST, cwd=HERE)
    (archive,) = DIST.glob("*.tar.gz")
    for tag in PLATFORMS:
        print(f"building {tag}", file=sys.stderr)
        once, again = (_build(archive, tag, emptied(WORK / turn)) for turn in ("once", "again"))
        if once.read_bytes() != again.read_bytes():
            raise WheelError(f"{once.name} has other bytes when it is built again")
        shutil.move(once, DIST)
        bill = _members(DIST / once.name, "*.dist-info/sboms/*")[0]
        (DIST / f"{once.name}.cdx.json").write_bytes(bill)
    _run_commands(
        [sys.executable, "-m", "snapreport"], emptied(EXPECTED), {"PYTHONPATH": str(HERE)}
    )


def _build(archive: Path, tag: str, folder: Path) -> Path:
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
    run(*command, cwd=unpacked, variables={"SNAPREPORT_PLATFORM": tag})
    (wheel,) = folder.glob("*.whl")
    return wheel


def _members(wheel: Path, pattern: str) -> list[bytes]:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if PurePosixPath(name).match(pattern)]
        return [archive.read(name) for name in names]


def _run_commands(program: list[object], folder: Path, variables: Mapping[str, str]) -> None:
    """Run all commands in a folder, which then has the sample and what they make."""
    shutil.copy(SAMPLE, folder)
    for name, command in COMMANDS.items():
        printed = run(*program, *command, cwd=folder, variables=variables)
        if not (folder / name).exists():
            (folder / name).write_text(printed, encoding="utf-8", newline="\n")


# Checking what is in a wheel


def check(wheel: Path, tag: str) -> str:
    """Check what a wheel holds, and say in a few words what its library needs.

    Raises:
        WheelError: something is not as it should be.
    """
    target = PLATFORMS[tag]
    name = library_name(system_of(target))
    found = _members(wheel, f"{NATIVE}/_native.*")
    if len(found) != 1 or not _members(wheel, f"{NATIVE}/{name}"):
        raise WheelError(f"{wheel.name} must have one library, {name}")
    made_of = sources_hash(HERE / NATIVE).encode()
    if b"snapreport sources " + made_of not in found[0]:
        raise WheelError(f"{wheel.name} has a library of other sources")
    _check_bill(wheel)
    # Of musl it knows only Alpine's name. Zig writes musl's own, and musl answers to both (see its
    # ldso/dynlink.c, load_library); what a library needs is checked below.
    if "gnu." in target:
        shown = " ".join(run(sys.executable, "-m", "auditwheel", "show", wheel).split())
        if f'platform tag: "{tag}"' not in shown:
            raise WheelError(f"auditwheel says of {wheel.name}: {shown}")
    return check_library(found[0], target)


def check_library(library: bytes, target: str) -> str:
    """Check a library's machine, its functions, and what it needs; return the latter."""
    lief: Any = import_module("lief")  # only `make wheels` installs it

    lief.logging.disable()  # it notes what it finds odd, and reads it all the same
    whole: Any = lief.parse(io.BytesIO(library))
    # What is taken from it does not keep it alive.
    parsed: Any = whole.at(0) if isinstance(whole, lief.MachO.FatBinary) else whole
    machine = "ARM64|AARCH64" if target.startswith("aarch64") else "X86_64|AMD64"
    if isinstance(parsed, lief.MachO.Binary):
        kind, (_, *needed) = parsed.header.cpu_type, [each.name for each in parsed.libraries]
        functions = {each.name.removeprefix("_") for each in parsed.exported_symbols}
        new = parsed.has_build_version
        least = parsed.build_version.minos if new else parsed.version_min.version
        oldest = ".".join(map(str, least[:2]))
        if not target.endswith(f"macos.{oldest}"):
            raise WheelError(f"the library for {target} needs macOS {oldest}")
        if target.startswith("aarch64") and not parsed.has_code_signature:
            raise WheelError(f"the library for {target} is not signed; macOS would not load it")
    elif isinstance(parsed, lief.PE.Binary):
        kind, needed = parsed.header.machine, [each.name for each in parsed.imports]
        functions = {each.name for each in parsed.get_export().entries}
    else:
        kind, needed = parsed.header.machine_type, list(parsed.libraries)
        functions = {each.name for each in parsed.exported_symbols}
    if not re.search(machine, str(kind)):
        raise WheelError(f"the library for {target} is made for {kind}")
    if odd := exported() ^ {each for each in functions if each.startswith("snapreport_")}:
        raise WheelError(f"the library for {target} should differ in {', '.join(sorted(odd))}")
    if strange := [each for each in needed if not _OF_THE_SYSTEM.fullmatch(each)]:
        raise WheelError(f"the library for {target} needs {', '.join(strange)}")
    return ", ".join(sorted({each.rpartition("/")[2].partition("-l1-")[0] for each in needed}))


_OF_THE_SYSTEM = re.compile(
    r"libc\.so(\.6)?|ld-linux-[\w-]+\.so\.\d"  # glibc and musl
    r"|/usr/lib/libSystem\.B\.dylib"
    r"|KERNEL32\.dll|api-ms-win-crt-\w+-l1-1-0\.dll",  # Windows 10 has these
)


def exported() -> set[str]:
    """Return what the C sources say that the library exports."""
    texts = [path.read_text("utf-8") for path in (HERE / NATIVE).glob("*.c")]
    return {
        name for text in texts for name in re.findall(r"^EXPORT .*?(snapreport_\w+)", text, re.M)
    }


def _check_bill(wheel: Path) -> None:
    """Hold the bill of materials in a wheel against the schema of CycloneDX."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    (bill,) = _members(wheel, "*.dist-info/sboms/snapreport.cdx.json")
    if wrong := JsonStrictValidator(SchemaVersion.V1_7).validate_str(bill.decode()):
        raise WheelError(f"the bill of materials of {wheel.name} is not valid: {wrong}")


# Trying


@dataclass(frozen=True)
class Place:
    """Somewhere a wheel is installed, with what it needs, in an empty environment."""

    name: str
    python: list[object]
    """The command of its Python."""
    variables: dict[str, str] = field(default_factory=dict)
    foreign: tuple[str, str] | None = None
    """The platform and the version of Python, as uv calls them, of another machine's Python."""
    prepare: Callable[[Path], None] = lambda _site: None
    """What is to be done to the installed packages."""
    shown: Callable[[Path], str] = str
    """How its Python sees a path of ours."""

    def install(self, wheel: Path, folder: Path) -> tuple[list[object], dict[str, str]]:
        """Install a wheel where no compiler is on the PATH; return how to run its Python."""
        install = [
            _UV,
            "pip",
            "install",
            "--quiet",
            "--system-certs",
            "--only-binary",
            ":all:",
            wheel,
        ]
        nothing = str(folder)  # a PATH on which there is no program
        if self.foreign is None:
            run(_UV, "venv", "--quiet", "--python", *self.python, folder / "env")
            windows = sys.platform == "win32"
            python = folder / "env" / ("Scripts/python.exe" if windows else "bin/python")
            run(*install, "--python", python, variables={"PATH": nothing})
            return [python], {"PATH": nothing}
        site, (system, python_version) = folder / "env", self.foreign
        target = ("--target", site, "--python-platform", system, "--python-version", python_version)
        copies = ("--link-mode", "copy")  # what is changed there must not change uv's cache
        run(*install, *target, *copies, variables={"PATH": nothing})
        self.prepare(site)
        return self.python, self.variables | {"PYTHONPATH": self.shown(site)}


def try_in(place: Place, wheel: Path) -> str:
    """Install a wheel and run the commands; return what was found.

    Raises:
        WheelError: it cannot be installed, a command fails, or gives something else.
    """
    with tempfile.TemporaryDirectory(prefix="wheel.") as made:
        folder = Path(made).resolve()  # macOS and Windows have other names for it
        python, variables = place.install(wheel, folder)
        begin = time.monotonic()
        imported = run(
            *python,
            "-c",
            "import snapreport; print(snapreport.__file__)",
            cwd=folder,
            variables=variables,
        ).strip()
        if not imported.startswith(place.shown(folder / "env")):
            raise WheelError(f"{place.name} imports {imported}")
        _run_commands([*python, "-m", "snapreport"], folder, variables)
        seconds = time.monotonic() - begin
        others = [
            name
            for name in COMMANDS
            if (folder / name).read_bytes() != (EXPECTED / name).read_bytes()
        ]
        for name in others:
            if unpacked(folder / name) != unpacked(EXPECTED / name):
                raise WheelError(f"{place.name}: {name} is not what this checkout makes")
    equal = f"same content, {', '.join(others)} packed otherwise" if others else "same bytes"
    return f"{', '.join(words[0] for words in COMMANDS.values())}: {equal}, {seconds:.0f} s"


def unpacked(path: Path) -> object:
    """Return what a file holds, however another zlib has compressed it."""
    data = path.read_bytes()
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    return re.sub(rb"H4sI[\w+/]+=*", lambda each: gzip.decompress(base64.b64decode(each[0])), data)


def pythons() -> Iterator[Place]:
    """Yield each version of Python that this machine has, from 3.10 on."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    named = [shutil.which(f"python3.{minor}") for minor in range(10, 30)]
    candidates = [sys.executable, *named, "/usr/bin/python3", *pyenv.glob("3.*/bin/python")]
    script = "import platform, sys; print(platform.python_version(), sys._base_executable)"
    found: dict[tuple[int, ...], Path] = {}
    for path in filter(None, candidates):
        try:
            number, _, base = run(path, "-c", script).strip().partition(" ")
        except (OSError, WheelError):  # a name that pyenv has for a version that is not chosen
            continue
        parts = tuple(map(int, re.findall(r"\d+", number)[:3]))  # of 3.15.0a2, too
        found.setdefault(parts, Path(base))
    for parts, path in sorted(found.items()):
        if parts >= (3, 10):
            yield Place(f"Python {'.'.join(map(str, parts))}", [path])


def try_here(wheels: Iterable[Path]) -> list[tuple[Path, str, str]]:
    """Try all wheels that are for this machine, with every Python that it has.

    Raises:
        WheelError: one fails, or there is none.
    """
    tags = {str(tag).rpartition("-")[2] for tag in sys_tags()}
    taken = [each for each in wheels if tag_of(each) in tags]
    if not taken:
        raise WheelError(f"no wheel in {DIST} is for this machine")
    return [(each, place.name, try_in(place, each)) for each in taken for place in pythons()]


def tag_of(wheel: Path) -> str:
    """Return the platform of a wheel, as in its name."""
    (tag,) = parse_wheel_filename(wheel.name)[3]
    return tag.platform


def try_one_command(wheel: Path) -> Iterator[tuple[Path, str, str]]:
    """Make a report with one command that installs what it needs, without a compiler or a cache."""
    for name, command in {
        "uvx": (_UV, "tool", "run", "--system-certs", "--from", wheel, "snapreport"),
        "pipx run": (
            _UV,
            "tool",
            "run",
            "--system-certs",
            "pipx",
            "run",
            "--spec",
            wheel,
            "snapreport",
        ),
    }.items():
        with tempfile.TemporaryDirectory(prefix="wheel.") as made:
            folder = Path(made)
            shutil.copy(SAMPLE, folder)
            caches = {"UV_CACHE_DIR": "uv", "PIPX_HOME": "pipx", "PIP_CACHE_DIR": "pip"}
            variables = {each: str(folder / kept) for each, kept in caches.items()}
            for program in ("dirname", "realpath", "sh"):  # uv's scripts run these
                (folder / program).symlink_to(shutil.which(program) or program)
            variables |= {"UV_PYTHON": sys.executable, "PATH": str(folder)}
            begin = time.monotonic()
            render = (*command, "render", SAMPLE.name, "-o", "report.html")
            run(*render, cwd=folder, variables=variables)
            if not (folder / "report.html").stat().st_size:
                raise WheelError(f"{name} made no report")
            yield wheel, name, f"the first report, in {time.monotonic() - begin:.0f} s"


# Trying elsewhere


class UnavailableError(Exception):
    """What stands in for another machine cannot be had here; the message says what is missing."""


def try_elsewhere(wheel: Path) -> tuple[Path, str, str]:
    """Try a wheel for another machine as far as possible."""
    tag = tag_of(wheel)
    target = PLATFORMS[tag]
    try:
        if (sys.platform, platform.machine()) != ("linux", "x86_64"):
            raise UnavailableError("other machines are emulated on Linux on x86_64 alone")
        if "musl" in target:
            return wheel, *_load_with_musl(wheel, target.partition("-")[0])
        if "macos" in target:
            raise UnavailableError("nothing here runs programs of macOS")
        place = _wine() if "windows" in target else _arm()
        return wheel, place.name, try_in(place, wheel)
    except UnavailableError as error:
        return wheel, "not run", f"{error}; checked: what it holds, exports and needs"


def _debian(architecture: str, *packages: str) -> Path:
    """Return a folder with packages of Debian and all that they need; nothing is installed."""
    folder = WORK / f"debian-{architecture}"
    if (folder / ".whole").exists():
        return folder
    if not shutil.which("apt-get"):
        raise UnavailableError("there is no apt-get")
    state = emptied(folder) / "apt"
    (state / "lists" / "partial").mkdir(parents=True)
    (state / "archives" / "partial").mkdir(parents=True)
    (state / "status").touch()
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "1",
        "Dir::Cache": state,
        "Dir::State": state,
        "Dir::State::status": state / "status",
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in settings.items())]
    try:
        run(*apt, "update")
        run(*apt, "install", "--yes", "--no-install-recommends", "--download-only", *packages)
        for package in (state / "archives").glob("*.deb"):
            run("dpkg-deb", "--extract", package, folder)
    except WheelError as error:
        raise UnavailableError(f"apt-get has no {architecture}: {str(error)[-200:]}") from error
    shutil.rmtree(state)
    (folder / ".whole").touch()
    return folder


_AMD, _ARM = ("musl", "qemu-user-static"), ("musl", "python3", "libstdc++6")


def _qemu() -> list[object]:
    root = _debian("arm64", *_ARM)
    return [
        _debian("amd64", *_AMD) / "usr/bin/qemu-aarch64-static",
        "-L",
        root,
    ]


def _arm() -> Place:
    python = [*_qemu(), WORK / "debian-arm64/usr/bin/python3"]
    number = run(*python, "-c", "import platform; print(platform.python_version())").strip()
    foreign = ("aarch64-manylinux_2_28", number)
    return Place(f"qemu, Debian's Python {number} for arm64", python, foreign=foreign)


# Loads the library, and prints what it says of a file and of itself.
_LOADER = r"""
#include <dlfcn.h>
#include <stdio.h>
static unsigned char data[1 << 20];
int main(int n, char **arguments)
{
    FILE *file = fopen(arguments[2], "rb");
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (!library || !file)
        return puts(library ? "no file" : dlerror()), 1;
    size_t (*scan)(const unsigned char *, size_t) =
        (size_t (*)(const unsigned char *, size_t))dlsym(library, "snapreport_scan");
    printf("%zu %s\n", scan(data, fread(data, 1, sizeof data, file)),
           (const char *)dlsym(library, "snapreport_sources"));
}
"""


def _load_with_musl(wheel: Path, machine: str) -> tuple[str, str]:
    """Load a library with Debian's musl, for which there is no Python, and let it scan a pickle."""
    folder = emptied(WORK / "musl")
    (folder / "loader.c").write_text(_LOADER)
    (folder / "library.so").write_bytes(_members(wheel, f"{NATIVE}/_native.*")[0])
    compiler = (sys.executable, "-m", "ziglang", "cc", "-O1", "-s", "-dynamic")
    target = ("-target", f"{machine}-linux-musl")
    run(*compiler, *target, "-o", folder / "loader", folder / "loader.c")
    emulator = _qemu() if machine == "aarch64" else []
    root = _debian("arm64", *_ARM) if emulator else _debian("amd64", *_AMD)
    loader = (root / f"lib/ld-musl-{machine}.so.1").resolve()
    said = run(*emulator, loader, folder / "loader", folder / "library.so", SAMPLE).strip()
    # The last opcode of a pickle that ends as it should is STOP.
    wanted = f"{SAMPLE.stat().st_size - 1} snapreport sources {sources_hash(HERE / NATIVE)}"
    if said != wanted:
        raise WheelError(f"{wheel.name} with musl: {said}, not {wanted}")
    return (
        f"{'qemu, ' * bool(emulator)}Debian's musl",
        "a program loads the library, which scans a pickle",
    )


def _wine() -> Place:
    if not shutil.which("wine"):
        raise UnavailableError("wine is not installed")
    folder = emptied(WORK / "windows")
    locked = HERE / "dev" / "locked" / "windows.txt"
    pip = (sys.executable, "-m", "pip", "--quiet", "download", "--no-deps", "--require-hashes")
    run(*pip, "--dest", folder, "--requirement", locked)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        (data,) = (each for each in tar.getmembers() if each.name.endswith("data.zip"))
        with tar.extractfile(data) as opened, zipfile.ZipFile(opened) as packed:  # type: ignore[union-attr]
            packed.extractall(folder)
    (python,) = folder.glob("*/python.exe")
    variables = {
        "WINEPREFIX": str(WORK / "wine"),
        "WINEDEBUG": "-all",
        "WINEDLLOVERRIDES": "mscoree=d;mshtml=d;winedbg.exe=d",
    }
    command: list[object] = ["wine", python]
    script = "import platform; print(platform.python_version())"
    number = run(*command, "-c", script, variables=variables).strip()
    wine = run("wine", "--version", variables=variables).split()[0].replace("wine-", "Wine ")
    return Place(
        f"{wine}, Python {number} for Windows",
        command,
        variables,
        ("x86_64-pc-windows-msvc", number),
        _complete_wine,
        lambda path: "Z:" + str(path).replace("/", "\\"),
    )


def _complete_wine(site: Path) -> None:
    """Give NumPy two functions for complex numbers that Wine 8 lacks; they call nothing of ours."""
    lief: Any = import_module("lief")  # only `make wheels` installs it

    theirs, ours = b"api-ms-win-crt-math-l1-1-0.dll", b"wine-crt-math.dll"
    names: set[str] = set()
    modules = [*site.glob("numpy/**/*.pyd"), *site.glob("numpy.libs/*.dll")]
    for path in modules:
        parsed: Any = lief.parse(path)
        for each in parsed.imports:
            if each.name == theirs.decode():
                names |= {entry.name for entry in each.entries}
        path.write_bytes(path.read_bytes().replace(theirs, ours.ljust(len(theirs), b"\0")))
    own = {"crealf": "real_of", "cimagf": "imag_of"}
    lines = [f"{name} = {own.get(name, f'ucrtbase.{name}')}" for name in sorted(names)]
    (site / "math.def").write_text("\n".join(["EXPORTS", *lines, ""]))
    (site / "math.c").write_text(
        "float real_of(float _Complex z) { return __real__ z; }\n"
        "float imag_of(float _Complex z) { return __imag__ z; }\n"
    )
    compiler = (sys.executable, "-m", "ziglang", "cc", "-shared", "-s")
    target = ("-target", "x86_64-windows-gnu", "-o", ours.decode(), "math.c", "math.def")
    run(*compiler, *target, cwd=site)
    (python,) = (WORK / "windows").glob("*/python.exe")
    shutil.copy(site / ours.decode(), python.parent)


# All of it


def main() -> None:
    """Build, check and try; or only try."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("all", "build", "try"), default="all")
    what = parser.parse_args().what
    try:
        if what != "try":
            build()
        wheels = sorted(DIST.glob("*.whl"))
        needs = {} if what == "try" else {each: check(each, tag_of(each)) for each in wheels}
        rows: list[tuple[Path, str, str]] = []
        if what != "build":
            rows += try_here(wheels)
        if what == "all":
            tried = {wheel for wheel, _, _ in rows}
            for wheel in sorted(tried):
                rows += try_one_command(wheel)
            rows += [try_elsewhere(each) for each in wheels if each not in tried]
    except WheelError as error:
        sys.exit(f"{error}")
    if needs:
        print("| wheel | bytes | its library needs |\n|---|---:|---|")
    for wheel, needed in needs.items():
        print(f"| {tag_of(wheel)} | {wheel.stat().st_size:,} | {needed} |")
    if rows:
        print("\n| wheel | where | what ran |\n|---|---|---|")
    for wheel, where, found in rows:
        print(f"| {tag_of(wheel)} | {where} | {found} |")


if __name__ == "__main__":
    main()

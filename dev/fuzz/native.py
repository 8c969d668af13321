"""Compile the harnesses of the native library, and run them.

``python -m dev.fuzz.native`` compiles all.

A harness is a program of libFuzzer's around some functions of the library, with AddressSanitizer
and UndefinedBehaviorSanitizer; clang has all three. It lies in ``out/`` until a source changes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from functools import cache
from pathlib import Path

from dev.fuzz import CRASHES

HARNESSES: dict[str, tuple[str, ...]] = {
    "pickles": ("opcodes.c",),
    "pages": (),
    "sweeps": (),
    "strips": ("deflate.c",),
    "numbering": (),
    "pairing": (),
    "allocator": (),
}
"""Each is a file of ``harnesses/``; with sources that it needs besides the one that it includes."""


OUT = Path(__file__).parents[2] / "out" / "fuzz"

PACKAGE = Path(__file__).parents[2] / "snapreport"
_HARNESSES = Path(__file__).with_name("harnesses")
# Little room, so that small inputs come to where it ends.
_OPTIONS = (
    *("-g", "-O1", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all"),
    *("-fsanitize=fuzzer,address,undefined", "-DCHUNK=8", "-DSTRETCH=4"),
    *("-DALWAYS=65536", "-DLEAST_ROOM=2"),
)
_NOTHING = "int LLVMFuzzerTestOneInput(void) { return 0; }"


class NoFuzzerError(Exception):
    """There is no clang with libFuzzer."""


def harness(name: str) -> Path:
    """Return a harness, compiled if it has not been since a source changed.

    Raises:
        NoFuzzerError: nothing can be compiled.
    """
    digest = hashlib.sha256(repr(_OPTIONS).encode())
    for path in sorted((*PACKAGE.glob("ground/native/*.[ch]"), *_HARNESSES.glob("*.[ch]"))):
        digest.update(path.read_bytes())
    made = OUT / f"{name}-{digest.hexdigest()[:16]}"
    if not made.exists():
        OUT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=OUT) as folder:
            compile_harness(name, PACKAGE, Path(folder, name))
            for old in OUT.glob(f"{name}-*"):
                old.unlink(missing_ok=True)
            os.replace(Path(folder, name), made)
    return made


def compile_harness(name: str, package: Path, made: Path) -> None:
    """Compile a harness with the sources in the package's folder ``native``.

    Raises:
        NoFuzzerError: nothing can be compiled.
    """
    others = [str(package / "ground" / "native" / other) for other in HARNESSES[name]]
    sources = [str(_HARNESSES / f"{name}.c"), *others]
    if lacks := _lacks():
        raise NoFuzzerError(lacks)
    if failed := _clang(*_OPTIONS, "-I", str(package), "-o", str(made), *sources):
        raise RuntimeError(failed)


def _clang(*arguments: str, given: str = "") -> str:
    """Run clang; return what it says where it fails."""
    command = ["clang", *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    return (done.stderr or "clang failed") if done.returncode else ""


@cache
def _lacks() -> str:
    if shutil.which("clang") is None:
        return "there is no clang (on Debian and Ubuntu: apt install clang libclang-rt-dev)"
    if _clang("-fsanitize=fuzzer,address", "-x", "c", "-", "-o", os.devnull, given=_NOTHING):
        return "this clang has no libFuzzer (on Debian and Ubuntu: apt install libclang-rt-dev)"
    return ""


def corpus(name: str) -> list[bytes]:
    """Return files to begin with, and those that crashed the harness once."""
    found = [path.read_bytes() for path in sorted(CRASHES.glob(f"{name}-*"))]
    if archive_of(name).exists():
        with tarfile.open(archive_of(name)) as archive:
            files = [archive.extractfile(member) for member in archive]
            found += [file.read() for file in files if file]
    return found


def archive_of(name: str) -> Path:
    """Return where the files to begin with are; ``dev.fuzz.corpora`` makes them."""
    return Path(__file__).parent / "corpora" / f"{name}.tar.xz"


def write_files(folder: Path, files: list[bytes]) -> Path:
    """Write each file under the name that libFuzzer would give it."""
    folder.mkdir(parents=True, exist_ok=True)
    for data in files:
        (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)
    return folder


def run(program: Path, *arguments: str) -> tuple[int, str]:
    """Run a harness with arguments of libFuzzer's; return its status and what it said."""
    done = subprocess.run(
        [*_at_the_same_addresses(), program, *arguments],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@cache
def _at_the_same_addresses() -> tuple[str, ...]:
    """Return what lets a program lie at the same addresses each time, where that is allowed.

    libFuzzer learns from all numbers that are compared, and sanitizers compare addresses.
    """
    command = ("setarch", "-R")
    if shutil.which("setarch") is None:
        return ()
    done = subprocess.run([*command, "true"], capture_output=True, check=False)
    return () if done.returncode else command


if __name__ == "__main__":
    try:
        for each in HARNESSES:
            harness(each)
    except NoFuzzerError as error:
        print(f"The native library is not fuzzed: {error}.")

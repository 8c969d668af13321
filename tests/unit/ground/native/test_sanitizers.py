"""The C sources compile without a warning, and do nothing undefined while tests run on them."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from snapreport.ground.native import library
from snapreport.ground.native.compiling import NAME, sources_hash
from tests.conftest import REPOSITORY
from tests.thorough import IN_FULL

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("gcc") is None, reason="gcc has the sanitizers"
)

STRICT = ("-O2", "-fsyntax-only", "-Wall", "-Wextra", "-Wconversion", "-Werror")
SANITIZED = (
    *("-O1", "-g", "-fPIC", "-fno-omit-frame-pointer"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
)
TESTS = (
    *("tests/property/test_sweeps.py", "tests/property/test_strips_text.py"),
    "tests/property/test_deflating.py",
    *("tests/property/test_sorting.py", "tests/property/test_allocator_model.py"),
    *("tests/property/test_live_allocator.py", "tests/unit/figures/allocator/test_live.py"),
    *("tests/unit/read/test_parsed.py", "tests/unit/read/test_opcodes.py"),
    *("tests/unit/bundle/test_pages.py", "tests/unit/ground/native/test_scan.py"),
    *("tests/unit/ground/native/test_out_of_range.py", "tests/unit/bundle/test_table_writing.py"),
)
"""Those that compare the library with the reference, and those that damage what it reads."""


def gcc(folder: Path, *arguments: str) -> str:
    """Run gcc in a folder, and return what it says."""
    done = subprocess.run(
        ["gcc", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stderr or ("" if done.returncode == 0 else "failed")


def compiled(folder: Path, options: Sequence[str], native: Path, names: Iterable[str]) -> str:
    """Compile some of the sources in ``native`` into a folder, and return what gcc says of them."""
    defined = f'-DSOURCES_HASH="{sources_hash(native)}"'
    return gcc(folder, *options, defined, *(str(native / name) for name in sorted(names)))


def sources(native: Path) -> list[str]:
    return [path.name for path in native.glob("*.c")]


def sanitized() -> Path:
    """Return a folder with the objects of our sources: they are kept until those change."""
    digest = hashlib.sha256(f"{SANITIZED}{sources_hash(library.FOLDER)}".encode()).hexdigest()
    kept = REPOSITORY / "out" / "sanitized" / digest[:16]
    if not kept.exists():
        for old in kept.parent.glob("*"):
            shutil.rmtree(old, ignore_errors=True)
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent.parent) as beside:
            made = Path(beside, "made")
            made.mkdir()
            native = library.FOLDER
            assert compiled(made, ("-c", *SANITIZED), native, sources(native)) == ""
            with suppress(OSError):  # made meanwhile by another process
                made.rename(kept)
    return kept


def link(native: Path, objects: Path) -> None:
    """Give a folder of sources its library."""
    names = [str(path) for path in sorted(objects.glob("*.o"))]
    assert gcc(native, "-shared", *SANITIZED, "-o", NAME, *names) == ""


def runtime(name: str) -> str:
    """Return the path of a library of gcc's."""
    asked = subprocess.run(
        ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    )
    return asked.stdout.strip()


def checkout(folder: Path) -> Path:
    """Copy the package into a folder, with links to what tests need beside it."""
    folder.mkdir()
    shutil.copytree(
        REPOSITORY / "snapreport",
        folder / "snapreport",
        ignore=shutil.ignore_patterns("*.so", "*.part"),  # what Python compiled is of use there
    )
    for name in ("tests", "dev", "sample_snapshots", "templates", "docs"):
        (folder / name).symlink_to(REPOSITORY / name)
    shutil.copy(REPOSITORY / "pyproject.toml", folder)
    return folder


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a checkout whose library is sanitized.

    What is undefined shows in few examples, and in the samples as well as in real files: all wrong
    bounds that were found in more were found in these.
    """
    unwanted = ("PYTEST",) if IN_FULL else ("PYTEST", "SNAPREPORT_CORPUS")
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith(unwanted)},
            "LD_PRELOAD": f"{runtime('libasan.so')} {runtime('libubsan.so')}",
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
            "PYTHONPATH": str(folder),
            "SNAPREPORT_EXAMPLES": "1" if IN_FULL else "0.06",
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_sources_compile_without_a_warning() -> None:
    assert compiled(library.FOLDER, STRICT, library.FOLDER, sources(library.FOLDER)) == ""


def test_what_tests_do_with_the_library_is_all_defined(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "checkout")
    link(folder / "snapreport" / "ground" / "native", sanitized())
    done = run(folder, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *TESTS)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert " passed" in done.stdout


def test_a_bound_that_is_one_too_far_is_found(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "checkout")
    native = folder / "snapreport" / "ground" / "native"
    source = native / "sweeps.c"
    text = source.read_text("utf-8")
    broken = text.replace("i < n", "i <= n", 1)
    assert broken != text
    source.write_text(broken, "utf-8")
    objects = tmp_path / "objects"
    shutil.copytree(sanitized(), objects)
    changed = ("sweeps.c", "identity.c")  # which has the hash of all sources
    assert compiled(objects, ("-c", *SANITIZED), native, changed) == ""
    link(native, objects)
    code = (
        "import numpy as np; from snapreport.ground.native import columns;"
        "one = np.ones(1, np.int64); columns.sum_live(one, 0 * one, one, 3)"
    )
    done = run(folder, "-c", code)
    assert done.returncode != 0
    assert "AddressSanitizer" in done.stderr

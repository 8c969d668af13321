"""The library is the one that its sources make: a checkout makes it again, an install says so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from snapreport.ground.errors import NativeLibraryError
from snapreport.ground.native import compiling, library
from snapreport.ground.native.compiling import NAME, compile_library, is_fresh
from tests.conftest import REPOSITORY
from tests.quick_compiler import quick_compiler

needs_compiler = pytest.mark.skipif(
    compiling.find_compiler() is None, reason="no C compiler: the library was NOT made again"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The library and its sources, elsewhere, as an install has them."""
    library.library()  # which makes it where it is stale
    copied = tmp_path / "site" / "snapreport" / "ground" / "native"
    shutil.copytree(library.FOLDER, copied, ignore=shutil.ignore_patterns("__pycache__"))
    return copied


@pytest.fixture
def checkout(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same in a checkout, which has the build beside the package; compiled in less time."""
    (folder.parents[2] / "hatch_build.py").touch()
    quick_compiler(tmp_path, monkeypatch.setenv)
    return folder


def change(folder: Path) -> None:
    """Change a source, as an update of a checkout does."""
    with (folder / "strips.c").open("a") as source:
        source.write("/* another one */\n")


def refusal(folder: Path) -> str:
    with pytest.raises(NativeLibraryError) as caught:
        library._opened(folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_an_install_has_a_library_made_from_its_sources(folder: Path) -> None:
    assert is_fresh(folder)
    assert library._opened(folder)


def test_a_missing_library_is_an_error_that_says_what_to_do(folder: Path) -> None:
    (folder / NAME).unlink()
    assert refusal(folder) == (
        f"snapreport's native library {folder / NAME} is missing;"
        " install snapreport again, with pip's option --force-reinstall."
    )


def test_a_stale_library_of_an_install_is_refused(folder: Path) -> None:
    change(folder)
    told = refusal(folder)
    assert "was not made from the sources beside it; install snapreport again, with pip" in told


@pytest.mark.parametrize("state", ["stale", "missing"])
@needs_compiler
def test_a_checkout_makes_its_library_again(checkout: Path, state: str) -> None:
    change(checkout)
    if state == "missing":
        (checkout / NAME).unlink()
    assert library._opened(checkout)
    assert is_fresh(checkout)
    assert not list(checkout.glob("*.part"))


@needs_compiler
def test_several_processes_may_make_it_at_once(checkout: Path) -> None:
    change(checkout)
    with ThreadPoolExecutor(2) as several:
        assert all(several.map(library._opened, [checkout] * 2))
    assert is_fresh(checkout)


def test_a_stale_library_without_a_compiler_is_one_line(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(checkout)
    monkeypatch.setattr(compiling, "find_compiler", lambda target: None)
    assert refusal(checkout) == (
        f"snapreport's native library {checkout / NAME} was not made from the sources beside it,"
        " and there is no C compiler; install one, or: pip install ziglang"
    )


@pytest.mark.parametrize("compiler", ["no-such-compiler", f"{sys.executable} -c 'exit(3)'"])
def test_a_compiler_that_fails_is_one_line(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, compiler: str
) -> None:
    change(checkout)
    monkeypatch.setenv("CC", compiler)
    assert "was not made from the sources beside it, and" in refusal(checkout)
    assert not list(checkout.glob("*.part"))


@needs_compiler
def test_the_compilers_first_error_is_told(checkout: Path) -> None:
    (checkout / "strips.c").write_text("#error a reason\n")
    assert "failed: strips.c:1:2: error: " in refusal(checkout)


def test_a_library_for_another_machine_is_one_line(folder: Path) -> None:
    wanted = compiling.sources_hash(folder).encode()
    (folder / NAME).write_bytes(b"no library, but snapreport sources " + wanted)
    assert refusal(folder).startswith("snapreport's native library cannot be used (")


def test_any_change_of_a_source_or_of_how_it_is_compiled_counts(folder: Path) -> None:
    hashes = {compiling.sources_hash(folder)}
    for name in ("events.c", "native.h", "compiling.py"):
        with (folder / name).open("ab") as file:
            file.write(b"\n")
        hashes.add(compiling.sources_hash(folder))
    (folder / "strips.c").rename(folder / "other.c")
    hashes.add(compiling.sources_hash(folder))
    assert len(hashes) == 5


def test_commands_say_it_in_one_line(folder: Path) -> None:
    """In an install that has lost its library; what it is made from comes from here."""
    package = folder.parents[1]
    source = REPOSITORY / "snapreport"
    shutil.copytree(source, package, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pyc*"))
    (folder / NAME).unlink()
    sample = REPOSITORY / "sample_snapshots" / "training_step.pickle"
    # The libraries come from here; the checkout does not, as PYTHONPATH reads no .pth file.
    packages = os.pathsep.join([str(package.parent), *sys.path[1:], sysconfig.get_path("purelib")])
    done = subprocess.run(
        [sys.executable, "-m", "snapreport", "summary", sample],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": packages},
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("Error: snapreport's native library ")
    assert f"{NAME} is missing; install snapreport again" in done.stderr


@needs_compiler
def test_the_library_in_use_is_that_of_this_checkout() -> None:
    library.library()
    assert is_fresh(library.FOLDER)
    assert compile_library(library.FOLDER) == library.FOLDER / NAME


def test_functions_refuse_columns_of_another_type_or_shape() -> None:
    import ctypes

    import numpy as np

    sums = np.zeros(5, np.int64)
    ok = np.zeros(1, np.int64)
    read_only = np.zeros(5, np.int64)
    read_only.flags.writeable = False
    function = library.library().sum_live
    assert function(ok, ok, ok, 1, 3, sums) == 1
    for wrong in (np.zeros(1, np.int32), np.zeros((4, 4), np.int64)[:, 1], [0], None):
        with pytest.raises(ctypes.ArgumentError):
            function(wrong, ok, ok, 1, 3, sums)
    with pytest.raises(ctypes.ArgumentError):
        function(ok, ok, ok, 1, 3, read_only)


def test_an_interrupt_while_columns_are_taken_over_frees_none_twice(samples: Path) -> None:
    program = f"""
import snapreport
from snapreport.ground.native import library
taken = library._owned
given = []
def interrupted(*column):
    given.append(column)
    if len(given) == 4:
        raise KeyboardInterrupt
    return taken(*column)
library._owned = interrupted
try:
    snapreport.load({str(samples / "training_step.pickle")!r})
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")

"""Compiles the native library from the C sources in this folder.

A build does this, and a checkout whose sources have changed since. It imports only the standard
library, as a build has nothing else, and most of that where it is needed, as every command runs
through here.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

ZIG = "ziglang"
"""The package on PyPI that has a C compiler, for machines without one."""

PLATFORMS = {
    "manylinux_2_17_x86_64": "x86_64-linux-gnu.2.17",
    "manylinux_2_17_aarch64": "aarch64-linux-gnu.2.17",
    "musllinux_1_2_x86_64": "x86_64-linux-musl",
    "musllinux_1_2_aarch64": "aarch64-linux-musl",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
    "macosx_10_13_x86_64": "x86_64-macos.10.13",
    "win_amd64": "x86_64-windows-gnu",
}
"""What each of our wheels is tagged with, and the target that zig compiles its library for."""


def library_name(system: str) -> str:
    """Return the name of the library's file on a system, which is named as in ``sys.platform``."""
    return "_native." + {"win32": "dll", "darwin": "dylib"}.get(system, "so")


NAME = library_name(sys.platform)
_MARK = b"snapreport sources "  # as in identity.c

# It reads strangers' files: an undiscovered fault must end the process and do no more.
OPTIONS = [
    "-O2",
    "-shared",
    "-fvisibility=hidden",
    "-fstack-protector-strong",
    "-U_FORTIFY_SOURCE",  # some compilers set it, and warn of another value
    "-D_FORTIFY_SOURCE=2",
]
_OPTIONS_ON = {
    "linux": ["-fPIC", "-Wl,-z,relro,-z,now"],
    # Its own name is in it, and would be the folder that it was compiled in.
    "darwin": ["-fPIC", f"-Wl,-install_name,@rpath/{library_name('darwin')}"],
    "win32": [],
}

_ZIG_MACHINES = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "aarch64", "aarch64": "aarch64"}
_ZIG_SYSTEMS = {"win32": "windows-gnu", "darwin": "macos"}
_PROBE = "#include <stdlib.h>\n#include <string.h>\n"


class CompileError(Exception):
    """There is no C compiler, or it failed; the message is one line and says why."""


def sources_hash(folder: Path) -> str:
    """Return a hash of the sources of the library; an empty text if there are none."""
    sources = [path for path in sorted(folder.iterdir()) if path.suffix in (".c", ".h")]
    if not sources:
        return ""
    digest = hashlib.sha256()
    for path in (*sources, folder / Path(__file__).name):
        data = path.read_bytes()
        digest.update(b"%s %d\n" % (path.name.encode(), len(data)) + data)
    return digest.hexdigest()


def is_fresh(folder: Path) -> bool:
    """Say whether the library in a folder was made from the sources in it, if any are there.

    Raises:
        FileNotFoundError: there is no library.
    """
    wanted = sources_hash(folder)
    return _MARK + wanted.encode() in (folder / NAME).read_bytes()


def find_compiler(target: str | None = None) -> list[str] | None:
    """Return the command of a C compiler that works: CC's, the first one found, or ziglang's.

    Args:
        target: what to compile for, as zig calls it: ziglang's compiler. None is this machine.
    """
    import importlib.util
    import shlex
    import shutil

    if target is None and (chosen := os.environ.get("CC")):
        return shlex.split(chosen, posix=os.name != "nt")
    # Compilers for Windows take other options.
    for name in () if target or os.name == "nt" else ("cc", "gcc", "clang"):
        path = shutil.which(name)
        # Some come without the C headers, or only ask to be installed.
        if path is not None and _works([path]):
            return [path]
    if importlib.util.find_spec(ZIG) is not None:
        # Without the symbols for debuggers, which zig adds: they say in which folder it was made.
        options = ["-target", target] if target else zig_target()
        return [sys.executable, "-m", ZIG, "cc", "-s", *options]
    return None


def _works(compiler: list[str]) -> bool:
    import subprocess

    command = [*compiler, "-x", "c", "-fsyntax-only", "-"]
    done = subprocess.run(command, input=_PROBE, capture_output=True, text=True, check=False)  # noqa: S603
    return done.returncode == 0


def zig_target() -> list[str]:
    """Return options for any processor of this kind and the oldest C library of Python."""
    import platform
    import sysconfig

    machine = _ZIG_MACHINES.get(platform.machine().lower())
    system = _ZIG_SYSTEMS.get(sys.platform)
    if sys.platform == "linux":
        musl = "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or "")
        system = "linux-musl" if musl else "linux-gnu.2.17"
    if machine is None or system is None:
        return ["-mcpu=baseline"]
    return ["-target", f"{machine}-{system}"]


def system_of(target: str | None) -> str:
    """Return the system of a target, or of this machine, as ``sys.platform`` names it."""
    for word, system in (("windows", "win32"), ("macos", "darwin"), ("linux", "linux")):
        if target and word in target:
            return system
    return sys.platform


def compile_library(folder: Path, target: str | None = None, into: Path | None = None) -> Path:
    """Compile the sources in a folder, and put the library into one in one step.

    Several processes may do so at once.

    Args:
        folder: of the sources.
        target: what to compile for, as zig calls it; None is this machine.
        into: where to put the library; None is beside its sources.

    Raises:
        CompileError: it cannot be compiled.
    """
    import subprocess
    import tempfile

    compiler, system, into = find_compiler(target), system_of(target), into or folder
    if compiler is None and target:
        raise CompileError(f"only {ZIG} compiles for {target}; pip install {ZIG}")
    if compiler is None:
        raise CompileError(f"there is no C compiler; install one, or: pip install {ZIG}")
    sources = sorted(path.name for path in folder.glob("*.c"))
    defined = f'-DSOURCES_HASH="{sources_hash(folder)}"'
    try:
        with tempfile.TemporaryDirectory(prefix="_native.", suffix=".part", dir=into) as made:
            library, options = Path(made, library_name(system)), _OPTIONS_ON.get(system, ["-fPIC"])
            done = subprocess.run(  # noqa: S603  (the compiler that the user chose)
                [*compiler, *OPTIONS, *options, defined, "-o", str(library), *sources],
                cwd=folder,
                env={**os.environ, "ZIG_LOCAL_CACHE_DIR": made},
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
            if done.returncode:
                said = done.stderr.strip().splitlines() or ["it printed nothing"]
                first = next((line for line in said if "error" in line), said[0])
                raise CompileError(f"the C compiler {compiler[0]} failed: {first.strip()[:300]}")
            os.replace(library, into / library.name)
    except OSError as error:
        raise CompileError(f"it cannot be compiled: {error}") from error
    return into / library.name

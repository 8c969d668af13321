"""Compile the C sources of the package into the wheel, where there is a C compiler.

It is an option: without a compiler, or with SNAPREPORT_NO_COMPILED set, the wheel is pure Python,
does all the same, and converts more slowly.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = (
    "snapreport/sorting.c",
    "snapreport/read/opcodes.c",
    "snapreport/read/columns.c",
    "snapreport/read/events.c",
    "snapreport/analyse/sweeps.c",
    "snapreport/bundle/pages.c",
    "snapreport/bundle/strips.c",
)
# What is read is a stranger's: a fault that nobody found is to end the process and no more.
OPTIONS = [
    "-O2",
    "-fPIC",
    "-fvisibility=hidden",
    "-shared",
    "-fstack-protector-strong",
    "-U_FORTIFY_SOURCE",  # some compilers set it, and warn of another value
    "-D_FORTIFY_SOURCE=2",
    *(["-Wl,-z,relro,-z,now"] if sys.platform == "linux" else []),
]


class CompileHook(BuildHookInterface[Any]):
    """Puts the libraries beside their sources: wheels and editable installs take them there."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Compile, or say why not."""
        options = [*OPTIONS, f"-I{sysconfig.get_path('include')}"]
        if sys.platform == "darwin":
            options += ["-undefined", "dynamic_lookup"]
        for name in SOURCES:
            source = Path(self.root, name)
            library = source.with_name(f"_{source.stem}.so")
            library.unlink(missing_ok=True)
            reason = self._compile(source, library, options)
            if reason:
                self.app.display_warning(f"snapreport goes without {library.name}: {reason}.")
                continue
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform}"
            build_data["artifacts"].append(f"/{library.relative_to(self.root).as_posix()}")

    def _compile(self, source: Path, library: Path, options: list[str]) -> str:
        """Return why there is no library, or an empty text."""
        if os.environ.get("SNAPREPORT_NO_COMPILED"):
            return "SNAPREPORT_NO_COMPILED is set"
        if os.name != "posix":
            return "it is compiled on Linux and macOS alone"
        unfinished = library.with_suffix(".part")
        compiler = shlex.split(os.environ.get("CC", "cc"))
        try:
            subprocess.run(  # noqa: S603  (the compiler that the user chose)
                [*compiler, *options, "-o", str(unfinished), str(source)],
                check=True,
                capture_output=True,
                text=True,
            )
            os.replace(unfinished, library)
        except OSError as error:
            return f"no C compiler ({error})"
        except subprocess.CalledProcessError as error:
            unfinished.unlink(missing_ok=True)
            return f"the C compiler failed ({error.stderr.strip()[:500]})"
        return ""

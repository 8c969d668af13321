"""Compile ``snapreport/read/opcodes.c`` into the wheel, where there is a C compiler.

It is an option: without a compiler, or with SNAPREPORT_NO_COMPILED set, the wheel is pure Python,
does all the same, and converts more slowly.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = "snapreport/read/opcodes.c"
LIBRARY = "snapreport/read/_opcodes.so"
OPTIONS = ["-O2", "-fPIC", "-fvisibility=hidden", "-shared"]


class CompileHook(BuildHookInterface[Any]):
    """Puts the library beside its source, from where a wheel and an editable install take it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Compile, or say why not."""
        library = Path(self.root, LIBRARY)
        library.unlink(missing_ok=True)
        reason = self._compile(library)
        if reason:
            self.app.display_warning(f"snapreport goes without its compiled part: {reason}.")
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["artifacts"].append(f"/{LIBRARY}")

    def _compile(self, library: Path) -> str:
        """Return why there is no library, or an empty text."""
        if os.environ.get("SNAPREPORT_NO_COMPILED"):
            return "SNAPREPORT_NO_COMPILED is set"
        if os.name != "posix":
            return "it is compiled on Linux and macOS alone"
        unfinished = library.with_suffix(".part")
        compiler = shlex.split(os.environ.get("CC", "cc"))
        try:
            subprocess.run(  # noqa: S603  (the compiler that the user chose)
                [*compiler, *OPTIONS, "-o", str(unfinished), str(Path(self.root, SOURCE))],
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

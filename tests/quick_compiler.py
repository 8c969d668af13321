"""A C compiler that does not optimize, for tests of what is done with a compiled library."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path

from snapreport.ground.native import compiling


def quick_compiler(folder: Path, set_variable: Callable[[str, str], object]) -> None:
    """Set CC to a compiler that does not optimize, where there is one that can be told so."""
    compiler = compiling.find_compiler()
    if compiler is not None and os.name != "nt":
        quick = folder / "quick-cc"
        quick.write_text(f'#!/bin/sh\nexec {shlex.join(compiler)} "$@" -O0\n')
        quick.chmod(0o755)
        set_variable("CC", str(quick))

"""What of the running program decides how it is recorded and called."""

from __future__ import annotations

import platform
import sys
from pathlib import Path


def best_stacks() -> str:
    """C++ frames where PyTorch can walk them: elsewhere the first allocation would fail."""
    walks = sys.platform == "linux" and platform.machine() in ("x86_64", "AMD64")
    return "all" if walks else "python"


def program_name() -> str | None:
    """Return the file name of the program, or None where it has no telling one."""
    name = Path(sys.argv[0]).name if sys.argv else ""
    return None if name in ("", "-c", "-m", "ipykernel_launcher.py") else name


def add_note(error: Exception, best: Path) -> None:
    """Let the traceback name the report; Python 3.10 has no notes."""
    if hasattr(error, "add_note"):
        error.add_note(f"snapreport: what held the memory is in {best}")

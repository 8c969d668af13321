"""The whole path of a source file of which the profiler kept only the end.

Source: PyTorch, torch/profiler/python_tracer.py, ``_prefix_regex``: of the folders of ``sys.path``
the one that sorts last and holds the file is cut off. A name without its folder tells neither
two files apart nor the standard library from the user's code.
"""

from __future__ import annotations

import os
import site
import sys
from pathlib import Path


def whole_path(filename: str) -> str:
    """Return the path in this process; the name as it is where there is no such file."""
    if not filename or filename.startswith("<") or Path(filename).is_absolute():
        return filename
    for folder in _folders():
        path = os.path.join(folder, filename)
        if Path(path).is_file():
            return path
    return filename


def _folders() -> list[str]:
    """The folders that may have been cut off, in PyTorch's order."""
    entries = [*sys.path, *site.getsitepackages(), site.getusersitepackages()]
    torch = getattr(sys.modules.get("torch"), "__file__", None)
    if torch:
        entries.append(str(Path(torch).parent.parent))
    return sorted({str(Path(entry).absolute()) for entry in entries}, reverse=True)

"""Finds the full path of a source file, of which the profiler keeps only the end.

Source: PyTorch, torch/profiler/python_tracer.py, ``_prefix_regex``: of the folders of ``sys.path``
that hold the file, the one that sorts last is cut off. Without their folders two files may have
the same name, and the standard library looks like the user's code.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterator
from pathlib import Path


def full_path(filename: str) -> str:
    """Return a file's full path in this process, or the name as it is if no file is found.

    If several folders have such a file, such as two checkouts of which one is installed, it is
    the file that is loaded, else the one that an import would find.
    """
    if not filename or filename.startswith("<") or Path(filename).is_absolute():
        return filename
    found = [path for path in _candidates(filename) if Path(path).is_file()]
    if len(found) > 1:
        loaded = {os.path.realpath(path) for path in _loaded_files(filename)}
        found = [path for path in found if os.path.realpath(path) in loaded] or found
    return found[0] if found else filename


def _candidates(filename: str) -> Iterator[str]:
    """Yield the paths that PyTorch shortens to this name, in the order of imports."""
    folders = _folders()
    cut_order = sorted(folders, reverse=True)
    for folder in folders:
        path = os.path.join(folder, filename)
        cut = next(each for each in cut_order if path.startswith(_slashed(each)))
        if cut == folder:
            yield path


def _folders() -> list[str]:
    """Return the folders that may have been cut off, each once, in the order of imports."""
    entries = [*sys.path, *site.getsitepackages(), site.getuserbase(), site.getusersitepackages()]
    torch = getattr(sys.modules.get("torch"), "__file__", None)
    if torch:
        entries.append(str(Path(torch).parent.parent))
    return list(dict.fromkeys(str(Path(entry).absolute()) for entry in entries))


def _slashed(folder: str) -> str:
    return folder.rstrip(os.sep) + os.sep


def _loaded_files(filename: str) -> Iterator[str]:
    """Yield the files of loaded modules that end with a name."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.endswith(filename):
            yield file

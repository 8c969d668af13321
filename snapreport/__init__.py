"""Turns PyTorch CUDA memory snapshots into portable bundles and self-contained reports.

The whole interface is here: ``load()``, ``convert()``, ``render()``, the ``Snapshot`` that
``load()`` returns, and the errors, which share the parent ``SnapreportError``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from snapreport.version import __version__

if TYPE_CHECKING:
    from snapreport.api import Snapshot, convert, load, render
    from snapreport.errors import (
        BundleError,
        DeviceError,
        InputError,
        NotASnapshotError,
        OutputError,
        OutputExistsError,
        SnapreportError,
        UnsafePickleError,
    )

__all__ = [
    "BundleError",
    "DeviceError",
    "InputError",
    "NotASnapshotError",
    "OutputError",
    "OutputExistsError",
    "SnapreportError",
    "Snapshot",
    "UnsafePickleError",
    "__version__",
    "convert",
    "load",
    "render",
]

_API = {"Snapshot", "convert", "load", "render"}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that ``snapreport --help`` is quick."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module("snapreport.api" if name in _API else "snapreport.errors")
    value: object = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

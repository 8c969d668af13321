"""Libraries that tests need and that may be missing: imported by the first test that asks.

Every worker collects every test. PyTorch, Lightning and Transformers with a million objects in each
would make each fork and each look for garbage slower, of tests that have nothing to do with them.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any

import pytest


def needed(name: str) -> Any:
    """Return a module that is imported when it is first asked for anything.

    Without its package, the tests of the module that calls this are skipped.
    """
    package = name.partition(".")[0]
    if find_spec(package) is None:
        reason = f"{package} is not installed: pip install {package}"
        pytest.skip(reason, allow_module_level=True)
    return _Later(name)


class _Later:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_mock_name":  # pytest asks what this is
            raise AttributeError(name)
        return getattr(importlib.import_module(self._name), name)

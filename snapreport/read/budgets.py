"""Reads budgets for ``snapreport check`` from a TOML file, or a project's pyproject.toml."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from snapreport.ground.errors import BudgetError
from snapreport.read.source import read_short

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_TABLE = ("tool", "snapreport", "check")


def has_budget(path: Path) -> bool:
    """Say whether a project's pyproject.toml has budgets, in any form that TOML allows.

    A file that is not valid TOML but names us counts too: ``read_budget`` then says what is wrong,
    and no check passes because its budgets were missed.

    Args:
        path: a file that exists.
    """
    data = path.read_bytes()
    if b"snapreport" not in data:
        return False
    try:
        return _table_of(tomllib.loads(data.decode())) is not None
    except (ValueError, RecursionError):
        return True


def read_budget(path: Path) -> dict[str, Any]:
    """Return the budgets in a file, by key, as they are written there.

    Args:
        path: a TOML file with the keys at its top or, as pyproject.toml has to, in the table
            ``[tool.snapreport.check]``. A ``base`` in it is relative to the file's folder.

    Raises:
        InputError: the file cannot be read.
        BudgetError: it is not TOML, or a pyproject.toml without the table.
    """
    text = read_short(path)
    try:
        data: Any = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # an integer may have too many digits
        raise BudgetError(f"{path} is not valid TOML: {error}.") from error
    table = _table_of(data)
    if table is None:
        if path.name == "pyproject.toml":
            raise BudgetError(f"{path} has no table [{'.'.join(_TABLE)}].")
        table = data
    if not isinstance(table, dict):
        raise BudgetError(f"{path}: {'.'.join(_TABLE)} is not a table.")
    said: dict[str, Any] = dict(table)
    if isinstance(said.get("base"), str):
        said["base"] = str(path.parent / said["base"])
    return said


def _table_of(data: Any) -> Any:
    for key in _TABLE:
        data = data.get(key) if isinstance(data, dict) else None
    return data

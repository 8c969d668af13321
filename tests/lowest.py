"""The lowest versions that ``pyproject.toml`` allows, as constraints for pip: ``make test-lowest``.

``python -m tests.lowest`` prints a line for each dependency of users; what only the tests need is
as in ``dev/locked/all.txt``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("parquet",)


def lowest(project: Mapping[str, Any], locked: list[str]) -> list[str]:
    """Return constraints.

    Args:
        project: the table of that name in ``pyproject.toml``.
        locked: lines of ``dev/locked/all.txt``, which count for what users need not have.

    Raises:
        ValueError: a dependency has no lowest version.
    """
    needed = [*project["dependencies"]]
    for extra in EXTRAS:
        needed += project["optional-dependencies"][extra]
    found = {}
    for text in needed:
        requirement = Requirement(text)
        bounds = [each.version for each in requirement.specifier if each.operator == ">="]
        if len(bounds) != 1:
            raise ValueError(f"{text} has no lowest version")
        marker = f"; {requirement.marker}" if requirement.marker else ""
        found[canonicalize_name(requirement.name)] = f"{requirement.name}=={bounds[0]}{marker}"
    rest = [line for line in pins(locked) if _name(line) not in found]
    return [*found.values(), *rest]


def pins(lock: list[str]) -> list[str]:
    """Return the requirements of a lock, without comments and hashes."""
    lines = [line.partition(" \\")[0].strip() for line in lock]
    return [line for line in lines if line and not line.startswith(("#", "--hash="))]


def _name(line: str) -> str:
    return canonicalize_name(Requirement(line).name)


if __name__ == "__main__":
    with (ROOT / "pyproject.toml").open("rb") as file:
        table = tomllib.load(file)["project"]
    print(
        "\n".join(
            lowest(table, (ROOT / "dev" / "locked" / "all.txt").read_text("utf-8").splitlines())
        )
    )

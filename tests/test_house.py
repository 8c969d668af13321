"""The house of style.md: which room may import which, and how large a module grows."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = REPOSITORY / "snapreport"
MODULES = sorted(PACKAGE.rglob("*.py"))
OTHERS = sorted(
    path
    for folder in ("tests", "simulator", "benchmarks", "docs", "sample_snapshots", "tools")
    for path in (REPOSITORY / folder).rglob("*.py")
)

GROUND = {
    "allowed",
    "clean_texts",
    "collector",
    "endings",
    "errors",
    "files",
    "foreign",
    "latest",
    "libraries",
    "machine",
    "progress",
    "safe_text",
    "showing",
    "sorting",
    "units",
    "version",
}

# room -> the rooms whose modules it may import, besides its own. Open a new door here.
DOORS = {
    "ground": {"ground"},
    "model": {"ground"},
    "privacy": {"ground", "model"},
    "read": {"ground", "model"},
    "recorders": {"ground", "model", "privacy"},
    "analyse": {"ground", "model", "privacy"},
    "bundle": {"ground", "model"},
    "reporters": {"ground", "model"},
    "exporters": {"ground", "model"},
    "device": {"ground", "model", "analyse"},
    "api": {"ground", "model", "device", "read", "analyse", "bundle", "reporters"},
    # What is made of what api loads.
    "making": {"ground", "model", "api", "analyse", "bundle", "reporters"},
    "comparison": {"ground", "model", "device", "api", "analyse", "reporters"},
    "gate": {"ground", "model", "device", "api", "comparison", "read", "analyse"},
    # Like api, but for other tools' forms: apart from it, as nothing else needs their writers.
    "exporting": {"ground", "model", "device", "api", "read", "bundle", "exporters"},
    # Several files at once: it says what to do, to processes that use api.
    "batch": {"ground", "model", "making", "reporters"},
    # And for the running program: apart from api, as it alone may come to import torch.
    "recording": {"ground", "model", "api", "making", "recorders"},
    "profiling": {"ground", "model", "api", "recorders", "read", "analyse"},
    # What others' programs load: it uses what everyone may, and only when it is called.
    "integrations": {"root", "ground", "model"},
    # It looks into every file that others write or read.
    "disclosure": {"ground", "model", "privacy", "read", "bundle", "reporters"},
    "commands": {
        "root",
        "ground",
        "model",
        "device",
        "api",
        "making",
        "batch",
        "gate",
        "disclosure",
        "privacy",
        "reporters",
    },
    "root": {
        "ground",
        "model",
        "device",
        "api",
        "making",
        "batch",
        "comparison",
        "exporting",
        "gate",
        "recording",
        "profiling",
        "integrations",
    },
    "main": {"commands"},
}

# design.md names what we use instead.
BANNED = {"argparse", "json", "sqlite3"}

# What loads us; to be imported where it is there already.
HOSTS = {"IPython", "lightning", "pytest", "pytorch_lightning", "transformers"}

MOST_LINES = 450


def room_of(dotted: str) -> str:
    """Name the room of a module given by its dotted name."""
    parts = dotted.split(".")
    if len(parts) == 1:
        return "root"
    if parts[1] in GROUND:
        return "ground"
    return {"__init__": "root", "__main__": "main"}.get(parts[1], parts[1])


def dotted_name(path: Path) -> str:
    return ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)


def imported_modules(path: Path) -> Iterator[str]:
    """Yield the dotted name of every import in a file, those inside functions included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; write the whole name"
            assert node.module is not None
            if node.module == "snapreport":  # `from snapreport import api` imports a module too
                for alias in node.names:
                    inside = (PACKAGE / alias.name).is_dir() or (
                        PACKAGE / f"{alias.name}.py"
                    ).is_file()
                    yield f"snapreport.{alias.name}" if inside else "snapreport"
            else:
                yield node.module


@pytest.mark.parametrize("path", MODULES, ids=dotted_name)
def test_rooms_are_entered_through_their_doors(path: Path) -> None:
    room = room_of(dotted_name(path))
    assert room in DOORS, f"{path} is in no room; add it to the map"
    allowed = DOORS[room] | {room}
    for name in imported_modules(path):
        if name.split(".")[0] == "snapreport":
            assert room_of(name) in allowed, f"{room} may not import {name}"


@pytest.mark.parametrize("path", MODULES, ids=dotted_name)
def test_libraries_are_those_of_the_design(path: Path) -> None:
    names = {name.split(".")[0] for name in imported_modules(path)}
    assert names & BANNED == set()
    if "torch" in names:
        assert room_of(dotted_name(path)) == "recorders"
    if names & HOSTS:
        assert room_of(dotted_name(path)) == "integrations"


@pytest.mark.parametrize("path", MODULES + OTHERS, ids=dotted_name)
def test_a_module_has_a_docstring_and_one_subject(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text)), "say the module's subject in a docstring"
    lines = text.count("\n")
    assert lines <= MOST_LINES, f"{lines} lines: there are two subjects in it"


def test_the_simulator_shares_no_code_with_what_it_judges() -> None:
    for path in sorted((REPOSITORY / "simulator").rglob("*.py")):
        assert not [name for name in imported_modules(path) if name.startswith("snapreport")]


def test_every_room_exists() -> None:
    rooms = {room_of(dotted_name(path)) for path in MODULES}
    assert rooms <= set(DOORS)
    assert {"read", "model", "analyse", "bundle", "reporters", "commands", "api"} <= rooms

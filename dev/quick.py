"""Check a change in less than a minute: rules, types, and the tests that it concerns.

``make quick`` looks at what differs from the last commit, or, where nothing does, at that commit.
Concerned are changed tests, those that import a changed module, and those of its room whose name
has a word of the module's. ``make test`` runs everything.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
TESTS = HERE / "tests"
ALWAYS = ("tests/test_house.py",)
SLOW = ("browser", "hostile", "laboratory", "recording", "golden")
"""Folders of tests that start browsers, programs or clusters: only what changed in them itself."""
MOST = 60
"""Files of tests; of more, those that import what changed come first."""


def changed_files() -> list[str]:
    """Return what differs from the last commit, or what that commit changed."""
    here = _git("diff", "--name-only", "HEAD") + _git("ls-files", "--others", "--exclude-standard")
    found = here or _git("diff", "--name-only", "HEAD~1", "HEAD")
    return [name for name in found if (HERE / name).is_file()]


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=HERE, capture_output=True, text=True, check=True)
    return done.stdout.split("\n")[:-1]


def concerned(changed: Iterable[str]) -> list[str]:
    """Return the files of tests that a change concerns, those that import it first."""
    modules = {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in changed
        if name.endswith(".py") and not name.startswith("tests/")
    }
    first = [name for name in changed if Path(name).name.startswith("test_")]
    importing, of_the_room = [], []
    for path in sorted(TESTS.rglob("test_*.py")):
        name = path.relative_to(HERE).as_posix()
        if path.relative_to(TESTS).parts[0] in SLOW or name in first:
            continue
        if imported(path) & modules:
            importing.append(name)
        elif any(_is_about(path, module) for module in modules):
            of_the_room.append(name)
    return [*dict.fromkeys([*ALWAYS, *first, *importing, *of_the_room])][:MOST]


def imported(path: Path) -> set[str]:
    """Return the dotted names of what a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def _is_about(path: Path, module: str) -> bool:
    room, _, name = module.removeprefix("snapreport.").rpartition(".")
    return path.parent == TESTS.joinpath("unit", *room.split(".")) and bool(
        set(name.split("_")) & set(path.stem.split("_"))
    )


def main() -> int:
    """Run the checks side by side, and say how each ended."""
    began = time.monotonic()
    changed = changed_files()
    code = [name for name in changed if name.endswith(".py")]
    tests = concerned(changed)
    print(f"{len(changed)} changed files; {len(tests)} files of tests are concerned.")
    python = [sys.executable, "-m"]
    commands = {
        "rules": [*python, "ruff", "check", *code],
        "format": [*python, "ruff", "format", "--check", *code],
        "tests": [*python, "pytest", "-q", "-n", "auto", "--dist", "worksteal", *tests],
        "types": [*python, "mypy"],
    }
    if not code:
        commands = {"tests": commands["tests"]}
    if any(name.startswith("templates/") for name in changed):
        commands["page"] = ["npm", "--prefix", "templates", "run", "--silent", "check"]
    running = {
        name: subprocess.Popen(
            command, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for name, command in commands.items()
    }
    failed = []
    for name, process in running.items():
        said, _ = process.communicate()
        print(f"{name}: {said.strip().splitlines()[-1] if said.strip() else 'nothing'}")
        if process.returncode not in (0, 5):  # pytest: no test was found
            failed.append(name)
            print(said)
    ended = f"failed: {', '.join(failed)}" if failed else "all passed"
    print(f"{time.monotonic() - began:.0f} s; {ended}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

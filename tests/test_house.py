"""The house: which room imports which, and what only one of them does."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = REPOSITORY / "snapreport"
MODULES = sorted(PACKAGE.rglob("*.py"))
OTHER_FOLDERS = ("dev", "docs", "sample_snapshots", "tests")
OTHERS = sorted(path for folder in OTHER_FOLDERS for path in (REPOSITORY / folder).rglob("*.py"))

# From the lowest floor to the highest. A room imports from those before it, and from no other. A
# folder that has a place of its own here is apart from the rest of its room.
ROOMS = (
    "ground",
    "ground.native",
    "model",
    "read",
    "history",
    "roles",
    "bundle",
    "names",
    "recorders",
    "figures.allocator",
    "recorders.forecast",
    "figures",
    "diagnosis",
    "diagnosis.compare",
    "diagnosis.ranks",
    "reporters",
    "reporters.exports",
    "api",
    "api.runs",
    "root",
    "recorders.hosts",
    "commands.explorer",
    "commands.mcp_server",
    "commands",
    "main",
)

# What a room does without, though it lies below: each for a reason of its own.
CLOSED = {
    "model": {"ground.native"},  # plain data
    # They format alone.
    "reporters": {"read", "bundle", "history", "recorders", "figures", "names"},
    "reporters.exports": {"read", "bundle", "recorders", "figures", "reporters"},
    "bundle": {"read"},  # a report is made from what a bundle holds
    "commands.explorer": {"read", "history", "recorders", "diagnosis"},
    "recorders.hosts": {"api", "reporters", "figures"},  # they use what everyone may
}

# design.md names what we use instead.
BANNED = {"argparse", "json", "sqlite3"}

# What loads us; to be imported where it is there already.
HOSTS = {"IPython", "lightning", "pytest", "pytorch_lightning", "transformers"}


def room_of(dotted: str) -> str:
    """Name the room of a module given by its dotted name."""
    parts = dotted.split(".")
    if len(parts) == 1:
        return "root"
    apart = ".".join(parts[1:3])
    if apart in ROOMS:
        return apart
    return "main" if parts[1] == "__main__" else parts[1]


def dotted_name(path: Path) -> str:
    return ".".join(path.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__")


NAMES = {dotted_name(path): path for path in MODULES}


class Facts(NamedTuple):
    """What the laws ask of a file."""

    imports: frozenset[str]
    """The dotted name of every import, those inside functions and for types included."""
    has_docstring: bool


@cache  # a thousand files are parsed once, and no tree is kept
def facts_of(path: Path) -> Facts:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    return Facts(frozenset(_imports(path, tree)), bool(ast.get_docstring(tree)))


def _imports(path: Path, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; write the whole name"
            assert node.module is not None
            for alias in node.names:  # `from snapreport import api` imports a module too
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in NAMES else node.module


def imported_rooms(path: Path) -> set[str]:
    return {room_of(name) for name in facts_of(path).imports if name.split(".")[0] == "snapreport"}


# One test for all files: two thousand tests of a moment each would cost more than they take.
def test_a_room_imports_from_lower_rooms_alone() -> None:
    wrong = {}
    for path in MODULES:
        room = room_of(dotted_name(path))
        assert room in ROOMS, f"{path} is in no room; add it to the map"
        lower = set(ROOMS[: ROOMS.index(room) + 1]) - CLOSED.get(room, set())
        if room == "root":
            lower.add("recorders.hosts")  # IPython asks the package itself for its extension
        wrong[str(path)] = imported_rooms(path) - lower
    assert {path: rooms for path, rooms in wrong.items() if rooms} == {}


def test_the_map_of_the_rooms_is_true() -> None:
    """docs/architecture.md has a line for each room, from the lowest to the highest."""
    text = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `([\w/]+)/` \|.*\| ([\w/, ]*) \|$", text, re.MULTILINE))
    told = {room.replace("/", "."): used.replace("/", ".") for room, used in told.items()}
    rooms = [room for room in ROOMS if room not in ("root", "main")]
    assert list(told) == rooms
    for room in rooms:
        used: set[str] = set()
        for path in MODULES:
            if room_of(dotted_name(path)) == room:
                used |= imported_rooms(path)
        assert told[room] == ", ".join(each for each in rooms if each in used - {room})


def own_imports() -> dict[str, set[str]]:
    """What each module imports of ours."""
    imports = {name: set(facts_of(path).imports & NAMES.keys()) for name, path in NAMES.items()}
    # The package exports names of rooms that import it, and itself imports each on first use.
    imports["snapreport"] = set()
    return imports


def path_to(name: str) -> Iterator[str]:
    """Return the folders that a module is in, from the outermost, and the module."""
    return accumulate(name.split("."), "{}.{}".format)


def circle_in(imports: Mapping[str, set[str]]) -> list[str]:
    """Return a circle in which each imports the next; [] if there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def test_no_circle_among_modules() -> None:
    assert circle_in(own_imports()) == []


def test_no_circle_among_what_lies_side_by_side() -> None:
    """Each folder taken as a whole: those of a room, too, import one another one way."""
    imports = defaultdict(set)
    for name, others in own_imports().items():
        for other in others:
            # Where they part; not at all where one is the folder of the other.
            for here, there in zip(path_to(name), path_to(other), strict=False):
                if here != there:
                    imports[here].add(there)
                    break
    assert circle_in(imports) == []


def test_libraries_are_those_of_the_design() -> None:
    for path in MODULES:
        names = {name.split(".")[0] for name in facts_of(path).imports}
        assert names & BANNED == set(), path
        if "torch" in names:
            assert room_of(dotted_name(path)) in ("recorders", "recorders.forecast"), path
        if "textual" in names:  # what screens show is plain, and tested without it
            assert path == PACKAGE / "commands" / "explorer" / "app.py", path
        if names & HOSTS:
            assert room_of(dotted_name(path)) == "recorders.hosts", path


def test_a_module_has_a_docstring() -> None:
    assert not [str(path) for path in MODULES + OTHERS if not facts_of(path).has_docstring]


def test_the_simulator_shares_no_code_with_what_it_judges() -> None:
    for path in sorted((REPOSITORY / "dev" / "simulator").rglob("*.py")):
        assert not [name for name in facts_of(path).imports if name.startswith("snapreport")]


def test_every_room_exists() -> None:
    assert {room_of(dotted_name(path)) for path in MODULES} == set(ROOMS)


def test_nothing_compiled_is_committed() -> None:
    if not (REPOSITORY / ".git").exists():
        pytest.skip("not a checkout of Git")
    listed = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, check=True)
    built = {".so", ".pyd", ".dll", ".dylib", ".o", ".a", ".pyc"}
    assert not [name for name in listed.stdout.decode().split("\n") if Path(name).suffix in built]


def test_one_module_opens_zips() -> None:
    # Its limits hold for every stranger's zip; one opened elsewhere may hang, or fill the memory.
    opening = {path for path in MODULES if "zipfile.ZipFile(" in path.read_text("utf-8")}
    assert opening == {PACKAGE / "bundle" / "members.py"}

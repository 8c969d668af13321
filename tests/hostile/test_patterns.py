"""Every pattern of the package takes time in proportion to the text, whatever stands in it."""

from __future__ import annotations

import ast
import heapq
import importlib
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import snapreport
from snapreport.api.runs.inputs import reader_by
from snapreport.ground.later import Expression
from snapreport.ground.patterns import compile_pattern
from snapreport.names import personal_data, short_paths
from snapreport.read import unpickle
from snapreport.roles.stack_kinds import DEFAULT_RULES
from tests.clock import took

try:  # its name since Python 3.11
    from re import _parser as sre_parse  # type: ignore[attr-defined]
except ImportError:
    import sre_parse

PACKAGE = Path(snapreport.__file__).parent
LONGEST = 262_144
SHORT = 2048
WORST = None if os.environ.get("SNAPREPORT_EVERY_TEXT") else 1
"""Of a pattern's texts: those which take longest when they are short are tried in full."""

SECONDS = 0.2
"""Of the processor, at best, where none takes 0.05: the square of a text takes hundreds of times
as long."""

METHODS = ("match", "fullmatch", "search", "findall", "finditer", "sub", "subn", "split")


# Patterns that are put together when they are used, and what puts one together of each.
MADE: dict[str, Callable[[], Iterable[re.Pattern[Any]]]] = {
    "ground/later.py": lambda: (),  # what others give
    "ground/patterns.py": lambda: (),  # of users: see the tests below
    "read/source.py": lambda: (),
    "api/runs/inputs.py": lambda: (),  # reader_by()'s
    "roles/stack_kinds.py": lambda: (),
    "roles/passes.py": lambda: (),  # a table of the module
    "names/personal_data.py": lambda: patterns_in(
        (
            personal_data.folders_of(["jdoe", "anna"]),
            personal_data._pattern(frozenset({"jdoe", "anna"})),
        )
    ),
    "names/short_paths.py": lambda: patterns_of(
        short_paths._shorten_texts(("", "home", "x", "work"), [])
    ),
    "read/unpickle.py": lambda: patterns_in(vars(unpickle)),
}


@pytest.fixture(scope="module", autouse=True)
def _forget_sources() -> Iterator[None]:
    yield
    sources.cache_clear()
    called.cache_clear()


def modules() -> Iterator[ModuleType]:
    """Yield the modules that have patterns; others may import PyTorch and more."""
    for place, tree in sources():
        if any(name == "re" and method == "compile" for name, method, _ in called(tree)):
            name = place.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
            yield importlib.import_module(f"snapreport.{name}")


def patterns_in(value: object) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, Expression):
        yield re.compile(*value._given)
    elif isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, (tuple, list, set, frozenset)):
        for each in value:
            yield from patterns_in(each)
    elif isinstance(value, dict):
        yield from patterns_in(tuple(value.values()))


def patterns_of(function: Any) -> Iterator[re.Pattern[Any]]:
    """Yield the patterns that a function was made with."""
    for cell in function.__closure__:
        yield from patterns_in(cell.cell_contents)


@cache
def sources() -> list[tuple[str, ast.Module]]:
    """Return the modules that call anything as a pattern is called."""
    texts = [(path, path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))]
    return [
        (path.relative_to(PACKAGE).as_posix(), ast.parse(text))
        for path, text in texts
        if any(f"{method}(" in text for method in ("expression", ".compile", *METHODS))
    ]


@cache
def called(tree: ast.AST) -> list[tuple[str, str, ast.Call]]:
    """Return what is called of a name, as in ``name.what()``, and the call."""
    return list(_called(tree))


def _called(tree: ast.AST) -> Iterator[tuple[str, str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of = node.func.value
            if isinstance(of, (ast.Name, ast.Attribute)):
                yield of.id if isinstance(of, ast.Name) else of.attr, node.func.attr, node
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "expression":
            yield "re", "compile", node  # which is done later


def every_pattern() -> dict[re.Pattern[Any], set[str]]:
    """Return the package's patterns, each with the methods that are called of it."""
    found: dict[re.Pattern[Any], set[str]] = {}
    methods: dict[str, set[str]] = {}
    for _, tree in sources():
        for name, method, call in called(tree):
            if method in METHODS:
                methods.setdefault(name, set()).add(method)
                if name == "re" and isinstance(call.args[0], ast.Constant):
                    found.setdefault(re.compile(call.args[0].value), set()).add(method)
    for module in modules():
        for name, value in vars(module).items():
            for pattern in patterns_in(value):
                found.setdefault(pattern, set()).update(methods.get(name) or METHODS[:3])
    for make in MADE.values():
        for pattern in make():
            found.setdefault(pattern, set()).update(("search", "sub"))
    return found


def example(tree: Any) -> str:
    return "".join(_example(op, value) for op, value in tree)


def _example(op: Any, value: Any) -> str:
    name = str(op)
    if name == "LITERAL":
        return chr(value)
    if name == "IN":
        return _member(value)
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        return str(example(value[2]) * max(value[0], 1))
    if name == "SUBPATTERN":
        return example(value[3])
    if name == "ATOMIC_GROUP":
        return example(value)
    if name == "BRANCH":
        return example(value[1][0])
    return {"ANY": "x", "NOT_LITERAL": "x"}.get(name, "")


def _member(value: Any) -> str:
    if str(value[0][0]) == "NEGATE":
        return "x"
    op, what = value[0]
    if str(op) == "LITERAL":
        return chr(what)
    if str(op) == "RANGE":
        return chr(what[0])
    return {"CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " ", "CATEGORY_WORD": "w"}.get(str(what), "x")


def parts(tree: Any) -> Iterator[str]:
    """Yield an example of every part of a pattern, and of all up to it."""
    items = list(tree)
    for number, (op, value) in enumerate(items):
        yield _example(op, value)
        yield "".join(_example(*each) for each in items[: number + 1])
        name = str(op)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            yield from parts(value[2])
        elif name == "SUBPATTERN":
            yield from parts(value[3])
        elif name == "BRANCH":
            for branch in value[1]:
                if any("REPEAT" in str(item[0]) for item in branch) or len(value[1]) < 4:
                    yield from parts(branch)
        elif name in ("ASSERT", "ASSERT_NOT"):
            yield from parts(value[1])


LETTERS = [*"_a./:1 \\(<-", "a/", "a.", "::", "a "]


def worst_texts(pattern: re.Pattern[Any], methods: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield methods and long texts of a few letters, and of what the pattern itself looks for.

    Two lines end each where the pattern has an end, so that all of it was in vain.
    """
    own = filter(None, parts(sre_parse.parse(pattern.pattern, pattern.flags)))
    end = "\n\n" if "$" in str(pattern.pattern) else ""
    lengths = dict.fromkeys(own, LONGEST // 4) | dict.fromkeys(LETTERS, LONGEST)

    def short(unit: str) -> float:
        return spent(partial(run, pattern, method, unit * (SHORT // len(unit)) + end))

    for method in methods:
        for unit in lengths if WORST is None else heapq.nlargest(WORST, lengths, short):
            yield method, unit * (lengths[unit] // len(unit)) + end


def run(pattern: re.Pattern[Any], method: str, text: str) -> None:
    whole: Any = text.encode("latin-1", "replace") if isinstance(pattern.pattern, bytes) else text
    if method in ("sub", "subn"):
        getattr(pattern, method)(whole[:0], whole)
    elif method == "finditer":
        for _ in pattern.finditer(whole):
            pass
    else:
        getattr(pattern, method)(whole)


def spent(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def test_no_pattern_of_ours_takes_the_square_of_a_long_text() -> None:
    slow = []
    found = every_pattern()
    for pattern, methods in found.items():
        for method, text in worst_texts(pattern, methods):
            seconds = took(partial(run, pattern, method, text), most=SECONDS)
            if seconds > SECONDS:
                slow.append((pattern.pattern[:60], method, text[:20], round(seconds, 2)))
    assert slow == []
    assert len(found) > 60


def test_every_pattern_is_collected() -> None:
    hidden = []
    for place, tree in sources():
        top = {id(node) for each in tree.body if not is_code(each) for node in ast.walk(each)}
        for name, method, call in called(tree):
            if name == "re" and method in ("compile", *METHODS) and place not in MADE:
                literal = method != "compile" and isinstance(call.args[0], ast.Constant)
                if id(call) not in top and not literal:
                    hidden.append(f"{place}:{call.lineno}")
    assert hidden == []


def is_code(node: ast.stmt) -> bool:
    return isinstance(node, (ast.FunctionDef, ast.ClassDef))


@pytest.mark.parametrize("unit", ["Backward", "_", "x/", "a.", "torch/"])
def test_patterns_of_users_and_rules_meet_the_ends_of_long_names(unit: str) -> None:
    text = unit * (LONGEST // len(unit))
    for rule in DEFAULT_RULES:
        assert took(partial(rule.fits, text, text), most=SECONDS) <= SECONDS
    for pattern in ("/a.*b.*c/", "/[a-z_]+!/", "*a*b*c", "*/torch/*/x?.py"):
        assert took(partial(compile_pattern(pattern), text), most=SECONDS) <= SECONDS
    assert compile_pattern("/^begin.*end$/")(f"begin{text}end")
    assert compile_pattern("*.py")(f"{text}/train.py")


@pytest.mark.parametrize("unit", ["a", "1", "rank1/", "a/", "x_1_", "/"])
def test_patterns_of_users_for_names_of_ranks_meet_long_paths(unit: str) -> None:
    path = unit * (LONGEST // len(unit))
    for pattern in ("{host}/it_{step}/rank{rank}.pickle", "*a*{rank}", "{host}_{tp}_{rank}*!"):
        assert took(partial(reader_by(pattern), path), most=SECONDS) <= SECONDS

"""Reads rules for categories from JSON or YAML, in a file or as text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson

from snapreport.ground.errors import PatternError
from snapreport.model.category_rules import Rule
from snapreport.read.source import read_short

_KEYS = {"category", "name", "function", "file", "pattern"}


def read_rules(source: str) -> tuple[Rule, ...]:
    """Read rules in order: the first that matches a frame of a call stack wins.

    A mapping ``{"category": "expression"}`` looks for the expression in function and file names;
    a list has entries with ``category`` and ``function``, ``file`` or ``pattern`` (either).

    Args:
        source: a file's name, or JSON or YAML itself when it begins with ``{`` or ``[``.

    Raises:
        InputError: the file cannot be read.
        PatternError: a rule is not well-formed; the message names it.
    """
    inline = source.lstrip().startswith(("{", "["))
    where = "the rules" if inline else source
    text = source if inline else read_short(Path(source))
    data = _parse(text, where)
    if isinstance(data, dict):
        entries = [{"category": name, "pattern": pattern} for name, pattern in data.items()]
    elif isinstance(data, list):
        entries = data
    else:
        raise PatternError(f"{where}: rules must be a mapping or a list, not {_kind(data)}.")
    if not entries:
        raise PatternError(f"{where}: it has no rules.")
    return tuple(_rule(entry, k + 1, where) for k, entry in enumerate(entries))


def _parse(text: str, where: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    import yaml

    try:
        # Aliases are rarely useful, and nested ones expand without limit.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text)):
            raise PatternError(f"{where}: rules cannot use aliases (*name).")
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        line = getattr(getattr(error, "problem_mark", None), "line", None)
        place = "" if line is None else f" in line {line + 1}"
        problem = getattr(error, "problem", None) or "it cannot be parsed"
        raise PatternError(f"{where} is neither JSON nor YAML: {problem}{place}.") from error


def _rule(entry: Any, number: int, where: str) -> Rule:
    if not isinstance(entry, dict):
        raise PatternError(f"{where}: rule {number} is {_kind(entry)}, not a mapping.")
    unknown = sorted(str(key) for key in entry.keys() - _KEYS)
    if unknown:
        raise PatternError(f"{where}: rule {number} has an unknown key {unknown[0]!r}.")
    category = entry.get("category", entry.get("name"))
    if not isinstance(category, str) or not category:
        raise PatternError(f"{where}: rule {number} has no category.")
    expressions = {}
    for key in ("function", "file", "pattern"):
        pattern = entry.get(key)
        if pattern is None:
            continue
        if not isinstance(pattern, str):
            raise PatternError(f"{where}: rule {number} ({category}): {key} is not text.")
        try:
            expressions[key] = re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise PatternError(
                f"{where}: rule {number} ({category}): {pattern!r} is not a regular expression:"
                f" {error}."
            ) from error
    if not expressions:
        raise PatternError(
            f"{where}: rule {number} ({category}) needs a function, a file or a pattern."
        )
    return Rule(
        category, expressions.get("function"), expressions.get("file"), expressions.get("pattern")
    )


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"

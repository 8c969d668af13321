"""What the JSON of every command has in common: its format, call stacks, groups.

``docs/schemas`` has a JSON Schema for each format; ``python -m docs.make_schemas`` writes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np

from snapreport.model.answer_tables import Group
from snapreport.model.iterations import Steps
from snapreport.model.snapshot import NO_ID
from snapreport.model.stacks import StackTable

VERSIONS = {
    "summary": 1,
    "files": 1,
    "run": 1,
    "run-diff": 1,
    "live": 1,
    "stages": 1,
    "profile": 1,
    "whatif": 1,
    "plan": 1,
    "diff": 1,
    "check": 1,
    "query": 1,
    "strings": 1,
}
"""The version of each format; it rises when a field is removed or changes its meaning."""


def with_format(name: str, answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer with its format, one of ``VERSIONS``, as the first field."""
    return {"format": {"name": f"snapreport.{name}", "version": VERSIONS[name]}, **answer}


def fields_of(record: object, names: str) -> dict[str, Any]:
    """Return attributes of a record, in the order of ``names``, which spaces separate."""
    return {name: getattr(record, name) for name in names.split()}


def frames_of(stacks: StackTable, stack: int) -> list[dict[str, Any]]:
    """Return a call stack's frames, innermost first; an unknown line is None."""
    frames = stacks.frames
    return [
        {
            "name": frames.names[f],
            "file": frames.filenames[f],
            "line": frames.line(f),
            "source": frames.code(f),
        }
        for f in stacks.path(stack)
    ]


def stack_table(stacks: StackTable, used: Iterable[int]) -> list[dict[str, Any]]:
    """Return each used stack once, ordered by id."""
    return [
        {"id": stack, "frames": frames_of(stacks, stack)} for stack in sorted(set(used) - {NO_ID})
    ]


def group_as_json(group: Group, stacks: StackTable, by: str) -> dict[str, Any]:
    """Return a group; if groups are by stack, with all frames of its stack."""
    plain = asdict(group)
    stack = plain.pop("stack")
    if by == "stack":
        plain |= {"stack": id_or_none(stack), "frames": frames_of(stacks, stack)}
    return plain


def steps_as_json(steps: Steps) -> dict[str, Any]:
    """Return the steps of a device."""
    # vars() rather than asdict(): there may be many, and they hold no records.
    rows = [{**vars(step), "change": step.change} for step in steps.steps]
    return {**vars(steps), "steps": rows}


def id_or_none(number: int | np.integer[Any]) -> int | None:
    """Return a row number, or None where there is none."""
    return None if number == NO_ID else int(number)

"""The tools: their names, descriptions, arguments and results.

Every client has this list in its context all the time, so it is short; the guide has the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mcp_types as types

from snapreport.compare.diff_types import DIFF_GROUPINGS, MOMENTS
from snapreport.mcp.answering.pages_of_replies import LEAST, MOST, USUAL
from snapreport.model.answer_tables import GROUPINGS
from snapreport.model.moment_wanted import COUNTED, CURVES
from snapreport.model.what_if import WHAT_IF_GROUPINGS

Schema = dict[str, Any]

PARTS = ("peaks", "sites", "roles", "stages", "steps", "trust", "settings", "recording")
"""What ``summary`` can be asked for."""
VIEWS = (*GROUPINGS, "tree", "allocation")
"""How ``at`` can show what is live."""

_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "integer"}
TEXTS: Schema = {"type": "array", "items": _TEXT}
"""A list of names or patterns; a single text is accepted, too."""
_SIZE: Schema = {"type": ["string", "integer"]}
_OBJECT: Schema = {"type": "object"}
_OBJECTS: Schema = {"type": "array", "items": _OBJECT}

_PAGING: Mapping[str, Schema] = {
    "cursor": {**_TEXT, "description": "From the last answer; repeat its arguments"},
    "max_tokens": {**_NUMBER, "minimum": LEAST, "maximum": MOST, "default": USUAL},
}
_FILE: Schema = _TEXT
_DEVICE: Schema = {**_TEXT, "description": "cuda:1; default: the one in trouble"}

_PAGE: Mapping[str, Schema] = {
    "tables": {
        "type": "array",
        "items": {"type": "object", "required": ["title", "columns", "rows", "count"]},
    },
    "left": _NUMBER,
    "cursor": _TEXT,
}


_READ_ONLY = types.ToolAnnotations(
    read_only_hint=True, idempotent_hint=True, open_world_hint=False, destructive_hint=False
)


def _tool(
    name: str,
    title: str,
    description: str,
    takes: Mapping[str, Schema],
    gives: Mapping[str, Schema],
    needs: Sequence[str] = ("file",),
) -> types.Tool:
    return types.Tool(
        name=name,
        title=title,
        description=description,
        input_schema={
            "type": "object",
            "properties": {**takes, **_PAGING},
            "required": list(needs),
            "additionalProperties": False,
        },
        output_schema={"type": "object", "properties": {**gives, **_PAGE}},
        annotations=_READ_ONLY,
    )


def _one_of(values: Sequence[str], **more: Any) -> Schema:
    return {"type": "string", "enum": list(values), **more}


_ANSWER: Mapping[str, Schema] = {"file": _TEXT, "device": _TEXT, "answer": _TEXT}

TOOLS: tuple[types.Tool, ...] = (
    _tool(
        "open",
        "Open a recording",
        "Start here. Without file: lists recordings and runs. With file: why it ran out of memory"
        " or what held the peak, the first finding with changes that help, all findings in brief,"
        " and the largest call sites.",
        {"file": _FILE, "device": _DEVICE},
        {**_ANSWER, "findings": _OBJECTS},
        needs=(),
    ),
    _tool(
        "summary",
        "Figures of a device",
        "All figures as tables, or one part of them.",
        {"file": _FILE, "device": _DEVICE, "part": _one_of(PARTS)},
        _ANSWER,
    ),
    _tool(
        "findings",
        "What went wrong",
        "All findings, worst first; with an id (or code or topic) one in full: evidence, tables,"
        " and suggestions with bounds of what each frees.",
        {"file": _FILE, "device": _DEVICE, "id": _TEXT},
        {**_ANSWER, "findings": _OBJECTS, "suggestions": _OBJECTS, "figures": _OBJECTS},
    ),
    _tool(
        "at",
        "What holds memory at a moment",
        "What is live at a moment (default: the curve's peak). Name one moment: event (-1: start),"
        " time_us, stage (its peak), between two events (their peak), alloc or free of an address."
        " stack: the frames of a stack id. include, exclude: patterns of files, by line.",
        {
            "file": _FILE,
            "device": _DEVICE,
            "event": {**_NUMBER, "minimum": -1},
            "time_us": _NUMBER,
            "stage": _TEXT,
            "between": {"type": "array", "items": _NUMBER, "minItems": 2, "maxItems": 2},
            "alloc": _TEXT,
            "free": _TEXT,
            "curve": _one_of(CURVES),
            "by": _one_of(VIEWS, default="line"),
            "include": TEXTS,
            "exclude": TEXTS,
            "stack": {**_NUMBER, "minimum": 0},
        },
        {**_ANSWER, "event": _NUMBER, "held": _OBJECT, "amounts": _OBJECT},
    ),
    _tool(
        "diff",
        "Compare two recordings",
        "What new holds more or less of than base; the changes add up to the byte.",
        {
            "base": _FILE,
            "new": _FILE,
            "device": _TEXT,
            "new_device": _TEXT,
            "curve": _one_of(CURVES),
            "at": _one_of(MOMENTS),
            "stage": _TEXT,
            "base_event": _NUMBER,
            "new_event": _NUMBER,
            "by": _one_of(DIFF_GROUPINGS),
        },
        {"answer": _TEXT, "change": _OBJECT, "base": _OBJECT, "new": _OBJECT},
        needs=("base", "new"),
    ),
    _tool(
        "whatif",
        "What would have helped",
        "One question: without (patterns of names; none: a table of all) the peak without these"
        " allocations; settings of PYTORCH_ALLOC_CONF and capacity, replayed through"
        " a model ([]: common settings); card (h100-80, 24GB): does it fit; fit or free (sizes):"
        " the cheapest changes that reach it.",
        {
            "file": _FILE,
            "device": _DEVICE,
            "without": TEXTS,
            "by": _one_of(WHAT_IF_GROUPINGS, default="site"),
            "curve": _one_of(COUNTED),
            "settings": TEXTS,
            "capacity": _SIZE,
            "card": _TEXT,
            "allow": {**_SIZE, "description": "card: bytes not for PyTorch"},
            "fit": _SIZE,
            "free": _SIZE,
        },
        {**_ANSWER, "steps": _OBJECTS},
    ),
    _tool(
        "run",
        "All ranks of a run",
        "file is a folder of ranks, or a run.zip: which ranks differ from the others and why,"
        " groups of similar ranks, missing and broken ones, the first failure. With rank: its"
        " peak, holders, steps and failed requests.",
        {
            "file": _FILE,
            "rank": _SIZE,
            "layout": {**_TEXT, "description": "tp=8,pp=4, in the order of ranks"},
        },
        {"file": _TEXT, "answer": _TEXT, "odd": _OBJECTS, "groups": _OBJECTS, "peak": _OBJECT},
    ),
    _tool(
        "query",
        "Ask in SQL",
        "One SELECT over the recording's SQLite tables; resource snapreport://schema has them."
        " Read-only, 60 s.",
        {"file": _FILE, "sql": _TEXT},
        {"file": _TEXT, "answer": _TEXT},
        needs=("file", "sql"),
    ),
)

BY_NAME: Mapping[str, types.Tool] = {tool.name: tool for tool in TOOLS}

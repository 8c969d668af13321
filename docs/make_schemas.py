"""Writes a JSON Schema for each JSON that the commands print, from the types behind it.

A schema allows only the fields that it names, so a forgotten field fails.
``tests/commands/test_json.py`` checks that the files are up to date, and every command's output.
"""

from __future__ import annotations

from pathlib import Path

import orjson

from docs.schema_parts import Schema, many, maybe, numbers, of, record, thing
from snapreport.diagnosis.compare import diff_types
from snapreport.model import (
    answers,
    asked,
    diagnoses,
    findings,
    replays,
    roles,
    run,
    snapshot,
)
from snapreport.model import (
    diagnoses as recording_facts,
)
from snapreport.model import (
    diagnoses as trust,
)
from snapreport.model import (
    roles as iterations,
)
from snapreport.model import (
    snapshot as recorder_notes,
)
from snapreport.names.file_strings import Leak
from snapreport.names.strings import Given
from snapreport.reporters.json_report import VERSIONS

FOLDER = Path(__file__).parent / "schemas"

NUMBER, MAYBE_NUMBER, TEXT = of(int), of(int | None), of(str)
LINE = {"type": ["integer", "null"]}
_PLACE = {"name": TEXT, "file": TEXT, "line": LINE}
_CODE = {**_PLACE, "source": TEXT}
FRAME = thing(**_CODE)
FRAMES = many(FRAME)
GROUP = record(answers.Group, "stack")
STACK = record(answers.Group, stack=MAYBE_NUMBER, frames=FRAMES)
ENTRY = record(answers.TraceEntry, allocation=MAYBE_NUMBER, stack=MAYBE_NUMBER, frames=FRAMES)
AMOUNTS, PARTS = of(findings.Amounts), of(answers.Parts)
PEAKS = of(dict[str, recording_facts.CurvePeak])
SUGGESTION = record(diagnoses.Suggestion, code={"enum": list(diagnoses.SUGGESTION_CODES)})
FINDING = thing(
    id=TEXT,
    code={"enum": list(diagnoses.CODES)},
    topic={"enum": list(diagnoses.TOPICS)},
    severity={"enum": list(diagnoses.SEVERITIES)},
    title=TEXT,
    explanation=TEXT,
    bytes=NUMBER,
    evidence=many(of(diagnoses.Figure)),
    tables=many(of(diagnoses.Table)),
    suggestions=many(SUGGESTION),
    view=maybe(record(diagnoses.View, "oom")),
)
DIAGNOSIS = thing(findings=many(FINDING), silenced=many(TEXT))
WARNINGS = many(thing(code=TEXT, text=TEXT))
SITE = thing(**_CODE, **numbers("bytes", "requested", "count"))
CLOSING = record(recording_facts.Closing, closes=of(bool))
STEPS = maybe(record(iterations.Steps, steps=many(record(iterations.StepUse, change=NUMBER))))
_DIFFERENCE = thing(kind=TEXT, key=TEXT, bytes=NUMBER, usual=NUMBER)
_PEAK = {
    "events": NUMBER,
    "capacity": MAYBE_NUMBER,
    "allocated": NUMBER,
    "allocated_width": NUMBER,
    "peak_event": NUMBER,
    "peak_time_us": MAYBE_NUMBER,
    "reserved": MAYBE_NUMBER,
}
"""Of the device of a rank or of a file."""
_FAILED = many(of(run.FailedRequest))
_RANK_ROW = thing(
    name=TEXT,
    file=TEXT,
    rank=MAYBE_NUMBER,
    dump=MAYBE_NUMBER,
    host=TEXT,
    coordinates=of(dict[str, int]),
    device=TEXT,
    group=NUMBER,
    **_PEAK,
    failed=_FAILED,
    growth=MAYBE_NUMBER,
)
_FILE_ROW = thing(
    device=TEXT,
    recorded=of(bool),
    **_PEAK,
    largest=maybe(thing(site=TEXT, bytes=NUMBER)),
    failed=_FAILED,
    findings=many(thing(code=TEXT, severity={"enum": list(diagnoses.SEVERITIES)}, title=TEXT)),
)
CUT = thing(
    first_event=MAYBE_NUMBER,
    last_event=MAYBE_NUMBER,
    **numbers("not_drawn", "not_drawn_bytes", "not_drawn_requested_bytes"),
    not_drawn_share=of(float),
    **numbers("not_drawn_at_peak_bytes", "error_bytes", "error_time_us", "min_size"),
    fit=MAYBE_NUMBER,
)

_PARTS_OF_RESERVED = maybe(record(trust.ReservedParts, difference=NUMBER))
TRUST = record(
    trust.TrustFacts,
    closing=maybe(CLOSING),
    at_peak=_PARTS_OF_RESERVED,
    at_end=_PARTS_OF_RESERVED,
    replay=maybe(record(replays.FactualReplay, exact=of(bool))),
    verdict=of(trust.Verdict),
    sentence=TEXT,
    checks=many(of(trust.Check)),
    fixes=many(thing(text=TEXT, change=TEXT)),
)

DEVICE = thing(
    device=TEXT,
    kind=TEXT,
    ordinal=NUMBER,
    capacity=MAYBE_NUMBER,
    events=NUMBER,
    allocations=NUMBER,
    recorded=of(bool),
    first_time_us=MAYBE_NUMBER,
    last_time_us=MAYBE_NUMBER,
    reserved_from=MAYBE_NUMBER,
    start=AMOUNTS,
    peak=AMOUNTS,
    end=AMOUNTS,
    most_fragmented=maybe(thing(bytes=NUMBER, event=NUMBER)),
    peaks=PEAKS,
    statistics=of(dict[str, answers.CurveStatistics]),
    sizes=of(answers.AllocationStatistics),
    own_counters=of(recording_facts.OwnCounters | None),
    card=of(answers.CardFit | None),
    expected=maybe(
        thing(
            **numbers("least", "expected", "most"),
            parts=many(record(snapshot.ForecastPart, "device")),
            text=TEXT,
        )
    ),
    answer=TEXT,
    warnings=WARNINGS,
    diagnosis=DIAGNOSIS,
    sites=many(SITE),
    roles=many(record(roles.RoleUse, role={"enum": list(roles.ROLES)})),
    stages=many(of(findings.StageUse)),
    steps=STEPS,
    ooms=many(record(recording_facts.OomEvent, "stack")),
    closing=maybe(CLOSING),
    trust=TRUST,
    inferred_blocks=NUMBER,
    anomalies=of(dict[str, int]),
)
DEVICE["properties"]["cut"] = CUT  # where it was asked for

_CHANGE = {
    "name": TEXT,
    "match": {"enum": list(diff_types.MATCHES)},
    "base_bytes": NUMBER,
    "change": NUMBER,
}
CHANGE = thing(
    **_CHANGE,
    kind={"enum": ["site", "no stack", "group", "unused"]},
    base_file=of(str | None),
    base_line=LINE,
    new_file=of(str | None),
    new_line=LINE,
    new_bytes=NUMBER,
    base_count=NUMBER,
    new_count=NUMBER,
)
SIDE = thing(
    file=TEXT,
    sha256=TEXT,
    device=TEXT,
    forecast=of(str | None),
    recorded=of(bool),
    events=NUMBER,
    event=NUMBER,
    time_us=MAYBE_NUMBER,
    bytes=NUMBER,
    count=NUMBER,
    amounts=AMOUNTS,
    peaks=PEAKS,
)
RAISED = thing(
    **{
        name: FINDING["properties"][name]
        for name in ("id", "code", "topic", "severity", "title", "explanation", "suggestions")
    },
    device=TEXT,
    fails=of(bool),
)
CHECK = thing(
    name=TEXT,
    subject=TEXT,
    device=TEXT,
    outcome={"enum": ["passed", "failed", "unknown"]},
    value=MAYBE_NUMBER,
    limit=MAYBE_NUMBER,
    base=MAYBE_NUMBER,
    over=MAYBE_NUMBER,
    event=MAYBE_NUMBER,
    text=TEXT,
    sites=many(thing(**_PLACE, **numbers("bytes", "count"))),
)
COMPARISON = thing(
    base=TEXT,
    base_sha256=TEXT,
    base_device=TEXT,
    device=TEXT,
    base_bytes=NUMBER,
    bytes=NUMBER,
    change=NUMBER,
    conclusion=TEXT,
    sites=many(thing(**_CHANGE, bytes=NUMBER, file=of(str | None), line=LINE)),
)

ALLOCATION = thing(
    **numbers("allocation", "address", "version", "bytes", "requested", "block", "alloc_event",
              "free_requested_event", "free_event", "stream"),
    call_site=TEXT,
    forward_line=of(str | None),
    compile_context=of(str | None),
    metadata=of(str | None),
    stack=MAYBE_NUMBER,
)  # fmt: skip
NODE = thing(**_CODE, parent=MAYBE_NUMBER, **numbers("bytes", "own_bytes", "count"))

_FILE = {"file": TEXT}
FORECAST = maybe(thing(text=TEXT, card=TEXT, caveats=many(TEXT)))
_SAID = {"forecast": of(str | None)}
ACCURACY = thing(
    side={"enum": ["BASE", "NEW"]},
    **numbers("recorded", "expected", "least", "most", "error"),
    in_range=of(bool),
    text=TEXT,
)
_ONE = {**_FILE, "device": TEXT, "forecast": FORECAST}
SPAN = {**many(NUMBER), "minItems": 2, "maxItems": 2}
_EVENTS = maybe(SPAN)
_MOMENT = {**_ONE, "event": NUMBER, "time_us": MAYBE_NUMBER, "curve": TEXT, "bytes": NUMBER}
_LIVE = {**_MOMENT, "entry": maybe(ENTRY), "amounts": AMOUNTS, "parts": PARTS,
         "ever_allocated": NUMBER}  # fmt: skip
_QUESTION = {"curve": TEXT, "made": _EVENTS, "freed": _EVENTS, "alive": _EVENTS,
             **numbers("bytes", "count")}  # fmt: skip
_LIVED = {**_ONE, **_QUESTION, "parts": PARTS}
_CHANGED = {**_ONE, "changed": SPAN, "curve": TEXT, **numbers("before", "after", "change"),
            "came": thing(**_QUESTION), "went": thing(**_QUESTION)}  # fmt: skip
_EACH = {"by": {"const": "allocation"}, "allocations": many(ALLOCATION),
         "stacks": many(thing(id=NUMBER, frames=FRAMES))}  # fmt: skip
_TREE = {"by": {"const": "tree"}, "tree": many(NODE)}
_KEYED = {"type": "string", "pattern": f"^{asked.KEYED}"}
_ROWS: list[dict[str, Schema]] = [
    _EACH,
    _TREE,
    {"by": {"const": "line"}, "lines": many(record(answers.LineUse, "filename", file=TEXT))},
    {"by": {"const": "stack"}, "groups": many(STACK)},
    {"by": {"enum": [each for each in asked.GROUPINGS if each not in ("stack", "line")]},
     "groups": many(GROUP)},
    {"by": _KEYED, "groups": many(GROUP)},
]  # fmt: skip
_CHANGES: list[dict[str, Schema]] = [
    _EACH,
    _TREE,
    *({"by": by, "changes": many(of(answers.GroupChange))}
      for by in ({"enum": list(asked.GROUPINGS)}, _KEYED)),
]  # fmt: skip
_WHAT_IF = {**_ONE, "curve": TEXT, "by": TEXT, "peak_bytes": NUMBER, "peak_event": NUMBER}
_CELL = {"type": ["null", "integer", "number", "string"]}

FORMATS: dict[str, list[dict[str, Schema]]] = {
    "summary": [
        {
            "snapreport": TEXT,
            "title": TEXT,
            "source": of(snapshot.Source),
            "layout": TEXT,
            "forecast": FORECAST,
            "settings": {"type": "object"},  # whatever PyTorch had
            "recording": maybe(record(recorder_notes.RecorderInfo, storages=NUMBER)),
            "warnings": WARNINGS,
            "default": NUMBER,
            "devices": many(DEVICE),
            "findings": many(FINDING),
        }
    ],
    "live": [
        *({**about, **rows} for about in (_LIVE, _LIVED) for rows in _ROWS),
        *({**_CHANGED, **rows} for rows in _CHANGES),
    ],
    "stages": [
        {
            **_ONE,
            "stages": many(
                record(findings.StageUse, id=NUMBER, label=TEXT, stacks=many(STACK))
            ),
            "steps": STEPS,
        }
    ],
    "profile": [
        {
            **_ONE,
            "by": TEXT,
            "curve": TEXT,
            "peak_event": NUMBER,
            "peak_bytes": NUMBER,
            "events": many(NUMBER),
            "total": many(NUMBER),
            "groups": many(
                thing(name=TEXT, rule=TEXT, peak_bytes=NUMBER, peak_event=NUMBER, at_peak=NUMBER,
                      allocations=NUMBER, bytes=many(NUMBER))
            ),
        }
    ],
    "whatif": [
        {**_WHAT_IF, "groups": many(of(answers.WhatIf))},
        {
            **_WHAT_IF,
            "without": thing(
                what_if=of(answers.WhatIf), taken=many(TEXT), held=many(GROUP)
            ),
        },
        {**_ONE, "replay": of(replays.FactualReplay)},
        {
            **_ONE,
            "replay": of(replays.FactualReplay),
            "allocator": record(replays.OtherSettings, "factual"),
        },
    ],
    "plan": [
        {
            **_ONE,
            **numbers("target", "peak"),
            "steps": many(record(answers.PlanStep, suggestion=SUGGESTION)),
            "reached": {"enum": ["yes", "expected", "no"]},
            "left": many(record(answers.RoleLeft, role={"enum": list(roles.ROLES)})),
            "reserved_beyond": MAYBE_NUMBER,
        },
        {
            "files": many(thing(batch=NUMBER, file=TEXT, device=TEXT)),
            "peaks": many(
                record(
                    answers.BatchPeak,
                    phase={"enum": ["", "forward", "backward", "optimizer"]},
                )
            ),
            "roles": many(record(answers.RoleGrowth, role={"enum": list(roles.ROLES)})),
            **numbers("at_batch"),
            "doubt": TEXT,
            **dict.fromkeys(("target", "fits", "reserved_beyond"), MAYBE_NUMBER),
        },
    ],
    "diff": [
        {
            "snapreport": TEXT,
            "conclusion": TEXT,
            "curve": TEXT,
            "moment": TEXT,
            "base": SIDE,
            "new": SIDE,
            "change": NUMBER,
            "notes": many(TEXT),
            "figures": many(record(diff_types.Figure, change=MAYBE_NUMBER)),
            "by": {"enum": list(diff_types.DIFF_GROUPINGS)},
            **dict.fromkeys(("changes", "sites", "parts", "categories", "roles"), many(CHANGE)),
            "accuracy": maybe(ACCURACY),
            "stages": many(record(diff_types.StageChange, change=MAYBE_NUMBER)),
            "settings": many(thing(name=TEXT, base={}, new={})),
        }
    ],
    "check": [
        {
            **_FILE,
            "sha256": TEXT,
            **_SAID,
            "passed": of(bool),
            "conclusion": TEXT,
            "failures": many(TEXT),
            "devices": many(TEXT),
            "budget": of(str | None),
            "fail_on": many(TEXT),
            "checks": many(CHECK),
            "findings": many(RAISED),
            "ignored": many(RAISED),
            "comparisons": many(COMPARISON),
        }
    ],
    "query": [
        {
            "columns": many(TEXT),
            "rows": many({"type": "object", "additionalProperties": _CELL}),
        }
    ],
    "files": [
        {
            "files": many(
                thing(file=TEXT, error=of(str | None), **_SAID, devices=many(_FILE_ROW))
            )
        }
    ],
    "run": [
        {
            "title": TEXT,
            **_SAID,
            "headline": TEXT,
            "layout": of(dict[str, int]),
            "expected": MAYBE_NUMBER,
            "missing": many(NUMBER),
            "broken": many(thing(file=TEXT, error=TEXT)),
            "odd": many(
                record(run.Odd, "differences", name=TEXT, differences=many(_DIFFERENCE))
            ),
            "groups": many(record(run.Group, differences=many(_DIFFERENCE))),
            "imbalances": many(of(run.Imbalance)),
            "replicated": many(of(run.Replicated)),
            "first_failure": maybe(many(NUMBER)),
            "notes": many(TEXT),
            "rows": many(_RANK_ROW),
        }
    ],
    "run-diff": [
        {
            "headline": TEXT,
            "ranks": many(of(run.RankChange)),
            "groups": many(of(run.GroupChange)),
            "only_base": many(TEXT),
            "only_new": many(TEXT),
            "notes": many(TEXT),
        }
    ],
    "strings": [
        {**_FILE, "strings": many(of(Given))},
        {**_FILE, "leaks": many(of(Leak))},
    ],
}  # fmt: skip
"""The contents of each format besides its name and version: one form, or several."""


def schema(name: str) -> Schema:
    """Return the schema of a format."""
    known = thing(name={"const": f"snapreport.{name}"}, version={"const": VERSIONS[name]})
    forms = [thing(format=known, **form) for form in FORMATS[name]]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"snapreport {name} --json",
        **(forms[0] if len(forms) == 1 else {"oneOf": forms}),
    }


def text(name: str) -> bytes:
    """Return what a schema's file holds."""
    return orjson.dumps(schema(name), option=orjson.OPT_INDENT_2) + b"\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in VERSIONS:
        (FOLDER / f"{each}.json").write_bytes(text(each))

"""What the server's guide says, done literally: which tool answers which kind of question.

A recipe names at most three calls and where in the last reply the answer stands. It knows nothing
of the recording but what the question says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dev.evals.questions import Question

Reply = dict[str, Any]
Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Recipe:
    """Calls in their order, and how the answer is read from the last one's reply."""

    calls: tuple[Callable[[Question], Call], ...]
    read: Callable[[Question, Reply], object]


def _open(question: Question) -> Call:
    return "open", {"file": question.file, "device": question.device}


def _summary(part: str) -> Callable[[Question], Call]:
    return lambda q: ("summary", {"file": q.file, "device": q.device, "part": part})


def _at(question: Question) -> Call:
    names = [name for name in ("event", "curve") if name in question.about]
    moment: dict[str, Any] = {name: question.about[name] for name in names}
    return "at", {"file": question.file, "device": question.device, **moment}


def _at_requested(question: Question) -> Call:
    return "at", {"file": question.file, "device": question.device, "curve": "requested"}


def _without(question: Question) -> Call:
    return "whatif", {
        "file": question.file,
        "device": question.device,
        "without": [question.about["place"]],
        "curve": question.about["curve"],
    }


def _diff(question: Question) -> Call:
    return "diff", {
        "base": question.about["base"],
        "new": question.file,
        "device": question.device,
        "curve": question.about["curve"],
    }


def _query(sql: str) -> Callable[[Question], Call]:
    def call(question: Question) -> Call:
        kind, ordinal = question.device.split(":")
        device = f"(SELECT id FROM devices WHERE kind = '{kind}' AND ordinal = {ordinal})"
        return "query", {
            "file": question.file,
            "sql": sql.format(device=device, **{k: str(v) for k, v in question.about.items()}),
        }

    return call


def _cell(column: str) -> Callable[[Question, Reply], object]:
    """Read the curve's row in the first table."""

    def read(question: Question, reply: Reply) -> object:
        table = reply["tables"][0]
        row = next(row for row in table["rows"] if row[0] == question.about["curve"])
        return row[table["columns"].index(column)]

    return read


def _figure(name: str, unit: str) -> Callable[[Question, Reply], object]:
    return lambda _q, reply: next(f[unit] for f in reply["figures"] if f["name"] == name)


def _only(_question: Question, reply: Reply) -> object:
    return reply["tables"][0]["rows"][0][0]


def _failed(*keys: str) -> Callable[[Question, Reply], object]:
    def read(_question: Question, reply: Reply) -> object:
        found = reply["failed_requests"][-1]
        for key in keys:
            found = found[key]
        return found

    return read


def _setting(question: Question, reply: Reply) -> object:
    found = dict(map(tuple, reply["tables"][0]["rows"]))[question.about["name"]]
    return str(found).lower() if isinstance(found, bool) else found


def _top_line(_question: Question, reply: Reply) -> object:
    rows = reply["tables"][0]["rows"]
    return next(row[0] for row in rows if ":" in row[0]).rsplit("/", 1)[-1]


def _made(question: Question, reply: Reply) -> object:
    table = reply["tables"][0]
    row = next(row for row in table["rows"] if row[0].endswith(question.about["place"]))
    return row[table["columns"].index("allocated over the recording (bytes)")]


_PEAKS = _summary("peaks")

RECIPES = {
    "peak": Recipe((_PEAKS,), _cell("own peak (bytes)")),
    "known-peak": Recipe((_PEAKS,), _cell("own peak (bytes)")),
    "peak-event": Recipe((_PEAKS,), _cell("own peak at event")),
    "held-at-start": Recipe((_PEAKS,), _cell("start (bytes)")),
    "held-at-end": Recipe((_PEAKS,), _cell("end (bytes)")),
    "held-at": Recipe((_at,), lambda _q, reply: reply["held"]["bytes"]),
    "count-events": Recipe((_PEAKS,), _figure("events", "count")),
    "largest-request": Recipe(
        (_query("SELECT max(size) FROM allocations WHERE device = {device} AND alloc_event >= 0"),),
        _only,
    ),
    "requested-in-all": Recipe((_PEAKS,), _figure("requested in all", "bytes")),
    "count-actions": Recipe(
        (_query("SELECT count(*) FROM events WHERE device = {device} AND action = '{action}'"),),
        _only,
    ),
    "count-segments": Recipe(
        (_query("SELECT count(*) FROM segments WHERE device = {device}"),), _only
    ),
    "largest-block": Recipe(
        (
            _query(
                "SELECT max(block_size) FROM allocations"
                " WHERE device = {device} AND free_requested_event IS NULL"
            ),
        ),
        _only,
    ),
    "has-failed": Recipe((_open,), lambda _q, reply: "yes" if "failed_requests" in reply else "no"),
    "failed-size": Recipe((_open,), _failed("asked_for", "bytes")),
    "failed-event": Recipe((_open,), _failed("event")),
    "device-free": Recipe((_open,), _failed("device_free", "bytes")),
    "could-setting-help": Recipe(
        (_open,),
        lambda _q, reply: (
            "no" if "No setting could have helped" in str(reply["first_finding"]) else "yes"
        ),
    ),
    "setting": Recipe((_summary("settings"),), _setting),
    "top-line": Recipe((_at,), _top_line),
    "made-at": Recipe((_at_requested,), _made),
    "peak-without": Recipe((_without,), lambda _q, reply: reply["peak"]["bytes"]),
    "peak-change": Recipe((_diff,), lambda _q, reply: reply["change"]["bytes"]),
}

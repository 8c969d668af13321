"""What the server's guide says of runs, done literally, as ``dev.evals.recipes``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dev.evals.questions import Question
from dev.evals.recipes import Call, Recipe, Reply


def _run(question: Question) -> Call:
    layout = {name: question.about[name] for name in ("layout",) if name in question.about}
    return "run", {"file": question.file, **layout}


def _rank(question: Question) -> Call:
    return "run", {"file": question.file, "rank": question.about["rank"]}


def _rows(reply: Reply, title: str, *columns: str) -> list[tuple[Any, ...]]:
    found = next(each for each in reply["tables"] if each["title"].startswith(title))
    places = [found["columns"].index(column) for column in columns]
    return [tuple(row[place] for place in places) for row in found["rows"]]


def _number(name: str) -> str:
    return name.removeprefix("rank ")


def _highest(_question: Question, reply: Reply) -> object:
    return _number(max(_rows(reply, "Ranks", "peak allocated (bytes)", "rank"))[1])


def _spread(_question: Question, reply: Reply) -> object:
    peaks = [peak for (peak,) in _rows(reply, "Ranks", "peak allocated (bytes)")]
    return max(peaks) - min(peaks)


def _growing(_question: Question, reply: Reply) -> object:
    grown = _rows(reply, "Ranks", "rank", "growth in a step (bytes)")
    (rank,) = (_number(rank) for rank, each in grown if (each or 0) > 0)
    return rank


def _odd_site(question: Question, reply: Reply) -> Reply:
    wanted = f"rank {question.about['rank']}"
    found: Reply = next(each for each in reply["odd"] if each["rank"] == wanted)
    return next(each for each in found["differences"] if each["kind"] == "site")


def _odd_line(question: Question, reply: Reply) -> object:
    return _odd_site(question, reply)["name"].split()[-1].rsplit("/", 1)[-1]


def _odd_bytes(question: Question, reply: Reply) -> object:
    site = _odd_site(question, reply)
    assert site["name"].endswith(question.about["place"])
    return site["held"]["bytes"] - site["usually"]["bytes"]


def _missing(_question: Question, reply: Reply) -> object:
    (number,) = re.findall(r"\d+", reply["missing"])
    return number


def _step(question: Question, reply: Reply) -> object:
    return dict(_rows(reply, "Steps", "step", "peak (bytes)"))[question.about["step"]]


def _failed(_question: Question, reply: Reply) -> object:
    return _rows(reply, "Failed requests", "asked for (bytes)")[-1][0]


def _of(*keys: str) -> Callable[[Question, Reply], object]:
    def read(_question: Question, reply: Reply) -> object:
        found: Any = reply
        for key in keys:
            found = found[key]
        return found

    return read


RUN_RECIPES = {
    "run-highest": Recipe((_run,), _highest),
    "run-spread": Recipe((_run,), _spread),
    "run-odd-line": Recipe((_run,), _odd_line),
    "run-odd-bytes": Recipe((_run,), _odd_bytes),
    "run-missing": Recipe((_run,), _missing),
    "run-failed": Recipe((_run,), lambda _q, reply: _number(reply["first_failure"]["rank"])),
    "run-growing": Recipe((_run,), _growing),
    "run-odd-in-stage": Recipe((_run,), lambda _q, reply: _number(reply["odd"][0]["rank"])),
    "rank-peak": Recipe((_rank,), _of("peak", "bytes")),
    "rank-peak-event": Recipe((_rank,), _of("peak", "event")),
    "rank-failed-size": Recipe((_rank,), _failed),
    "rank-growth": Recipe((_rank,), _of("growth_in_a_step", "bytes")),
    "rank-step-peak": Recipe((_rank,), _step),
}

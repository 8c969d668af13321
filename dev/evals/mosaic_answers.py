"""What an agent with Mosaic's tools can answer, each question in the way that suits Mosaic best.

A tool has to give the figure. What an agent may add is what takes no work over the entries: the
larger of two figures or their difference, the call stacks of a reply put together by their line,
and looking up an entry, a setting or an entry's position in the snapshot that Mosaic writes as
JSON. Counting and adding over that JSON is what ``dev.evals.naive`` does, and needs no Mosaic.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from dev.evals import plain_truth as plain
from dev.evals import run_truth
from dev.evals.mosaic_calls import Mosaic, MosaicError
from dev.evals.questions import Question

_USAGE = re.compile(r"Memory Usage \(Relative to Start\) at .* - (\S+) GiB")
_OVERALL = re.compile(r"Overall Peak Memory Usage \(Dynamic \+ Static\): (\S+ GiB)")
_PEAK_AT = re.compile(r" at ([0-9a-f]+)_\d+ \((\w+)\) - size (\d+) bytes at (\d+) us")
_MOVES = ("alloc", "free_completed")
"""The entries at which Mosaic's figures change."""


def answer(question: Question, mosaic: Mosaic, path: Path, base: Path | None) -> str | None:
    """Return what Mosaic says; None where it has no tool that does.

    Raises:
        MosaicError: a tool crashed, took too long, or says that it failed.
    """
    if question.kind == "peak-change" and base is not None:
        return str(int(_peak(question, mosaic, path)) - int(_peak(question, mosaic, base)))
    way = _WAYS.get(question.kind)
    if way is None or question.about.get("curve") == "reserved":
        return None
    return way(question, mosaic, path)


def _first(path: Path) -> int:
    """Return the device that Mosaic's tools take: the first with a trace."""
    traces = plain.read(path)["device_traces"]
    return next((k for k, trace in enumerate(traces) if trace), 0)


def _device(question: Question) -> int:
    return int(question.device.split(":")[1]) if question.device else 0


def _peak(question: Question, mosaic: Mosaic, path: Path) -> str:
    device = _device(question)
    if device != _first(path):
        return str(int(float(mosaic.device_peak(path, device))))
    summary = mosaic.tool("peak_memory_analysis", path)["summary"]
    return str(summary["overall_peak_bytes"])


def _static(question: Question, mosaic: Mosaic, path: Path) -> str | None:
    if _device(question) != _first(path):
        return None
    return str(mosaic.tool("peak_memory_analysis", path)["summary"]["static_memory_bytes"])


def _peak_event(question: Question, mosaic: Mosaic, path: Path) -> str | None:
    if _device(question) != _first(path):
        return None
    address, action, size, time = _logged(mosaic, _PEAK_AT, "get_memory_usage_peak", path)
    wanted = (int(address, 16), action, int(size), int(time))
    for place, entry in enumerate(_trace(question, mosaic, path)):
        if tuple(entry.get(key) for key in ("addr", "action", "size", "time_us")) == wanted:
            return str(place)
    return None


def _held_at(question: Question, mosaic: Mosaic, path: Path) -> str | None:
    """Ask for the usage at the last entry until then at which Mosaic's figure changes.

    Mosaic calls it relative to the start, so what it says was there throughout is added.
    """
    if _device(question) != _first(path):
        return None
    trace = _trace(question, mosaic, path)
    until = trace[: question.about["event"] + 1] if "event" in question.about else trace
    places = [place for place, entry in enumerate(until) if entry["action"] in _MOVES]
    if not places:
        return _peak(question, mosaic, path)
    entry = until[places[-1]]
    version = sum(
        each["action"] == "free_completed" and each["addr"] == entry["addr"]
        for each in until[: places[-1]]
    )
    named = ("--allocation", f"{entry['addr']:x}_{version}", "--action", entry["action"])
    (said,) = _logged(mosaic, _USAGE, "get_memory_usage", path, *named)
    static = mosaic.tool("peak_memory_analysis", path)["summary"]["static_memory_bytes"]
    return str(round(float(said) * 2**30) + int(static))


def _top_line(question: Question, mosaic: Mosaic, path: Path) -> str | None:
    if _device(question) != _first(path):
        return None
    held = _by_line(mosaic, path)
    held.pop("", None)
    return max(held, key=held.__getitem__)


def _by_line(mosaic: Mosaic, path: Path) -> Counter[str]:
    held = Counter[str]()
    for stack in mosaic.tool("peak_memory_analysis", path)["events"]:
        held[plain.line_of(stack, "call_stack")] += stack["memory_bytes"]
    return held


def _has_failed(question: Question, mosaic: Mosaic, path: Path) -> str:
    return "yes" if _failures(question, mosaic, path) else "no"


def _failed_event(question: Question, mosaic: Mosaic, path: Path) -> str:
    return str(_failures(question, mosaic, path)[-1][0])


def _failed(key: str) -> Callable[[Question, Mosaic, Path], str]:
    return lambda question, mosaic, path: str(_failures(question, mosaic, path)[-1][1][key])


def _failures(question: Question, mosaic: Mosaic, path: Path) -> list[tuple[int, dict[str, Any]]]:
    entries = enumerate(_trace(question, mosaic, path))
    return [(place, entry) for place, entry in entries if entry["action"] == "oom"]


def _trace(question: Question, mosaic: Mosaic, path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = mosaic.snapshot(path)["device_traces"][_device(question)]
    return found


def _setting(question: Question, mosaic: Mosaic, path: Path) -> str:
    found = mosaic.snapshot(path)["allocator_settings"][question.about["name"]]
    return str(found).lower() if isinstance(found, bool) else str(found)


def _logged(
    mosaic: Mosaic, pattern: re.Pattern[str], command: str, path: Path, *arguments: str
) -> tuple[str, ...]:
    found = pattern.search(mosaic.command(command, path, *arguments))
    if found is None:
        raise MosaicError(f"{command} does not say")
    return found.groups()


def _peaks(question: Question, mosaic: Mosaic, run: Path) -> dict[int, int]:
    files = run_truth.ranks_of(run)
    return {rank: int(_peak(question, mosaic, path)) for rank, path in files.items()}


def _highest(question: Question, mosaic: Mosaic, run: Path) -> str:
    peaks = _peaks(question, mosaic, run)
    return str(max(peaks, key=peaks.__getitem__))


def _spread(question: Question, mosaic: Mosaic, run: Path) -> str:
    peaks = _peaks(question, mosaic, run).values()
    return str(max(peaks) - min(peaks))


def _odd_in_stage(question: Question, mosaic: Mosaic, run: Path) -> str:
    """Pick the rank that peaks higher than its neighbour in its stage, by the peaks of all."""
    each = int(question.about["layout"].split(",")[0].split("=")[1])
    peaks = _peaks(question, mosaic, run)
    above = {rank: peak - min(peaks[k] for k in peaks if k // each == rank // each)
             for rank, peak in peaks.items()}  # fmt: skip
    return str(max(above, key=above.__getitem__))


def _more_by_line(question: Question, mosaic: Mosaic, run: Path) -> Counter[str]:
    """Compare with the lowest rank: an agent would not ask for every one's stacks."""
    files, peaks = run_truth.ranks_of(run), _peaks(question, mosaic, run)
    other = min(peaks, key=peaks.__getitem__)
    more = _by_line(mosaic, files[question.about["rank"]])
    more.subtract(_by_line(mosaic, files[other]))
    return more


def _odd_line(question: Question, mosaic: Mosaic, run: Path) -> str:
    return _more_by_line(question, mosaic, run).most_common(1)[0][0]


def _odd_bytes(question: Question, mosaic: Mosaic, run: Path) -> str:
    return str(_more_by_line(question, mosaic, run)[question.about["place"]])


def _run_failed(question: Question, mosaic: Mosaic, run: Path) -> str:
    files = run_truth.ranks_of(run).items()
    return str(next(rank for rank, path in files if _failures(question, mosaic, path)))


def _growth(mosaic: Mosaic, path: Path) -> list[int]:
    stages = mosaic.tool("annotation_analysis", path, annotation="ProfilerStep")["stages"]
    ends = [each["memory_bytes"] for each in stages if each["stage"].endswith("_END")]
    return [after - before for before, after in pairwise(ends)]


def _growing(_question: Question, mosaic: Mosaic, run: Path) -> str:
    files = run_truth.ranks_of(run).items()
    return str(next(rank for rank, path in files if min(_growth(mosaic, path)) > 0))


def _step_peak(question: Question, mosaic: Mosaic, path: Path) -> str:
    name = f"ProfilerStep#{question.about['step']}"
    stages = mosaic.tool("annotation_analysis", path, annotation=name)["stages"]
    at = {each["stage"]: str(each["annotation"]["time_us"]) for each in stages}
    window = ("--start_time", at[f"{name}_START"], "--end_time", at[f"{name}_END"])
    (said,) = _logged(mosaic, _OVERALL, "get_memory_usage_peak", path, *window)
    return said


_Way = Callable[[Question, Mosaic, Path], str | None]


def _of_rank(way: _Way) -> _Way:
    """Ask about the file of a rank."""
    return lambda question, mosaic, run: way(
        question, mosaic, run_truth.ranks_of(run)[question.about["rank"]]
    )


_WAYS: dict[str, _Way] = {
    "peak": _peak,
    "known-peak": _peak,
    "peak-event": _peak_event,
    "held-at": _held_at,
    "held-at-start": _static,
    "held-at-end": _held_at,
    "top-line": _top_line,
    "has-failed": _has_failed,
    "failed-size": _failed("size"),
    "failed-event": _failed_event,
    "device-free": _failed("device_free"),
    "setting": _setting,
    "run-highest": _highest,
    "run-spread": _spread,
    "run-odd-line": _odd_line,
    "run-odd-bytes": _odd_bytes,
    "run-failed": _run_failed,
    "run-growing": _growing,
    "run-odd-in-stage": _odd_in_stage,
    "rank-peak": _of_rank(_peak),
    "rank-peak-event": _of_rank(_peak_event),
    "rank-failed-size": _of_rank(_failed("size")),
    "rank-growth": _of_rank(lambda _question, mosaic, path: str(_growth(mosaic, path)[-1])),
    "rank-step-peak": _of_rank(_step_peak),
}
"""The kinds of questions that Mosaic has tools for."""

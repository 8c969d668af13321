"""The answers to the questions about runs, by plain arithmetic over the ranks' snapshots.

Peaks are those of requested memory, which in the made runs is the allocated memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from dev.evals import plain_truth as plain
from dev.evals.questions import Question

_DEVICE, _CURVE = 0, "requested"
_STEP = re.compile(r"ProfilerStep#(\d+)$")


def ranks_of(run: Path) -> dict[int, Path]:
    """Return the file of each rank, in the order of their numbers."""
    found = {int("".join(filter(str.isdigit, path.name))): path for path in run.iterdir()}
    return dict(sorted(found.items()))


def peaks(run: Path) -> dict[int, int]:
    """Return each rank's peak, in bytes."""
    return {rank: plain.peak(path, _DEVICE, _CURVE) for rank, path in ranks_of(run).items()}


def highest(run: Path) -> int:
    """Return the rank with the highest peak."""
    found = peaks(run)
    return max(found, key=found.__getitem__)


def spread(run: Path) -> int:
    """Return by how many bytes the highest peak is above the lowest."""
    found = peaks(run).values()
    return max(found) - min(found)


def rank_peak(run: Path, rank: int) -> int:
    """Return a rank's peak."""
    return peaks(run)[rank]


def rank_peak_event(run: Path, rank: int) -> int:
    """Return the first event after which a rank is at its peak."""
    return plain.peak_event(ranks_of(run)[rank], _DEVICE, _CURVE)


def more_by_line(run: Path, rank: int) -> dict[str, int]:
    """Return what each line holds at a rank's peak above the median of all ranks."""
    found = {k: plain.held_by_line(path, _DEVICE, _CURVE) for k, path in ranks_of(run).items()}
    return {
        line: int(held - median(each[line] for each in found.values()))
        for line, held in found[rank].items()
    }


def odd_line(run: Path, rank: int) -> str:
    """Return the line that holds most above the median."""
    found = more_by_line(run, rank)
    return max(found, key=found.__getitem__)


def odd_bytes(run: Path, rank: int, place: str) -> int:
    """Return what a line holds above the median."""
    return more_by_line(run, rank)[place]


def missing(run: Path) -> int:
    """Return the one rank between others of which there is no file."""
    there = set(ranks_of(run))
    (gap,) = set(range(max(there) + 1)) - there
    return gap


def failed(run: Path) -> int:
    """Return the one rank on which a request failed."""
    (rank,) = (k for k, path in ranks_of(run).items() if plain.has_failed(path, _DEVICE) == "yes")
    return rank


def rank_failed_size(run: Path, rank: int) -> int:
    """Return the bytes of the request that failed on a rank."""
    return plain.failed_size(ranks_of(run)[rank], _DEVICE)


def steps(path: Path) -> dict[int, tuple[int, int]]:
    """Return each ended step's first event, and the first after it."""
    times = [event["time_us"] for event in plain.events(path, _DEVICE)]
    edges: dict[int, list[int]] = {}
    for each in plain.read(path)["external_annotations"]:
        found = _STEP.match(each["name"])
        if found:
            before = sum(time <= each["time_us"] for time in times)
            edges.setdefault(int(found[1]), []).append(before)
    return {step: (both[0], both[1]) for step, both in edges.items() if len(both) == 2}


def rank_growth(run: Path, rank: int) -> int:
    """Return what a rank gains in every step: as much in each, from the end of the first on."""
    path = ranks_of(run)[rank]
    ends = [plain.held_at(path, _DEVICE, _CURVE, end - 1) for _, end in steps(path).values()]
    (gained,) = {after - before for before, after in pairwise(ends)}
    return gained


def growing(run: Path) -> int:
    """Return the one rank that gains in every step."""
    (rank,) = (rank for rank in ranks_of(run) if rank_growth(run, rank) > 0)
    return rank


def rank_step_peak(run: Path, rank: int, step: int) -> int:
    """Return the most in a step, what it began with included."""
    path = ranks_of(run)[rank]
    begin, end = steps(path)[step]
    return max(plain.curve(path, _DEVICE, _CURVE)[begin : end + 1])


def odd_in_stage(run: Path, layout: str) -> int:
    """Return the one rank whose peak is above the median of its pipeline stage."""
    (_, tensor), (name, stages) = (part.split("=") for part in layout.split(","))
    assert name == "pp"
    found, each = peaks(run), int(tensor)
    above = []
    for stage in range(int(stages)):
        members = [found[rank] for rank in range(stage * each, (stage + 1) * each)]
        above += [
            rank for rank in range(stage * each, (stage + 1) * each)
            if found[rank] > median(members)
        ]  # fmt: skip
    (odd,) = above
    return odd


RUN_KINDS: dict[str, Callable[..., object]] = {
    "run-highest": highest,
    "run-spread": spread,
    "run-odd-line": odd_line,
    "run-odd-bytes": odd_bytes,
    "run-missing": missing,
    "run-failed": failed,
    "run-growing": growing,
    "run-odd-in-stage": odd_in_stage,
    "rank-peak": rank_peak,
    "rank-peak-event": rank_peak_event,
    "rank-failed-size": rank_failed_size,
    "rank-growth": rank_growth,
    "rank-step-peak": rank_step_peak,
}
"""What answers each kind of question about a run."""


def answer(question: Question, run: Path) -> str:
    """Return a question's answer."""
    about: dict[str, Any] = question.about
    return str(RUN_KINDS[question.kind](run, **about))

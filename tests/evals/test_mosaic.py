"""Mosaic's tools are asked as an agent would, and graded: with a checkout that the test writes."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dev.evals.__main__ import main
from dev.evals.mosaic_calls import MosaicError
from dev.evals.mosaic_score import Grade, Scored, ask_mosaic, grade
from dev.evals.questions import Question
from tests.builders import MIB, frame, trace

SERVER = """
import json, time

def peak_memory_analysis(snapshot_path):
    if "hangs" in snapshot_path:
        time.sleep(60)
    if "refused" in snapshot_path:
        return json.dumps({"status": "error", "error": {"type": "IndexError", "message": "no"}})
    with open(snapshot_path, "rb") as file:
        start = file.read(1)
    assert start == b"\\x80", "not a plain pickle"
    stacks = [("b.py", 7, 3), ("a.py", 1, 4), ("b.py", 7, 2), ("/x/torch/nn/a.py", 9, 90)]
    return json.dumps({
        "status": "ok",
        "summary": {"overall_peak_bytes": 11 * 2**20, "static_memory_bytes": 2**20},
        "events": [
            {"memory_bytes": held, "call_stack": [{"filename": file, "line": line}]}
            for file, line, held in stacks
        ],
    })
"""
USAGE = """
import logging, sys
named = sys.argv[sys.argv.index("--allocation") + 1], sys.argv[sys.argv.index("--action") + 1]
logging.basicConfig(level=logging.INFO)
if named == ("{address:x}_1", "alloc"):
    logging.info("Memory Usage (Relative to Start) at 'alloc: x_1' - 0.0078125 GiB")
"""
SNAPSHOT = """
import json, pickle, sys
told = dict(zip(sys.argv[1::2], sys.argv[2::2]))
with open(told["--snapshot"], "rb") as file, open(told["--output_file"], "w") as out:
    json.dump(pickle.load(file), out)
"""
LIBRARY = """
class MemoryAbstract:
    def __init__(self, memory_snapshot_file):
        self.memory_snapshot = self
    def load_memory_snapshot(self):
        pass
    def stat_memory_usage_range(self, device_idx):
        self.max_memory_usage = 1000.0 + device_idx
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout and recordings: one address taken twice, then a request that fails."""
    root = tmp_path_factory.mktemp("mosaic")
    made = trace().alloc("a", 4 * MIB, frames=[frame("f", "a.py", 1)]).free("a")
    address = made.address("a")
    made.alloc("a", 8 * MIB, frames=[frame("f", "a.py", 1)])
    made.event("oom", size=64 * MIB, addr=0, frames=[])
    data = pickle.dumps(made.snapshot())
    for name in ("plain", "hangs", "refused"):
        (root / f"{name}.pickle").write_bytes(data)
    (root / "packed.pickle.gz").write_bytes(gzip.compress(data))
    (root / "broken.pickle").write_bytes(pickle.dumps({"device_traces": [[1]]}, protocol=0))
    for name, text in {
        "mcp/server.py": SERVER,
        "cmd/get_memory_usage.py": USAGE.replace("{address:x}", f"{address:x}"),
        "cmd/get_json_snapshot.py": SNAPSHOT,
        "libmosaic/analyzer/memory_abstract.py": LIBRARY,
    }.items():
        path = root / "checkout" / "mosaic" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def asked(kind: str, answer: object, file: str = "plain.pickle", **about: Any) -> Question:
    return Question(file, about.pop("device", "cuda:0"), kind, str(answer), "?", about)


def ask(place: Path, *questions: Question, patience: float = 30) -> list[Scored]:
    return ask_mosaic(place / "checkout", questions, [place], patience)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (asked("peak", 11 * MIB, curve="requested"), "exact"),
        (asked("peak", 11 * MIB, "packed.pickle.gz", curve="requested"), "exact"),
        (asked("peak", 11 * MIB + 1, curve="requested"), "wrong"),
        (asked("peak", 11 * MIB, curve="reserved"), "without a tool"),
        (asked("peak", 1001, curve="requested", device="cuda:1"), "exact"),
        (asked("count-events", 5), "without a tool"),
        (asked("held-at-start", MIB, curve="requested"), "exact"),
        (asked("held-at", 9 * MIB, curve="requested", event=3), "exact"),
        (asked("held-at", 9 * MIB, curve="requested", event=0), "crashed"),
        (asked("top-line", "b.py:7", curve="requested"), "exact"),
        (asked("top-line", "a.py:9", curve="requested"), "wrong"),
        (asked("has-failed", "yes"), "exact"),
        (asked("has-failed", "no"), "wrong"),
        (asked("failed-size", 64 * MIB), "exact"),
        (asked("failed-size", 64 * MIB, device="cuda:3"), "crashed"),
    ],
)
def test_each_question_goes_to_its_tool(place: Path, question: Question, expected: Grade) -> None:
    (scored,) = ask(place, question)
    assert scored.grade == expected, scored.said


def test_what_crashes_hangs_or_is_refused_is_no_answer_and_says_why(place: Path) -> None:
    questions = [
        asked("peak", 11 * MIB, f"{name}.pickle", curve="requested")
        for name in ("hangs", "refused", "broken")
    ]
    hangs, refused, broken = ask(place, *questions, patience=2)
    assert {each.grade for each in (hangs, refused, broken)} == {"crashed"}
    assert hangs.said == "no answer in 2 s"
    assert refused.said == "peak_memory_analysis: IndexError: no"
    assert broken.said == "AssertionError: not a plain pickle"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("4768154632", "exact"),
        (f"{4768154632 / 2**30} GiB", "exact"),
        ("4.44GiB", "right to its digits"),
        ("4.441 GiB", "right to its digits"),
        ("4.45GiB", "wrong"),
        ("4547.27MB", "right to its digits"),
        ("4547.27", "wrong"),
        ("4 to 5 GiB", "wrong"),
        ("", "wrong"),
    ],
)
def test_a_figure_with_a_unit_may_be_rounded_to_its_digits(said: str, expected: Grade) -> None:
    assert grade(asked("peak", 4768154632), said) == expected


@given(st.integers(1, 2**45), st.integers(0, 6))
def test_the_nearest_figure_is_right_and_the_next_one_is_not(answer: int, digits: int) -> None:
    question = asked("peak", answer)
    assert grade(question, f"{answer / 2**30!r} GiB") == "exact"
    printed = round(answer * 10**digits / 2**30)
    assert grade(question, f"{printed / 10**digits:.{digits}f} GiB") != "wrong"
    assert grade(question, f"{(printed + 1) / 10**digits:.{digits}f} GiB") == "wrong"


def test_no_figure_is_right_where_a_line_is_asked_for() -> None:
    assert grade(asked("top-line", "a.py:9"), "9 GiB") == "wrong"


def test_a_folder_that_is_no_checkout_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(MosaicError, match=r"no mosaic/mcp/server\.py"):
        ask_mosaic(tmp_path, [], [])
    with pytest.raises(SystemExit) as ended:
        main(["--mosaic", str(tmp_path)])
    assert ended.value.code == 2
    assert "holds no mosaic" in capsys.readouterr().err

"""The evals: their answers are true, the guide leads to each, and the grader is strict."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

import pytest

from dev.evals import truth
from dev.evals.__main__ import SAMPLES, main
from dev.evals.any_client import ask_each
from dev.evals.made_runs import RUNS, make_runs
from dev.evals.questions import Question, files_of, is_near, is_right, read_questions
from dev.evals.run_truth import ranks_of
from dev.evals.scripted import ask_all

pytest.importorskip("mcp")

QUESTIONS = read_questions()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    runs = tmp_path_factory.mktemp("runs")
    make_runs(runs)
    corpus = os.environ.get("SNAPREPORT_CORPUS")
    return [SAMPLES, runs, *([Path(corpus)] if corpus else [])]


def test_there_are_enough_and_no_two_are_the_same() -> None:
    assert len(QUESTIONS) >= 40
    assert sum(each.of_run for each in QUESTIONS) >= 8
    assert len({each.asked for each in QUESTIONS}) == len(QUESTIONS)


def test_plain_arithmetic_gives_every_answer(folders: list[Path]) -> None:
    checked = 0
    for each in QUESTIONS:
        found = files_of(each, folders)
        answer = None if found is None else truth.answer(each, *found)
        if answer is not None:
            assert answer == each.answer, each.asked
            checked += 1
    assert checked >= 40


def test_blocks_of_made_runs_are_as_large_as_what_was_asked_for(folders: list[Path]) -> None:
    for name, ranks in RUNS.items():
        files = ranks_of(folders[1] / name)
        assert list(files) == list(ranks)
        for path in files.values():
            snapshot = pickle.loads(path.read_bytes())
            assert {each["size"] % 2**21 for each in snapshot["device_traces"][0]} == {0}
            blocks = [block for each in snapshot["segments"] for block in each["blocks"]]
            live = [block for block in blocks if block["state"] == "active_allocated"]
            assert live
            assert all(block["size"] == block["requested_size"] for block in live)


def test_the_guide_leads_to_every_answer_in_three_calls(folders: list[Path]) -> None:
    results = ask_all([each for each in QUESTIONS if files_of(each, folders)], folders)
    assert [(each.question.asked, each.said) for each in results if not each.right] == []
    assert max(each.calls for each in results) <= 3
    assert max(sum(each.tokens) for each in results) <= 4000


@pytest.mark.parametrize(
    ("answer", "said", "right"),
    [
        ("4768154632", "4768154632", True),
        ("4768154632", "It peaked.\n\nANSWER: 4,768,154,632 bytes", True),
        ("4768154632", "4768154631", False),
        ("4768154632", "4.44 GiB", False),
        ("4768154632", "4768154632 KiB", False),
        ("4768154632", "4768154632 at event 793", False),
        ("-5", "ANSWER: -5", True),
        ("5", "ANSWER: -5", False),
        ("no", "ANSWER: No.", True),
        ("no", "There is no answer", False),
        ("train.py:43", "**train.py:43**", True),
        ("train.py:43", "train.py:40", False),
        ("793", "", False),
    ],
)
def test_the_grader_takes_the_exact_answer_alone(answer: str, said: str, right: bool) -> None:
    assert is_right(Question("f", "cuda:0", "peak", answer, "?"), said) is right


@pytest.mark.parametrize(
    ("answer", "said", "near"),
    [
        ("1000", "1010", True),
        ("1000", "1011", False),
        ("-1000", "-990", True),
        ("-1000", "1000", False),
        ("no", "1", False),
        ("1000", "a.py:7", False),
    ],
)
def test_a_figure_is_near_within_a_hundredth(answer: str, said: str, near: bool) -> None:
    assert is_near(Question("f", "cuda:0", "peak", answer, "?"), said) is near


CLIENT = """
import json, os, subprocess, sys

question, config = sys.argv[1:]
server = json.load(open(config))["mcpServers"]["snapreport"]
with subprocess.Popen(
    [server["command"], *server["args"]], env={**os.environ, **server["env"]},
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
) as process:

    def tell(method, **about):
        print(json.dumps({"jsonrpc": "2.0", "method": method, **about}), file=process.stdin)

    def ask(method, **params):
        tell(method, id=method, params=params)
        while (reply := json.loads(process.stdout.readline())).get("id") != method:
            pass
        return reply["result"]

    about = {"name": "test", "version": "1"}
    ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=about)
    tell("notifications/initialized")
    ask("tools/list")
    if "failed" in question:
        reply = ask("tools/call", name="open", arguments={"file": "out_of_memory.pickle.gz"})
        asked = reply["structuredContent"]["failed_requests"][0]["asked_for"]["bytes"]
        print("ANSWER:", asked)
    else:
        print("ANSWER: 7")
"""


def test_a_client_of_any_make_is_asked_and_its_calls_are_counted(tmp_path: Path) -> None:
    (tmp_path / "client.py").write_text(CLIENT)
    size = next(each for each in QUESTIONS if each.kind == "failed-size")
    other = next(each for each in QUESTIONS if each.kind == "peak")
    command = f"{sys.executable} {tmp_path / 'client.py'} {{question}} {{config}}"
    right, wrong = ask_each(command, [size, other], [SAMPLES])
    assert right.right
    assert right.calls == 1
    assert 300 < right.tokens[0] <= 2000
    assert not wrong.right
    assert wrong.calls == 0


def test_the_command_prints_score_calls_and_tokens(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every question is asked above, of the same recordings.
    few = [*QUESTIONS[:2], *(each for each in QUESTIONS if each.of_run)][:4]
    elsewhere = Question("in no folder.pickle", "cuda:0", "peak", "1", "?")
    monkeypatch.setattr("dev.evals.__main__.read_questions", lambda: [*few, elsewhere])
    assert main([]) == 0
    told = capsys.readouterr().out
    assert "right\ncalls: " in told
    assert "pickle.load and a running sum: " in told
    assert "were not asked" in told
    assert "Mosaic" not in told

"""Call stacks under ``snapreport record`` begin with the program."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from snapreport.recorders.finishing import COMMAND, cut_own_frames
from tests.builders import frame

PROGRAM = frame("<module>", "/home/me/train.py", 3)
EVAL = frame("PyEval_EvalCode", "??", 0)
RUNPY = frame("_run_code", "<frozen runpy>", 88)
OURS = frame("_run", COMMAND, 160)
MAIN = frame("<module>", "/usr/bin/snapreport", 8)
WORKER = frame("run", "/usr/lib/python3/threading.py", 9)


@pytest.fixture
def commanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "snapreport.commands.record", ModuleType("record"))


def snapshot(*stacks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "device_traces": [[{"action": "alloc", "frames": each} for each in stacks]],
        "segments": [{"frames": [PROGRAM, RUNPY, OURS], "blocks": [{"frames": []}, {}]}],
    }


@pytest.mark.usefixtures("commanded")
def test_what_ran_the_program_is_cut_off_and_other_threads_stay_whole() -> None:
    step = frame("step", "/home/me/train.py", 7)
    shared = [step, PROGRAM, EVAL, RUNPY, EVAL, OURS, EVAL, MAIN]
    events = [[PROGRAM, RUNPY, OURS, MAIN], shared, shared, [step, WORKER], [EVAL]]
    given = snapshot(*events)
    cut_own_frames(given)
    stacks = [event["frames"] for event in given["device_traces"][0]]
    assert stacks == [[PROGRAM], [step, PROGRAM], [step, PROGRAM], [step, WORKER], [EVAL]]
    assert given["segments"][0]["frames"] == [PROGRAM]


def test_a_program_that_records_itself_keeps_all_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "snapreport.commands.record", raising=False)
    given = snapshot([PROGRAM, RUNPY, OURS, MAIN])
    cut_own_frames(given)
    assert given["device_traces"][0][0]["frames"] == [PROGRAM, RUNPY, OURS, MAIN]


@pytest.mark.usefixtures("commanded")
def test_the_forward_behind_a_gradient_begins_with_the_program_as_well() -> None:
    ours = [
        '  File "/usr/bin/snapreport", line 8, in <module>\n    main()\n',
        f'  File "{COMMAND}", line 160, in _run\n    runpy.run_path(program)\n',
        '  File "<frozen runpy>", line 88, in _run_code\n',
    ]
    program = ['  File "/home/me/train.py", line 3, in <module>\n    step()\n']
    shared, elsewhere = [*ours, *program], ["not a frame", *program]
    block, event, other = ({"forward_frames": each} for each in (shared, shared, elsewhere))
    cut_own_frames({"device_traces": [[event, other]], "segments": [{"blocks": [block]}]})
    assert event["forward_frames"] == block["forward_frames"] == program
    assert other["forward_frames"] == elsewhere

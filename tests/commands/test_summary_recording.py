"""``summary --recording``: the judgement as text and JSON, of snapshots, bundles, every device."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import orjson
import pytest

from tests.builders import BASE, trace
from tests.commands.conftest import MIB, Run


def test_the_answer_is_a_sentence_checks_and_what_reserved_memory_consists_of(
    run: Run, samples: Path
) -> None:
    result = run("summary", samples / "truncated_ring.pickle", "--recording", "--full")
    assert result.exit_code == 0
    assert result.stderr == ""
    text = result.stdout
    assert text.startswith("cuda:0: The peak may be earlier than shown: older events are lost")
    assert re.search(r"^  Lost events +not ok  ", text, re.MULTILINE)
    assert re.search(r"^  Final state +ok  ", text, re.MULTILINE)
    assert "to the byte" in text.partition("What reserved memory consists of")[2]
    assert "before recording, or lost from the ring" in text
    assert "torch.cuda.memory._record_memory_history()  # before the model is built" in text


def test_the_json_has_every_number(run: Run, samples: Path) -> None:
    found = orjson.loads(run("summary", samples / "truncated_ring.pickle", "--json").stdout)
    (device,) = found["devices"]
    trust = device["trust"]
    assert (device["device"], trust["verdict"]) == ("cuda:0", "earlier")
    assert trust["window"]["events"] == 500
    assert trust["loss"]["state"] == "lost"
    assert trust["closing"]["closes"] is True
    parts = trust["at_peak"]
    assert parts["difference"] == 0
    names = ("requested", "slack", "awaiting_free", "fragmented", "returnable")
    assert sum(parts[name] for name in names) == parts["reserved"]
    assert {check["mark"] for check in trust["checks"]} == {"ok", "not ok", "unknown"}
    assert trust["fixes"][0]["change"].count("\n") == 1


@pytest.mark.parametrize("more", [(), ("--json",), ("--device", "0")])
def test_a_bundle_is_judged_as_its_snapshot_is(
    run: Run, snapshot: Path, bundle: Path, more: tuple[str, ...]
) -> None:
    first = run("summary", snapshot, "--recording", *more)
    assert first.exit_code == 0
    assert first.stdout == run("summary", bundle, "--recording", *more).stdout


def test_each_device_has_an_answer_or_the_one_that_was_asked_for(run: Run, samples: Path) -> None:
    text = run("summary", samples / "three_devices.pickle", "--recording").stdout
    assert [f"cuda:{i}: " in text for i in range(3)] == [True] * 3
    assert "cuda:2: There is nothing to judge" in text
    alone = run("summary", samples / "three_devices.pickle", "--recording", "--device", "1").stdout
    assert alone.startswith("cuda:1: You can trust the figures")
    assert "cuda:0" not in alone


def test_the_status_is_0_for_a_bad_recording_and_1_for_no_such_device(
    run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "off.pickle"
    made = trace().segment(BASE, 20 * MIB, (MIB, MIB, "live"))
    path.write_bytes(pickle.dumps(made.snapshot()))
    assert run("summary", path, "--recording").exit_code == 0
    assert run("summary", path, "--recording", "--device", "7").exit_code == 1


def test_names_from_the_file_stay_on_their_line(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "odd.pickle"
    made = trace().event("x\ny\x1b[31m").alloc(BASE, MIB)
    made.segment(BASE, 20 * MIB, (MIB, MIB, "live"))
    path.write_bytes(pickle.dumps(made.snapshot()))
    text = run("summary", path, "--recording").stdout
    assert "\x1b" not in text
    assert "x\ny" not in text

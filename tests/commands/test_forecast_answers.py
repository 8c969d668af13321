"""Every answer from a forecast says what it is, how sure it is, and shows no times of its own."""

from __future__ import annotations

import pickle
import re
import zipfile
from pathlib import Path

import orjson
import pytest

from tests.builders import MIB
from tests.commands.conftest import Run
from tests.forecasts import forecast

HEAD = "Forecast for an H100 80 GB: nothing was computed, and no card was used."
_TIME = re.compile(r"2023-11-14|\b\d+(\.\d+)? (µs|ms|s)\b|no time")  # when its events were made


@pytest.fixture
def snap(folder: Path) -> Path:
    return _write(folder / "snap.pickle")


def _write(path: Path, **changed: object) -> Path:
    path.write_bytes(pickle.dumps(forecast(**changed)))  # type: ignore[arg-type]
    return path


def _recording(path: Path) -> Path:
    """Write the same as if a card had recorded it, with 1 MiB more at the peak."""
    snapshot = forecast()
    del snapshot["snapreport"]
    for event in snapshot["device_traces"][0]:
        if event["size"] == 20 * MIB:
            event["size"] = 21 * MIB
    path.write_bytes(pickle.dumps(snapshot))
    return path


def _words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    "command",
    [
        ("summary",),
        ("summary", "--findings"),
        ("summary", "--recording"),
        ("summary", "--md"),
        ("live",),
        ("live", "--md"),
        ("stages",),
        ("profile",),
        ("whatif",),
        ("plan", "--fit", "20MiB"),
        ("check", "--max-peak", "1GiB"),
        ("check", "--max-peak", "1GiB", "--md"),
    ],
)
def test_the_text_says_that_it_is_a_forecast_and_no_time(
    run: Run, snap: Path, command: tuple[str, ...]
) -> None:
    name, *options = command
    result = run(name, snap, *options)
    assert result.exit_code == 0, result.stderr
    text = _words(result.stdout)
    assert text.count(HEAD) == 1
    assert not _TIME.search(text), text


@pytest.mark.parametrize(
    ("command", "at"),
    [
        ("summary", "/forecast/text"), ("live", "/forecast/text"), ("stages", "/forecast/text"),
        ("profile", "/forecast/text"), ("whatif", "/forecast/text"),
        ("plan --fit 20MiB", "/forecast/text"), ("check --max-peak 1GiB", "/forecast"),
    ],
)  # fmt: skip
def test_the_json_says_it_too(run: Run, snap: Path, command: str, at: str) -> None:
    name, *options = command.split()
    found = orjson.loads(run(name, snap, *options, "--json").stdout)
    for key in at.split("/")[1:]:
        found = found[key]
    assert found == HEAD


def test_a_recording_has_no_forecast_in_its_json(run: Run, folder: Path) -> None:
    found = orjson.loads(run("summary", _recording(folder / "real.pickle"), "--json").stdout)
    assert found["forecast"] is None
    assert found["devices"][0]["expected"] is None


def test_the_summary_says_how_sure_the_peak_is(run: Run, snap: Path) -> None:
    text = _words(run("summary", snap).stdout)
    assert "Allocated memory would peak at event 2 of 5" in text
    assert (
        "The peak of allocated memory is expected at 30.00 MiB, at least 29.00 MiB and at most"
        " 35.00 MiB: kernels whose own memory is not known, up to 3.00 MiB more; where the driver"
        " puts segments, 1.00 MiB less to 2.00 MiB more." in text
    )
    assert "7 values were assumed: nonzero as all elements 4 times (train.py:52)" in text
    assert "You can trust the figures as far as a forecast goes" in text
    assert "But 4 values that decide sizes were assumed" in text
    assert "It cannot know CUDA's context, NCCL's buffers" in text
    device = orjson.loads(run("summary", snap, "--json").stdout)["devices"][0]
    assert [device["expected"][name] // MIB for name in ("least", "expected", "most")] == [
        29,
        30,
        35,
    ]


def test_a_page_has_it_in_its_title_and_head(run: Run, snap: Path) -> None:
    run("render", snap, "-o", "page.html")
    page = Path("page.html").read_text(encoding="utf-8")
    assert "<title>snap.pickle · memory forecast</title>" in page
    assert '<strong class="forecast">Forecast</strong>' in page
    assert page.index(HEAD) < page.index('<p class="answer">')
    assert '<p class="expected">The peak of allocated memory is expected' in page
    assert "Forecast by" in page
    assert "2.64 s" not in page
    assert "epoch 1" in page
    text = _words(run("summary", "page.html").stdout)  # as the page keeps it
    assert HEAD in text


def test_a_bundle_gives_the_same_page_as_the_snapshot(run: Run, snap: Path) -> None:
    run("convert", snap, "-o", "snap.zip")
    for name in ("snap.pickle", "snap.zip"):
        run("render", name, "-o", f"{name}.md", "--title", "x")
    texts = [Path(f"{name}.md").read_text("utf-8") for name in ("snap.pickle", "snap.zip")]
    assert texts[0] == texts[1]
    assert HEAD in texts[0]


@pytest.mark.parametrize(
    ("card", "status", "said"),
    [
        ("24GB", 0, "At the most of its range, 45.00 MiB, it fits, too."),
        ("742MiB", 0, "It may not fit all the same: at the most of its range it needs 45.00 MiB"),
        ("700MiB", 3, "Whether it fits on a card of 700MiB depends on the allocator"),
        ("25MiB", 3, "Cannot fit on a card of 25MiB, whatever the settings"),
    ],
)  # fmt: skip
def test_a_card_is_judged_by_what_is_expected_and_the_most_is_told(
    run: Run, snap: Path, card: str, status: int, said: str
) -> None:
    result = run("check", snap, "--fits", card)
    text = _words(result.stdout)
    assert result.exit_code == status, text
    assert said in text
    assert "7 values that decide sizes" not in text
    assert "4 values that decide sizes were assumed, which no range covers." in text
    assert "measured" not in text


def test_a_budget_that_only_the_expected_peak_keeps_passes_with_a_remark(
    run: Run, snap: Path
) -> None:
    result = run("check", snap, "--max-peak", "32MiB")
    assert result.exit_code == 0
    assert "It may be up to 35.00 MiB, which is over the budget." in _words(result.stdout)


def test_a_comparison_says_how_right_the_forecast_was(run: Run, snap: Path, folder: Path) -> None:
    real = _recording(folder / "real.pickle")
    text = _words(run("diff", snap, real).stdout)
    assert (
        "BASE is a forecast for an H100 80 GB: nothing was computed, and no card was used." in text
    )
    assert (
        "The forecast peak of allocated memory is 1.00 MiB (1,048,576 bytes, 3.226%) lower than the"
        " recorded one, which lies in the forecast's range, 30,408,704 to 36,700,160 bytes." in text
    )
    assert "by role" in text
    found = orjson.loads(run("diff", real, snap, "--json").stdout)
    accuracy = found["accuracy"]
    assert (accuracy["side"], accuracy["error"], accuracy["in_range"]) == ("NEW", -MIB, True)
    assert sum(each["change"] for each in found["roles"]) == found["change"]
    assert (found["base"]["forecast"], found["new"]["forecast"]) == (None, HEAD)


def test_two_forecasts_have_no_accuracy(run: Run, snap: Path, folder: Path) -> None:
    other = _write(folder / "other.pickle", card="24GB")
    found = orjson.loads(run("diff", snap, other, "--json").stdout)
    assert found["accuracy"] is None
    assert [note.partition(":")[0] for note in found["notes"][:2]] == [
        "BASE is a forecast for an H100 80 GB", "NEW is a forecast for a card of 24GB",
    ]  # fmt: skip


def test_a_request_that_would_fail_is_said_to(run: Run, folder: Path) -> None:
    snap = _write(folder / "oom.pickle", failed=True, card="41MiB", capacity=41 * MIB)
    text = _words(run("summary", snap).stdout)
    assert "The program would run out of memory at event 3: it would ask for 50.00 MiB" in text
    assert "Would run out of memory: 50.00 MiB asked for" in text
    assert "Until the first request that fails, the peak of allocated memory" in text
    findings = _words(run("summary", snap, "--findings").stdout)
    assert "measured while recording" not in findings
    assert "recording" not in findings
    assert run("check", snap).exit_code == 3


def test_a_forecast_that_ended_while_memory_grew_asks_for_more_steps(
    run: Run, folder: Path
) -> None:
    snapshot = forecast(repeats=False)
    trace = snapshot["device_traces"][0]
    begin, rows = 0x7100_0000_0000, []
    for step in range(40):
        at = begin + step * MIB
        rows.append({**trace[1], "addr": at, "size": MIB})
    trace += [{**trace[0], "addr": begin, "size": 40 * MIB}, *rows]
    blocks = [
        {"address": row["addr"], "size": MIB, "requested_size": MIB, "state": "active_allocated",
         "frames": row["frames"]}
        for row in rows
    ]  # fmt: skip
    segment = {**snapshot["segments"][0], "address": begin, "total_size": 40 * MIB}
    held = dict.fromkeys(("allocated_size", "active_size", "requested_size"), 40 * MIB)
    snapshot["segments"].append({**segment, **held, "blocks": blocks})
    Path("grown.pickle").write_bytes(pickle.dumps(snapshot))
    text = _words(run("summary", "grown.pickle", "--recording").stdout)
    assert "memory was still growing when the forecast ended" in text
    assert "Let the program make more steps." in text
    assert "_dump_snapshot" not in text


def test_a_run_of_forecasts_says_so_in_every_form(run: Run, folder: Path) -> None:
    (folder / "run").mkdir()
    for rank in range(2):
        _write(folder / "run" / f"rank{rank}.pickle")
    assert HEAD in _words(run("summary", "run").stdout)
    assert orjson.loads(run("summary", "run", "--json").stdout)["forecast"] == HEAD
    run("render", "run", "-o", "run.html")
    page = Path("run.html").read_text("utf-8")
    assert "memory forecast of a run</title>" in page
    assert HEAD in page
    run("render", "run", "-o", "run.zip")
    assert zipfile.is_zipfile("run.zip")
    assert HEAD in _words(run("summary", "run.zip").stdout)
    _recording(folder / "run" / "rank2.pickle")
    assert "2 of 3 files are forecasts" in _words(run("summary", "run").stdout)


def test_an_export_as_a_snapshot_is_still_a_forecast(run: Run, snap: Path) -> None:
    run("convert", snap, "-o", "snap.zip")
    result = run("export", "pickle", "snap.zip", "-o", "again.pickle")
    assert result.exit_code == 0, result.stderr
    assert HEAD in _words(run("summary", "again.pickle").stdout)
    assert "step" in run("stages", "again.pickle").stdout

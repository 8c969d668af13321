"""``peak``, ``usage``, ``live``, ``lines``, ``stages`` and ``profile``: text, JSON, errors."""

from __future__ import annotations

import csv
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import orjson
import pytest

from snapreport.commands.stages import stage_labels
from tests.builders import frame, trace
from tests.commands.conftest import MIB, Run

if TYPE_CHECKING:
    from snapreport.model.findings import StageUse

SECOND = 0x7F0000000000 + MIB


@pytest.fixture
def staged(tmp_path: Path) -> Path:
    """Two forwards of 1 and 3 MiB in different files, and a block from before the recording."""
    at_model = [frame("forward", "/home/me/model.py", 7), frame("main", "/home/me/train.py", 1)]
    at_loss = [frame("loss", "/home/me/loss.py", 9), frame("main", "/home/me/train.py", 2)]
    made = trace().free("old", 2 * MIB)
    for size, frames in ((MIB, at_model), (3 * MIB, at_loss)):
        made.start("forward", 10 * len(made.events) - 5)
        made.alloc(f"x{size}", size, frames=frames)
        made.end("forward", 10 * len(made.events) - 5)
        made.free(f"x{size}")
    path = tmp_path / "staged.pickle"
    path.write_bytes(pickle.dumps(made.snapshot()))
    return path


@pytest.mark.parametrize(
    "command", ["live", "live --by line", "live --by allocation", "stages", "profile"]
)
def test_a_bundle_gives_the_same_answers_as_its_snapshot(
    run: Run, snapshot: Path, bundle: Path, command: str
) -> None:
    for more in ((), ("--json",)):
        first, second = (run(*command.split(), each, *more) for each in (snapshot, bundle))
        assert first.exit_code == second.exit_code == 0
        assert first.stdout == second.stdout
        assert first.stderr == ""


def test_the_peak_names_its_event_its_parts_and_who_held_it(run: Run, snapshot: Path) -> None:
    text = run("live", snapshot).stdout
    assert "at event 2" in text
    assert f"After alloc of 1.00 MiB at {SECOND:#x}." in text
    assert "\n2.00 MiB in 2 allocations, all made in the recording. Over" in text
    found = orjson.loads(run("live", snapshot, "--json").stdout)
    assert (found["event"], found["bytes"]) == (2, 2 * MIB)
    assert found["entry"]["action"] == "alloc"
    assert [entry["name"] for entry in found["entry"]["frames"]] == ["forward", "<module>"]
    assert sum(stack["bytes"] for stack in found["groups"]) == 2 * MIB
    inside = orjson.loads(run("live", snapshot, "--json", "--between", "3", "4").stdout)
    assert (inside["event"], inside["bytes"]) == (3, MIB)


@pytest.mark.parametrize(
    ("moment", "event", "live"),
    [
        (("--event", "-1"), -1, 0),
        (("--event", "1"), 1, MIB),
        (("--time", "15"), 1, MIB),
        (("--time", "1700000000000020"), 2, 2 * MIB),
        (("--at", "alloc", f"{SECOND:#x}"), 2, 2 * MIB),
        (("--at", "free", f"b{SECOND:x}_0"), 3, MIB),
        (("--between", "0", "1"), 1, MIB),
    ],
)
def test_a_moment_has_many_names(
    run: Run, snapshot: Path, moment: tuple[str, ...], event: int, live: int
) -> None:
    found = orjson.loads(run("live", snapshot, "--json", *moment).stdout)
    assert (found["event"], found["amounts"]["allocated"]) == (event, live)


def test_a_stage_is_a_moment_by_its_name_its_number_or_a_part(run: Run, staged: Path) -> None:
    for name, held in (("forward", 3), ("forward[1]", 1), ("forward[2]", 3), ("FORW", 3)):
        found = orjson.loads(run("live", staged, "--json", "--stage", name).stdout)
        assert found["bytes"] == held * MIB


def test_live_is_rows_groups_or_a_tree(run: Run, staged: Path) -> None:
    each = run("live", staged, "--json", "--by", "allocation").stdout
    rows = orjson.loads(each)["allocations"]
    assert [(row["bytes"], row["call_site"]) for row in rows] == [(3 * MIB, "loss  ~/loss.py:9")]
    groups = orjson.loads(run("live", staged, "--json", "--by", "file").stdout)["groups"]
    assert [(group["name"], group["bytes"]) for group in groups] == [("~/loss.py", 3 * MIB)]
    tree = orjson.loads(run("live", staged, "--json", "--by", "tree").stdout)["tree"]
    assert [(node["name"], node["bytes"]) for node in tree[1:]] == [
        ("main", 3 * MIB),
        ("loss", 3 * MIB),
    ]
    assert "loss" in run("live", staged, "--by", "tree").stdout
    before = run("live", staged, "--event", "-1", "--by", "line").stdout
    assert "before recording" in before
    assert "2.00 MiB" in before


def test_lines_take_the_innermost_frame_of_a_matching_file(run: Run, staged: Path) -> None:
    found = orjson.loads(run("live", staged, "--by", "line", "--json").stdout)
    (line,) = found["lines"]
    assert (line["location"], line["function"]) == ("~/loss.py:9", "loss")
    assert found["ever_allocated"] == 6 * MIB
    for pattern, place in (
        (("--include", "train.py"), "~/train.py:2"),
        (("--exclude", "/.*[.]py/"), "no matching frame"),
    ):
        chosen = run("live", staged, "--by", "line", "--json", *pattern).stdout
        assert [line["location"] for line in orjson.loads(chosen)["lines"]] == [place]


def test_lifetimes_are_asked_between_two_moments(run: Run, staged: Path) -> None:
    """Events: the free of old, 0 and 1, then twice a start, an alloc and a free."""
    made = ("live", staged, "--made-between", "start", "end")
    found = orjson.loads(run(*made, "--json", "--by", "site").stdout)
    assert (found["made"], found["freed"], found["alive"]) == ([-1, 7], None, None)
    assert [(group["name"], group["bytes"]) for group in found["groups"]] == [
        ("loss  ~/loss.py:9", 3 * MIB),
        ("forward  ~/model.py:7", MIB),
    ]
    text = run(*made, "--alive-at", "peak").stdout
    assert text.startswith(
        "cuda:0, made between the start and event 7, alive at event 5: 3.00 MiB allocated\n"
        "3.00 MiB in 1 allocation, made in the recording.\n"
    )
    assert "loss < main" in text
    text = run("live", staged, "--freed-between", "start", "0", "--by", "allocation").stdout
    assert "\n2.00 MiB in 1 allocation, from before the recording.\n" in text
    for asked in (
        ("--made-between", "start", "end", "--freed-between", "start", "end"),
        ("--made-and-freed-between", "start", "end"),
    ):
        found = orjson.loads(run("live", staged, *asked, "--by", "line", "--json").stdout)
        assert [line["bytes"] for line in found["lines"]] == [3 * MIB, MIB]
    for name, size in (("forward", 3), ("forward[1]", 1)):
        found = orjson.loads(run("live", staged, "--made-between", name, name, "--json").stdout)
        assert found["bytes"] == size * MIB
    nothing = run("live", staged, "--alive-throughout", "start", "end").stdout
    assert nothing.endswith("0 B allocated\nNo allocations.\n")


def test_a_change_is_what_came_minus_what_went(run: Run, staged: Path) -> None:
    changed = ("live", staged, "--changed-between", "-1", "peak")
    found = orjson.loads(run(*changed, "--json").stdout)
    assert (found["before"], found["after"], found["change"]) == (2 * MIB, 3 * MIB, MIB)
    assert (found["came"]["bytes"], found["went"]["bytes"]) == (3 * MIB, 2 * MIB)
    assert [(row["name"], row["change"]) for row in found["changes"]] == [
        ("loss  ~/loss.py:9", 3 * MIB),
        ("before recording", -2 * MIB),
    ]
    text = run(*changed, "--top", "1").stdout
    assert text.startswith(
        "cuda:0, from the start to event 5: +1.00 MiB allocated\n"
        "3.00 MiB in 1 allocation came and stayed, and 2.00 MiB in 1 allocation went."
    )
    assert "+1,048,576 bytes, and the rows add up to that, to the byte." in " ".join(text.split())
    assert text.endswith("1 more changed by -2.00 MiB in all; --full shows all.\n")
    rows = orjson.loads(run(*changed, "--json", "--by", "allocation").stdout)["allocations"]
    assert [row["bytes"] for row in rows] == [3 * MIB, -2 * MIB]
    tree = orjson.loads(run(*changed, "--json", "--by", "tree").stdout)["tree"]
    assert [node["bytes"] for node in tree] == [MIB, 3 * MIB, -2 * MIB, 3 * MIB]
    lines = run(*changed, "--by", "tree").stdout.splitlines()
    assert [line.split()[:3] for line in lines[-3:]] == [
        ["+3.00", "MiB", "main"],
        ["+3.00", "MiB", "loss"],
        ["-2.00", "MiB", "(before"],
    ]
    for more in (("--md",), ("--by", "role", "--md"), ("--by", "tree", "--md")):
        assert "to the byte" in run(*changed, *more).stdout


def test_a_change_leaves_out_what_is_nothing(run: Run, staged: Path) -> None:
    """Old is freed at 0, forward lives from 2 to 3 and loss from 6 to 7."""
    said = {
        ("-1", "0"): "Nothing came and stayed, and 2.00 MiB in 1 allocation went. The curve",
        ("0", "2"): "1.00 MiB in 1 allocation came and stayed, and nothing went. The curve",
        ("0", "1"): "Nothing came and stayed, and nothing went: 0 B at both.",
    }
    for span, told in said.items():
        text = run("live", staged, "--changed-between", *span).stdout
        assert text.splitlines()[1].startswith(told)
    assert len(text.splitlines()) == 2  # no table of nothing


@pytest.mark.parametrize("command", [("live",), ("live", "--by", "line")])
def test_lines_of_a_def_are_said_to_be_those(
    run: Run, snapshot: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    profile = tmp_path / "profile.pickle"
    forward = frame("forward", "model.py", 12) | {"line_is": "function start"}
    made = trace().alloc("a", MIB, frames=[forward]).snapshot()
    profile.write_bytes(pickle.dumps(made))
    note = "An operator such as a @ b has the line of the def that it is in."
    assert run(*command, profile).stdout.splitlines()[-1] == note
    assert note not in run(*command, snapshot).stdout
    for by in ("role", "size"):  # which have no lines
        assert note not in run("live", "--by", by, profile).stdout


def test_stages_are_numbered_filtered_and_show_their_stacks(run: Run, staged: Path) -> None:
    found = orjson.loads(run("stages", staged, "--json", "--stacks", "1").stdout)["stages"]
    assert [(stage["label"], stage["peak_bytes"]) for stage in found] == [
        ("forward[1]", MIB),
        ("forward[2]", 3 * MIB),
    ]
    assert [stage["stacks"][0]["name"] for stage in found] == ["forward < main", "loss < main"]
    assert "forward[2]" in run("stages", staged, "--name", "FOR").stdout


def test_a_profile_takes_rules_and_is_json_or_csv(run: Run, staged: Path, folder: Path) -> None:
    rules = '{"model": "model[.]py", "rest": "."}'
    found = orjson.loads(run("profile", staged, "--json", "--rules", rules).stdout)
    assert {(g["name"], g["rule"], g["peak_bytes"]) for g in found["groups"]} == {
        ("rest", "function or file ~ .", 3 * MIB),
        ("model", "function or file ~ model[.]py", MIB),
        ("unknown (before recording)", "before recording", 2 * MIB),
    }
    (folder / "rules.yaml").write_text("- category: late\n  function: ^loss$\n")
    result = run("profile", staged, "--rules", "rules.yaml", "--csv")
    rows = list(csv.DictReader(result.stdout.splitlines()))
    assert [int(row["event"]) for row in rows][:2] == [-1, 0]
    assert max(int(row["late"]) for row in rows) == 3 * MIB
    for row in rows:
        parts = [int(row[name]) for name in row if name not in ("event", "time_us", "total")]
        assert sum(parts) == int(row["total"])
    assert run("render", staged, "--rules", rules, "-o", "p.html").exit_code == 0
    assert "model[.]py" not in (folder / "p.html").read_text()  # it is in the packed data alone


def test_long_answers_say_what_they_leave_out(run: Run, snapshot: Path) -> None:
    text = run("live", snapshot, "--by", "allocation", "--top", "1").stdout
    assert text.endswith("1 more with 1.00 MiB; --full shows all.\n")
    assert (
        "more with"
        not in run("live", snapshot, "--by", "allocation", "--top", "1", "--full").stdout
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("live", "--event", "5"), "there is no event 5; this device has -1 (the start) to 4."),
        (("live", "--event", "-2"), "there is no event -2;"),
        (("live", "--stage", "forwrd"), "has no stages"),
        (("live", "--at", "alloc", "0x10"), "no allocation was ever at 0x10"),
        (("live", "--at", "free", "7f0000000000"), "was never freed in this recording"),
        (("live", "--between", "3", "1"), "ends at event 1, before it begins at 3"),
        (("live", "--by", "line", "--include", "/(/"), "/(/ is not a regular expression"),
        (("live", "--device", "7"), "has no device '7'; it has cuda:0"),
        (("live", "--made-between", "0", "9"), "there is no event 9; this device has -1 (the"),
        (
            ("live", "--made-between", "0", "noon"),
            "'noon' is not an event, a time, start, peak or end, and this recording has no stages",
        ),
        (("live", "--made-between", "-5", "3"), "there is no event -5; this device has -1 (the"),
        (
            ("live", "--made-between", "1.5s", "end"),
            "1.50 s is past the end; this recording is 30 µs long.",
        ),
        (("live", "--time", "31"), "31 µs is past the end;"),
        (("live", "--freed-between", "3", "1"), "event 1 is before event 3; name the earlier"),
        (
            ("live", "--made-between", "2", "3", "--alive-at", "1"),
            "what is made after event 2 is not alive at event 1, before it.",
        ),
        (
            ("live", "--changed-between", "0", "1", "--curve", "reserved"),
            "allocations do not add up to reserved bytes; name one of allocated, requested,",
        ),
        (("profile", "--rules", '{"a": "("}'), "rule 1 (a): '(' is not a regular expression"),
        (("profile", "--rules", "[]"), "it has no rules"),
        (("profile", "--rules", "nowhere.json"), "nowhere.json cannot be read"),
    ],
)
def test_what_cannot_be_answered_is_one_line(
    run: Run, snapshot: Path, arguments: tuple[str, ...], message: str
) -> None:
    command, *options = arguments
    result = run(command, snapshot, *options)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_unknown_stage_is_answered_with_those_that_are_near(run: Run, staged: Path) -> None:
    result = run("live", staged, "--stage", "forwrad")
    assert result.exit_code == 1
    assert "no stage is named 'forwrad'; this recording has 'forward'." in result.stderr
    result = run("stages", staged, "--name", "backward")
    assert result.exit_code == 1
    assert "this recording has forward" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("live", "--event", "1", "--time", "2"),
        ("live", "--by", "file", "--include", "model.py"),
        ("profile", "--json", "--csv"),
        ("profile", "--by", "stage", "--rules", '{"a": "b"}'),
        ("live", "--at", "alloc", "here"),
        ("live", "--event", "1", "--alive-at", "2"),
        ("live", "--alive-at", "2", "--alive-throughout", "1", "2"),
        ("live", "--made-between", "0", "1", "--made-and-freed-between", "0", "1"),
        ("live", "--changed-between", "0", "1", "--alive-at", "2"),
        ("live", "--changed-between", "0", "1", "--by", "line", "--include", "model.py"),
    ],
)
def test_options_that_contradict_each_other_are_wrong_usage(
    run: Run, snapshot: Path, arguments: tuple[str, ...]
) -> None:
    command, *options = arguments
    assert run(command, snapshot, *options).exit_code == 2


def test_stages_are_numbered_without_comparing_each_with_all() -> None:
    compared = 0

    class Name(str):
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    stages = tuple(SimpleNamespace(name=Name(f"step {i % 150}")) for i in range(200))
    labels = stage_labels(cast("tuple[StageUse, ...]", stages))
    assert labels[49:51] == ["step 49[1]", "step 50"]
    assert labels[150] == "step 0[2]"
    assert compared < 5 * len(stages)

"""What the commands print as JSON: named, whole, and as the schemas in docs/schemas have it."""

from __future__ import annotations

import copy
import functools
import pickle
from pathlib import Path
from typing import Any

import jsonschema
import orjson
import pytest

import snapreport
from docs.make_schemas import FOLDER, text
from snapreport.reporters.json_report import VERSIONS
from tests import corpus
from tests.builders import MIB, trace
from tests.commands.conftest import Run

SQL = "SELECT id, name, 0.5 AS half, NULL AS none, x'00ff' AS bytes FROM frames LIMIT 3"
ASKED: dict[str, list[list[str]]] = {
    "summary": [[], ["--card", "24GB"]],
    "live": [
        [],
        ["--curve", "requested", "--by", "file"],
        ["--event", "-1", "--by", "allocation"],
        ["--by", "allocation"],
        ["--by", "line"],
        ["--by", "tree"],
        ["--alive-at", "end"],
        ["--made-between", "start", "peak", "--alive-at", "end", "--by", "site"],
        ["--made-and-freed-between", "start", "end", "--by", "allocation"],
        ["--freed-between", "-1", "end", "--by", "line"],
        ["--alive-throughout", "start", "end", "--by", "tree"],
        ["--changed-between", "start", "peak"],
        ["--changed-between", "peak", "end", "--by", "allocation"],
        ["--changed-between", "peak", "end", "--by", "tree"],
    ],
    "stages": [[], ["--stacks", "2"]],
    "profile": [[]],
    "whatif": [
        [],
        ["--by", "category", "--without", "*n*"],
        ["--allocator", "recorded"],
        ["--allocator", "expandable_segments:True"],
    ],
    "plan": [["--fit", "2GB"], ["--fit", "1KiB"]],
    "diff": [[]],
    "check": [["--max-peak", "1KiB"], ["--max-growth", "2%"], ["--fits", "t4"]],
    "query": [[SQL], ["SELECT 1 WHERE 0"]],
    "strings": [[], ["--check"]],
}
OF_RUNS = {"run": "summary", "files": "summary", "run-diff": "diff"}
"""What a command prints of a run, or of several files, is a format of its own."""
"""What is asked of each command; ``diff`` and the growth take the file itself for another."""
NOTHING_TO_TRY = ("fits none of 0 names", "has no recorded history", "has nothing to replay")
"""What is said where a recording has nothing that could be taken away."""

SAMPLES = ("out_of_memory.pickle.gz", "three_devices.pickle", "state_only.pickle",
           "cpu_profile.pickle", "training_step.pickle")  # fmt: skip
REAL = [path for path in corpus.corpus_files() if path.stat().st_size < 150_000]


@functools.cache
def schema_of(name: str) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads((FOLDER / f"{name}.json").read_bytes())
    return found


def check(name: str, answer: Any) -> None:
    jsonschema.Draft202012Validator(schema_of(name)).validate(answer)


def asked(run: Run, name: str, options: list[str], file: Path) -> Any:
    if name in OF_RUNS:
        return asked_of_runs(run, name)
    more: list[str | Path] = [file] if name == "diff" else []
    if "--max-growth" in options:
        more = ["--base", file]
    result = run(name, file, *more, *options, "--json")
    if result.exit_code == 1 and any(text in result.stderr for text in NOTHING_TO_TRY):
        return None
    assert result.exit_code in (0, 3), result.stderr
    return orjson.loads(result.stdout)


def asked_of_runs(run: Run, name: str) -> Any:
    """Ask about a run of four ranks, of which one is odd and one broken, in the current folder."""
    for folder, loss in (("one", 8), ("other", 60)):
        Path(folder).mkdir()
        for rank in range(4):
            made = trace().alloc("a", MIB).alloc("b", (loss if rank == 1 else 8) * MIB)
            made.event("oom", size=MIB, addr=0)
            data = pickle.dumps(made.snapshot())
            Path(folder, f"rank{rank}.pickle").write_bytes(data[: 40 if rank == 3 else None])
    paths = ["other"] if name == "run" else ["one", "other"]
    if name == "files":
        paths = [f"one/rank{rank}.pickle" for rank in range(4)]
    result = run(OF_RUNS[name], *paths, "--json", "-q")
    assert result.exit_code == 1, result.stderr
    return orjson.loads(result.stdout)


@pytest.fixture
def loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All commands are asked of one file: it is the same each time."""
    load, known = snapreport.load, {}

    def once(source: Any, **options: Any) -> Any:
        key = str(source)
        if key not in known:
            known[key] = load(source, **options)
        return known[key]

    monkeypatch.setattr(snapreport, "load", once)


@pytest.mark.parametrize("name", VERSIONS)
def test_the_schemas_are_those_of_the_types(name: str) -> None:
    made = (FOLDER / f"{name}.json").read_bytes()
    assert made == text(name), "run python -m docs.make_schemas"
    jsonschema.Draft202012Validator.check_schema(orjson.loads(made))


def test_there_is_no_schema_without_a_command_and_no_other() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(VERSIONS) == {*ASKED, *OF_RUNS}


def check_all(run: Run, file: Path) -> None:
    for name, ways in ASKED.items():
        for options in ways:
            answer = asked(run, name, options, file)
            if answer is None:
                continue  # there is nothing to be taken away
            assert answer["format"] == {"name": f"snapreport.{name}", "version": VERSIONS[name]}
            check(name, answer)


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.usefixtures("loaded_once")
def test_every_answer_about_a_sample_is_as_its_schema_has_it(
    run: Run, samples: Path, name: str
) -> None:
    check_all(run, samples / name)


@pytest.mark.skipif(not REAL, reason=corpus.NO_CORPUS)
@pytest.mark.parametrize("file", REAL, ids=lambda file: file.name)
@pytest.mark.usefixtures("loaded_once")
def test_every_answer_about_a_real_file_is_as_its_schema_has_it(run: Run, file: Path) -> None:
    check_all(run, file)


@pytest.mark.parametrize("name", VERSIONS)
def test_a_schema_refuses_what_is_missing_and_what_it_does_not_name(
    run: Run, samples: Path, folder: Path, name: str
) -> None:
    """At every depth: in each object of the answer that is not a mapping of names."""
    options = [] if name in OF_RUNS else ASKED[name][0]
    answer = asked(run, name, options, samples / "out_of_memory.pickle.gz")
    for key in answer:
        with pytest.raises(jsonschema.ValidationError):
            check(name, {k: v for k, v in answer.items() if k != key})
    odd = copy.deepcopy(answer)
    for place in (odd, odd["format"], *_first_objects(odd)):
        place["surplus"] = {}
        with pytest.raises(jsonschema.ValidationError):
            check(name, odd)
        del place["surplus"]
    check(name, odd)


def _first_objects(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        value[0] for value in answer.values()
        if isinstance(value, list) and value and isinstance(value[0], dict)
    ]  # fmt: skip


def test_json_holds_every_row_and_stacks_as_frames(run: Run, samples: Path) -> None:
    file = samples / "training_step.pickle"
    live = orjson.loads(run("live", file, "--by", "allocation", "--json").stdout)
    assert len(live["allocations"]) == live["amounts"]["live"] > 20
    assert sum(row["bytes"] for row in live["allocations"]) == live["bytes"]
    frames = {stack["id"]: stack["frames"] for stack in live["stacks"]}
    used = {row["stack"] for row in live["allocations"]} - {None}
    assert set(frames) == used
    stacks = orjson.loads(run("live", file, "--json").stdout)["groups"]
    assert len(stacks) > 10
    assert sum(stack["bytes"] for stack in stacks) == live["bytes"]
    framed = [stack for stack in stacks if stack["frames"]]
    assert framed
    for stack in framed:
        assert stack["frames"] == frames[stack["stack"]]
        assert set(stack["frames"][0]) == {"name", "file", "line", "source"}

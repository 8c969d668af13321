"""What each format says, in cases small enough to check by hand."""

from __future__ import annotations

import csv
import gzip
import io
import shutil
import subprocess
from pathlib import Path
from typing import Any

import orjson
import pytest

import snapreport
from snapreport.ground.protobuf import varint
from snapreport.reporters.exports import perfetto, profiles, tables
from snapreport.reporters.exports.perfetto import lanes
from tests.builders import KIB, MIB, frame, trace
from tests.conftest import REPOSITORY
from tests.exports import export_of, read_perfetto, read_pprof, written

UNWINDER = frame("torch::unwind::unwind()", "??", 0)
MALLOC = frame("c10::cuda::CUDACachingAllocator::Native::malloc(void**)", ":0", 0)
CALLER = frame("at::empty(long)", "empty.cpp", 0)
USER = frame("forward; drop\n", "model.py", 7)


def history() -> Any:
    return (
        trace()
        .alloc("a", 4 * KIB, frames=[UNWINDER, MALLOC, CALLER, USER])
        .alloc("b", 2 * KIB, frames=[MALLOC, CALLER, USER])
        .alloc("c", 2 * MIB)
        .free("c")
        .file()
    )


def test_collapsed_stacks_begin_outermost_and_end_where_memory_was_asked_for() -> None:
    text = written(profiles.write_collapsed, export_of(history())).decode()
    assert text == (
        f"[stacks not recorded] {2 * MIB}\n"
        f"forward, drop\\n (model.py:7);at::empty (empty.cpp) {6 * KIB}\n"
    )


def test_speedscope_s_own_schema_accepts_it() -> None:
    import jsonschema

    path = REPOSITORY / "templates/node_modules/speedscope/dist/release/file-format-schema.json"
    if not path.is_file():
        pytest.skip(f"no {path}: run npm ci in templates/")
    schema = orjson.loads(path.read_bytes())
    schema["$ref"] = "#/definitions/FileFormat.File"
    document = orjson.loads(written(profiles.write_speedscope, export_of(history())))
    jsonschema.validate(document, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "profiles": [{"type": "sampled"}]}, schema)


def test_pprof_names_functions_lines_and_values() -> None:
    profile = read_pprof(written(profiles.write_pprof, export_of(history(), event=4)))
    text = profile.string_table
    kinds = [(text[v.type], text[v.unit]) for v in profile.sample_type]
    assert kinds == list(profiles.VALUES)
    assert text[profile.default_sample_type] == "inuse_space"
    functions = {f.id: (text[f.name], text[f.filename]) for f in profile.function}
    places = {p.id: (*functions[p.line[0].function_id], p.line[0].line) for p in profile.location}
    samples = {tuple(places[i] for i in s.location_id): list(s.value) for s in profile.sample}
    assert samples == {
        (("at::empty(long)", "empty.cpp", 0), ("forward; drop\\n", "model.py", 7)): [
            *(2, 6 * KIB),
            *(2, 6 * KIB),
        ],
        (("stacks not recorded", "", 0),): [1, 2 * MIB, 0, 0],
    }


def test_go_s_own_pprof_reads_the_same_total(samples: Path, tmp_path: Path) -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("go is not installed, so its pprof cannot be asked")
    source = samples / "training_step.pickle"
    path = snapreport.export(source, "pprof", tmp_path)
    done = subprocess.run(
        [go, "tool", "pprof", "-raw", str(path)], capture_output=True, text=True, check=True
    )
    rows = done.stdout.partition("Samples:")[2].partition("Locations")[0].splitlines()[2:]
    values = [[int(part) for part in row.partition(":")[0].split()] for row in rows if ":" in row]
    device = snapreport.load(source).device()
    assert [sum(column) for column in zip(*values, strict=True)] == [
        len(device.allocations),
        int(device.allocations.block_size.sum()),
        device.peak.live,
        device.peak.allocated,
    ]


def test_profiles_are_the_same_bytes_every_time() -> None:
    one, two = (written(profiles.write_pprof, export_of(history())) for _ in range(2))
    assert one == two
    assert gzip.decompress(one)


def test_a_spreadsheet_is_given_no_formula() -> None:
    evil = trace().alloc("a", KIB, frames=[frame("=1+1", "=cmd.py")], user_metadata="@SUM(A1)")
    text = written(tables.write_csv, export_of(evil.file())).decode()
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert row["metadata"] == "'@SUM(A1)"
    assert row["stack"].startswith("'=1+1")
    assert row["call_site"].startswith("'=1+1")


def test_tables_and_timelines_tell_what_memory_is_for() -> None:
    made = trace()
    for place, size in (("a", KIB), ("b", 2 * KIB)):
        made.alloc(place, size, frames=[frame("forward", "model.py", 7)]).free(place)
    export = export_of(made.alloc("c", 512, frames=[frame("main", "train.py", 2)]).file())
    text = written(tables.write_csv, export).decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["role"] for row in rows] == ["temporary of forward"] * 2 + ["unknown"]
    assert rows[0]["role_evidence"] == "freed in the forward pass that made it"
    assert [row["role_confidence_percent"] for row in rows] == ["90", "90", "0"]
    (timeline,) = read_perfetto(written(perfetto.write_perfetto, export)).values()
    assert [each[3]["role"] for each in timeline.slices] == [row["role"] for row in rows]


def test_perfetto_keeps_the_order_of_events_of_one_microsecond() -> None:
    tied = trace()
    for place in "abc":
        tied.alloc(place, MIB, time_us=1_700_000_000_000_000)
        tied.free(place, time_us=1_700_000_000_000_000)
    (timeline,) = read_perfetto(written(perfetto.write_perfetto, export_of(tied.file()))).values()
    first = 1_700_000_000_000_000_000
    allocated = timeline.counters["allocated bytes"]
    assert sorted(allocated.items()) == [
        (first - 1, 0),
        *((first + i, MIB * (i % 3 == 0)) for i in (0, 1, 3, 4, 6, 7)),
    ]


def test_perfetto_tells_what_was_asked_for_where() -> None:
    (timeline,) = read_perfetto(written(perfetto.write_perfetto, export_of(history()))).values()
    (large,) = [each for each in timeline.slices if each[0] == "Allocations of 1 to 16 MiB"]
    small = [each[3] for each in timeline.slices if each[0] == "Allocations under 1 MiB"]
    assert (large[3]["name"], large[3]["requested"]) == ("stacks not recorded", 2 * MIB)
    assert large[2] is not None
    ends = {tuple(each["stack"].splitlines()[-2:]) for each in small}
    assert ends == {("at::empty (empty.cpp)", "forward; drop\\n (model.py:7)")}
    assert [each["block"] for each in small] == [4 * KIB, 2 * KIB]


def test_overlapping_spans_get_lanes_of_their_own_and_ended_ones_are_reused() -> None:
    assert lanes([(0, 5), (1, 2), (2, 9), (3, 4), (5, 6)]) == [0, 1, 1, 2, 0]
    assert lanes([]) == []


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (-1, "ff" * 9 + "01")],
)
def test_varints_are_those_of_the_protobuf_documentation(value: int, encoded: str) -> None:
    assert varint(value).hex() == encoded

"""Memory by the forward line behind a gradient, and by what the program said of it."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import snapreport
from snapreport.api.loading import Snapshot
from snapreport.bundle import read_bundle, write_bundle
from snapreport.diagnosis.conclude import find
from snapreport.figures.grouping import find_groups, find_lines, metadata_fields, metadata_keys
from snapreport.figures.thinning import Cutter
from snapreport.model.asked import (
    Cut,
    NamesWanted,
    Question,
)
from snapreport.model.history import (
    History,
    Picture,
)
from snapreport.model.roles import ROLES
from snapreport.names.redaction import redact
from snapreport.reporters.answers import group_table
from snapreport.reporters.document import Document
from snapreport.reporters.exports.rebuilt_snapshot import rebuild
from snapreport.reporters.exports.tables import write_csv
from snapreport.reporters.payload import pack
from tests.builders import KIB, MIB, assert_same_history, frame, history_of, trace
from tests.documents import text_of
from tests.exports import export_of, written
from tests.payloads import Unpacked

TORCH = "/venv/lib/python3.11/site-packages/torch"
EMPTY = frame("at::native::empty_strided_cuda", "??", 0)
NODE = frame("torch::autograd::generated::MulBackward0::apply", "??", 0)
ENGINE = frame("torch::autograd::Engine::evaluate_function", "??", 0)
BACK = [EMPTY, NODE, ENGINE]
STEP = frame("step", "train.py", 40)


def lines(line: int) -> list[str]:
    """The forward call stack behind a gradient, as PyTorch writes it."""
    return [
        '  File "train.py", line 40, in step\n    loss = model(x)\n',
        f'  File "model.py", line {line}, in forward\n    return self.act(x * y)\n',
        f'  File "{TORCH}/nn/functional.py", line 1700, in gelu\n',
    ]


def recorded(own: list[dict[str, Any]] | None = None) -> History:
    """A forward and a backward pass of two lines; ``own`` are the frames of the backward pass."""
    back = BACK if own is None else own
    made = trace()
    for line in (39, 52):
        own_line = [EMPTY, frame("gelu", f"{TORCH}/nn/functional.py", 1700)]
        own_line += [frame("forward", "model.py", line), STEP]
        made.alloc(f"act{line}", MIB, frames=own_line, user_metadata=f'{{"layer":{line},"a":"x"}}')
    for line in (52, 39):
        made.alloc(f"grad{line}", line * KIB, frames=back, forward_frames=lines(line))
    return made.alloc("other", KIB, frames=back).file()


def sites(file: History) -> list[tuple[str, str, int | None]]:
    found = find(file).devices[0].sites
    return sorted((site.name, site.filename, site.line) for site in found)


def groups(file: History, by: str) -> dict[str, int]:
    found = find_groups(file, file.devices[0], Question(alive=(4, 4)), by)
    return {group.name: group.requested for group in found}


def test_a_gradients_call_site_is_the_forward_line_that_it_belongs_to() -> None:
    assert sites(recorded())[1:] == [
        ("forward", "model.py", 39),
        ("forward", "model.py", 52),
        ("gradient of forward", "model.py", 39),
        ("gradient of forward", "model.py", 52),
    ]


def test_so_it_is_where_only_python_frames_were_recorded() -> None:
    file = recorded(own=[])
    assert ("gradient of forward", "model.py", 39) in sites(file)
    roles = snapreport.Snapshot(file).device().roles.role
    assert "activation" not in {ROLES[role] for role in roles[2:].tolist()}


def test_memory_is_grouped_by_the_forward_line_behind_it() -> None:
    assert groups(recorded(), "forward") == {
        "no forward line": 2 * MIB + KIB,
        "forward  model.py:52": 52 * KIB,
        "forward  model.py:39": 39 * KIB,
    }


def test_a_layer_has_what_its_line_allocates_in_both_passes() -> None:
    file = recorded()
    found = find_groups(file, file.devices[0], Question("requested", alive=(4, 4)), "layer")
    assert [(group.name, group.bytes, group.backward) for group in found[:2]] == [
        ("forward  model.py:52", MIB + 52 * KIB, 52 * KIB),
        ("forward  model.py:39", MIB + 39 * KIB, 39 * KIB),
    ]
    assert [(group.requested, group.backward) for group in found[2:]] == [(KIB, 0)]
    table = group_table("layer", found, sum(group.bytes for group in found), 1)
    heading, line = text_of(Document("", [table])).splitlines()[:2]
    assert heading.split() == ["bytes", "backward", "share", "count", "requested", "layer"]
    assert line.split()[:4] == ["1.05", "MiB", "52.00", "KiB"]


def test_a_line_and_its_gradients_are_one_line_named_after_the_line() -> None:
    made = trace().alloc("of before", KIB, frames=BACK, forward_frames=lines(39))
    file = made.alloc("act", MIB, frames=[frame("forward", "model.py", 39), STEP]).file()
    (line,) = find_lines(file.devices[0], file.stacks, Question("requested", alive=(1, 1)))
    assert (line.location, line.function, line.bytes) == ("model.py:39", "forward", MIB + KIB)


def test_the_forward_line_behind_a_segment_is_read_too() -> None:
    made = trace().alloc("a", MIB, frames=BACK, forward_frames=lines(39))
    made.segment(
        "a", 2 * MIB, (MIB, MIB, "active_allocated"), frames=BACK, forward_frames=lines(39)
    )
    file = made.file()
    stacks, (stack,) = file.stacks, file.devices[0].segments.stack.tolist()
    assert "gradient of forward" in {stacks.frames.names[frame] for frame in stacks.path(stack)}
    assert not file.oddities


def test_without_any_forward_line_there_is_one_group() -> None:
    file = trace().alloc("a", KIB, frames=[STEP]).alloc("b", KIB).file()
    assert [
        group.name
        for group in find_groups(file, file.devices[0], Question(alive=(1, 1)), "forward")
    ] == ["no forward line"]
    assert find(file).devices[0].labels == ()


def test_memory_is_grouped_by_metadata_and_its_keys() -> None:
    file = recorded()
    rest = 92 * KIB
    assert groups(file, "metadata:layer") == {"39": MIB, "52": MIB, "none": rest}
    assert groups(file, "metadata:a") == {"x": 2 * MIB, "none": rest}
    assert groups(file, "metadata")['{"layer":39,"a":"x"}'] == MIB
    assert metadata_keys(file, file.devices[0]) == ["a", "layer"]
    labels = [name for name, _ in find(file).devices[0].labels]
    assert labels == ["layer", "forward", "metadata:a", "metadata:layer"]


def test_metadata_may_be_text_json_or_lines_of_both() -> None:
    assert metadata_fields("step 1") == {}
    assert metadata_fields('{"a":1,"b":{"c":null}}') == {"a": "1", "b": '{"c":null}'}
    assert metadata_fields('{"a":1}\nkept\n{"a":"two"}') == {"a": "two"}
    deep = f'{{"a":{"[" * 900}{"]" * 900}}}'  # orjson reads it, but does not write it
    assert metadata_fields(deep) == {"a": "[…]"}
    assert metadata_fields("{not json") == metadata_fields('{"a":') == {}


def test_a_bundle_and_a_snapshot_made_of_it_say_the_same(tmp_path: Path) -> None:
    file = recorded()
    with (tmp_path / "a.zip").open("wb") as out:
        write_bundle(file, out)
    assert_same_history(read_bundle(tmp_path / "a.zip"), file)
    assert groups(history_of(rebuild(file)), "forward") == groups(file, "forward")
    lines_again = rebuild(file)["device_traces"][0][2]["forward_frames"]
    assert lines_again == lines(52)


def test_redaction_keeps_that_it_is_a_gradient() -> None:
    wanted = NamesWanted(redact_functions=True)
    names = redact(recorded(), wanted).stacks.frames.names
    assert sum(name.startswith("gradient of ") for name in names) == 4


def test_a_table_has_the_forward_line_of_each_allocation() -> None:
    table = written(write_csv, export_of(recorded()))
    rows = list(csv.DictReader(io.StringIO(table.decode())))
    assert [row["forward_line"] for row in rows] == [
        "", "", "forward  model.py:52", "forward  model.py:39", "",
    ]  # fmt: skip


def test_backward_frames_are_not_taken_for_a_forward_pass() -> None:
    roles = Snapshot(recorded()).device().roles
    assert ROLES[roles.role[0]] == "activation"
    assert "activation" not in {ROLES[role] for role in roles.role[2:].tolist()}


def test_a_page_has_the_labels_of_the_allocations_that_it_draws() -> None:
    findings = find(recorded())
    cutter = Cutter(findings.devices, Cut(min_size=50 * KIB))
    cut = replace(findings, picture=Picture(cutter.cut, 0, cutter.drawn()))
    page = Unpacked(pack(cut, {}))
    (device,) = page.header["devices"]
    texts = [*page.header["strings"], None]

    def labels(name: str) -> list[str | None]:
        return [texts[int(each)] for each in page.column(device["labels"][name])]

    assert labels("forward") == [None, None, "forward  model.py:52"]
    assert labels("metadata:layer") == ["39", "52", None]

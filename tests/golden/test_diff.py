"""A sample against the program after an edit, in each text format; and every pair of real files.

``make golden`` rewrites what is expected; then read the diff.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import orjson
import pytest

import snapreport
from dev.simulator import Simulator
from dev.simulator.training import TrainingRun, Transformer
from sample_snapshots.make_samples import KEYS
from snapreport.diagnosis.compare.diff_types import DIFF_GROUPINGS, Diff
from snapreport.ground.version import __version__
from snapreport.reporters.json_report import diff_as_json
from tests.builders import history_of
from tests.corpus import NO_CORPUS, corpus_files, loaded
from tests.documents import diff_as
from tests.edits import Frame, edited, installed_in
from tests.property.test_diff import assert_sums, turned

EXPECTED = Path(__file__).with_name("expected")
FILES = corpus_files()
PAIRS = [
    *pairwise(FILES),
    *zip(FILES[1::4], FILES[3::4], strict=False),
    *((each, each) for each in FILES[3::8]),
]


def after_an_edit(frame: Frame) -> Frame:
    """Three lines were inserted in front of line 35 of the attention, in another checkout."""
    if frame["filename"] == "model/attention.py" and frame["line"] >= 35:
        frame = frame | {"line": frame["line"] + 3}
    return installed_in("/home/ann/run", "/opt/venv/lib/python3.11/site-packages")(frame)


@pytest.fixture(scope="module")
def found(samples: Path) -> Diff:
    """The training step against one with longer texts, after an edit."""
    simulator = Simulator(optional_keys=KEYS, seed=1)
    run = TrainingRun(simulator, Transformer(length=640))
    run.build()
    simulator.start_recording()
    run.train(2)
    new = snapreport.Snapshot(history_of(edited(simulator.snapshot(), after_an_edit)))
    return snapreport.diff(samples / "training_step.pickle", new)


def written(diff: Diff, kind: str) -> str:
    if kind == "json":
        return orjson.dumps(diff_as_json(diff), option=orjson.OPT_INDENT_2).decode() + "\n"
    return diff_as(diff, kind)


@pytest.mark.parametrize("kind", ["json", "md", "txt"])
def test_a_comparison_is_written_as_expected(found: Diff, kind: str, rewrite_golden: bool) -> None:
    report = written(found, kind).replace(__version__, "VERSION")
    expected = EXPECTED / f"diff.{kind}"
    if rewrite_golden:
        expected.write_text(report, encoding="utf-8")
    assert report == expected.read_text(encoding="utf-8")


def test_the_edit_is_seen_through(found: Diff) -> None:
    matches = Counter(change.match for change in found.sites if change.kind == "site")
    assert set(matches) == {"exact", "moved line"}
    moved = {
        (change.base_place.line, change.new_place.line)
        for change in found.sites
        if change.match == "moved line" and change.base_place and change.new_place
    }
    assert moved == {(39, 42), (40, 43)}


@pytest.mark.skipif(not PAIRS, reason=NO_CORPUS)
@pytest.mark.parametrize(("base", "new"), PAIRS, ids=lambda path: path.name)
def test_real_files_compare_to_the_byte_both_ways(base: Path, new: Path) -> None:
    one, other = loaded(base), loaded(new)
    for curve in ("allocated", "reserved"):
        there = snapreport.diff(one, other, curve=curve)
        back = snapreport.diff(
            other, one, curve=curve, device=there.new.device, new_device=there.base.device
        )
        assert_sums(there)
        assert Counter(map(turned, there.sites)) == Counter(back.sites)
        if base == new:
            assert all(change.change == 0 for change in there.sites)
    assert len(diff_as(there, "md").encode()) < 400_000


@pytest.mark.parametrize("by", DIFF_GROUPINGS)
def test_every_grouping_of_real_files_sums_up(corpus: Path, by: str) -> None:
    base, new = corpus / "memory_ctx128_forward_.pickle", corpus / "medium_512_training.pickle"
    assert_sums(snapreport.diff(base, new, by=by))


def test_a_package_that_only_writes_operations_differently_hides_no_line(corpus: Path) -> None:
    base, new = corpus / "memory_ctx128_forward_.pickle", corpus / "medium_512_training.pickle"
    sites = snapreport.diff(base, new).sites
    places = [place.filename for c in sites for place in (c.base_place, c.new_place) if place]
    assert not [name for name in places if "einops" in name]
    # Both programs' largest sites called it: each is a line of a program of its own.
    largest = [c for c in sites if c.match != "exact"][:2]
    assert [(c.name, c.match) for c in largest] == [
        ("forward", "only in NEW"),
        ("softmax", "only in NEW"),
    ]

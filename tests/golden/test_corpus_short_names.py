"""Shortened paths: every figure of a real snapshot is the same before and after."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import orjson
import pytest

import snapreport
from snapreport.figures.callsites import find_site_frames
from snapreport.reporters.json_report import findings_as_json
from snapreport.reporters.page_report import write_report
from snapreport.roles.frames import classify_frames
from snapreport.roles.stack_kinds import classify
from tests.corpus import NO_CORPUS, corpus_files, findings_of, loaded

FILES = corpus_files()
pytestmark = pytest.mark.skipif(not FILES, reason=NO_CORPUS)


@pytest.fixture(scope="module", params=FILES, ids=lambda path: path.name)
def path(request: pytest.FixtureRequest) -> Path:
    """A snapshot."""
    found: Path = request.param
    return found


@pytest.fixture(scope="module")
def both(path: Path) -> tuple[snapreport.Snapshot, snapreport.Snapshot]:
    """The same with its paths as recorded, and with short ones."""
    return loaded(path, keep_paths=True), loaded(path)


Both = tuple[snapreport.Snapshot, snapreport.Snapshot]


def test_names_stay_as_many_and_lose_their_homes(both: Both) -> None:
    kept, short = (each.history.stacks.frames.filenames for each in both)
    assert len(set(kept)) == len(set(short)) == len(set(zip(kept, short, strict=True)))
    assert not [name for name in short if "/home/" in name or "Users" in name or "/root" in name]


def test_frames_sites_and_categories_are_told_alike(both: Both) -> None:
    kept, short = (each.history for each in both)
    assert (classify_frames(kept.stacks.frames) == classify_frames(short.stacks.frames)).all()
    assert (find_site_frames(kept.stacks) == find_site_frames(short.stacks)).all()
    for one, other in zip(kept.devices, short.devices, strict=True):
        before, after = classify(kept, one), classify(short, other)
        assert (before[0] == after[0]).all()
        assert before[1] == after[1]


def renamed(value: Any, names: dict[str, str]) -> Any:
    """JSON with each text that is a file name, or a place in one, in short."""
    if isinstance(value, str):
        for name in sorted(names, key=len, reverse=True):
            if name and value == name:
                return names[name]
            if "/" in name or "\\" in name:
                value = value.replace(name, names[name])
        return value
    if isinstance(value, dict):
        return {key: renamed(item, names) for key, item in value.items()}
    return [renamed(item, names) for item in value] if isinstance(value, list) else value


def test_all_findings_are_the_same_but_for_the_names(path: Path, both: Both) -> None:
    kept, short = both
    names = dict(
        zip(
            kept.history.stacks.frames.filenames,
            short.history.stacks.frames.filenames,
            strict=True,
        )
    )
    one, other = (
        orjson.loads(orjson.dumps(findings_as_json(findings_of(path, keep_paths=keep))))
        for keep in (True, False)
    )
    assert renamed(one, names) == other


@pytest.mark.parametrize("by", ["module", "category", "function", "line", "stage"])
def test_groups_are_the_same(both: Both, by: str) -> None:
    for device in both[0].devices:
        kept, short = (each.device(str(device.device)).at().by(by) for each in both)
        assert [(g.bytes, g.count) for g in kept] == [(g.bytes, g.count) for g in short]
        if by != "line":
            assert [g.name for g in kept] == [g.name for g in short]


def test_a_bundle_that_keeps_paths_has_them_or_is_shortened_when_it_is_read(
    path: Path, both: Both, tmp_path: Path
) -> None:
    from snapreport.api.making import save_bundle

    kept, short = both
    save_bundle(kept, tmp_path / "kept.zip")
    again = snapreport.load(tmp_path / "kept.zip", keep_paths=True)
    assert again.history.names == kept.history.names
    pages = []
    for findings in (findings_of(path, keep_paths=True), again.findings()):
        out = BytesIO()
        write_report(findings, out)
        pages.append(out.getvalue())
    assert pages[0] == pages[1]
    again = snapreport.load(tmp_path / "kept.zip")
    assert again.history.names == short.history.names
    assert again.history.stacks.frames.filenames == short.history.stacks.frames.filenames


PAIRS = [
    ("memory_ctx128_forward_", "compiled_2.7b_forward"),  # of one user, one of them compiled
    ("mem_snapshot", "memory_forward_bf16_128"),  # projects beside one another
    ("medium_512_training", "memory_forward_bf16_128"),  # of two users, on two machines
    ("no_times_torch21", "snapshot_event_inside"),  # notebooks
    ("sgd_annotated", "three_gpus_expandable_oom"),  # Windows and Linux
]


@pytest.mark.parametrize(("base", "new"), PAIRS)
def test_a_diff_matches_sites_as_before(base: str, new: str, corpus: Path) -> None:
    kept, short = (
        snapreport.diff(
            *(loaded(corpus / f"{name}.pickle", keep_paths=keep) for name in (base, new))
        )
        for keep in (True, False)
    )

    def told(found: snapreport.Diff) -> list[tuple[object, ...]]:
        return sorted(
            (c.name, c.match, c.base_bytes, c.new_bytes, c.base_count, c.new_count)
            for c in (*found.sites, *found.parts, *found.categories)
        )

    assert told(kept) == told(short)

"""What a pickle shares costs what its file has, not what it has written out."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

import snapreport
from snapreport.ground.errors import ExportError, NotASnapshotError
from snapreport.model.snapshot import MOST_EXPORTED, MOST_WRITTEN, most_exported, most_written
from snapreport.read import read_bytes, read_snapshot
from snapreport.reporters.exports import EXPORTS
from tests.builders import frame, trace
from tests.corpus import NO_CORPUS, corpus_files
from tests.hostile.cost import assert_within
from tests.thorough import small, some

needs_forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="inputs are tried in forks")

TEXTS = {"plain": "n" * 150_000, "accented": "é" * 120_000, "half": "\ud800" * 60_000}
"""The last is not even a character; the others have one byte each and two, in memory too."""


def with_frames(*frames: dict[str, Any]) -> dict[str, Any]:
    return trace().alloc("a", 512, frames=list(frames)).snapshot()


def with_key(key: str, value: Any) -> dict[str, Any]:
    return trace().alloc("a", 512).snapshot() | {key: value}


def with_marks(count: int, **values: Any) -> dict[str, Any]:
    mark = {"name": "x", "stage": "START", "device": 0} | values
    return with_key("external_annotations", [mark | {"time_us": i} for i in range(count)])


def with_notes(**values: Any) -> dict[str, Any]:
    return with_key("snapreport", {"format": 1, **values})


def with_counters(text: str) -> dict[str, Any]:
    stats = {f"{text[:3000]}{i}": i + 1 for i in range(1000)}
    row = {"device": "cuda:0", "stats_before": stats, "stats_after": stats}
    return with_notes(devices=[dict(row) for _ in range(256)])


def with_actions(text: str) -> dict[str, Any]:
    builder = trace()
    for _ in range(5000):
        builder.event(text)
    return builder.snapshot()


def with_metadata(text: str) -> dict[str, Any]:
    builder = trace()
    for i in range(2000):
        builder.alloc(f"a{i}", 512, user_metadata=text, category=text, compile_context=text)
    return builder.snapshot()


LARGE = {
    "settings": lambda text: with_key(
        "allocator_settings", dict.fromkeys(map(str, range(9000)), text)
    ),
    "names of settings": lambda text: with_key("allocator_settings", {"a": [{text: 1}] * 4000}),
    "functions": lambda text: with_frames(*(frame(text, line=i) for i in range(4000))),
    "files": lambda text: with_frames(*(frame("f", text, line=i) for i in range(4000))),
    "one frame again and again": lambda text: with_frames(*[frame(text)] * 100_000),
    "fields of frames": lambda text: with_frames(
        *(frame("f", line=i) | {"fx_node_op": text} for i in range(4000))
    ),
    "stages": lambda text: with_marks(5000, name=text),
    "actions": with_actions,
    "counters": with_counters,
}
"""Small snapshots of a text, whose bundles would be large."""

SMALL = {
    "metadata": with_metadata,
    "stages that are none": lambda text: with_marks(20_000, stage=text),
    "fields of stages": lambda text: with_marks(20_000, more=text),
    "states of blocks": lambda text: with_key(
        "segments",
        [{"address": 0, "total_size": 0, "blocks": [{"size": 0, "state": text}] * 20_000}],
    ),
    "storages": lambda text: with_notes(
        storages=[{"device": text, "kind": text, "name": text, "address": 1, "size": 1}] * 9000
    ),
}
"""Others, which need not be."""

PLACES_OF_TEXTS = [(place, text) for place in (*LARGE, *SMALL) for text in TEXTS]


@needs_forks
@pytest.mark.parametrize(("place", "text"), some(PLACES_OF_TEXTS, 17))
def test_a_text_that_is_used_again_and_again_is_cheap(place: str, text: str) -> None:
    data = pickle.dumps((LARGE | SMALL)[place](TEXTS[text]), 4)
    assert_within(data, seconds=6, mib=400)


@pytest.mark.parametrize("place", LARGE)
def test_a_small_file_gives_no_large_bundle(place: str) -> None:
    data = pickle.dumps(LARGE[place](TEXTS["plain"]), 4)
    with pytest.raises(NotASnapshotError) as caught:
        read_bytes(data, "x.pickle")
    assert str(caught.value).startswith("x.pickle is damaged: its texts, each written out")
    assert str(caught.value).endswith(f"at most {most_written(len(data)):,}.")


def test_one_text_is_kept_once() -> None:
    for text in TEXTS.values():
        raw = read_bytes(
            pickle.dumps(with_frames(*(frame(text, line=i) for i in range(9))), 4), "x"
        )
        assert len(set(map(id, raw.stacks.frames.names))) == 1


@needs_forks
@pytest.mark.parametrize("form", ["csv", "json", "perfetto", "collapsed", "speedscope", "pprof"])
def test_a_small_file_gives_no_large_export(form: str) -> None:
    long = [frame("n" * 1000, line=i) for i in range(100)]
    builder, text = trace(), TEXTS["plain"]
    for i in range(3000):
        builder.alloc(f"a{i}", 512, frames=long, user_metadata=text)

    def attempt(source: Path, output: Path) -> None:
        most = most_exported(source.stat().st_size)
        if source.stat().st_size > 250_000 and form in ("csv", "json"):  # not the first, to warm up
            with pytest.raises(
                ExportError, match=r"input\.pickle has .*, and would have over 7\d\.\d+ MiB"
            ):
                snapreport.export(source, form, output)
            assert not output.exists()
        else:
            assert snapreport.export(source, form, output).stat().st_size < most

    assert_within(pickle.dumps(builder.snapshot(), 4), seconds=6, mib=100, attempt=attempt)


@pytest.mark.skipif(not corpus_files(), reason=NO_CORPUS)
@pytest.mark.parametrize("path", small(corpus_files()), ids=lambda path: path.stem)
def test_no_real_file_comes_near(path: Path, tmp_path: Path) -> None:
    raw = read_snapshot(path)
    assert raw.stacks.characters() * 8 < raw.length * MOST_WRITTEN
    for form in ("csv", "json"):
        written = snapreport.export(path, form, tmp_path / f"x{EXPORTS[form]}").stat().st_size
        assert written * 4 < raw.length * MOST_EXPORTED

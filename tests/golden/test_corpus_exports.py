"""Every real snapshot in every form: totals re-read are those of the curves."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import orjson

import snapreport
from snapreport.reporters.exports import (
    perfetto,
)
from snapreport.reporters.exports import (
    profiles as collapsed,
)
from snapreport.reporters.exports import (
    profiles as pprof,
)
from snapreport.reporters.exports import (
    profiles as speedscope,
)
from snapreport.reporters.exports.rebuilt_snapshot import rebuild
from tests.builders import history_of
from tests.corpus import loaded, representative_corpus_file
from tests.exports import CURVES, export_of, only, read_perfetto, read_pprof, written
from tests.property.test_exports import collapsed_total, facts


@representative_corpus_file
def test_flame_graphs_add_up_to_the_peak_of_each_curve(path: Path) -> None:
    history = loaded(path).history
    for curve in CURVES:
        export = export_of(history, curve)
        for place, device in enumerate(export.devices):
            # The peak; of a file without history, the end.
            one, peak = only(export, place), int(device.found.curves[curve][device.event + 1])
            assert not device.found.recorded or peak == device.found.peaks[curve].bytes
            assert collapsed_total(written(collapsed.write_collapsed, one)) == peak
            profiles = orjson.loads(written(speedscope.write_speedscope, one))["profiles"]
            assert sum(profiles[0]["weights"]) == peak
            profile = read_pprof(written(pprof.write_pprof, one))
            assert sum(sample.value[3] for sample in profile.sample) == peak


@representative_corpus_file
def test_perfetto_has_every_curve_s_peak(path: Path) -> None:
    export = export_of(loaded(path).history)
    timelines = read_perfetto(written(perfetto.write_perfetto, export))
    assert len(timelines) == len(export.devices)
    for device, timeline in zip(export.devices, timelines.values(), strict=True):
        told = {curve: max(values.values()) for curve, values in timeline.counters.items()}
        assert told == {f"{name} bytes": p.bytes for name, p in device.found.peaks.items()}


@representative_corpus_file
def test_sql_and_parquet_count_every_byte(path: Path, tmp_path: Path) -> None:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    snapshot = loaded(path)
    table = pq.read_table(snapreport.export(path, "parquet", tmp_path / "out.parquet"))
    everyone = [device.allocations for device in snapshot.devices]
    requested = sum(int(rows.size.sum()) for rows in everyone)
    assert (pc.sum(table["requested_bytes"]).as_py() or 0) == requested
    assert snapshot.query("SELECT count(*) AS n, total(size) AS bytes FROM allocations") == [
        {"n": sum(map(len, everyone)), "bytes": float(requested)}
    ]


@representative_corpus_file
def test_a_bundle_is_rebuilt_to_the_same_history(path: Path) -> None:
    history = loaded(path).history
    again = history_of(rebuild(history))
    if history.layout in ("torch-2.0", "segments"):  # written as PyTorch does today
        again = replace(again, layout=history.layout)
    assert facts(again) == facts(history)


@representative_corpus_file
def test_raw_forms_hold_what_the_file_holds(path: Path, tmp_path: Path) -> None:
    original = pickle.loads(path.read_bytes())
    again = snapreport.export(path, "pickle", tmp_path / "out.pickle").read_bytes()
    assert pickle.loads(again) == original
    told = snapreport.export(path, "json", tmp_path / "out.json").read_bytes()
    assert told == orjson.dumps(original)
    assert again[:2] == b"\x80\x04"

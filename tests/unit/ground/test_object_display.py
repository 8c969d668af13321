"""What Python gets is short in a shell, a table in a notebook, and a DataFrame on request."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import pytest

import snapreport
from snapreport.ground.safe_text import html_table
from tests.builders import frame, trace
from tests.hostile_text import ATTACKS

LONGEST = 200


def answers(snapshot: snapreport.Snapshot) -> list[Any]:
    device, found = snapshot.device(), snapshot.findings()
    moment = device.at()
    return [
        snapshot, found, *found.devices, device, device.diagnosis, *device.diagnosis.findings,
        device.trust, moment, moment.tree(), moment.amounts, moment.live(), moment.parts(),
        *moment.by("stack"), *moment.lines(), device.allocations, device.history, device.segments,
        snapshot.history, snapshot.history.stacks, device.profile(), *device.what_if(),
        *device.stages, device.statistics(),
        snapreport.check(snapshot, max_peak="1KiB"), snapreport.diff(snapshot, snapshot),
    ]  # fmt: skip


def test_every_public_class_shows_itself_in_a_notebook() -> None:
    kinds = [getattr(snapreport, name) for name in snapreport.__all__]
    classes = [kind for kind in kinds if inspect.isclass(kind) and not issubclass(kind, Exception)]
    assert len(classes) > 6
    for kind in classes:
        assert hasattr(kind, "_repr_html_"), kind
        assert kind.__repr__ is not object.__repr__, kind


@pytest.mark.parametrize(
    "name", ["training_step.pickle", "out_of_memory.pickle.gz", "three_devices.pickle"]
)
def test_whatever_python_gets_is_short_and_has_a_table(samples: Path, name: str) -> None:
    for each in answers(snapreport.load(samples / name)):
        text, html = repr(each), each._repr_html_()
        assert len(text) <= LONGEST, type(each)
        assert "\n" not in text
        assert html.startswith("<div>"), type(each)
        assert html.count("<table") == html.count("</table>")
        assert "<script" not in html
        assert "style=" not in html
        assert len(html) < 100_000, type(each)


def test_all_that_a_file_says_is_text() -> None:
    for word in ATTACKS.values():
        builder = trace().alloc("a", 4, frames=[frame(word, word)])
        for each in answers(snapreport.Snapshot(builder.file()))[2:]:
            html = each._repr_html_()
            for tag in ("<script", "<img", "<svg", "<iframe", "<a "):
                assert tag not in html.lower() or isinstance(each, snapreport.Snapshot)
            assert repr(each).isprintable()
        assert "<b" not in html_table([word], [[word]]).replace("<tbody", "").lower()


def test_tables_become_data_frames(samples: Path) -> None:
    pandas = pytest.importorskip("pandas")
    device = snapreport.load(samples / "training_step.pickle").device()
    moment = device.at()
    rows = device.allocations.to_pandas()
    assert isinstance(rows, pandas.DataFrame)
    assert len(rows) == len(device.allocations)
    assert rows["size"].sum() == device.allocations.size.sum()
    assert moment.tree().to_pandas()["bytes"][0] == moment.bytes
    assert moment.live().to_pandas()["bytes"].sum() == moment.bytes
    found = device.diagnosis
    assert list(found.to_pandas()["code"]) == [each.code for each in found.findings]
    assert pandas.DataFrame(moment.by("file"))["bytes"].sum() == moment.bytes


def test_without_pandas_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    device = snapreport.Snapshot(trace().alloc("a", 4).file()).device()
    with pytest.raises(ImportError, match="pip install pandas"):
        device.peak.to_pandas()


def test_a_terminal_s_ipython_prints_the_summary(samples: Path) -> None:
    class Printer:
        said = ""

        def text(self, text: str) -> None:
            self.said += text

    printer = Printer()
    snapreport.load(samples / "training_step.pickle")._repr_pretty_(printer, False)
    assert "Held at the peak, by call site" in printer.said

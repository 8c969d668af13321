"""What people have today, run from checkouts that are given by path.

Nothing of them is part of this project; without their path they are left out.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


class PeerError(Exception):
    """A path does not hold what it should; the message says what is missing."""


@dataclass(frozen=True)
class Peer:
    """Another program that reads a snapshot.

    Attributes:
        name: as in the tables.
        command: the command for a snapshot and the file to write.
        output: name of the file or folder that it writes; None if it only prints.
        environment: what it needs in its environment.
    """

    name: str
    command: Callable[[Path, Path], list[str]]
    output: str | None
    environment: dict[str, str]


def snapviewer(folder: Path, python: str = sys.executable) -> Peer:
    """SnapViewer's ``convert_snap.py``, of a checkout.

    Its versions write a zip file, or (since it has a window of its own) a folder of two files.
    """
    script = _needed(folder, "convert_snap.py")
    return Peer(
        "SnapViewer convert_snap.py",
        lambda snapshot, out: [python, str(script), "-i", str(snapshot), "-o", str(out)],
        "snapviewer",
        {},
    )


def mosaic(folder: Path, python: str = sys.executable) -> Peer:
    """Mosaic's peak, of a checkout."""
    _needed(folder, "mosaic/cmd/get_memory_usage_peak.py")
    module = "mosaic.cmd.get_memory_usage_peak"
    return Peer(
        "Mosaic peak",
        lambda snapshot, _: [python, "-m", module, "--snapshot", str(snapshot)],
        None,
        {"PYTHONPATH": str(folder.resolve())},
    )


def torch_plot(python: str = sys.executable) -> Peer:
    """PyTorch's own ``trace_plot``, as a script: without the time that importing torch takes."""
    script = memory_viz_script()
    return Peer(
        "PyTorch trace_plot",
        lambda snapshot, out: [python, str(script), "trace_plot", str(snapshot), "-o", str(out)],
        "trace_plot.html",
        {},
    )


def memory_viz_script() -> Path:
    """Return where the installed PyTorch has ``_memory_viz.py``; torch is not imported.

    Raises:
        PeerError: torch is not installed, or has no such file.
    """
    found = importlib.util.find_spec("torch")
    if found is None or not found.submodule_search_locations:
        raise PeerError("torch is not installed here; install it, or leave out --peer-torch.")
    return _needed(Path(found.submodule_search_locations[0]), "cuda/_memory_viz.py")


def _needed(folder: Path, name: str) -> Path:
    path = folder.resolve() / name
    if not path.is_file():
        raise PeerError(f"{folder} holds no {name}; give the path of a checkout that has it.")
    return path

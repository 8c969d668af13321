"""Measure convert and render, stage by stage, beside the floor and beside other programs.

Every run is a fresh process; the runs are interleaved, and medians are taken. Times are processor
seconds (user and system). The workloads are made once, and kept in out/bench. For the document one
program is measured from 10,000 to 10 million events, and runs of 1 to 1,024 ranks, in a quarter of
an hour; it needs 8 GB of memory, and 4 GB of disk.

    python -m dev.benchmarks.run                              the quick workloads
    python -m dev.benchmarks.run --document docs/performance.md --snapshot real.pickle
    python -m dev.benchmarks.run --workloads steps-1.2M --snapshot real.pickle --peer-torch
    python -m dev.benchmarks.run snap.pickle --peer-snapviewer ../SnapViewer --json figures.json
    python -m dev.benchmarks.run --read figures.json --document docs/performance.md

Pickles are loaded by Python's own unpickler: give this program only files that you trust.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from dev.benchmarks.measure import peers as others
from dev.benchmarks.measure.document import write_document
from dev.benchmarks.measure.machine import calibrate, this_machine
from dev.benchmarks.measure.processes import CommandError, run_once
from dev.benchmarks.measure.ranks import measure_ranks
from dev.benchmarks.measure.results import PageResult, Report, Result, large
from dev.benchmarks.measure.session import REPOSITORY, measure
from dev.benchmarks.measure.tables import pages_table, peers_table, results_table
from dev.benchmarks.measure.targets import OUR_PAGE, VIEWER, targets_table
from dev.benchmarks.workloads.named import BY_NAME, SETS, Workload

FOLDER = REPOSITORY / "out" / "bench"
PEER_SECONDS = 600.0
RANKS = [1, 64, 256, 1024]
ONCE = 400_000_000
"""Bytes; for the document larger recordings are measured once, and without other programs."""


def arguments_of(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Measure convert and render.")
    parser.add_argument("files", nargs="*", type=Path, metavar="SNAPSHOT")
    parser.add_argument(
        "--workloads", help="small, quick, full, huge, or names separated by commas"
    )
    parser.add_argument(
        "--snapshot", type=Path, help="what the training steps repeat: a real recording"
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="for the workloads")
    parser.add_argument("--json", type=Path, help="where to keep every run's figures")
    parser.add_argument("--read", type=Path, help="measure nothing: use figures that were kept")
    parser.add_argument(
        "--document", type=Path, metavar="FILE.md", help="measure all, and write the document"
    )
    parser.add_argument(
        "--ranks", type=int, nargs="+", metavar="N", help="measure runs of so many ranks, too"
    )
    parser.add_argument("--browser", action="store_true", help="measure the pages, too")
    peers = parser.add_argument_group("what people have today")
    peers.add_argument("--peer-snapviewer", type=Path, metavar="DIR")
    peers.add_argument("--peer-mosaic", type=Path, metavar="DIR")
    peers.add_argument("--peer-torch", action="store_true", help="trace_plot of the installed one")
    peers.add_argument("--peer-viewer", type=Path, metavar="DIR", help="MemoryViz.js and its d3")
    peers.add_argument("--peer-python", default=sys.executable, help="the Python that runs them")
    peers.add_argument(
        "--peer-seconds",
        type=float,
        default=PEER_SECONDS,
        metavar="SECONDS",
        help="the most for one run of them; one that needs more is stopped, and told of as such",
    )
    arguments = parser.parse_args(argv)
    if arguments.document is not None:
        arguments.workloads = arguments.workloads or "curve"
        arguments.ranks = arguments.ranks or RANKS
        arguments.peer_torch |= find_spec("torch") is not None
        arguments.browser = True
    return arguments


def main(argv: Sequence[str] | None = None) -> None:
    """Measure what was asked for, and print or write the tables."""
    arguments = arguments_of(argv)
    try:
        report = run(arguments) if arguments.read is None else Report.read(arguments.read)
    except (others.PeerError, CommandError, ValueError) as error:
        raise SystemExit(f"{error}") from error
    if arguments.json is not None:
        report.save(arguments.json)
    if arguments.document is not None:
        write_document(report, arguments.document)
    else:
        print("\n\n".join(tables(report)))


def run(arguments: argparse.Namespace) -> Report:
    """Measure, and return all figures.

    Raises:
        PeerError: the path of another program is wrong; nothing has been measured then.
        CommandError: one of our own commands fails.
        ValueError: a workload has a name that is not known.
    """
    begun, machine, whole = time.monotonic(), this_machine(), arguments.document is not None
    programs = peers_of(arguments)
    if arguments.peer_viewer is not None:
        from dev.benchmarks.measure.viewer import check_viewer

        check_viewer(arguments.peer_viewer)
        others.memory_viz_script()
    workloads = [(path.stem, "", path.resolve()) for path in arguments.files]
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for workload in workloads_of(arguments):
        say(f"making {workload.name}")
        path = workload.make(arguments.folder.resolve(), arguments.snapshot)
        workloads.append((workload.name, workload.series, path))
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name).resolve()
        calibration = calibrate(folder) if whole else {}
        results = measure(
            workloads,
            arguments.runs,
            folder,
            programs,
            arguments.peer_seconds,
            say,
            stages=not whole,
            once=ONCE if whole else math.inf,
        )
        kept = arguments.folder.resolve()
        ranks = measure_ranks(arguments.ranks or (), kept, folder, say)
        explorer = first_picture(workloads, large(results), folder) if whole else math.nan
        pages = browse(workloads, arguments, folder) if arguments.browser else []
    command = "python -m dev.benchmarks.run " + shlex.join(told(arguments))
    minutes = (time.monotonic() - begun) / 60
    return Report(
        machine,
        command.strip(),
        arguments.runs,
        results,
        pages,
        calibration,
        ranks,
        explorer,
        minutes,
    )


def first_picture(
    workloads: Sequence[tuple[str, str, Path]], result: Result | None, folder: Path
) -> float:
    """Return the seconds until the explorer's first picture of a workload; nan without one."""
    if result is None or find_spec("textual") is None:
        return math.nan
    from dev.benchmarks.explorer import first_seconds

    say(f"explorer on {result.name}")
    path = next(path for name, _, path in workloads if name == result.name)
    bundle = folder / "explored.zip"
    command = [sys.executable, "-m", "snapreport", "convert", str(path), "-o", str(bundle)]
    run_once([*command, "--quiet"], output=bundle, folder=REPOSITORY)
    return first_seconds(bundle)


def workloads_of(arguments: argparse.Namespace) -> list[Workload]:
    """Return the workloads that were named; the quick ones where nothing was."""
    asked = arguments.workloads or ("" if arguments.files else "quick")
    found: list[Workload] = []
    for name in filter(None, asked.split(",")):
        if name not in SETS and name not in BY_NAME:
            known = ", ".join([*SETS, *BY_NAME])
            raise ValueError(f"there is no workload {name!r}; there are {known}.")
        found += SETS.get(name) or [BY_NAME[name]]
    return list(dict.fromkeys(found))


def peers_of(arguments: argparse.Namespace) -> list[others.Peer]:
    """Return the other programs that were given."""
    found = []
    python = arguments.peer_python
    if arguments.peer_torch:
        found.append(others.torch_plot(python))
    if arguments.peer_snapviewer is not None:
        found.append(others.snapviewer(arguments.peer_snapviewer, python))
    if arguments.peer_mosaic is not None:
        found.append(others.mosaic(arguments.peer_mosaic, python))
    return found


def browse(
    workloads: Sequence[tuple[str, str, Path]], arguments: argparse.Namespace, folder: Path
) -> list[PageResult]:
    """Render each workload, as we and as PyTorch do, and measure the pages in a browser."""
    # Only now: the rest needs no browser.
    from dev.benchmarks.measure.browser import measure_pages

    seconds = arguments.peer_seconds
    pages, without = [], []
    for name, _, path in workloads:
        say(f"pages of {name}")
        ours = folder / f"{name}.html"
        command = [sys.executable, "-m", "snapreport", "render", str(path), "-o", str(ours)]
        run_once([*command, "--quiet"], output=ours, folder=REPOSITORY)
        pages.append((name, OUR_PAGE, ours))
        if arguments.peer_viewer is not None:
            theirs = folder / f"{name}.trace_plot.html"
            peer = others.torch_plot(arguments.peer_python)
            try:
                run_once(peer.command(path, theirs), output=theirs, folder=folder, seconds=seconds)
            except CommandError as error:
                failed = f"trace_plot: {error.reason}"
                nan = math.nan
                without.append(PageResult(name, VIEWER, 0, nan, 0, nan, failed))
            else:
                pages.append((name, VIEWER, theirs))
    return measure_pages(pages, arguments.runs, arguments.peer_viewer, seconds) + without


def told(arguments: argparse.Namespace) -> list[str]:
    """Return the arguments as a reader would give them: without the paths of this machine."""
    words = []
    if arguments.document is not None:
        words += ["--document", f"docs/{arguments.document.name}"]
    if arguments.workloads and (arguments.document is None or arguments.workloads != "curve"):
        words += ["--workloads", arguments.workloads]
    if arguments.snapshot is not None:
        words += ["--snapshot", arguments.snapshot.name]
    words += ["--runs", str(arguments.runs)]
    if arguments.ranks and arguments.ranks != RANKS:
        words += ["--ranks", *map(str, arguments.ranks)]
    for name in ("browser", "peer_torch"):
        if getattr(arguments, name) and arguments.document is None:
            words.append(f"--{name.replace('_', '-')}")
    for name in ("peer_snapviewer", "peer_mosaic", "peer_viewer"):
        if getattr(arguments, name) is not None:
            words += [f"--{name.replace('_', '-')}", getattr(arguments, name).name]
    if arguments.peer_seconds != PEER_SECONDS:
        words += ["--peer-seconds", f"{arguments.peer_seconds:g}"]
    return [*words, *(path.name for path in arguments.files)]


def tables(report: Report) -> list[str]:
    """Return what is printed."""
    how = f"Medians of {report.runs} runs on {report.machine}:\n\n    {report.command}"
    return [
        how,
        results_table(report.results),
        peers_table(report.results),
        pages_table(report.pages),
        targets_table(report),
    ]


def say(text: str) -> None:
    """Tell what begins."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

"""Tell whether this checkout makes the same bytes as another one does.

For whoever makes something faster and means to change no result. Each snapshot is converted, and
its bundle rendered in every format, by both checkouts; every file must be the same. Without
snapshots, the small workloads are taken.

    python -m dev.benchmarks.same ../before
    python -m dev.benchmarks.same ../before snapshots/*.pickle
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dev.benchmarks.workloads.named import SMALL

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = ("page.html", "page.md", "page.json")


def results(checkout: Path, snapshot: Path, folder: Path) -> dict[str, bytes]:
    """Return what a checkout makes of a snapshot, by the name of the file; errors, too."""
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    bundle = folder / "bundle.zip"
    commands = {
        "convert": ["convert", str(snapshot), "-o", str(bundle)],
        "summary": ["summary", str(snapshot)],
        **{name: ["render", str(bundle), "-o", str(folder / name)] for name in PAGES},
    }
    found = {}
    for name, command in commands.items():
        if command[0] == "render" and not bundle.exists():
            continue
        done = subprocess.run(
            [sys.executable, "-m", "snapreport", *command],
            check=False,
            capture_output=True,
            cwd=checkout,
            env=environment,
        )
        said = done.stdout + done.stderr + b"%d" % done.returncode
        found[f"{name}: what it says"] = said.replace(str(folder).encode(), b"")
    for path in sorted(folder.iterdir()):
        found[path.name] = path.read_bytes()
    return found


def differences(checkouts: tuple[Path, Path], snapshot: Path) -> list[str]:
    """Name the results that differ between two checkouts."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        one, other = (
            results(checkout, snapshot, folder / str(i)) for i, checkout in enumerate(checkouts)
        )
    return sorted(each for each in {*one, *other} if one.get(each) != other.get(each))


def main(argv: Sequence[str] | None = None) -> None:
    """Compare on what was named; the status is 1 where anything differs."""
    parser = argparse.ArgumentParser(description="Compare this checkout's results with another's.")
    parser.add_argument("other", type=Path, metavar="CHECKOUT")
    parser.add_argument("snapshots", nargs="*", type=Path, metavar="SNAPSHOT")
    arguments = parser.parse_args(argv)
    folder = REPOSITORY / "out" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    snapshots = [path.resolve() for path in arguments.snapshots]
    snapshots = snapshots or [workload.make(folder) for workload in SMALL]
    checkouts = (REPOSITORY, arguments.other.resolve())
    wrong = 0
    for snapshot in snapshots:
        found = differences(checkouts, snapshot)
        wrong += bool(found)
        print(f"{snapshot.name}: {', '.join(found) + ' differ' if found else 'the same'}")
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()

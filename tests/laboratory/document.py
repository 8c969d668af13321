"""Writes docs/advice.md: what figures of advice mean, and how true they were of real programs."""

from __future__ import annotations

import functools
import platform
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from itertools import islice
from pathlib import Path

import snapreport
from snapreport.api.device import Device
from snapreport.figures.callsites import short_site
from snapreport.ground.units import format_bytes
from snapreport.model.diagnoses import Suggestion
from tests.conftest import REPOSITORY
from tests.corpus import corpus_files
from tests.laboratory import advice, batches, plans, roles
from tests.laboratory.recording import Job
from tests.laboratory.remarks import REMARKS
from tests.laboratory.tables import markdown

PATH = REPOSITORY / "docs" / "advice.md"
_TEXT = Path(__file__).with_name("page.md")
_SAMPLES = REPOSITORY / "sample_snapshots"
_NO_SNAPSHOTS = (".md", ".py")
NAMES = ("snapshot", "device", "suggestion", "least", "expected", "most", "acts on")
"""Of the table of snapshots."""
_SHOWN = 2


def write(programs: Sequence[str]) -> None:
    """Make all runs that are missing, and write the page.

    Args:
        programs: those whose roles and advice are judged.
    """
    sizes, largest, sizes_summary = batches.report().split("\n\n")
    text = _TEXT.read_text(encoding="utf-8").format(
        versions=_versions(),
        steps=advice.STEPS,
        pairs=advice.report(programs),
        shares=", ".join(f"{share:.0%}" for share in plans.SHARES),
        plans=plans.report(),
        sizes=sizes,
        room=batches.ROOM,
        largest=largest,
        sizes_summary=sizes_summary,
        roles=roles.report([Job(name) for name in programs]),
        snapshots=markdown(NAMES, [row for path in snapshot_paths() for row in rows_of(path)]),
        remarks=remarks_of(snapshot_paths()),
    )
    PATH.write_text("".join(f"{line.rstrip()}\n" for line in text.splitlines()), encoding="utf-8")


def _versions() -> str:
    return (
        f"PyTorch {version('torch')} and Python {platform.python_version()} on"
        f" {platform.system()} {platform.machine()}"
    )


def samples() -> list[Path]:
    """Return the snapshots of the repository."""
    found = (path for path in _SAMPLES.iterdir() if path.is_file())
    return sorted(path for path in found if path.suffix not in _NO_SNAPSHOTS)


def snapshot_paths() -> tuple[Path, ...]:
    """Return the samples and the real snapshots."""
    return (*samples(), *corpus_files())


def remarks_of(paths: Iterable[Path]) -> str:
    """Return the remarks on the devices of some snapshots that have suggestions, a line each."""
    devices = dict.fromkeys((row[0], row[1]) for path in paths for row in rows_of(path))
    return "\n".join(f"- `{file}`, {device}: {REMARKS[file, device]}" for file, device in devices)


@functools.cache
def rows_of(path: Path) -> Sequence[Sequence[str]]:
    """Return the first suggestions for each device of a snapshot, as the table has them."""
    snapshot = snapreport.load(path)
    rows = []
    for history in snapshot.devices:
        device = snapshot.device(str(history.device))
        for each in islice(_suggestions(device), _SHOWN):
            figures = (each.frees.least, each.frees.expected, each.frees.most) if each.frees else ()
            row = [
                path.name,
                device.name,
                advice.variant_of(each),
                *([format_bytes(figure) for figure in figures] or [""] * 3),
                f"`{short_site(each.sites[0])}`" if each.sites else "",
            ]
            rows.append(row)
    return rows


def _suggestions(device: Device) -> Iterator[Suggestion]:
    return (each for finding in device.diagnosis.findings for each in finding.suggestions)

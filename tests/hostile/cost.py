"""What one input costs, tried in a process of its own: seconds of the processor, and memory.

A test of a hostile input makes it in a few lines and says what it may take at most:

    assert_within(pickle.dumps(snapshot), seconds=2, mib=100)
"""

from __future__ import annotations

import functools
import shutil
import tempfile
from pathlib import Path

import snapreport
from snapreport.ground.native.library import library
from tests.clock import TRIES, slowness
from tests.hostile.families import MIB, Attempt, run_family

SAMPLE = Path(__file__).resolve().parent.parent.parent / "sample_snapshots" / "two_streams.pickle"


def report(source: Path, output: Path) -> None:
    """Do with a file what most users do: convert it, then write its page and its Markdown."""
    bundle = output.with_suffix(".zip")
    try:
        snapreport.convert(source, bundle)
        for format in ("html", "md"):
            snapreport.render(bundle, output, format=format, force=True)
    finally:
        bundle.unlink(missing_ok=True)


def assert_within(
    data: bytes,
    *,
    seconds: float,
    mib: float,
    attempt: Attempt = report,
    ending: str = ".pickle",
) -> None:
    """Fail where an input takes longer or more memory, or ends in anything but success or one line.

    Args:
        data: the input.
        seconds: of the processor, in all threads, as `tests.clock` counts them.
        mib: of memory besides what Python and our modules take before.
        attempt: what is done with it; a SnapreportError is as good as success.
        ending: of the input's file name, with its dot.
    """
    warm(attempt)
    most = int(2 * mib + 512) * MIB  # address space: threads and what is mapped count too
    for _ in range(TRIES):
        tried = run_family(
            "", lambda: [("", data)], attempt, ending, seconds=6 * seconds, memory=most
        )
        took = tried.worst_s if tried.worst_s <= seconds else tried.worst_s / slowness()
        if took <= seconds:
            break
    mebibytes = tried.worst_bytes / MIB
    print(f"{took:.2f} s of {seconds:.2f}, {mebibytes:.0f} MiB of {mib:.0f}")  # for pytest -rP
    assert not tried.notes, tried.notes
    assert tried.left_over == tried.code_run == 0
    assert took <= seconds, f"took {took:.2f} s, and may take {seconds} s"
    assert mebibytes <= mib, f"took {mebibytes:.0f} MiB, and may take {mib} MiB"


@functools.cache
def warm(attempt: Attempt) -> None:
    """Import and open what an attempt needs, so that no child has to."""
    library()
    with tempfile.TemporaryDirectory() as folder:
        attempt(Path(shutil.copy(SAMPLE, folder)), Path(folder, "output"))  # it may write beside it

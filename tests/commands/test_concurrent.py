"""Several processes that write to one target, one of them killed, and somebody who reads it."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

import snapreport
from tests.commands.conftest import event, one_block_snapshot
from tests.forked_commands import start, start_function


def write_again(verb: str, source: Path, target: Path, turns: int) -> None:
    """Write so often that many writings overlap; say when ready to begin, and wait for a word.

    It takes its turns, and more until the file "enough" is beside the sources' folders; with 0
    turns it goes on until it is killed.
    """
    enough = source.parent.parent / "enough"
    print("ready", flush=True)
    sys.stdin.readline()
    turn = 0
    while not turns or turn < turns or not enough.exists():
        getattr(snapreport, verb)(source, target, force=True)
        turn += 1


TURNS = 5
MOST_SECONDS = 120


def two_snapshots(folder: Path) -> list[Path]:
    """Two that have one name, and contents of different lengths."""
    paths = []
    for place, more in (("a", 0), ("b", 300)):
        snapshot = one_block_snapshot()
        trace = snapshot["device_traces"][0]
        for k in range(more):
            for action in ("alloc", "free_requested", "free_completed"):
                trace.append(event(action, 0x7F0000800000, 512 * (k + 1), 1_700_000_000_001_000))
        path = folder / place / "snap.pickle"
        path.parent.mkdir()
        path.write_bytes(pickle.dumps(snapshot))
        paths.append(path)
    return paths


@contextmanager
def writing(
    verb: str, target: Path, sources: list[tuple[Path, int]]
) -> Iterator[list[subprocess.Popen[str]]]:
    """Start a process for each source and number of turns, and let them begin together."""
    with ExitStack() as stack:
        writers = []
        for source, turns in sources:
            writer = stack.enter_context(
                start_function(
                    partial(write_again, verb, source, target, turns),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
            )
            stack.callback(writer.kill)
            writers.append(writer)
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("\n")
            writer.stdin.flush()
        yield writers


@pytest.mark.parametrize(("verb", "ending"), [("convert", "zip"), ("render", "html")])
def test_a_reader_always_finds_a_whole_file_of_one_of_the_writers(
    tmp_path: Path, folder: Path, verb: str, ending: str
) -> None:
    write: Callable[..., Path] = getattr(snapreport, verb)
    sources = two_snapshots(tmp_path)
    whole = [write(path, path.with_suffix(f".{ending}")).read_bytes() for path in sources]
    assert len(set(whole)) == 2
    target = folder / f"out.{ending}"
    target.write_bytes(whole[0])
    last, changes, beside = whole[0], 0, set[str]()
    # Two with one content, one with another, and one that will be killed.
    turns = [(sources[0], TURNS), (sources[0], TURNS), (sources[1], TURNS), (sources[1], 0)]
    with writing(verb, target, turns) as writers:
        *others, killed = writers
        end = time.monotonic() + MOST_SECONDS
        while any(writer.poll() is None for writer in others) and time.monotonic() < end:
            if changes >= 3:
                (tmp_path / "enough").touch()
            content = target.read_bytes()
            assert content in whole
            changes += content != last
            last = content
            beside.update(name for name in os.listdir(folder) if name != target.name)
            if changes >= 3 and killed.poll() is None:
                killed.send_signal(signal.SIGKILL)
            time.sleep(0.002)
        (tmp_path / "enough").touch()
        killed.kill()
        killed.communicate(timeout=60)
        for writer in others:
            _, errors = writer.communicate(timeout=60)
            assert (writer.returncode, errors) == (0, "")
    assert killed.returncode == -signal.SIGKILL
    assert target.read_bytes() in whole
    assert changes >= 3
    # All that was ever there besides is hidden and says whose it is; what is left is the killed
    # one's, and no more than what it was writing.
    processes = {str(writer.pid) for writer in writers}
    for name in beside:
        assert name.startswith(f".{target.name}.")
        assert name.endswith(".part")
        assert name[len(target.name) + 2 :].partition("-")[0] in processes
    left = [name for name in os.listdir(folder) if name != target.name]
    assert len(left) <= 1
    assert all(name.startswith(f".{target.name}.{killed.pid}-") for name in left)


@pytest.mark.parametrize("command", ["convert", "render"])
def test_commands_that_write_one_new_target_say_what_became_of_it(
    tmp_path: Path, folder: Path, command: str
) -> None:
    sources = two_snapshots(tmp_path)
    ending = "zip" if command == "convert" else "html"
    write: Callable[..., Path] = getattr(snapreport, command)
    whole = [write(path, path.with_suffix(f".{ending}")).read_bytes() for path in sources]
    running = [
        start(
            [command, "-q", str(source), "-o", f"out.{ending}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for source in (*sources, *sources)
    ]
    said = [(*each.communicate(timeout=MOST_SECONDS), each.returncode) for each in running]
    refused = f"Error: out.{ending} already exists; pass --force to replace it.\n"
    assert set(said) <= {(f"out.{ending}\n", "", 0), ("", refused, 1)}
    assert [status for _, _, status in said].count(0) == 1
    assert os.listdir(folder) == [f"out.{ending}"]
    assert (folder / f"out.{ending}").read_bytes() in whole


def test_a_bundle_that_is_replaced_while_it_is_read_is_read_whole(
    tmp_path: Path, folder: Path
) -> None:
    first, second = two_snapshots(tmp_path)
    target = folder / "out.zip"
    snapreport.convert(first, target)
    counts = {len(snapreport.load(path).devices[0].allocations) for path in (first, second)}
    seen = set[int]()
    with writing("convert", target, [(first, 0), (second, 0)]):
        end = time.monotonic() + MOST_SECONDS
        while len(seen) < len(counts) and time.monotonic() < end:
            seen.add(len(snapreport.load(target).devices[0].allocations))
        for _ in range(20):
            seen.add(len(snapreport.load(target).devices[0].allocations))
    assert seen == counts

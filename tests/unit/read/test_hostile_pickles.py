"""Files made to be slow, large or dangerous: one clear line, at a cost that follows their size."""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from snapreport.ground.errors import NotASnapshotError, SnapreportError, UnsafePickleError
from snapreport.history.build import build_history
from snapreport.model.snapshot import recorder_info
from snapreport.read import read_bytes, unpickle
from snapreport.read.parsed import (
    MOST_DEVICES,
    MOST_INTEGER,
    MOST_POOLS,
    MOST_TEXT,
    Allowance,
    parse,
)
from snapreport.read.unpickle import check_opcodes
from tests import bombs
from tests.builders import frame, trace

SECONDS = 60
"""What is a bomb takes hours, and all of them together a few seconds if they do not go off."""


@pytest.fixture(params=["columns", "objects"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "objects":
        monkeypatch.setattr(unpickle, "parse", lambda *_: None)


class ReadAlikeError(Exception):
    """Both ways read a pickle alike: the library leaves it to the general way."""


@pytest.fixture(params=["columns", "objects"])
def either_differs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``either``, but in the general way only what is not read in that way anyhow."""

    def take_none(*arguments: Any) -> None:
        if parse(*arguments) is None:
            raise ReadAlikeError

    if request.param == "objects":
        monkeypatch.setattr(unpickle, "parse", take_none)


def outcome(data: bytes) -> str:
    """Return what a user is told, nothing where the file is taken."""
    try:
        build_history(read_bytes(data, "bomb.pickle"))
    except ReadAlikeError:
        return "as in the other way"
    except SnapreportError as error:
        told = str(error)
        assert told.startswith("bomb.pickle ")
        assert told.isprintable()
        assert len(told) < 400
        return told
    return ""


@pytest.mark.timeout(SECONDS)
def test_no_bomb_goes_off(either_differs: None) -> None:
    told = {name: outcome(data) for name, data in bombs.pickles()}
    assert len(told) > 50
    assert all(told[f"a tuple of tuples as {what}"] for what in ("a key", "an action"))


@pytest.mark.timeout(SECONDS)
def test_no_bomb_of_json_goes_off() -> None:
    told = {name: outcome(data) for name, data in bombs.jsons()}
    assert told["devices"].endswith("it has 100,001 devices, over 256.")


def test_a_wrong_value_in_any_field_is_taken_or_told(either_differs: None) -> None:
    taken = sum(outcome(data) == "" for _, data in bombs.fields())
    assert taken > 100


def test_nothing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused = sum(outcome(data) != "" for _, data in bombs.running())
    assert refused > 300
    assert list(tmp_path.iterdir()) == []


def test_bombs_fit_into_little_memory(tmp_path: Path) -> None:
    """All of them, in one process that may have 1 GiB of addresses more than it begins with."""
    script = """
import resource, sys
from tests import bombs
from snapreport.ground.errors import SnapreportError
from snapreport.read import read_bytes
read_bytes(dict(bombs.jsons())["empty dicts"][:0] + b'{"segments":[]}', "warm")
pages = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (pages + (1 << 30),) * 2)
for family in (bombs.pickles, bombs.jsons):
    for name, data in family():
        try:
            read_bytes(data, name)
        except SnapreportError as error:
            assert "more memory" not in str(error), name
print("done")
"""
    if not Path("/proc/self/statm").exists():
        pytest.skip("this system does not say what addresses a process has")
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout == "done\n", done.stderr


def test_what_is_shared_is_not_read_for_each_that_shares_it() -> None:
    """A thousand references more may not be a thousand times the work."""
    few = Allowance(10)
    few.take(10, "events")
    with pytest.raises(NotASnapshotError, match="more events than fit in its 10 B"):
        few.take(1, "events")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x80\x04N\x85.", "a tuple of anything but two small integers at byte 3"),
        (b"\x80\x04K\x01\x85\x85.", "a tuple"),
        (b"\x80\x04K\x01\x8c\x00\x86.", "a tuple"),
        (b"\x80\x04K\x01\x8a\x01\x01\x86.", "a tuple"),
        (b"\x80\x04K\x01K\x01K\x01\x87.", "a tuple"),
        (b"\x80\x04(K\x01K\x01t.", "a tuple"),
        (b"\x80\x04G" + struct.pack(">d", 1e200) + b".", "a float that is neither 0 nor between"),
        (b"\x80\x04G" + struct.pack(">d", float("nan")) + b".", "a float"),
        (b"\x80\x04\x8a\x09" + bytes(8) + b"\x01.", "an integer beyond 64 bits at byte 2"),
        (b"\x80\x04]\x85.", "a tuple"),
        (b"\x80\x04K\x01\x94h\x00h\x00\x86.", "a tuple"),
        (b"\x80\x04(K\x01]t.", "a tuple"),
        (b"\x80\x04t.", "a tuple"),
        (b"\x80\x04\x8a" + bytes([MOST_INTEGER + 1]) + bytes(10) + b".", "an integer beyond"),
        (b"\x80\x04\x8b" + struct.pack("<I", 300) + bytes(300) + b".", "an integer beyond"),
        (b"\x80\x04" + bombs.long_text(b"a" * (MOST_TEXT + 1)) + b".", "a text of 262,145 bytes"),
        (b"\x80\x04]r\x00\x00\x01\x00.", "a memo index over 65,535"),
    ],
)
def test_what_no_snapshot_needs_is_refused_by_name(either: None, data: bytes, message: str) -> None:
    with pytest.raises(UnsafePickleError, match=message):
        check_opcodes(data)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_the_most_of_it_is_taken(either: None, protocol: int) -> None:
    snapshot = bombs.sample()
    numbers = [2**64 - 1, -(2**63), 0.0, -1e-18, 1e19, True, None]
    snapshot["more"] = [*numbers, "a" * MOST_TEXT, (2**31 - 1, -(2**31)), (0,), ()]
    assert len(read_bytes(pickle.dumps(snapshot, protocol), "x").traces[0]) == 4


def test_a_memo_as_long_as_the_file_is_taken(either: None) -> None:
    builder = trace()
    for i in range(20_000):
        builder.alloc(f"a{i}", 512, frames=[frame(f"f{i}")])
    data = pickle.dumps(builder.snapshot(), 2)
    assert b"r\x00\x00\x01\x00" in data
    assert len(read_bytes(data, "x").traces[0]) == 20_000


def test_as_many_devices_and_pools_as_there_may_be_are_taken(either: None) -> None:
    read_bytes(pickle.dumps({"device_traces": [[]] * MOST_DEVICES}, 4), "x")
    with pytest.raises(NotASnapshotError, match="257 devices"):
        read_bytes(pickle.dumps({"device_traces": [[] for _ in range(257)]}, 4), "x")
    builder = trace()
    for i in range(MOST_POOLS):
        builder.alloc(f"a{i}", 512, pool_id=(i, 0))
    assert len(read_bytes(pickle.dumps(builder.snapshot(), 4), "x").pools) == MOST_POOLS


def test_unknown_keys_of_events_come_into_a_bundle(tmp_path: Path) -> None:
    import snapreport

    snapshot = trace().alloc("a", 512, odd=[1]).snapshot()
    path = tmp_path / "odd.pickle"
    path.write_bytes(pickle.dumps(snapshot, 4))
    bundle = snapreport.convert(path, tmp_path / "odd.zip")
    assert snapreport.load(bundle).history.oddities == {"event key 'odd'": 1}


def test_noted_rows_without_end_are_cut() -> None:
    row = {"device": "d" * 9000, "kind": "k", "name": "n" * 9000, "address": 0, "size": 1}
    row["stats_before"] = {str(i): i for i in range(5000)}
    info = recorder_info({"devices": [row] * 1000, "storages": [row] * 1000})
    assert info is not None
    assert len(info.devices) == 256
    assert len(info.devices[0].stats_before) == 1000
    assert len(info.storages) == 1000
    assert len(info.storages[0].name) == 512

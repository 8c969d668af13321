"""The tables of ``elements.db``: the texts of stacks, rows many at a time, nodes from the pages."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import apsw
import numpy as np
import pytest

from snapreport.bundle import database, database_reader
from snapreport.bundle.database import call_stack_texts, write_database
from snapreport.bundle.database_reader import read_database
from snapreport.bundle.tables import from_cells
from snapreport.ground.errors import BundleError
from snapreport.model.snapshot import FrameTable, StackTable
from tests.builders import KIB, assert_same_history, frame, history_of, trace

if TYPE_CHECKING:
    from snapreport.model.history import History


def table(parent: list[int], frame: list[int], stack: list[int]) -> StackTable:
    depth = np.zeros(len(parent), np.int32)
    for node, above in enumerate(parent):
        depth[node] = 1 if above < 0 else depth[above] + 1
    frames = FrameTable(["a", "b", "c"], ["x.py"] * 3, np.array([1, 2, 3]))
    parents, node_frames, nodes = (np.array(each, np.int32) for each in (parent, frame, stack))
    return StackTable(frames, parents, node_frames, depth, nodes)


def opened(data: bytes) -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.deserialize("main", data)
    return connection


def with_stacks(stacks: StackTable) -> History:
    return replace(trace().alloc("p", 512).file(), stacks=stacks)


def test_a_stack_is_told_from_the_innermost_frame_across_the_branches_of_the_tree() -> None:
    # Nodes 3 and 4 hang on node 1, and node 5 begins a tree of its own.
    stacks = table([-1, 0, 1, 1, 3, -1, 5], [0, 1, 2, 0, 1, 2, 0], [2, 4, 6, -1, 0, 3])
    told = list(call_stack_texts(stacks, ["a", "b", "c"]))
    assert told == ["c\nb\na", "b\na\nb\na", "a\nc", "", "a", "a\nb\na"]


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 200])
def test_every_row_is_written_once_and_in_order(n: int) -> None:
    stacks = table([*range(-1, n - 1)], [i % 3 for i in range(n)], [n - 1])
    connection = opened(write_database(with_stacks(stacks)))
    rows = connection.execute("SELECT id, parent, frame, depth FROM call_nodes ORDER BY rowid")
    assert rows.fetchall() == [(i, i - 1 if i else None, i % 3, i + 1) for i in range(n)]


def test_the_bytes_do_not_depend_on_how_many_rows_go_into_a_statement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    history = with_stacks(table([*range(-1, 149)], [0] * 150, [149, 3]))
    expected = write_database(history)
    monkeypatch.setattr(database, "AT_ONCE", 7)
    assert write_database(history) == expected


@pytest.mark.parametrize("pages", [True, False])
def test_nodes_read_from_pages_are_those_that_sql_gives(
    monkeypatch: pytest.MonkeyPatch, pages: bool
) -> None:
    if not pages:
        monkeypatch.setattr(database_reader, "read_rows", lambda *_: None)
    history = with_stacks(table([-1, 0, 1, 1, -1], [0, 1, 2, 0, 1], [2, 3, 4, -1]))
    read = read_database(write_database(history), history.source).stacks
    for name in ("node_parent", "node_frame", "node_depth", "stack_node"):
        found, expected = getattr(read, name), getattr(history.stacks, name)
        assert found.dtype == np.int32
        assert found.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("UPDATE call_nodes SET parent = 3 WHERE id = 1", "table of call nodes is out of range"),
        ("UPDATE call_nodes SET frame = 3", "table of call nodes is out of range"),
        ("UPDATE call_nodes SET frame = 1 << 40", "out of range"),
        ("UPDATE call_nodes SET depth = 1.5 WHERE id = 1", "no integer|not an integer"),
        ("UPDATE call_nodes SET depth = 'deep' WHERE id = 1", "no integer|not an integer"),
        ("DROP TABLE call_nodes", "call_nodes"),
    ],
)
def test_nodes_that_cannot_be_are_refused(change: str, reason: str) -> None:
    history = with_stacks(table([-1, 0, 1], [0, 1, 2], [2]))
    connection = opened(write_database(history))
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute(change)
    with pytest.raises(BundleError, match=reason):
        read_database(connection.serialize("main"), history.source)


@pytest.mark.parametrize("cells", [[1, True], [None, 2.0], ["3"], [1, b"4"]])
def test_a_cell_that_is_no_integer_is_refused(cells: list[Any]) -> None:
    with pytest.raises(TypeError):
        from_cells(cells, -1)


def test_null_becomes_the_sentinel() -> None:
    assert from_cells([None, 7, None], -5).tolist() == [-5, 7, -5]


def two_devices() -> History:
    """On each a temporary of forward, and on the second what nothing tells of."""
    forward = [frame("forward", "model.py", 7)]
    one, other = trace(0), trace(1)
    for made in (one, other):
        made.alloc("a", KIB, frames=forward).free("a", frames=forward)
    other.alloc("b", 3 * KIB, frames=[frame("main", "train.py", 2)])
    snapshot = one.snapshot()
    snapshot["device_traces"].append(other.snapshot()["device_traces"][1])
    return history_of(snapshot)


def test_sql_tells_what_allocations_are_for_and_how_that_is_known() -> None:
    connection = opened(write_database(two_devices()))
    sql = """
        SELECT device, role, sum(block_size), max(role_confidence), max(role_evidence)
        FROM allocations GROUP BY device, role ORDER BY 1, 2
    """
    told = "freed in the forward pass that made it"
    assert list(connection.execute(sql)) == [
        (0, "temporary of forward", KIB, 0.9, told),
        (1, "temporary of forward", KIB, 0.9, told),
        (1, "unknown", 3 * KIB, 0.0, "nothing tells"),
    ]
    assert list(connection.execute("SELECT count(*) FROM roles")) == [(2,)]


def test_roles_that_a_bundle_claims_are_not_believed() -> None:
    history = two_devices()
    connection = opened(write_database(history))
    connection.execute("UPDATE roles SET role = 'gold'")
    connection.execute("UPDATE allocation_kinds SET role = 7")
    read = read_database(connection.serialize("main"), history.source)
    assert_same_history(read, history)

"""Allocs and frees paired by hand-checked cases: baseline, pending frees, what does not fit."""

from __future__ import annotations

from typing import Any

import pytest

from snapreport.model.history import START
from tests.builders import MIB, TraceBuilder, trace

Spans = list[tuple[int, int, int, int]]


def spans(builder: TraceBuilder) -> Spans:
    """Size, and the events of alloc, request and completion, in the order of the history."""
    rows = builder.history().allocations
    columns = (rows.size, rows.alloc_event, rows.free_requested_event, rows.free_event)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_an_alloc_is_live_until_its_free_is_completed() -> None:
    assert spans(trace().alloc("a", 4).free("a")) == [(4, 0, 1, 2)]


def test_an_alloc_that_is_not_freed_is_live_after_the_last_event() -> None:
    assert spans(trace().alloc("a", 4).alloc("b", 8)) == [(4, 0, 2, 2), (8, 1, 2, 2)]


def test_free_without_alloc_is_live_from_event_zero() -> None:
    assert spans(trace().alloc("b", 8).free("a", 4)) == [(4, START, 1, 2), (8, 0, 3, 3)]


def test_a_lone_completion_was_requested_before_the_recording() -> None:
    builder = trace().alloc("b", 8).complete("a", 4).free("b")
    assert spans(builder) == [(4, START, START, 1), (8, 0, 2, 3)]


def test_a_lone_completion_at_the_cut_of_the_ring_was_requested_before() -> None:
    assert spans(trace().complete("a", 4)) == [(4, START, START, 0)]


def test_a_request_without_completion_stays_pending() -> None:
    builder = trace().alloc("a", 4).alloc("b", 8).free("b").request("a")
    assert spans(builder) == [(4, 0, 4, 5), (8, 1, 2, 3)]


def test_a_lone_request_stays_pending_where_the_end_says_so() -> None:
    builder = trace().alloc("a", 4 * MIB).request("a")
    pending = builder.segment("a", 20 * MIB, (4 * MIB, 4 * MIB, "pending"))
    assert spans(pending) == [(4 * MIB, 0, 1, 2)]
    assert pending.history().anomalies == {}


def test_requests_alone_serve_as_both_where_completions_are_not_recorded() -> None:
    assert spans(trace().alloc("a", 4).request("a")) == [(4, 0, 1, 1)]


def test_completions_alone_serve_as_both_where_requests_are_not_recorded() -> None:
    builder = trace().complete("b", 8).alloc("a", 4).complete("a")
    assert spans(builder) == [(8, START, 0, 0), (4, 1, 2, 2)]


def test_an_address_can_be_used_again_and_again() -> None:
    history = trace().free("a", 2).alloc("a", 4).free("a").alloc("a", 8).history()
    assert history.allocations.version.tolist() == [0, 1, 2]
    assert history.allocations.size.tolist() == [2, 4, 8]
    assert history.anomalies == {}


def test_a_final_block_that_no_event_touches_is_baseline_to_the_end() -> None:
    builder = trace().alloc("b", 8).segment("a", 20 * MIB, (4 * MIB, 3 * MIB, "live"))
    assert spans(builder)[0] == (3 * MIB, START, 1, 1)


def test_a_final_pending_block_that_no_event_touches_was_requested_before() -> None:
    builder = trace().alloc("b", 8).segment("a", 20 * MIB, (4 * MIB, 3 * MIB, "pending"))
    assert spans(builder)[0] == (3 * MIB, START, START, 1)


def test_untouched_blocks_come_first_then_those_freed_last_first() -> None:
    builder = trace().free("a", 1).free("b", 2).alloc("d", 4)
    builder.segment("c", 20 * MIB, (4 * MIB, 3, "live"))
    assert [size for size, *_ in spans(builder)] == [3, 2, 1, 4]


def test_an_alloc_on_a_live_address_ends_the_older_one() -> None:
    builder = trace().alloc("a", 4).alloc("a", 8).free("a").alloc("c", 1).free("c")
    assert spans(builder)[:2] == [(4, 0, 1, 1), (8, 1, 2, 3)]
    assert builder.history().anomalies == {"alloc on a live address": 1}


def test_a_double_free_is_left_over_and_counted() -> None:
    builder = trace().alloc("a", 4).free("a").free("a")
    history = builder.history()
    assert spans(builder) == [(4, 0, 1, 2)]
    assert history.anomalies == {"free of an address that is not live": 2}
    assert history.other.action == ["free_requested", "free_completed"]
    assert history.other.event.tolist() == [3, 4]


def test_a_free_of_another_size_is_counted_and_the_alloc_trusted() -> None:
    builder = trace().alloc("a", 4).free("a", 5).alloc("b", 7).free("b")
    assert spans(builder)[0] == (4, 0, 1, 2)
    assert builder.history().anomalies == {"free of another size than its alloc": 1}


def test_a_block_at_the_end_that_the_trace_frees_is_counted() -> None:
    builder = trace().alloc("a", 4).free("a").segment("a", 20 * MIB, (4 * MIB, 4, "live"))
    assert builder.history().anomalies == {"block in use at the end that the trace frees": 1}


def test_an_alloc_that_is_gone_at_the_end_without_a_free_is_counted() -> None:
    builder = trace().alloc("a", 4).alloc("b", 512).free("b").segment("a", 20 * MIB)
    assert builder.history().anomalies == {
        "allocation never freed that is not a block at the end": 1
    }


def test_a_final_block_of_another_requested_size_is_counted() -> None:
    builder = trace().alloc("a", 4 * MIB).segment("a", 20 * MIB, (4 * MIB, 3 * MIB, "live"))
    assert builder.history().anomalies == {"block of another requested size than its alloc": 1}


def test_an_empty_device_has_no_allocations() -> None:
    history = trace().history()
    assert len(history.allocations) == 0
    assert history.anomalies == {}


def test_a_device_of_inactive_blocks_alone_has_no_allocations() -> None:
    history = trace().segment("a", 20 * MIB).history()
    assert len(history.allocations) == 0
    assert history.block_allocation.tolist() == [-1]


def test_a_free_that_repeats_the_allocs_stack_tells_the_baselines() -> None:
    # What context="alloc" records: a free event has the stack of the alloc, here "f" and "old".
    def frames(name: str) -> list[dict[str, object]]:
        return [{"name": name, "filename": "a.py", "line": 1}]

    builder = trace().alloc("a", 4, frames=frames("f")).free("a", frames=frames("f"))
    file = builder.free("b", 8, frames=frames("old")).file()
    rows, stacks = file.devices[0].allocations, file.stacks
    names = [[stacks.frames.names[f] for f in stacks.path(int(s))] for s in rows.stack]
    assert names == [["old"], ["f"]]
    assert rows.free_stack.tolist() == [-1, -1]


def test_a_free_site_is_no_stack_of_a_baseline_allocation() -> None:
    def frames(name: str) -> list[dict[str, object]]:
        return [{"name": name, "filename": "a.py", "line": 1}]

    builder = trace().alloc("a", 4, frames=frames("f")).free("a", frames=frames("g"))
    rows = builder.free("b", 8, frames=frames("g")).history().allocations
    assert rows.stack.tolist()[0] == -1
    assert rows.free_stack.tolist() == [1, 1]


def test_what_the_allocator_took_for_itself_is_no_allocation() -> None:
    tag: dict[str, Any] = {"internal_metadata": "mallocWithAddress"}
    builder = trace().alloc("a", 4).alloc("prefix", 9 * MIB, **tag).alloc("wanted", 8)
    history = builder.free("prefix", **tag).free("a").history()
    assert history.allocations.size.tolist() == [4, 8]
    assert history.other.action == [
        "internal alloc", "internal free_requested", "internal free_completed",
    ]  # fmt: skip
    assert history.other.event.tolist() == [1, 3, 4]
    assert history.anomalies == {}


@pytest.mark.parametrize("lost", [1, 2])
def test_what_the_allocator_took_before_a_full_ring_begins_is_no_allocation(lost: int) -> None:
    tag: dict[str, Any] = {"internal_metadata": "mallocWithAddress"}
    builder = trace().alloc("prefix", 9 * MIB, **tag).free("prefix", **tag).alloc("wanted", 8)
    del builder.events[:lost]
    history = builder.history()
    assert history.allocations.size.tolist() == [8]
    assert len(history.other) == 3 - lost


def test_what_the_allocator_took_and_kept_is_counted() -> None:
    history = trace().alloc("prefix", 9 * MIB, internal_metadata="new").history()
    assert history.allocations.size.tolist() == [9 * MIB]

"""How ``elements.db`` was defined in bundles that older versions wrote, where it is not as now."""

from __future__ import annotations

WITH_LONG_ROWS = """
CREATE TABLE allocation_rows (
    id INTEGER PRIMARY KEY,
    device INTEGER NOT NULL REFERENCES devices,
    addr INTEGER NOT NULL,
    version INTEGER NOT NULL,
    size INTEGER NOT NULL,
    slack INTEGER NOT NULL,
    block_range INTEGER NOT NULL,
    alloc_step INTEGER,
    requested_after INTEGER,
    free_after INTEGER,
    alloc_time_us INTEGER,
    requested_after_us INTEGER,
    free_after_us INTEGER,
    stream INTEGER NOT NULL,
    pool INTEGER REFERENCES pools,
    stack INTEGER REFERENCES stacks,
    free_stack INTEGER REFERENCES stacks,
    category INTEGER REFERENCES strings,
    compile_context INTEGER REFERENCES strings,
    metadata INTEGER REFERENCES strings
);
CREATE VIEW allocations AS
SELECT
    id,
    device,
    addr,
    version,
    size,
    size + slack AS block_size,
    size + slack + block_range AS block_size_max,
    alloc_step,
    coalesce(alloc_step, 0) + requested_after AS free_requested_step,
    coalesce(coalesce(alloc_step, 0) + requested_after, 0) + free_after AS free_step,
    alloc_time_us,
    coalesce(alloc_time_us, 0) + requested_after_us AS free_requested_time_us,
    coalesce(coalesce(alloc_time_us, 0) + requested_after_us, 0) + free_after_us AS free_time_us,
    stream,
    pool,
    stack,
    free_stack,
    category,
    compile_context,
    metadata
FROM allocation_rows;
"""
"""Each row says what ``allocation_kinds`` and ``allocation_spans`` say now for many."""

WITHOUT_DIFFERENCES = """
CREATE TABLE allocations (
    id INTEGER PRIMARY KEY,
    device INTEGER NOT NULL REFERENCES devices,
    addr INTEGER NOT NULL,
    version INTEGER NOT NULL,
    size INTEGER NOT NULL,
    block_size INTEGER NOT NULL,
    block_size_max INTEGER NOT NULL,
    alloc_step INTEGER,
    free_requested_step INTEGER,
    free_step INTEGER,
    alloc_time_us INTEGER,
    free_requested_time_us INTEGER,
    free_time_us INTEGER,
    stream INTEGER NOT NULL,
    pool INTEGER REFERENCES pools,
    stack INTEGER REFERENCES stacks,
    free_stack INTEGER REFERENCES stacks,
    category INTEGER REFERENCES strings,
    compile_context INTEGER REFERENCES strings,
    metadata INTEGER REFERENCES strings
);
"""
"""What the view ``allocations`` adds up stands in a table of that name."""

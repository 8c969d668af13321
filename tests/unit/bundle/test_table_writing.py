"""A table of integers that is written in statements of many rows is as one written row by row."""

from __future__ import annotations

import apsw
import numpy as np
import pytest

from snapreport.bundle.database import AT_ONCE, insert_integers
from snapreport.bundle.tables import NOT_THERE

TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b, c)"


AROUND = [AT_ONCE + by for by in (-1, 0, 1, 2)]


@pytest.mark.parametrize("n", [0, 1, 2, *AROUND, 2 * AT_ONCE + 1, 64 * AT_ONCE + 70, 9000])
@pytest.mark.parametrize("first_id", [0, 7])
def test_the_file_is_that_of_rows_one_by_one(n: int, first_id: int) -> None:
    random = np.random.default_rng(n)
    some = random.integers(-(2**63) + 1, 2**63 - 1, n) >> random.integers(0, 64, n)
    some[1:][random.random(max(n - 1, 0)) < 0.2] = NOT_THERE
    nothing = np.full(n, NOT_THERE)
    last_alone = nothing.copy()
    last_alone[n - 1 : n] = 5
    for columns in ((some, nothing, last_alone), (nothing, last_alone, nothing), (some,) * 3):
        written, expected = (apsw.Connection(":memory:") for _ in range(2))
        for connection in (written, expected):
            connection.execute(TABLE)
        with written:
            insert_integers(written, "t", first_id, dict(zip("abc", columns, strict=True)))
        cells = [
            [None if cell == NOT_THERE else cell for cell in column.tolist()] for column in columns
        ]
        with expected:
            for i, row in enumerate(zip(*cells, strict=True), start=first_id):
                expected.execute("INSERT INTO t VALUES (?, ?, ?, ?)", (i, *row))
        rows = written.execute("SELECT id, a, b, c FROM t").fetchall()
        assert rows == [(i, *row) for i, row in enumerate(zip(*cells, strict=True), first_id)]
        assert written.serialize("main") == expected.serialize("main")

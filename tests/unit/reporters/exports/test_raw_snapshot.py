"""Raw snapshots as JSON: what a pickle can hold and JSON cannot."""

from __future__ import annotations

import io
import pickle
from typing import Any

import orjson
import pytest

from snapreport.ground.errors import ExportError
from snapreport.reporters.exports.raw_snapshot import write_json


def as_json(value: Any) -> Any:
    out = io.BytesIO()
    write_json(value, out, "x.pickle", len(pickle.dumps(value)))
    return orjson.loads(out.getvalue())


@pytest.mark.parametrize("n", [0, 1, 2, 1025, 300_000])
def test_long_lists_are_written_piece_by_piece_and_whole(n: int) -> None:
    value = {"device_traces": [[{"addr": i} for i in range(n)], []], "segments": [], "x": {}}
    assert as_json(value) == value


def test_a_line_of_64_bits_and_tuples_survive() -> None:
    assert as_json({"line": 2**64 - 1, "pool": (0, 1)}) == {"line": 2**64 - 1, "pool": [0, 1]}


def test_half_a_character_becomes_a_mark() -> None:
    assert as_json({"name": "a\ud800b"}) == {"name": "a?b"}


def test_what_refers_to_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ExportError, match="nested too deeply"):
        as_json({"segments": loop})


def test_what_would_have_no_end_when_written_out_is_refused() -> None:
    bomb: list[Any] = [0] * 1000
    for _ in range(5):
        bomb = [bomb] * 1000
    with pytest.raises(
        ExportError, match=r"^x.pickle has .*, and would have over 64.00 MiB in this format"
    ):
        as_json({"segments": bomb})


def test_what_is_long_is_written_in_pieces_and_whole() -> None:
    stack = [{"name": "é" * 3000, "line": i} for i in range(50)]
    value = {"a": {"b": [{"frames": stack}] * 100, "c": [[stack, []] * 40, (stack,) * 30]}, "d": []}
    assert as_json(value) == orjson.loads(orjson.dumps(value))


def test_a_number_over_64_bits_is_refused() -> None:
    with pytest.raises(ExportError, match="JSON cannot hold"):
        as_json({"size": 2**70})

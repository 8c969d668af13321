"""The packed run that the page's own tests read is up to date."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import orjson

from tests.golden.run_golden import PATH, golden_run


def unpacked(golden: dict[str, Any]) -> dict[str, Any]:
    """The same with the payload's bytes as they are: how zlib packs them differs."""
    packed = base64.b64decode(golden["payload"])
    return golden | {"payload": zlib.decompress(packed, 31)}


def test_the_page_is_tested_with_what_is_packed_now(rewrite_golden: bool) -> None:
    made = golden_run()
    if rewrite_golden and (
        not PATH.exists() or unpacked(orjson.loads(PATH.read_bytes())) != unpacked(made)
    ):
        PATH.write_bytes(orjson.dumps(made, option=orjson.OPT_INDENT_2) + b"\n")
    assert unpacked(orjson.loads(PATH.read_bytes())) == unpacked(made), "run: make golden"

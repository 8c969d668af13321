"""Files to begin with: a fuzzer finds more when it knows how the right ones look."""

from __future__ import annotations

import gzip
import io
import pickle

import orjson
import zstandard

from dev.fuzz import CRASHES
from dev.fuzz.native import corpus
from snapreport.bundle import write_bundle
from snapreport.history.build import build_history
from snapreport.read import read_bytes
from tests import bombs

_LONGEST = 4096


def seeds(target: str) -> list[bytes]:
    """Return files to begin with, those that crashed it once among them."""
    sample = bombs.sample()
    pickles = [pickle.dumps(sample, protocol) for protocol in (2, 4)]
    if target in ("native", "snapshot"):
        pickles += [data for _, data in bombs.pickles() if len(data) < _LONGEST]
    found = [path.read_bytes() for path in sorted(CRASHES.glob(f"{target}-*"))]
    if target == "native":
        return [*pickles, *corpus("pickles")]
    if target == "snapshot":
        return [*found, *pickles, orjson.dumps(sample)]
    if target == "packed":
        return [*found, *(pack(pickles[0]) for pack in (gzip.compress, zstandard.compress))]
    if target == "bundle":
        out = io.BytesIO()
        write_bundle(build_history(read_bytes(pickles[0], "seed")), out)
        return [*found, out.getvalue()]
    texts = {
        "rules": ['{"a": "b.*"}', "- category: a\n  function: b\n  file: c\n", "[{category: x}]"],
        "budget": ['[tool.snapreport.check]\nmax-peak = "2GiB"\nbase = "a.zip"\nn = 1e3\n'],
        "notes": ["# a\n\n> b *c* **d** `e` <b>\n\n|x|y|\n|-|-|\n|1|2|\n\n[a](b)\n```\nx\n```\n"],
    }
    return [*found, *(text.encode() for text in texts[target])]

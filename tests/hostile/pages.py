"""Pages that nobody rendered: markup without an end, and packed columns that say too much."""

from __future__ import annotations

import base64
import random
import zlib
from typing import Any

import orjson

PIECES = {
    "comment": "<!-- a ",
    "tag": "<a ",
    "quote": '<a b="',
    "end": "</",
    "section": "<![x ",
    "instruction": "<?x ",
    "script": "<script>",
    "style": "</style><style a",
    "entity": "&amp",
    "attribute": "<a a{i}=b{i}>",
    "text": "<p>a{i}",
    "word": "a{i} ",
}
"""What a page can be made of, again and again; ``{i}`` is a number."""


def page(piece: str, times: int) -> str:
    """Return a page of one piece."""
    text = PIECES[piece]
    if "{i}" not in text:
        return text * times
    return "".join(text.replace("{i}", str(i)) for i in range(times))


def packed(
    *,
    strings: int = 10,
    tables: int = 0,
    length: int = 10,
    area: int = 1000,
    kind: str = "u8",
    delta: bool = False,
    offset: int = 0,
) -> str:
    """Return a page with data packed in it.

    Args:
        strings: texts in its table.
        tables: devices, each with its own columns, all of which begin at the same byte.
        length: values that each column claims to have.
        area: bytes of all columns together.
        kind: type of the columns.
        delta: whether they claim to hold differences.
        offset: of the columns' first byte.
    """
    entry = {"type": kind, "offset": offset, "length": length, "delta": delta}
    columns = dict.fromkeys(("frame_name", "frame_file", "category", "metadata"), entry)
    header: dict[str, Any] = {
        "strings": [f"text {i}" for i in range(strings)],
        "columns": columns,
        "devices": [{"columns": columns} for _ in range(tables)],
    }
    head = orjson.dumps(header)
    body = len(head).to_bytes(4, "little") + head + bytes(-len(head) % 8 + 4)
    return script("payload", body + random.Random(1).randbytes(min(area, 4096)).ljust(area, b"\0"))


def script(name: str, body: bytes) -> str:
    """Return a script element as pages hold packed data."""
    packer = zlib.compressobj(9, wbits=31)
    data = base64.b64encode(packer.compress(body) + packer.flush()).decode()
    return f'<script type="application/gzip" id="{name}">{data}</script>'

"""Writes collapsed stacks, one per line, as flamegraph.pl, inferno, speedscope and others read."""

from __future__ import annotations

from typing import BinaryIO

from snapreport.exporters.export_input import Export
from snapreport.exporters.stack_weights import frame_texts, weigh_stacks


def write(export: Export, out: BinaryIO) -> None:
    """Write ``outermost;...;innermost bytes`` for each stack live at the moment.

    Source: the header of Brendan Gregg's flamegraph.pl.
    """
    # A semicolon would end a frame.
    texts = [text.replace(";", ",") for text in frame_texts(export.history.stacks.frames)]
    totals: dict[str, int] = {}
    for stack in weigh_stacks(export):
        if stack.live_count:
            path = ";".join(texts[f] for f in stack.frames) if stack.frames else f"[{stack.reason}]"
            totals[path] = totals.get(path, 0) + stack.live_bytes
    out.writelines(f"{path} {total}\n".encode() for path, total in totals.items())

"""Recognize files that are neither snapshot nor bundle by their beginning, and say what to do."""

from __future__ import annotations

import re

BEGIN = 4096
"""Bytes at the beginning of a file that show what it is."""

_RECORD = "record one with 'snapreport record' or torch.cuda.memory._dump_snapshot()"
_SAVED = (
    "was written by torch.save and holds tensors or a model; if it holds a snapshot, load it with"
    f" torch.load and write it with pickle.dump, else {_RECORD}."
)
TRACE = (
    "is a profiler's trace (Chrome, Kineto, TensorBoard), which has no memory snapshot in it; use"
    f" snapreport.from_profile(prof) on the profile itself, or {_RECORD}."
)
_ARCHIVE = "is packed with {}; unpack it, and give what is in it."

_BEGINNINGS = {
    b"SQLite format 3\0": "is a bare SQLite database, such as a bundle's elements.db; give the"
    " bundle (.zip) that it is from.",
    b"version https://git-lfs.github.com/": "stands in for a file of Git LFS; fetch that with"
    " 'git lfs pull'.",
    b"PAR1": "is a Parquet table; give the snapshot or bundle that it was made of.",
    b"BZh": _ARCHIVE.format("bzip2"),
    b"\xfd7zXZ\0": _ARCHIVE.format("xz"),
    b"7z\xbc\xaf\x27\x1c": _ARCHIVE.format("7-Zip"),
}
_TAR = slice(257, 262)
_LEGACY_MAGIC = b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_TRACE_BEGIN = re.compile(
    rb'\s*\{\s*"(traceEvents|schemaVersion|deviceProperties|displayTimeUnit)"'
    rb'|\s*\[\s*\{[^\0]{0,300}"ph"\s*:\s*"'
)
_NAMES = (
    (re.compile(r"\.(nsys-rep|qdrep|ncu-rep)$", re.IGNORECASE), "is a report of NVIDIA Nsight"),
    (re.compile(r"\.(perfetto-trace|pftrace|pb|pprof)$", re.IGNORECASE), "is a profile or trace"),
    (re.compile(r"events\.out\.tfevents"), "is a log of TensorBoard"),
)


def foreign_file(begin: bytes, size: int, name: str) -> str:
    """Say what a file is if not a snapshot, and what to do; ``""`` if it may be a snapshot.

    Args:
        begin: its first ``BEGIN`` bytes, unpacked.
        size: its bytes, unpacked.
        name: of the file; some kinds are known by it.
    """
    for start, said in _BEGINNINGS.items():
        if begin.startswith(start):
            return said
    if begin[2:].startswith(_LEGACY_MAGIC):
        return _SAVED
    if begin[_TAR] == b"ustar":
        return _ARCHIVE.format("tar")
    if int.from_bytes(begin[:8], "little") <= size - 8 and begin[8:10] == b'{"':
        return f"is a safetensors file, which holds tensors, not a memory snapshot; {_RECORD}."
    if _TRACE_BEGIN.match(begin):
        return TRACE
    if begin[:64].lstrip()[:5].lower() in (b"<!doc", b"<html"):
        return _page(begin)
    for pattern, what in _NAMES:
        if pattern.search(name):
            return f"{what}, which has no memory snapshot in it; {_RECORD}."
    return ""


def _page(begin: bytes) -> str:
    if b"MemoryViz.js" in begin:
        return "is a page of PyTorch's memory_viz; give the snapshot that it was made of."
    if b'content="snapreport"' in begin:
        return (
            "is a report that snapreport made; 'snapreport summary' prints what it carries, and"
            " anything else needs the snapshot or bundle that it was made of."
        )
    return f"is a web page, not a memory snapshot; {_RECORD}."


def foreign_zip(begin: bytes) -> str:
    """Say what a zip is if not a bundle, and what to do; ``""`` if it may be a bundle.

    Args:
        begin: its first ``BEGIN`` bytes: the name of the member that comes first is in them.
    """
    first = begin[30 : 30 + int.from_bytes(begin[26:28], "little")].decode(errors="replace")
    if first.endswith("/data.pkl"):
        return _SAVED
    if re.search(r"\.(pickle|pkl)(\.gz|\.zst)?$", first):
        return _ARCHIVE.format("zip")
    return ""

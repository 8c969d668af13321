"""docs/pytorch-keys.md has every key that the installed PyTorch and our own readers know."""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from snapreport.history import allocator_settings
from snapreport.read import layout, traces
from tests.docs.examples import ROOT

PAGE = ROOT / "docs" / "pytorch-keys.md"
SPEC = importlib.util.find_spec("torch")
NEEDS_TORCH = pytest.mark.skipif(SPEC is None, reason="needs PyTorch")
WRITTEN_AS = {
    "addr_": "addr", "context_": "frames", "mempool_": "pool_id", "allocated": "state",
    "active": "state", "context_when_allocated": "frames", "is_large": "segment_type",
    "owner_private_pool_id": "segment_pool_id", "last_allocator_settings": "PYTORCH_ALLOC_CONF",
    "config_metadata": "allocator_settings", "release_lock_on_malloc": "release_lock_on_cudamalloc",
    "pinned_use_host_register": "pinned_use_cuda_host_register", "metadata_": "name",
    "time_": "time_us", "device_": "device",
}  # fmt: skip
"""Members of PyTorch's structures that a snapshot has under another key."""


def told(text: str) -> set[str]:
    """Return every key that the page names."""
    return set(re.findall(r"`(\w+)`", text))


def members(header: str, struct: str) -> Iterator[str]:
    """Yield the keys that the members of a structure become."""
    body = re.search(
        rf"struct (?:C10_\w+ )?{struct} \{{(.*?)^\}};", header, re.DOTALL | re.MULTILINE
    )
    assert body, struct
    plain = re.sub(r"//[^\n]*", "", body[1])
    plain = re.sub(r"\n {6,}", " ", plain)
    plain = re.sub(r"enum Action \{.*?\};", "", plain, flags=re.DOTALL)
    for line in re.findall(r"^  (\w[^()\n]*;)$", plain, re.MULTILINE):
        name = re.sub(r"(\{.*\}| = .*)?;$", "", line).split()[-1].lstrip("*")
        yield WRITTEN_AS.get(name, name.rstrip("_"))


def pytorchs(torch: Path) -> set[str]:
    """Return the keys, actions and settings of a PyTorch, from its Python and headers."""
    include = torch / "include" / "c10"
    common = (include / "core" / "CachingDeviceAllocator.h").read_text()
    cuda = (include / "cuda" / "CUDACachingAllocator.h").read_text()
    found = {key for struct in ("BlockInfo", "SegmentInfo", "TraceEntry", "AnnotationEntry")
             for key in members(common, struct)}  # fmt: skip
    found |= {
        key for struct in ("AllocatorConfigInfo", "SnapshotInfo") for key in members(cuda, struct)
    }
    found |= set(re.findall(r"\{\"(\w+)\", TraceEntry::Action::", common))
    settings = (include / "cuda" / "CUDAAllocatorConfig.h").read_text()
    listed = re.search(r"keys\{(.*?)\};", settings, re.DOTALL)
    assert listed
    found |= set(re.findall(r'"(\w+)"', re.sub(r'"\s*\n\s*"', "", listed[1])))
    # The names of the others are in a source file that is not installed.
    binary = (torch / "lib" / "libc10.so").read_bytes()
    _, _, run = binary.partition(b"\0large_segment_size_mb\0")
    names, end, _ = run.partition(b"\0Unrecognized key")
    assert end
    found.add("large_segment_size_mb")
    found |= {name.decode() for name in names.split(b"\0") if re.fullmatch(rb"[a-z0-9_]+", name)}
    memory = (torch / "cuda" / "memory.py").read_text()
    docstring = memory.partition("def _snapshot(")[2].partition('"""')[2].partition('"""')[0]
    found |= set(
        re.findall(r"^ {12,}(\w+): (?:int|str|List|Tuple|Literal|Dict)", docstring, re.MULTILINE)
    )
    found |= set(re.findall(r"^ {16,}\"(\w+)\"", docstring, re.MULTILINE)) - {"inactive"}
    viewer = (torch / "cuda" / "_memory_viz.py").read_text()
    return found | set(re.findall(r"\w\[\"([a-z_]+)\"\]", viewer))


@NEEDS_TORCH
def test_the_page_has_every_key_of_the_installed_pytorch() -> None:
    assert SPEC is not None
    assert SPEC.origin is not None
    found = pytorchs(Path(SPEC.origin).parent)
    # What the search finds at all: without these it looked in the wrong place.
    assert {"fx_original_trace", "pool_id", "segment_map", "throw_on_cudamalloc_oom",
            "pinned_max_cached_size_mb", "graph_capture_record_stream_reuse"} <= found  # fmt: skip
    assert found - told(PAGE.read_text()) == set()


@NEEDS_TORCH
def test_the_page_has_every_argument_that_shapes_a_recording() -> None:
    memory = pytest.importorskip("torch.cuda.memory")
    for call in (memory._record_memory_history_impl, memory._snapshot, memory.memory_snapshot,
                 memory.MemPool.__init__, memory.MemPool.snapshot):  # fmt: skip
        named = set(inspect.signature(call).parameters) - {"self", "device"}
        assert named <= told(PAGE.read_text()), call


def test_the_page_has_every_key_that_is_read() -> None:
    known = (
        layout._KNOWN_KEYS | traces._EVENT_KEYS | traces._SEGMENT_KEYS | traces._BLOCK_KEYS
        | set(traces._STATES) - {"active_allocated", "inactive"}
        | set(allocator_settings._SETTINGS) | allocator_settings._WITHOUT_EFFECT
        | set(allocator_settings._NOT_MODELLED) | set(allocator_settings._TEXTS)
    )  # fmt: skip
    assert known <= told(PAGE.read_text())


def test_a_key_that_the_page_lacks_is_found(tmp_path: Path) -> None:
    header = "struct BlockInfo {\n  size_t size = 0;\n  bool brand_new_ = false;\n};\n"
    assert list(members(header, "BlockInfo")) == ["size", "brand_new"]
    assert set(members(header, "BlockInfo")) - told(PAGE.read_text()) == {"brand_new"}

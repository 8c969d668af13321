"""Recognize names of PyTorch, Python and known libraries, which redaction keeps.

A name that is missing here is assumed to be somebody's own and redacted, to be safe.
"""

from __future__ import annotations

import lzma
import re
import sys
from bisect import bisect_left
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import Literal

from snapreport.ground.records import dataclass
from snapreport.ground.units import words
from snapreport.roles.frames import LIBRARIES

_LISTS = Path(__file__).with_name("known_names.txt.xz")
"""Names in installed copies of all three, without words of one or two letters, which say nothing;
made by ``dev/tools/known_names.py``."""
_WORD = re.compile(r"\w+")
_SHORTEST = 3
_CUT = 250
"""Names of this length may have been cut off when they were recorded."""


@dataclass(frozen=True)
class _KnownNames:
    """Sorted, by what they are names of."""

    lists: dict[str, list[str]]
    """``cpp``: words of C++ functions; ``c``: functions; ``files``: folders and names of Python's
    modules; ``functions``: those that these define; ``folders`` and ``sources``: of C and C++;
    ``stages``: of torch.compile."""
    sets: dict[str, frozenset[str]]

    def has(self, kind: str, word: str) -> bool:
        """Say whether a word is listed, or too short to say anything."""
        return len(word) < _SHORTEST or word in self.sets[kind]

    def is_cpp(self, name: str) -> bool:
        """Say whether all words of a C++ function are known; the last of a name may be cut off."""
        unknown = [
            found
            for found in _WORD.finditer(name)
            if not found[0][0].isdigit() and not self.has("cpp", found[0])
        ]
        if len(unknown) != 1 or unknown[0].end() != len(name) or len(name) < _CUT:
            return not unknown
        return self._begins("cpp", unknown[0][0])

    def _begins(self, kind: str, start: str) -> bool:
        words = self.lists[kind]
        at = bisect_left(words, start)
        return at < len(words) and words[at].startswith(start)


@lru_cache(maxsize=1)
def known_names() -> _KnownNames:
    """Read the lists, once."""
    lists: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lzma.decompress(_LISTS.read_bytes()).decode().splitlines():
        if line.startswith("["):
            current = lists.setdefault(line[1:-1], [])
        else:
            current.append(line)
    return _KnownNames(lists, {kind: frozenset(words) for kind, words in lists.items()})


_GENERATED = re.compile(
    r"<(string|stdin|unknown|__array_function__ internals|eval_with_key>\.\d+"
    r"|ipython-input-\d+-[0-9a-f]+)>?$"
)
_FROZEN = re.compile(r"<frozen ([\w.]+)>$")
_SCRIPTS = words(
    "accelerate accelerate-launch colossalai composer deepspeed ipython ipykernel jupyter"
    " jupyter-lab jupyter-notebook lm_eval pytest python python3 ray torchrun vllm"
)
# Inductor names a file that it compiled by a hash, in a folder named by a part of the hash.
_INDUCTOR = re.compile(r"([a-z2-7]{2})/[cf]\1[a-z2-7]{48,49}\.py$")


def known_parts(name: str, packages: Collection[str]) -> list[bool] | None:
    """Say which parts of a Python file's short name are of Python's or a known library's modules.

    Args:
        name: as from ``short_names()``.
        packages: the folders that names of packages begin with.

    Returns:
        For each part between slashes whether it is known; None where the file is somebody's own.
    """
    known = known_names()
    if name.startswith("<"):
        frozen = _FROZEN.match(name)
        if frozen is not None:
            inside = all(known.has("files", each) for each in frozen[1].split("."))
            return [True] if inside and _module(frozen[1]) in sys.stdlib_module_names else None
        return [True] if _GENERATED.match(name) else None
    parts = name.split("/")
    first, rest = parts[0], name.partition("/")[2]
    if len(parts) == 1:
        return None
    if first == "torchinductor_~":
        return [True, *([_INDUCTOR.match(rest) is not None] * (len(parts) - 1))]
    if first in ("bin", "Scripts"):
        return [True, True] if re.sub(r"\.exe$|-script\.py$", "", rest) in _SCRIPTS else None
    if re.fullmatch(r"python3(\.\d+t?)?", first):
        if _module(rest) not in sys.stdlib_module_names:
            return None
    elif first == "site-packages":
        return [True, True] if rest.removesuffix(".py") in LIBRARIES else None
    elif first not in LIBRARIES:
        return None
    folders = [known.has("files", part) for part in parts[1:-1]]
    found = [True, *folders, known.has("files", parts[-1].removesuffix(".py"))]
    # Profiles leave out where packages are installed, and a name of only public parts says nothing.
    return found if first in packages or first.startswith("python3") or all(found) else None


def _module(path: str) -> str:
    return path.split("/")[0].split(".")[0]


_BUILT_BY_OTHERS = re.compile(
    r"^(/usr/local/src/conda/|/croot/|/opt/conda/conda-bld/|/pytorch/|\./csu/"
    r"|/(build|usr/src)/(debug/)?(gcc|glibc|python)[\d.]*[-/])"
)
_VERSIONED = re.compile(
    r"\A(?:python|python-split|glibc|gcc|gcc-compiler|libstdc\+\+-v3|c\+\+)[-_]?[\d.]{1,20}$"
)
_CUDA_FILE = re.compile(
    r"tmpxft_[0-9a-f]{8}_[0-9a-f]{8}-\d{1,3}_(\w+)\.compute_\d{2,3}a?\.cudafe1\.cpp$"
)


def known_native_parts(name: str) -> list[bool] | None:
    """Say whether a C++ file is PyTorch's or Python's, by the names of sources and folders."""
    if name in ("", "??", "none"):
        return [True]
    parts = name.split("/")
    if len(parts) > 1 and not _BUILT_BY_OTHERS.match(name):
        return None
    known = known_names()
    folders = [
        part in ("", ".", "..") or known.has("folders", part) or _VERSIONED.match(part) is not None
        for part in parts[:-1]
    ]
    file, _, number = parts[-1].partition(":")
    cuda = _CUDA_FILE.match(file)
    source = known.has("sources", cuda[1] if cuda else file) and (not number or number.isdecimal())
    return [*folders, source] if source or len(parts) > 1 else None


# Compilers and linkers add these to a function's name.
_CLONED = r"(?:\.(?:cold|part|isra|constprop|llvm|lto_priv|localalias)(?:\.\d{1,20})?){1,4}"
_CLONE = re.compile(rf"(?: ?\[clone {_CLONED}\]|{_CLONED}|@@?GLIBC_[\d.]{{1,9}})$")


def is_public_native_function(name: str) -> bool:
    """Say whether a function of C++, or of C, is PyTorch's, Python's or the system's."""
    known = known_names()
    name = _CLONE.sub("", name)
    return name in ("", "??") or known.has("c", name) or known.is_cpp(name)


def is_packaged_function(name: str) -> bool:
    """Say whether Python or a known library defines a function of this name somewhere."""
    return known_names().has("functions", name)


_GENERATED_FUNCTIONS = words("<module> <lambda> <listcomp> <dictcomp> <setcomp> <genexpr>")
_SPECIAL = frozenset(
    name
    for kind in (int, float, str, bytes, dict, list, type, range, BaseException, memoryview)
    for name in dir(kind)
    if name.startswith("__")
) | words(
    "__enter__ __exit__ __aenter__ __aexit__ __await__ __aiter__ __anext__ __call__ __del__"
    " __next__ __get__ __set__ __delete__ __missing__ __fspath__ __post_init__ __torch_function__"
    " __torch_dispatch__ __array__ __array_function__ __matmul__ __rmatmul__ __imatmul__ __iter__"
    " __getattr__ __getattribute__ __setstate__ __getstate__ __deepcopy__ __copy__ __index__"
    " __iadd__ __isub__ __imul__ __itruediv__ __length_hint__ __set_name__ __class_getitem__"
)
_FUNCTIONS = words(
    "_apply _call_impl _init_group _init_state _load_from_state_dict _wrapped_call_impl backward"
    " deepcopy forward from_pretrained init_group init_state load_state_dict main"
    " reset_parameters step to_empty train zero_grad"
)


def is_public_function(name: str) -> bool:
    """Say whether a function's name is in common use, or one that our rules look for."""
    return name in _FUNCTIONS or name in _SPECIAL or name in _GENERATED_FUNCTIONS


_OPTIMIZER_STAGE = re.compile(r"^Optimizer\.(step|zero_grad)#(\w+)\.\1$")


def optimizer_of(stage: str) -> str | None:
    """Return the class of the optimizer that PyTorch named a stage by."""
    found = _OPTIMIZER_STAGE.match(stage)
    return None if found is None else found[2]


_OPTIMIZERS = words(
    "ASGD Adadelta Adafactor Adagrad Adam AdamW Adamax LBFGS Muon NAdam Optimizer RAdam RMSprop"
    " Rprop SGD SparseAdam"
)
_STAGE = re.compile(
    r"^ProfilerStep#\d+$|^(?i:forward|fwd|backward|bwd|optim(izer)?([ _]step)?)$"
    r"|^enumerate\(DataLoader\)#_(SingleProcess|MultiProcessing)DataLoaderIter\.__next__$"
    r"|^## Call CompiledFxGraph f[a-z2-7]{50,52} ##$|^## \d+ ##$"
    r"|^Torch-Compiled Region: [\d/_]+$|^TorchDynamo Cache Lookup$|^CompiledFunction(Backward)?$"
)
_OPERATOR_STAGE = re.compile(
    r"^(?:aten|prims|nccl|c10d|autograd::engine|torch::autograd)::?([\w:. ]+)$"
)
_TIMED = " (dynamo_timed)"


def is_public_stage(name: str) -> bool:
    """Say whether a stage is one that PyTorch itself sets, or that our rules look for."""
    optimizer = optimizer_of(name)
    if optimizer is not None:
        return optimizer in _OPTIMIZERS
    if name.endswith(_TIMED):
        return name.removesuffix(_TIMED) in known_names().sets["stages"]
    operator = _OPERATOR_STAGE.match(name)
    if operator is not None:
        return known_names().is_cpp(operator[1])
    return _STAGE.match(name) is not None


_HARDWARE = words(
    "NVIDIA AMD Intel Tesla GeForce Quadro Radeon Instinct TITAN Titan RTX GTX Xp Pro PRO Ada Ti"
    " SUPER Generation Laptop GPU Max Q PCIe PCI SXM NVL HBM Graphics GRID MIG Grace Hopper Server"
    " Blackwell Workstation Edition Xeon Core EPYC Ryzen Platinum Gold Silver Bronze CPU Processor"
    " with R TM x86_64 aarch64 arm64 arm Orin Jetson Thor Device v Apple"
)
_MODEL = re.compile(r"\A[A-Z]{0,3}\d{1,5}[A-Z]{0,2}(GB|GHz|MHz|gb|g|e|v\d|i|m)?$")


def is_public_hardware(name: str) -> bool:
    """Say whether a device's name is made of makers' words and of models' numbers."""
    words_of_it = re.findall(r"\w+", name)
    return all(word in _HARDWARE or _MODEL.match(word) for word in words_of_it)


_COUNTERS = words(
    "all small_pool large_pool current peak allocated freed active active_bytes inactive_split"
    " inactive_split_bytes allocation allocated_bytes requested_bytes reserved_bytes segment"
    " segment_bytes oversize_allocations oversize_segments num_alloc_retries num_ooms"
    " num_sync_all_streams num_device_alloc num_device_free max_split_size host_alloc_time"
    " host_free_time num_host_alloc num_host_free count total max min allocations segments"
    " reserved bucket_allocation active_requests active_requests_bytes"
)


def is_public_counter(name: str) -> bool:
    """Say whether a counter is one of ``torch.cuda.memory_stats()``."""
    return all(part in _COUNTERS for part in name.split("."))


_TEXTS = words(
    "activation autograd_detail backward buffer communication gradient input optimizer"
    " optimizer_state parameter temporary unknown"
)
_COMPILE_CONTEXT = re.compile(r"^[\d/_\- ]*$")
_SETTINGS = words(
    "True False None PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_HIP_ALLOC_CONF backend"
    " cudaMallocAsync expandable_segments garbage_collection_threshold"
    " graph_capture_record_stream_reuse is_in_capture last_allocator_settings"
    " max_non_split_rounding_mb max_non_split_rounding_size max_split_size max_split_size_mb native"
    " per_process_memory_fraction pinned_max_register_threads pinned_num_register_threads"
    " pinned_reserve_segment_size_mb pinned_use_background_threads pinned_use_cuda_host_register"
    " pinned_use_hip_host_register release_lock_on_cudamalloc release_lock_on_hipmalloc"
    " roundup_bypass_threshold_mb roundup_power2_divisions throw_on_cudamalloc_oom"
    " trace_alloc_max_entries trace_alloc_overflowed trace_alloc_record_context"
    " use_async_allocator"
)
_ACTIONS = words(
    "alloc free free_requested free_completed segment_alloc segment_free segment_map"
    " segment_unmap snapshot oom"
)


def is_public(kind: Literal["text", "action", "setting"], text: str) -> bool:
    """Say whether a string is one of PyTorch's or of ours.

    Args:
        kind: ``text`` is a category, compile context or metadata. A ``setting`` is public if it is
            made of the allocator's own words and of numbers.
        text: the string.
    """
    if kind == "action":
        return text in _ACTIONS
    if kind == "setting":
        parts = re.findall(r"\w+", text)
        return all(part in _SETTINGS or part.isdecimal() for part in parts)
    return text.replace(" ", "_") in _TEXTS or _COMPILE_CONTEXT.match(text) is not None


_ERRORS = re.compile(
    r"^(builtins\.)?[A-Z]\w*(Error|Exception|Interrupt|Exit)$"
    r"|^torch(\.cuda)?\.(OutOfMemoryError|AcceleratorError)$"
)
_KNOWN_ERRORS = frozenset(name for name in dir(__import__("builtins")) if name[:1].isupper()) | {
    "OutOfMemoryError",
    "AcceleratorError",
}


def is_public_error(name: str) -> bool:
    """Say whether an exception's type is Python's or PyTorch's."""
    return _ERRORS.match(name) is not None and name.rpartition(".")[2] in _KNOWN_ERRORS

"""Names that PyTorch, Python and known libraries give: redaction lets them stay.

What is missing here is taken for someone's own and taken out, which is the safe side.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection

from snapreport.model.libraries import LIBRARIES, words

_GENERATED = re.compile(
    r"<(string|stdin|unknown|__array_function__ internals|eval_with_key>\.\d+"
    r"|ipython-input-\d+-[0-9a-f]+)>?$"
)
_FROZEN = re.compile(r"<frozen ([\w.]+)>$")
_SCRIPTS = words(
    "accelerate accelerate-launch colossalai composer deepspeed ipython ipykernel jupyter"
    " jupyter-lab jupyter-notebook lm_eval pytest python python3 ray torchrun vllm"
)
_PUBLIC_CPP = re.compile(
    r"(^|[ <(])(at|c10|c10d|torch|std|pybind11|caffe2|cudnn_frontend|cutlass|fmt|gloo|functorch"
    r"|__gnu_cxx|__cxxabiv1)::"
    r"|^\(anonymous namespace\)::THP|^_?(Py|PyEval)[A-Z_]|^_PyEval|^TH[CP]"
)
_PUBLIC_C = re.compile(
    r"^(_{0,2}(Py|py)|slot_|cfunction_|method_|builtin_|run_|do_call|do_rich|binary_op|vectorcall"
    r"|(list|dict|odict|tuple|subtype|gen|task|context|partial|frame|tb|object|type|func|set|cell)_"
    r"|tupledealloc|BaseException_|thread_run|dynamo_|delitem_|classmethod_|wrap_|call_|cm_|sm_"
    r"|_{0,2}(libc_|clone3?$|start|xmknodat)|main$|pthread|execute_native_thread)"
)
_BUILT_BY_OTHERS = re.compile(
    r"^(/usr/local/src/conda/|/croot/|/opt/conda/conda-bld/|/pytorch/|\./csu/"
    r"|/(build|usr/src)/(debug/)?(gcc|glibc|python)[\d.]*[-/])"
)
_OPTIMIZERS = words(
    "ASGD Adadelta Adafactor Adagrad Adam AdamW Adamax LBFGS Muon NAdam Optimizer RAdam RMSprop"
    " Rprop SGD SparseAdam"
)
_OPTIMIZER_STAGE = re.compile(r"^Optimizer\.(step|zero_grad)#(\w+)\.\1$")
_STAGE = re.compile(
    r"^ProfilerStep#\d+$"
    r"|^enumerate\(DataLoader\)#_(SingleProcess|MultiProcessing)DataLoaderIter\.__next__$"
    r"|^[\w.<>]+ \(dynamo_timed\)$"
    r"|^## Call CompiledFxGraph \w+ ##$|^## \d+ ##$"
    r"|^Torch-Compiled Region: [\d/_]+$|^TorchDynamo Cache Lookup$|^CompiledFunction(Backward)?$"
    r"|^(aten|prims|nccl|c10d|autograd::engine|torch::autograd)::?[\w:. ]+$"
)
_FUNCTION = re.compile(r"^__\w+__$|^<\w+>$")
_FUNCTIONS = words(
    "_apply _call_impl _init_group _init_state _load_from_state_dict _wrapped_call_impl backward"
    " deepcopy forward from_pretrained init_group init_state load_state_dict main"
    " reset_parameters step to_empty train"
)
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
_ERRORS = re.compile(
    r"^(builtins\.)?[A-Z]\w*(Error|Exception|Interrupt|Exit)$"
    r"|^torch(\.cuda)?\.(OutOfMemoryError|AcceleratorError)$"
)
_KNOWN_ERRORS = frozenset(name for name in dir(__import__("builtins")) if name[:1].isupper()) | {
    "OutOfMemoryError",
    "AcceleratorError",
}


def is_public_file(name: str, packages: Collection[str]) -> bool:
    """Say whether a short name of a Python file is of Python or of a known library.

    Args:
        name: as from ``short_names()``.
        packages: the folders that names of packages begin with.
    """
    if name.startswith("<"):
        frozen = _FROZEN.match(name)
        if frozen is not None:
            return _module(frozen[1]) in sys.stdlib_module_names
        return _GENERATED.match(name) is not None
    first, folder, rest = name.partition("/")
    if not folder:
        return False
    if first == "torchinductor_~":
        return True
    if re.fullmatch(r"python3(\.\d+t?)?", first):
        return _module(rest) in sys.stdlib_module_names
    if first in ("site-packages", "bin", "Scripts"):
        return _module(rest) in (LIBRARIES if first == "site-packages" else _SCRIPTS)
    return first in packages and first in LIBRARIES


def _module(path: str) -> str:
    return path.split("/")[0].split(".")[0]


def is_public_native(name: str, functions: Collection[str]) -> bool:
    """Say whether a C++ file is of PyTorch, Python or the system, by the functions in it."""
    if name in ("", "??", "none"):
        return True
    elsewhere = _BUILT_BY_OTHERS.match(name) is not None
    if "/" in name and not elsewhere:
        return False
    plain_c = elsewhere or name.split(":")[0].endswith((".c", ".h", ".o", ".S"))
    return all(is_public_native_function(each, plain_c) for each in functions)


def is_public_native_function(name: str, plain_c: bool = True) -> bool:
    """Say whether a function of C++, or of C, is PyTorch's, Python's or the system's."""
    if name in ("", "??") or _PUBLIC_CPP.search(name):
        return True
    return plain_c and _PUBLIC_C.match(name) is not None


def is_public_function(name: str) -> bool:
    """Say whether a function's name is one that everyone uses, or that our rules look for."""
    return name in _FUNCTIONS or _FUNCTION.match(name) is not None


def is_public_stage(name: str) -> bool:
    """Say whether a stage is one that PyTorch itself sets."""
    optimizer = _OPTIMIZER_STAGE.match(name)
    if optimizer is not None:
        return optimizer[2] in _OPTIMIZERS
    return _STAGE.match(name) is not None


def is_public_text(text: str) -> bool:
    """Say whether a category, compile context or metadata is one of PyTorch's or of ours."""
    return text.replace(" ", "_") in _TEXTS or _COMPILE_CONTEXT.match(text) is not None


def is_public_setting(text: str) -> bool:
    """Say whether a setting is made of the allocator's own words and of numbers."""
    parts = re.findall(r"\w+", text)
    return all(part in _SETTINGS or part.isdecimal() for part in parts)


def is_public_action(action: str) -> bool:
    """Say whether an action is one that PyTorch writes."""
    return action in _ACTIONS


def is_public_error(name: str) -> bool:
    """Say whether an exception's type is Python's or PyTorch's."""
    return _ERRORS.match(name) is not None and name.rpartition(".")[2] in _KNOWN_ERRORS

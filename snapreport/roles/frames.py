"""Whose code a frame is, and what it is called where the program's memory is told.

A frame is the user's, a library's or C++. Internal is the code around or below any program: PyTorch
and the compilers, the standard library, notebooks and shells, launchers, debuggers, servers,
trainers, and libraries that only write an operation in another way. A library of models or layers
is not internal: a reader would look up its lines.

C++ is named by what it does. A thread of the autograd engine has no Python frames where Python's
were recorded with C++'s. What a reader knows of it are the nodes, ``grad_fn=<MulBackward0>``, and
what autograd does between them. Functions of ATen, c10, the unwinder, the interpreter and threads
say nothing to a reader.

Code that Inductor generated is named by what it was generated for: nobody knows its files, whose
names are hashes. The lines of one generated file are one call site. Inductor puts frames of the
lines it compiled around its own frame, and these are call sites like any others. If it knew none,
the line that called the compiled code is the call site, and its name says so.

Source: PyTorch, torch/csrc/autograd (``Node`` and its subclasses, ``Engine``, ``InputBuffer``,
``validate_outputs``) and torch/csrc/distributed/c10d/reducer.cpp.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.later import expression
from snapreport.ground.memoize import once_for_each, shared
from snapreport.ground.safe_text import matched
from snapreport.ground.units import words
from snapreport.model.findings import LIBRARY, MACHINERY, NATIVE, NODE, OPERATOR, OUTSIDE
from snapreport.model.snapshot import (
    UNKNOWN_LINE,
    FrameTable,
    StackTable,
    lowest_on_path,
    short_name,
)

# What a C++ function does, in the user's words.

IN_CPP = "C++ code, without a Python frame"
"""The call site of stacks in which no frame says anything."""

_BACKWARD = expression(r"(?:^|::)((\w{1,120}?)Backwards?\d{0,4})$")
_WORK = (
    (expression(r"^torch::autograd::InputBuffer::"), "sum of a tensor's gradients (autograd)"),
    (
        expression(r"^torch::autograd::InputMetadata::(maybe_)?reduce"),
        "sum of a broadcast tensor's gradient (autograd)",
    ),
    (expression(r"^torch::autograd::validate_outputs"), "gradient conversion (autograd)"),
    (expression(r"^torch::autograd::Engine::"), "backward pass (autograd's engine)"),
    (expression(r"^c10d::\w*Reducer::"), "gradient buckets of DDP (Reducer)"),
)
"""What autograd and DDP do around the nodes. Of ProcessGroups the class says it already."""
_MAKES_ROOM = expression(r"^(new_)?(empty(_\w{1,40})?|resize_\w{0,40})$")
"""Operators that only get memory, for the one that called them."""
_MACHINERY = expression(
    r"^(?:(?:at|c10|caffe2|std|__gnu_cxx|functorch|pybind11)::|torch::(?!nn::|optim::)|THP|THC|\?*$"
    r"|_{0,2}Py(?:[A-Z]\w*)?_|method_vectorcall|cfunction_|slot_tp_|subtype_dealloc|vectorcall_"
    r"|execute_native_thread|_{0,2}clone3?$|start_thread|_{0,2}libc_start|_start$|main$|pthread)"
)
_TOKEN = expression(r"\boperator(?:\(\)|<=>|<<=?|>>=?|->\*?|[<>]=?)|\(anonymous namespace\)|[<>( ]")


@lru_cache(maxsize=100_000)
def qualified_name(name: str) -> str:
    """Return a C++ function's name with its namespaces, without types, templates and arguments."""
    text = matched(name)
    depth, begin, kept = 0, 0, ""
    for token in _TOKEN.finditer(text):
        sign = token[0]
        if sign == "<":
            if not depth:
                kept += text[begin : token.start()]
            depth += 1
        elif sign == ">":
            depth = max(depth - 1, 0)
            begin = token.end()
        elif depth:
            continue
        elif sign == "(":
            return kept + text[begin : token.start()]
        elif sign == " " and text[begin : token.start()] + kept:
            kept, begin = "", token.end()  # what came before was the type of what it returns
    return kept if depth else kept + text[begin:]


@lru_cache(maxsize=100_000)
def native_kind(name: str) -> int:
    """Return NODE, NATIVE, OPERATOR or MACHINERY, by a C++ function's name."""
    own = qualified_name(name)
    if _node(name, own) is not None:
        return NODE
    if own.startswith("aten::"):  # operators, as the profiler has them
        return MACHINERY if _MAKES_ROOM.match(own.removeprefix("aten::")) else NATIVE
    if _work(own) is not None or _part_of_node(own) is not None:
        return NATIVE
    operator = _operator(own)
    if operator:
        return MACHINERY if _MAKES_ROOM.match(operator) else OPERATOR
    return MACHINERY if _MACHINERY.match(own) else NATIVE


def native_words(name: str) -> str:
    """Say what a C++ function does, for a reader who does not know PyTorch's; else its name."""
    own = qualified_name(name)
    found = _node(name, own) or _part_of_node(own) or _work(own)
    if found is not None:
        return found
    kind = native_kind(name)
    if kind == OPERATOR:
        return f"operator {_operator(own)}, called from C++"
    return IN_CPP if kind == MACHINERY and not own.startswith("aten::") else short_name(name)


def _work(own: str) -> str | None:
    if not own.startswith(("torch::autograd::", "c10d::")):
        return None
    return next((said for pattern, said in _WORK if pattern.match(own)), None)


_OVERLOAD = expression(
    r"_(?:[A-Z]\w{0,60}|int|dims?|out|self|dtype|correction|mode|forward|memory_format)$"
)


def plain_operator(name: str) -> str:
    """Return an operator's name without its overload: ``mul_Tensor`` is ``mul``."""
    return _OVERLOAD.sub("", name)


_CPP_NODE = expression(r"torch::autograd::CppNode<[^<>]{0,400}?(\w{1,200})>")
_RUNS_NODE = ("apply", "operator()", "release_variables")


def _node(name: str, own: str) -> str | None:
    """Name the autograd node that a function runs or clears; None if it is no node's."""
    place, _, method = own.rpartition("::")
    if place in ("", "torch::autograd") and name.endswith(own):  # as the profiler has them
        named = _BACKWARD.search(method) or method == "AccumulateGrad"
        return _of_class(method) if named and " " not in name else None
    if method not in _RUNS_NODE:
        return None
    if found := _CPP_NODE.search(matched(name)):
        return f"backward of {found[1]} (CppNode)"
    if place.startswith("torch::autograd::") or _BACKWARD.search(place):
        return _of_class(place.rpartition("::")[2])
    return None


_NODES = {
    "AccumulateGrad": "gradient accumulation (AccumulateGrad)",
    "CopySlices": "backward of a write into a view (CopySlices)",
    "PyNode": "backward of a custom autograd.Function (PyNode)",
    "CompiledAutograd": "compiled backward (CompiledAutograd)",
    "GraphRoot": "start of the backward pass (GraphRoot)",
    "Error": "an operation without a backward (Error)",
    "DelayedError": "an operation without a backward (DelayedError)",
    "NotImplemented": "an operation without a backward (NotImplemented)",
    "UndefinedGrad": "an undefined gradient (UndefinedGrad)",
}
"""The nodes that are not called ``...Backward``, by the name of their class."""


def _of_class(node: str) -> str | None:
    if found := _BACKWARD.search(node):
        return f"backward of {_snake(found[2])} ({found[1]})"
    return _NODES.get(node)


def _part_of_node(own: str) -> str | None:
    """Name the node that a function does part of the work of, where the node may be inlined."""
    if "_apply_" not in own and "AccumulateGrad" not in own:  # most are neither
        return None
    for part in reversed(own.split("::")):
        bare = re.sub(r"_apply_(functional|impl)$", "", part)
        if bare == "AccumulateGrad" or (bare != part and _BACKWARD.search(bare)):
            return _of_class(bare)
    return None


_OPERATOR = expression(
    r"^(?:at::_ops::(\w+)::(?:call|redispatch)|at::([a-z]\w*)"
    r"|torch::autograd::VariableType::(?:\(anonymous namespace\)::)?(\w+))$"
)


def _operator(own: str) -> str:
    found = _OPERATOR.match(own)
    return plain_operator(found[1] or found[2] or found[3]) if found else ""


def _snake(name: str) -> str:
    """Return an operator's name from its node's: ``NllLoss`` is of ``nll_loss``."""
    text = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return text.lower() or name


# Whose code a frame is, by its file and name.

LIBRARIES = words(
    """
    IPython PIL _pytest absl accelerate aiohttp albumentations alembic anyio apex apscheduler
    asyncssh attr attrs audiocraft auto_gptq autoawq av awq axolotl backoff beartype
    bitsandbytes boto3 botocore bs4 cachetools causal_conv1d certifi charset_normalizer cleanfid
    click clip cloudpickle colossalai comet_ml composer compressed_tensors controlnet_aux
    coverage ctranslate2 cupy cv2 dask datasets debugpy decord decorator deepspeed dgl diffusers
    dill distrax docker einops einx ema_pytorch encodec equinox espnet espnet2 evaluate
    exllamav2 fairscale fairseq fairseq2 faiss fastai fastapi fastcore fire flair flash_attn
    flash_attn_2_cuda flashinfer flask flax flwr fsspec ftfy fugashi functorch fvcore gensim git
    google gpytorch gradio grpc gym gymnasium h5py httpcore httpx huggingface_hub hydra hyperopt
    idna ignite imageio inflect invisible_watermark ipykernel ipykernel_launcher ipywidgets jax
    jaxlib jaxtyping jinja2 joblib jsonschema jupyter jupyter_client jupyter_core jupyterlab
    k_diffusion keras kornia langchain langchain_core librosa liger_kernel lightgbm lightning
    lightning_fabric lightning_utilities litellm litgpt llama_cpp llama_index llvmlite lm_eval
    loguru lora_diffusion lpips lxml mamba_ssm marshmallow math_verify matplotlib megatron
    mistral_common ml_collections mlflow mmcv mmdet mmengine mmseg monai mosaicml mpi4py
    multiprocess mypy nbclient nbconvert nemo networkx nltk notebook numba numexpr numpy nvidia
    nvtx omegaconf onnx onnxruntime open_clip openai openpyxl opt_einsum optax optimum optuna
    opacus orjson outlines packaging pandas parso pathos peft pillow pip pkg_resources
    platformdirs playwright pluggy polars prompt_toolkit protobuf psutil psycopg2 pyarrow
    pybind11 pycocotools pydantic pydantic_core pydevd pydub pygments pymongo pynvml pyro pytest
    pytest_asyncio pytorch3d pytorch_forecasting pytorch_lightning pytorch_metric_learning
    pytorch_msssim pytorch_optimizer ray redis regex requests rich rouge_score s3fs sacrebleu
    safetensors scipy seaborn segment_anything sentence_transformers sentencepiece sentry_sdk
    setproctitle setuptools sglang shapely simpletuner six skimage sklearn smart_open snapreport
    sockeye soundfile spacy speechbrain sqlalchemy stable_baselines3 starlette statsmodels
    streamlit submitit sympy tensorboard tensorboardX tensordict tensorflow tensorrt
    tensorrt_llm tenacity thop threadpoolctl tifffile tiktoken timm tinygrad tokenizers toolz
    torch torch_cluster torch_ema torch_fidelity torch_geometric torch_scatter torch_sparse
    torch_spline_conv torch_tensorrt torchao torchaudio torchdata torchdiffeq torchgen
    torchmetrics torchrec torchrl torchsde torchsnapshot torchtext torchtitan torchtune
    torchvision torchx tornado tqdm traitlets transformer_engine transformer_lens transformers
    triton trl trlx turbomind typer typing_extensions ultralytics umap unsloth unsloth_zoo
    urllib3 uvicorn uvloop vector_quantize_pytorch verl visdom vllm wandb watchdog webdataset
    websockets werkzeug wheel whisper whisperx xformers xgboost xlstm yacs yaml yarl zmq
    """
)
"""Top-level names as they are imported. A package that is missing counts as someone's own."""

_INSTALLED = ("site-packages", "dist-packages")

_UNKNOWN_FILE = expression(r"(\?\?|none)?$")
_NATIVE_FILE = expression(r"\.(c|cc|cpp|cxx|cu|cuh|h|hpp|S|o)(:|$)")


@once_for_each
def classify_frames(frames: FrameTable) -> NDArray[np.int8]:
    """Return each frame's kind, from OUTSIDE to MACHINERY, the least useful; (n_frames,)."""
    files: dict[str, int] = {}
    kinds = np.empty(len(frames), np.int8)
    for i, (name, filename) in enumerate(zip(frames.names, frames.filenames, strict=True)):
        kind = files.get(filename)
        if kind is None:
            kind = files[filename] = classify_file(filename)
        kinds[i] = native_kind(name) if kind == NATIVE else kind
    return shared(kinds)


@once_for_each
def most_telling_nodes(stacks: StackTable) -> NDArray[np.intp]:
    """Return for each node of a prefix tree the most useful node on its path; (n_nodes,).

    Of several nodes of the same kind it is the innermost. Compiled code says more than the library
    functions that it calls.
    """
    rank = 2 * classify_frames(stacks.frames)
    rank[compiled_frames(stacks.frames)] = 2 * LIBRARY - 1
    return shared(lowest_on_path(stacks.node_parent, rank[stacks.node_frame]))


@once_for_each
def compiled_frames(frames: FrameTable) -> NDArray[np.bool_]:
    """Return which frames are of files that Inductor generated; (n_frames,)."""
    files = {name: _is_compiled(_parts(name)) for name in set(frames.filenames)}
    return shared(np.array([files[name] for name in frames.filenames], np.bool_))


def is_native_file(filename: str) -> bool:
    """Say whether frames of a file are C++; generated code such as ``<string>`` is Python."""
    if filename.startswith("<"):
        return False
    return bool(_UNKNOWN_FILE.match(filename) or _NATIVE_FILE.search(filename))


def classify_file(filename: str) -> int:
    """Return OUTSIDE, LIBRARY or NATIVE, by a file's name alone."""
    if is_native_file(filename):
        return NATIVE
    # Generated code (<eval_with_key>.3) is Python, but has no line that anyone can open. Cells of
    # IPython in a terminal count as the user's: there they were typed.
    generated = filename.startswith("<") and not filename.startswith("<ipython-input-")
    return LIBRARY if generated or _is_internal(_parts(filename)) else OUTSIDE


def is_own_file(filename: str) -> bool:
    """Say whether a file seems to belong to the user's own project, not to a library."""
    parts = _parts(filename)
    if not LIBRARIES.isdisjoint(parts[:1]) or not set(_INSTALLED).isdisjoint(parts):
        return False
    return classify_file(filename) == OUTSIDE


def _parts(filename: str) -> list[str]:
    return filename.replace("\\", "/").split("/")


_FOLDERS = words(
    """
    torch torchvision torchaudio functorch triton .triton
    debugpy pydevd pydev _pydev_bundle _pydevd_bundle
    """
)
"""Internal wherever they are: checkouts of PyTorch, caches, and the debuggers of editors."""
_PACKAGES = words(
    """
    IPython ipykernel ipykernel_launcher.py colab_kernel_launcher.py google/colab tornado
    traitlets zmq jupyter_client jupyter_core nbclient nbconvert papermill prompt_toolkit marimo
    nest_asyncio.py uvloop anyio uvicorn starlette fastapi gunicorn gradio streamlit
    torchx submitit ray/_private ray/util ray/train ray/tune ray/actor.py ray/remote_function.py
    pytest _pytest pluggy click typer fire absl hydra snapreport
    ipdb pudb line_profiler kernprof.py memory_profiler.py viztracer
    accelerate deepspeed lightning pytorch_lightning lightning_fabric composer/core
    fastai/learner.py ignite/engine mmengine/runner torchtnt/framework
    einops opt_einsum jaxtyping beartype typeguard wrapt decorator.py
    """
)
"""Internal as installed packages, or these parts of them."""
_TRAINER = expression(r"(transformers|sentence_transformers|trl|composer)/trainer")
_SCRIPTS = words(
    """
    accelerate accelerate-launch colossalai composer deepspeed ipython ipython3 jupyter
    jupyter-console jupyter-lab jupyter-notebook jupyter-run kernprof lightning papermill pytest
    py.test ray snapreport streamlit torchrun torchx uvicorn
    """
)
_STANDARD = words("contextlib.py threading.py runpy.py functools.py")


def _is_internal(parts: list[str]) -> bool:
    *folders, name = parts
    if not _FOLDERS.isdisjoint(folders) or name in _STANDARD or "concurrent" in folders:
        return True
    if name.startswith("fx_generated_") or _is_compiled(parts) or _is_standard(parts):
        return True
    starts = [i + 1 for i, part in enumerate(folders) if part in _INSTALLED]
    # A shortened name of a package's file begins with the package.
    top = parts[starts[-1] if starts else 0 :]
    if top[0] in _PACKAGES or "/".join(top[:2]) in _PACKAGES or _TRAINER.match("/".join(top)):
        return True
    return any(
        folder in ("bin", "Scripts") and re.sub(r"(-script\.py|\.exe)$", "", script) in _SCRIPTS
        for folder, script in pairwise(parts)
    )


# The name is a hash, and the folder its first two letters: a cache may be anywhere.
_HASHED = expression(r"c([a-z2-7]{2})[a-z2-7]{49}\.py")


def _is_compiled(parts: list[str]) -> bool:
    """Say whether a file was generated by Inductor."""
    if any(part.startswith("torchinductor_") for part in parts[:-1]):
        return True
    found = _HASHED.fullmatch(parts[-1])
    return found is not None and parts[-2:-1] == [found[1]]


_LOWER_NAME = expression(r"[a-z_]+(\.py$|/)")


def _is_standard(parts: list[str]) -> bool:
    """Say whether a file is Python's own, installed in one of its usual places."""
    windows = parts[0][1:] == ":"
    for i, (folder, below) in enumerate(pairwise(parts)):
        above = parts[i - 1] if i else "lib"
        if folder.startswith("python3") and above in ("lib", "lib64"):
            if not below.startswith(_INSTALLED):
                return True
        elif folder.lower() == "lib" and i and not below.startswith("site-packages"):
            if windows and above.lower().removeprefix("c").startswith("python"):
                return True
            if folder == "Lib" and _LOWER_NAME.match("/".join(parts[i + 1 :])):
                return True
    return False


# What frames are called as call sites, and in trees.

COMPILED = "compiled code"
COMPILED_BACKWARD = "compiled backward"


@once_for_each
def site_names(stacks: StackTable) -> list[str]:
    """Return the name of each frame as a call site, by frame id."""
    frames, words = stacks.frames, frame_words(stacks)
    compiled = compiled_frames(frames)
    kinds = classify_frames(frames).tolist()
    names = [
        _function_of(name, made, kind) if kind > NATIVE else word
        for name, made, kind, word in zip(
            frames.names, compiled.tolist(), kinds, words, strict=True
        )
    ]
    if compiled.any():
        for frame in _callers(stacks, compiled).tolist():
            names[frame] = f"{COMPILED} called from {names[frame]}"
    return names


@once_for_each
def frame_words(stacks: StackTable) -> list[str]:
    """Return what each frame is called in a tree, by frame id.

    Autograd's nodes and compiled code are called as they are as call sites.
    """
    frames = stacks.frames
    compiled = compiled_frames(frames)
    kinds = classify_frames(frames)
    names = [
        native_words(name) if NODE <= kind <= NATIVE else short_name(name)
        for name, kind in zip(frames.names, kinds.tolist(), strict=True)
    ]
    if not compiled.any():
        return names
    at = np.flatnonzero(compiled).tolist()
    backward = _backward_files(stacks, compiled)
    graphs: dict[bool, dict[str, int]] = {True: {}, False: {}}
    for file in dict.fromkeys(frames.filenames[frame] for frame in at):
        known = graphs[file in backward]
        known[file] = len(known) + 1
    for frame in at:
        file = frames.filenames[frame]
        known = graphs[file in backward]
        names[frame] = function_of(frames, frame)
        if names[frame] == COMPILED and file in backward:
            names[frame] = COMPILED_BACKWARD
        if len(known) > 1:
            names[frame] += f", graph {known[file]}"
    return names


_KERNEL = expression(r"(?:triton|cpp|xpu|mps)_(?:[a-z]{1,8}_)?fused_(\w{1,400}?)_\d{1,9}$")


def function_of(frames: FrameTable, frame: int) -> str:
    """Return the function of a frame that is a call site; of C++, what the function does."""
    kind, compiled = classify_frames(frames)[frame], compiled_frames(frames)[frame]
    return _function_of(frames.names[frame], compiled, kind)


def _function_of(name: str, compiled: bool, kind: int) -> str:
    if compiled:
        kernel = _KERNEL.match(name[-500:])
        return f"{COMPILED} for {kernel[1]}" if kernel else COMPILED
    return native_words(name) if kind >= NODE else short_name(name)


def is_hidden(site: str) -> bool:
    """Say whether a call site's name is of compiled code whose own line is not known."""
    return site.startswith((COMPILED, COMPILED_BACKWARD))


@once_for_each
def site_frames(stacks: StackTable) -> FrameTable:
    """Return the frames as they are shown as call sites, compiled code without its file."""
    return _shown(stacks.frames, site_names(stacks))


@once_for_each
def tree_frames(stacks: StackTable) -> FrameTable:
    """Return the frames as they are shown in trees, compiled code without its file."""
    return _shown(stacks.frames, frame_words(stacks))


def _shown(frames: FrameTable, names: list[str]) -> FrameTable:
    compiled = compiled_frames(frames)
    files = [
        "" if hidden else file
        for file, hidden in zip(frames.filenames, compiled.tolist(), strict=True)
    ]
    lines = np.where(compiled, UNKNOWN_LINE, frames.lines)
    return FrameTable(names, files, lines, frames.extra)


@once_for_each
def stand_ins(stacks: StackTable) -> NDArray[np.int64]:
    """Return the frame that stands for each frame as a call site: itself but for compiled code.

    Of the frames of one generated file that are called the same, it is the first; (n_frames,).
    """
    frames, words = stacks.frames, frame_words(stacks)
    found = np.arange(len(frames))
    first: dict[tuple[str, str], int] = {}
    for frame in np.flatnonzero(compiled_frames(frames)).tolist():
        found[frame] = first.setdefault((frames.filenames[frame], words[frame]), frame)
    return shared(found)


@once_for_each
def tree_kinds(stacks: StackTable) -> NDArray[np.int8]:
    """Return each frame's kind as trees take it: a compiled backward is a node of autograd.

    Its stacks have no other frame that says as much.
    """
    kinds = classify_frames(stacks.frames).copy()
    words = frame_words(stacks)
    for frame in np.flatnonzero(compiled_frames(stacks.frames)).tolist():
        if words[frame].startswith(COMPILED_BACKWARD):
            kinds[frame] = NODE
    return shared(kinds)


def _backward_files(stacks: StackTable, compiled: NDArray[np.bool_]) -> set[str]:
    """Return the generated files that autograd alone calls.

    Its threads have no frames of the program, so nothing else says what the code is for.
    """
    frames = stacks.frames
    kinds = classify_frames(frames)
    calls = np.array([name == "backward" for name in frames.names], np.bool_) & (kinds == LIBRARY)
    back = (calls | (kinds == NODE))[stacks.node_frame]
    inside = back[lowest_on_path(stacks.node_parent, (~back).astype(np.int8))]
    n = len(frames)
    every = np.bincount(stacks.node_frame, minlength=n)
    within = np.bincount(stacks.node_frame[inside], minlength=n)
    files = {True: set[str](), False: set[str]()}
    for frame in np.flatnonzero(compiled & (every > 0)).tolist():
        files[bool(within[frame] == every[frame])].add(frames.filenames[frame])
    return files[True] - files[False]


def _callers(stacks: StackTable, compiled: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the frames outside of PyTorch that are call sites only of compiled code.

    A frame right around a compiled one is a line that was compiled, not one that called it.
    """
    kind = classify_frames(stacks.frames)[stacks.node_frame]
    parent = stacks.node_parent
    rank = np.where(compiled[stacks.node_frame], 0, 1)
    inner = lowest_on_path(parent, rank)  # the innermost compiled node of each path
    # Each node's nearest Python frame; the one above compiled code shows if its line is known.
    python = lowest_on_path(parent, np.where(kind <= LIBRARY, 0, 1))
    above = python[parent]
    known = (parent >= 0) & (kind[above] == OUTSIDE)
    ends = stacks.stack_node[stacks.stack_node >= 0]
    site, code = most_telling_nodes(stacks)[ends], inner[ends]
    called = (rank[code] == 0) & ~known[code] & (kind[site] == OUTSIDE)
    called &= stacks.node_depth[site] < stacks.node_depth[code]
    n = len(stacks.frames)
    of = stacks.node_frame[site]
    calls = np.bincount(of[called], minlength=n)
    return np.flatnonzero((calls > 0) & (calls == np.bincount(of, minlength=n)))

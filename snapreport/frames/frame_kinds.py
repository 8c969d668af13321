"""Classify frames by whose code they are, from their file and name: the user's or a library's.

Internal is the code around or below any program: PyTorch and the compilers, the standard library,
notebooks and shells, launchers, debuggers, servers, trainers, and libraries that only write an
operation in another way. A library of models or layers is not internal: a reader would look up its
lines.
"""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from snapreport.frames.native_names import native_kind
from snapreport.ground.known_packages import LIBRARIES, words
from snapreport.ground.memoize import once_for_each, shared
from snapreport.model.findings import LIBRARY, NATIVE, OUTSIDE
from snapreport.model.stacks import FrameTable, StackTable
from snapreport.model.tree_paths import lowest_on_path

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
_TRAINER = re.compile(r"(transformers|sentence_transformers|trl|composer)/trainer")
_SCRIPTS = words(
    """
    accelerate accelerate-launch colossalai composer deepspeed ipython ipython3 jupyter
    jupyter-console jupyter-lab jupyter-notebook jupyter-run kernprof lightning papermill pytest
    py.test ray snapreport streamlit torchrun torchx uvicorn
    """
)
_STANDARD = words("contextlib.py threading.py runpy.py functools.py")
_INSTALLED = ("site-packages", "dist-packages")
_LOWER_NAME = re.compile(r"[a-z_]+(\.py$|/)")
# The name is a hash, and the folder its first two letters: a cache may be anywhere.
_HASHED = re.compile(r"c([a-z2-7]{2})[a-z2-7]{49}\.py")

_UNKNOWN_FILE = re.compile(r"(\?\?|none)?$")
_NATIVE_FILE = re.compile(r"\.(c|cc|cpp|cxx|cu|cuh|h|hpp|S|o)(:|$)")


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
    files = {name: is_compiled_file(name) for name in set(frames.filenames)}
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


def is_compiled_file(filename: str) -> bool:
    """Say whether a file was generated by Inductor."""
    return _is_compiled(_parts(filename))


def _parts(filename: str) -> list[str]:
    return filename.replace("\\", "/").split("/")


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


def _is_compiled(parts: list[str]) -> bool:
    if any(part.startswith("torchinductor_") for part in parts[:-1]):
        return True
    found = _HASHED.fullmatch(parts[-1])
    return found is not None and parts[-2:-1] == [found[1]]


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

"""Private words in every place, in the shape of every public name: redaction leaves none."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import snapreport
from snapreport.names.public_names import is_public_native_function, known_names
from snapreport.reporters.exports import EXPORTS
from tests.builders import FIRST_US, MIB, frame, trace
from tests.commands.test_redaction import whole

FUNCTIONS = (
    "{}",
    "run_{}",
    "do_call_{}",
    "_Py{}",
    "Py{}_New",
    "_PyEval_{}",
    "PyInit_{}",
    "THP{}",
    "THPVariable_{}",
    "list_{}",
    "method_{}",
    "call_{}",
    "main{}",
    "main.{}",
    "pthread_{}",
    "dynamo_{}",
    "__libc_{}",
    "start_{}",
    "builtin_{}",
    "at::{}",
    "at::native::{}(at::Tensor const&)",
    "at::_ops::{}::call()",
    "c10::{}",
    "torch::{}",
    "torch::autograd::{}",
    "torch::autograd::{}::apply",
    "std::vector<{}>::push_back",
    "pybind11::{}",
    "{}Backward0::apply",
    "(anonymous namespace)::THP{}",
    "_ZN2at6native7{}E",
    "<{}>",
    "__{}__",
    "forward_{}",
    "at::empty [clone .{}]",
    "PyObject_Call.cold.{}",
    "std::function<at::Tensor ({}::Layer&)>::operator()",
    "PyObject_Call@{}",
)
FILES = (
    "{}.cpp",
    "{}.c",
    "{}.cu",
    "RegisterCUDA.cpp:{}",
    "tmpxft_00002d4c_00000000-6_{}.compute_90.cudafe1.cpp",
    "/usr/local/src/conda/python-{}/Objects/call.c",
    "/usr/local/src/conda/python-3.12.3/{}/call.c",
    "/build/glibc-{}/nptl/pthread_create.c",
    "/pytorch/aten/src/ATen/{}.cpp",
    "/pytorch/{}/Blas.cpp",
    "./csu/{}.c",
    "/v/lib/python3.12/site-packages/torch/{}.py",
    "/v/lib/python3.12/site-packages/torch/nn/{}/module.py",
    "/v/lib/python3.12/site-packages/transformers/models/{}/modeling_{}.py",
    "/v/lib/python3.12/site-packages/{}.py",
    "/v/lib/python3.12/site-packages/{}/core.py",
    "/v/lib/python3.12/json/{}.py",
    "/v/lib/python3.12/{}.py",
    "/home/u/torch/nn/{}.py",
    "/w/torch/{}/x.py",
    "/tmp/torchinductor_{}/ab/x.py",
    "/tmp/torchinductor_u/{}/x.py",
    "/tmp/torchinductor_u/ab/{}.py",
    "/usr/bin/{}",
    "/usr/bin/torchrun-{}",
    "/tmp/ipykernel_77/{}.py",
    "<{}>",
    "<frozen {}>",
    "<frozen importlib.{}>",
    "<ipython-input-3-{}>",
    "<eval_with_key>.{}",
    "<string>{}",
    r"\\{}\share\x.py",
    r"\\srv\{}\x.py",
    "~{}/x.py",
    "/vscode-remote/ssh-remote+{}/x.py",
    "/scratch/{}/x.py",
    "/mnt/lustre/users/{}/x.py",
    "{}/torch/nn/x.py",
    r"C:\Users\{}\x.py",
    r"C:\{}\Lib\site-packages\torch\{}.py",
    "/{}/train.py",
    "{}.py",
    "{}",
)
PACKAGED = (
    "/v/lib/python3.12/site-packages/torch/nn/modules/module.py",
    "/v/lib/python3.12/json/decoder.py",
    "<frozen importlib._bootstrap>",
)
"""Files whose names stay: anybody may have put functions of their own into them."""
STAGES = (
    "{}",
    "{} (dynamo_timed)",
    "{}.forward (dynamo_timed)",
    "aten::{}",
    "prims::{}",
    "nccl:{}",
    "c10d::{}",
    "autograd::engine::evaluate_function: {}",
    "torch::autograd::{}",
    "## Call CompiledFxGraph {} ##",
    "## {} ##",
    "Optimizer.step#{}.step",
    "Torch-Compiled Region: {}",
    "ProfilerStep#{}",
    "CompiledFunction{}",
    "{}Backward0",
    "enumerate(DataLoader)#{}.__next__",
    "0/0 {}",
)
TEXTS = ("{}", "parameter {}", "0/0_{}", "user {}")
DEVICES = ("{}", "NVIDIA {}", "NVIDIA H100 {}", "Tesla {}100", "AMD {} (R)")
COUNTERS = ("{}", "{}.all.current", "allocated_bytes.all.{}", "num_{}")
SETTINGS = ("{}", "expandable_segments:{}", "max_split_size_mb_{}:1")


class Words:
    """Words that nobody else has, each given once."""

    def __init__(self) -> None:
        self.given: dict[str, str] = {}

    def put(self, shape: str) -> str:
        number = len(self.given)
        letters = "".join("bcdfghjklm"[int(digit)] for digit in f"{number:04}")
        word = f"zqx{letters}w"
        self.given[word] = shape.replace("{}", word)
        return self.given[word]


def lookalikes(words: Words) -> dict[str, Any]:
    """A snapshot with a private word in every shape and place."""
    frames = [frame("forward", words.put(shape), 7) for shape in FILES]
    for file in ("", "??", "RegisterCUDA.cpp", "own.cpp", "/w/own/train.py", "<string>", *PACKAGED):
        frames += [frame(words.put(shape), file, 3) for shape in FUNCTIONS]
    # A file that holds both PyTorch's functions and others proves nothing.
    frames += [frame(name, "mixed.cpp", 0) for name in ("at::empty", words.put("{}"))]
    built = trace()
    for number, each in enumerate(frames):
        built.alloc(f"a{number}", 512, frames=[each, frame("main", "/w/own/main.py", 1)])
    for number, shape in enumerate(TEXTS):
        built.alloc(
            f"m{number}", 512, user_metadata=words.put(shape), compile_context=words.put(shape)
        )
    for shape in STAGES:
        name = words.put(shape)
        built.start(name, 1).end(name, 2)
    built.event(words.put("{}"), frames=[]).event(words.put("segment_{}"), frames=[])
    built.settings(**{words.put("{}"): words.put(shape) for shape in SETTINGS})
    built.settings(PYTORCH_CUDA_ALLOC_CONF=words.put("expandable_segments:True,{}:1"))
    snapshot = built.snapshot()
    snapshot[words.put("{}")] = 1
    snapshot["snapreport"] = {
        "format": 1,
        "made_by": words.put("1.0+{}"),
        "recorder": words.put("cuda{}"),
        "command": [words.put("--{}"), words.put("{}.py"), words.put("--x={}")],
        "title": words.put("{}"),
        "notes": words.put("{}"),
        "torch": words.put("2.9.0+{}"),
        "cuda": words.put("12.{}"),
        "driver": words.put("550.{}"),
        "python": words.put("3.12.1{}"),
        "devices": [
            {
                "device": f"cuda:{number}",
                "name": words.put(shape),
                "stats_after": {words.put(each): 1 for each in COUNTERS},
            }
            for number, shape in enumerate(DEVICES)
        ],
        "storages": [
            {
                "device": "cuda:0",
                "address": 1,
                "size": 1,
                "kind": words.put("{}"),
                "name": words.put("{}"),
            }
        ],
        "marks": [{"name": words.put(shape), "time_us": FIRST_US + 1} for shape in STAGES],
        "failure": {"type": words.put("torch.{}Error"), "message": words.put("{}")},
    }
    return snapshot


@pytest.fixture
def source(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    words = Words()
    path = tmp_path / "given" / words.put("{}.rank0.pickle")
    path.parent.mkdir()
    path.write_bytes(pickle.dumps(lookalikes(words)))
    return path, words.given


def test_no_private_word_is_left_whatever_it_looks_like(
    source: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    path, given = source
    names: dict[str, Any] = {"redact_functions": True, "force": True}
    made = [snapreport.convert(path, tmp_path / "out.zip", **names)]
    made += [snapreport.render(path, tmp_path / f"out.{kind}", **names) for kind in ("html", "md")]
    made += [
        snapreport.export(path, kind, tmp_path / f"export-{kind}", **names) for kind in EXPORTS
    ]
    for file in made:
        data = whole(file).lower()
        assert [text for word, text in given.items() if word.encode() in data] == [], file.name
    kept = whole(snapreport.convert(path, tmp_path / "kept.zip", keep_paths=True)).lower()
    there = sum(word.encode() in kept for word in given)
    assert there > 0.9 * len(given)  # else nothing would be found whatever redaction did


def test_servers_machines_and_other_users_are_hidden_by_default(tmp_path: Path) -> None:
    words = Words()
    shapes = (
        r"\\{}\share\x.py",
        "~{}/x.py",
        "/vscode-remote/ssh-remote+{}/x.py",
        "/scratch/{}/x.py",
    )
    built = trace()
    for number, shape in enumerate(shapes):
        place = frame("f", words.put(shape), 7)
        built.alloc(f"a{number}", MIB, frames=[place], user_metadata=words.put(f"see {shape}"))
        name = words.put(f"reads {shape}")
        built.start(name, 1).end(name, 2)
    path = tmp_path / "snap.pickle"
    path.write_bytes(pickle.dumps(built.snapshot()))
    for kind in ("html", "md"):
        data = whole(snapreport.render(path, tmp_path / f"out.{kind}"))
        assert [text for word, text in words.given.items() if word.encode() in data] == [], kind
    data = whole(snapreport.convert(path, tmp_path / "out.zip"))
    assert [text for word, text in words.given.items() if word.encode() in data] == []


@pytest.mark.parametrize(
    "name",
    [
        "PyEval_EvalCode",
        "_PyEval_EvalFrameDefault",
        "method_vectorcall_NOARGS.llvm.7574463793130541339",
        "at::native::empty_cuda(c10::ArrayRef<long>, std::optional<c10::ScalarType>)",
        "c10::TensorImpl::~TensorImpl() [clone .localalias]",
        "torch::autograd::VariableType::(anonymous namespace)::clone(c10::DispatchKeySet)",
        "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::malloc(void**, int)",
        "at::Tensor at::native::add(" + "c10::ArrayRef<c10::SymInt>, " * 12 + "std::option",
        "__libc_start_main",
    ],
)
def test_pytorch_s_and_python_s_own_functions_are_known(name: str) -> None:
    assert is_public_native_function(name)


def test_the_lists_are_read_once_and_are_small() -> None:
    assert known_names() is known_names()
    assert sum(map(len, known_names().lists.values())) > 50_000

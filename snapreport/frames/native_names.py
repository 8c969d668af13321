"""What a C++ function does, in the user's words: which are autograd's nodes, which say nothing.

A thread of the autograd engine has no Python frames where Python's were recorded with C++'s. What a
reader knows of it are the nodes, ``grad_fn=<MulBackward0>``, and what autograd does between them.
Functions of ATen, c10, the unwinder, the interpreter and threads say nothing to a reader.

Source: PyTorch, torch/csrc/autograd (``Node`` and its subclasses, ``Engine``, ``InputBuffer``,
``validate_outputs``) and torch/csrc/distributed/c10d/reducer.cpp.
"""

from __future__ import annotations

import re
from functools import lru_cache

from snapreport.ground.safe_text import matched
from snapreport.model.findings import MACHINERY, NATIVE, NODE, OPERATOR
from snapreport.model.stacks import short_name

IN_CPP = "C++ code, without a Python frame"
"""The call site of stacks in which no frame says anything."""

_TOKEN = re.compile(r"\boperator(?:\(\)|<=>|<<=?|>>=?|->\*?|[<>]=?)|\(anonymous namespace\)|[<>( ]")
_BACKWARD = re.compile(r"(?:^|::)((\w{1,120}?)Backwards?\d{0,4})$")
_CPP_NODE = re.compile(r"torch::autograd::CppNode<[^<>]{0,400}?(\w{1,200})>")
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
_RUNS_NODE = ("apply", "operator()", "release_variables")
_WORK = (
    (re.compile(r"^torch::autograd::InputBuffer::"), "sum of a tensor's gradients (autograd)"),
    (
        re.compile(r"^torch::autograd::InputMetadata::(maybe_)?reduce"),
        "sum of a broadcast tensor's gradient (autograd)",
    ),
    (re.compile(r"^torch::autograd::validate_outputs"), "gradient conversion (autograd)"),
    (re.compile(r"^torch::autograd::Engine::"), "backward pass (autograd's engine)"),
    (re.compile(r"^c10d::\w*Reducer::"), "gradient buckets of DDP (Reducer)"),
)
"""What autograd and DDP do around the nodes. Of ProcessGroups the class says it already."""
_OPERATOR = re.compile(
    r"^(?:at::_ops::(\w+)::(?:call|redispatch)|at::([a-z]\w*)"
    r"|torch::autograd::VariableType::(?:\(anonymous namespace\)::)?(\w+))$"
)
_OVERLOAD = re.compile(
    r"_(?:[A-Z]\w{0,60}|int|dims?|out|self|dtype|correction|mode|forward|memory_format)$"
)
_MAKES_ROOM = re.compile(r"^(new_)?(empty(_\w{1,40})?|resize_\w{0,40})$")
"""Operators that only get memory, for the one that called them."""
_MACHINERY = re.compile(
    r"^(?:(?:at|c10|caffe2|std|__gnu_cxx|functorch|pybind11)::|torch::(?!nn::|optim::)|THP|THC|\?*$"
    r"|_{0,2}Py(?:[A-Z]\w*)?_|method_vectorcall|cfunction_|slot_tp_|subtype_dealloc|vectorcall_"
    r"|execute_native_thread|_{0,2}clone3?$|start_thread|_{0,2}libc_start|_start$|main$|pthread)"
)


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
    if any(pattern.match(own) for pattern, _ in _WORK) or _part_of_node(own) is not None:
        return NATIVE
    operator = _operator(own)
    if operator:
        return MACHINERY if _MAKES_ROOM.match(operator) else OPERATOR
    return MACHINERY if _MACHINERY.match(own) else NATIVE


def native_words(name: str) -> str:
    """Say what a C++ function does, for a reader who does not know PyTorch's; else its name."""
    own = qualified_name(name)
    words = _node(name, own) or _part_of_node(own)
    words = words or next((said for pattern, said in _WORK if pattern.match(own)), None)
    if words is not None:
        return words
    kind = native_kind(name)
    if kind == OPERATOR:
        return f"operator {_operator(own)}, called from C++"
    return IN_CPP if kind == MACHINERY and not own.startswith("aten::") else short_name(name)


def plain_operator(name: str) -> str:
    """Return an operator's name without its overload: ``mul_Tensor`` is ``mul``."""
    return _OVERLOAD.sub("", name)


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


def _of_class(node: str) -> str | None:
    if found := _BACKWARD.search(node):
        return f"backward of {_snake(found[2])} ({found[1]})"
    return _NODES.get(node)


def _part_of_node(own: str) -> str | None:
    """Name the node that a function does part of the work of, where the node may be inlined."""
    for part in reversed(own.split("::")):
        bare = re.sub(r"_apply_(functional|impl)$", "", part)
        if bare == "AccumulateGrad" or (bare != part and _BACKWARD.search(bare)):
            return _of_class(bare)
    return None


def _operator(own: str) -> str:
    found = _OPERATOR.match(own)
    return plain_operator(found[1] or found[2] or found[3]) if found else ""


def _snake(name: str) -> str:
    """Return an operator's name from its node's: ``NllLoss`` is of ``nll_loss``."""
    text = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return text.lower() or name

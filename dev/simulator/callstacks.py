"""Call stacks for events that nobody really called."""

from __future__ import annotations

import random
from typing import Any

Frame = dict[str, Any]

NO_LINE = 2**64 - 1
"""What PyTorch writes where the unwinder knows no line."""

_FILES = (
    "train.py",
    "model/attention.py",
    "model/block.py",
    "torch/nn/modules/module.py",
    "torch/nn/modules/linear.py",
    "torch/optim/adamw.py",
    "torch/autograd/graph.py",
)
_NAMES = ("forward", "step", "_call_impl", "run_backward", "attend", "project", "<module>", "load")
_ODD = (
    ("torch::unwind::unwind()", "??", 0),
    ("PyEval_EvalFrameDefault", "", NO_LINE),
    ("at::native::add<float, std::less<int>>", "Add.cpp", 17),
    ("entraîner", "C:\\run\\modèle.py", 3),
    ("<lambda>", "<string>", 1),
    ("</script><b>", "a & b.py", 2),
    ("forward", "fx_generated_a1.py", 8),
)


_TRACED = {
    "fx_node_op": "call_function",
    "fx_node_name": "relu_1",
    "fx_node_target": "aten.relu.default",
    "fx_original_trace": 'File "model/block.py", line 39, in forward\n    return self.act(x)\n',
}
"""What PyTorch adds to a frame of a traced graph's generated file."""


def make_frame(name: str, filename: str, line: int) -> Frame:
    """Return a frame as snapshots write it."""
    traced = _TRACED if filename.startswith("fx_generated_") else {}
    return {"name": name, "filename": filename, "line": line, **traced}


class CallTree:
    """A random tree of calls; every node is a stack, and its frame is shared by those below."""

    def __init__(self, rng: random.Random, nodes: int = 24, *, odd: bool = False) -> None:
        self.stacks: list[list[Frame]] = [[make_frame("<module>", "train.py", 1)]]
        """Innermost frame first."""
        for _ in range(nodes):
            caller = rng.choice(self.stacks)
            if odd and rng.random() < 0.2:
                name, filename, line = rng.choice(_ODD)
            else:
                name, filename = rng.choice(_NAMES), rng.choice(_FILES)
                line = rng.randrange(1, 400)
            self.stacks.append([make_frame(name, filename, line), *caller])
        if odd:
            self.stacks.append([])  # as stacks="python" gives on autograd's own threads

"""Find the forward lines that an autograd node belongs to, by the operator's name.

The engine runs backward in a thread without Python, so its stacks do not show which line of the
program is being differentiated. But ``DivBackward0`` belongs to ``div``, and the stacks of the
forward pass show which lines call ``div``.

Source: PyTorch, tools/autograd/derivatives.yaml, whose nodes are named after their operators.
"""

from __future__ import annotations

import re

import numpy as np

from snapreport.figures.callsites import find_site_frames
from snapreport.frames.native_names import plain_operator
from snapreport.ground.safe_text import matched
from snapreport.model.stacks import StackTable
from snapreport.model.tree_paths import marks_on_path
from snapreport.native.sorting import unique
from snapreport.roles.stack_phases import IN_BACKWARD, IN_OPTIMIZER, NO_GRAD, PYTHON, stack_marks

_NODE = re.compile(r"(?:^|::)(\w{1,80}?)Backward\d*(?:::|$)")
_OPERATOR = re.compile(r"(?:at::_ops::|VariableType::\(anonymous namespace\)::|^aten::)(\w{1,120})")


def forward_sites(stacks: StackTable, node: str) -> list[int]:
    """Return the call sites that call the operator of an autograd node in the forward pass.

    Only calls that allocate are known, not those that work in place or make a view.

    Args:
        stacks: of the file.
        node: such as ``torch::autograd::generated::DivBackward0::apply``.

    Returns:
        Frame ids, ascending.
    """
    wanted = _NODE.search(matched(node).partition("(")[0])
    if wanted is None:
        return []
    operator = _plain(wanted[1])
    calls = np.array(
        [
            any(_plain(plain_operator(found)) == operator for found in _OPERATOR.findall(name))
            for name in map(matched, stacks.frames.names)
        ],
        np.int32,
    )
    if not calls.any():
        return []
    called = marks_on_path(stacks.node_parent, calls[stacks.node_frame])
    marks = stack_marks(stacks)[:-1]
    framed = (stacks.stack_node >= 0) & (marks & PYTHON != 0)
    framed &= marks & (IN_BACKWARD | IN_OPTIMIZER | NO_GRAD) == 0
    framed[framed] = called[stacks.stack_node[framed]] != 0
    return [int(each) for each in unique(find_site_frames(stacks)[framed].astype(np.int64))]


def _plain(name: str) -> str:
    return name.replace("_", "").lower()

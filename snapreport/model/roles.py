"""The role of an allocation: what it is for, and the evidence for that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROLES = (
    "parameter",
    "buffer",
    "gradient",
    "optimizer state",
    "activation",
    "temporary of forward",
    "temporary of backward",
    "temporary of optimizer",
    "communication buffer",
    "KV cache",
    "input",
    "compiled-graph pool",
    "workspace",
    "unknown",
)
"""A role's number is its place. ``activation`` is what the forward pass saves for backward, and
``KV cache`` also the state that a recurrent model carries."""
(
    PARAMETER,
    BUFFER,
    GRADIENT,
    STATE,
    ACTIVATION,
    FORWARD_TEMPORARY,
    BACKWARD_TEMPORARY,
    OPTIMIZER_TEMPORARY,
    COMMUNICATION,
    CACHE,
    INPUT,
    GRAPH_POOL,
    WORKSPACE,
    UNKNOWN,
) = range(len(ROLES))


@dataclass(frozen=True)
class Evidence:
    """Why an allocation is said to have its role."""

    text: str
    """What was seen: ``made in an optimizer step and kept``."""
    confidence: float
    """0 to 1; 1 where the file states the role."""


@dataclass(frozen=True, eq=False)
class Roles:
    """The role of each allocation of a device; arrays of shape (n_allocations,)."""

    role: NDArray[np.int8]
    """Places in ``ROLES``."""
    evidence: NDArray[np.int8]
    """Places in ``seen``."""
    seen: tuple[Evidence, ...]

"""The role of an allocation: what it is for, and the evidence for that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.object_display import Shown
from snapreport.model.history import Allocations

ROLES = (
    "parameter",
    "buffer",
    "gradient",
    "optimizer state",
    "activation",
    "autocast weight copy",
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
"""A role's number is its position. ``activation`` is what the forward pass saves for backward,
``autocast weight copy`` a weight that autocast cast, and ``KV cache`` also the state that a
recurrent model carries."""
(
    PARAMETER,
    BUFFER,
    GRADIENT,
    STATE,
    ACTIVATION,
    WEIGHT_COPY,
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
    """Why an allocation was given its role."""

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

    def with_evidence(self) -> tuple[NDArray[np.int64], list[tuple[str, Evidence]]]:
        """Return the roles with their evidence, each pair once.

        Returns:
            int64, shape (n_allocations,): places in the pairs, which come in the order of roles.
        """
        key = self.role.astype(np.int64) * len(self.seen) + self.evidence
        used = np.flatnonzero(np.bincount(key))
        place = np.zeros(int(used[-1]) + 1 if len(used) else 0, np.int64)
        place[used] = np.arange(len(used))
        pairs = [divmod(each, len(self.seen)) for each in used.tolist()]
        return place[key], [(ROLES[role], self.seen[i]) for role, i in pairs]


@dataclass(frozen=True, eq=False)
class AllocationsWithRoles(Allocations):
    """Allocations, and what each is for."""

    role: NDArray[np.object_]
    """One of ``ROLES``."""
    role_evidence: NDArray[np.object_]
    """What was seen, as in ``Evidence``."""
    role_confidence: NDArray[np.float64]
    """0 to 1."""


def with_roles(rows: Allocations, roles: Roles) -> AllocationsWithRoles:
    """Return allocations with their roles in words."""
    texts = np.array([each.text for each in roles.seen], np.object_)
    confidence = np.array([each.confidence for each in roles.seen])
    return AllocationsWithRoles(
        **vars(rows),
        role=np.array(ROLES, np.object_)[roles.role],
        role_evidence=texts[roles.evidence],
        role_confidence=confidence[roles.evidence],
    )


@dataclass(frozen=True)
class EvidenceUse(Shown):
    """What allocations of one role hold by one evidence."""

    text: str
    confidence: float
    bytes: int
    """Block bytes, as in the allocated curve."""
    count: int


@dataclass(frozen=True)
class RoleUse(Shown):
    """What allocations of one role hold at a moment."""

    role: str
    """One of ``ROLES``."""
    bytes: int
    count: int
    evidence: tuple[EvidenceUse, ...]
    """The evidence for the role, most bytes first; together they add up to ``bytes``."""

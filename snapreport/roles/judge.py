"""Assign roles to allocations, with the evidence for each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapreport.model.roles import ROLES, UNKNOWN, Evidence


class Judge:
    """Assigns roles to allocations, with evidence; the first role assigned stays."""

    def __init__(self, n: int) -> None:
        self.role = np.full(n, UNKNOWN, np.int8)
        self.evidence = np.zeros(n, np.int8)
        self.open = np.ones(n, np.bool_)
        self.seen = [Evidence("nothing tells", 0.0)]

    def give(self, chosen: NDArray[np.bool_], role: int, text: str, confidence: float) -> None:
        """Assign a role to the chosen allocations, except those that have one."""
        chosen = chosen & self.open
        if chosen.any():
            self.seen.append(Evidence(text, confidence))
            self.role[chosen], self.evidence[chosen] = role, len(self.seen) - 1
            self.open[chosen] = False

    def follow(self, chosen: NDArray[np.bool_], alike: NDArray[np.int64]) -> None:
        """Assign to the chosen allocations the commonest role among those with the same number."""
        known = ~self.open & (self.role != UNKNOWN)
        kinds, count = np.unique(alike[known] * len(ROLES) + self.role[known], return_counts=True)
        order = np.argsort(count, kind="stable")  # the most comes last, and stays
        best = np.full(int(alike.max(initial=-1)) + 1, UNKNOWN, np.int8)
        best[kinds[order] // len(ROLES)] = kinds[order] % len(ROLES)
        for role in range(UNKNOWN):
            like = chosen & (best == role)[alike]
            self.give(like, role, f"as others of its call stack and size: {ROLES[role]}", 0.7)

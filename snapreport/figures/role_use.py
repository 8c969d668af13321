"""What the allocations of each role hold at a moment, and by what evidence the roles are known."""

from __future__ import annotations

import numpy as np

from snapreport.model.history import DeviceHistory
from snapreport.model.roles import ROLES, EvidenceUse, Roles, RoleUse
from snapreport.native.sorting import sum_groups, unique


def find_role_use(history: DeviceHistory, roles: Roles, event: int) -> tuple[RoleUse, ...]:
    """Return the roles of what is allocated after an event, most bytes first.

    Their bytes add up to the allocated curve there.

    Args:
        history: the device.
        roles: of its allocations.
        event: -1 for the start.
    """
    live = np.flatnonzero(history.allocations.live_at(event))
    role, size = roles.role[live], history.allocations.block_size[live]
    found = []
    for k in unique(role).tolist():
        of, seen = size[role == k], roles.evidence[live][role == k]
        held = sum_groups(seen, of, len(roles.seen))
        count = np.bincount(seen, minlength=len(held))
        evidence = [
            EvidenceUse(roles.seen[i].text, roles.seen[i].confidence, int(held[i]), int(count[i]))
            for i in np.argsort(-held, kind="stable").tolist()
            if count[i]
        ]
        found.append(RoleUse(ROLES[k], int(of.sum()), len(of), tuple(evidence)))
    return tuple(sorted(found, key=lambda each: (-each.bytes, -each.count)))


def evidence_texts(roles: Roles) -> list[str]:
    """Return by what evidence each role is known, that of most allocations first.

    Returns:
        A text for each of ``ROLES``; an empty one where nothing has it.
    """
    count = np.zeros((len(ROLES), len(roles.seen)), np.int64)
    np.add.at(count, (roles.role, roles.evidence), 1)
    return [
        "; ".join(roles.seen[i].text for i in np.argsort(-row, kind="stable").tolist() if row[i])
        for row in count
    ]

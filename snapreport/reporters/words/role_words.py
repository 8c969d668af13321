"""Says how a role is known, and names roles in the plural."""

from __future__ import annotations

from snapreport.model.roles import CACHE, ROLES, STATE, UNKNOWN, Evidence, EvidenceUse, RoleUse

_MOST = 2


def evidence_text(evidence: Evidence | EvidenceUse) -> str:
    """Return what was seen and how sure it is, such as ``made in backward (90% sure)``."""
    sure = f" ({evidence.confidence:.0%} sure)" if 0 < evidence.confidence < 1 else ""
    return f"{evidence.text}{sure}"


def known_text(use: RoleUse) -> str:
    """Return the two kinds of evidence for most bytes of a role, and how many more there are."""
    texts = [evidence_text(each) for each in use.evidence[:_MOST]]
    left = len(use.evidence) - len(texts)
    return "; ".join([*texts, f"and {left} more"] if left else texts)


def plural_of(role: str) -> str:
    """Return a role's name for several allocations: ``parameters``."""
    if role == ROLES[UNKNOWN]:
        return "of unknown role"
    if role in (ROLES[STATE], ROLES[CACHE]):
        return role
    head, of, rest = role.replace(" of optimizer", " of the optimizer").partition(" of ")
    return f"{head[:-1]}ies{of}{rest}" if head.endswith("y") else f"{head}s{of}{rest}"

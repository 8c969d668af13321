"""How a role is known, in words."""

from __future__ import annotations

from snapreport.model.roles import Evidence, EvidenceUse, RoleUse

_MOST = 2


def evidence_text(evidence: Evidence | EvidenceUse) -> str:
    """Return what was seen and how sure it is, such as ``made in backward (90% sure)``."""
    sure = f" ({evidence.confidence:.0%} sure)" if 0 < evidence.confidence < 1 else ""
    return f"{evidence.text}{sure}"


def known_text(use: RoleUse) -> str:
    """Return how the role of the most bytes is known, and of the next."""
    texts = [evidence_text(each) for each in use.evidence[:_MOST]]
    left = len(use.evidence) - len(texts)
    return "; ".join([*texts, f"and {left} more"] if left else texts)

"""What the arguments of tools can be, where they are one of some words."""

from __future__ import annotations

from snapreport.model.answer_tables import GROUPINGS

PARTS = ("peaks", "sites", "roles", "stages", "steps", "trust", "settings", "recording")
"""What ``summary`` can be asked for."""

VIEWS = (*GROUPINGS, "tree", "allocation")
"""How ``at`` can show what is live."""

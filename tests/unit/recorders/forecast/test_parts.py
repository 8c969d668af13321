"""Why a peak may be another: every reason that the kernels give is one that redaction knows."""

from __future__ import annotations

import ast
from pathlib import Path

from snapreport.model.snapshot import FORECAST_PARTS

_FOLDER = Path(__file__).parents[4] / "snapreport" / "recorders" / "forecast"


def _reasons(path: Path) -> set[str]:
    """Return the texts with which a file makes allocations of an uncertain size."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        ranged = any(each.arg == "most" for each in node.keywords)
        if node.func.id in ("_scan", "_sorted_pairs") or (node.func.id == "Inside" and ranged):
            texts = [each.value for each in node.args if isinstance(each, ast.Constant)]
            found |= {each for each in texts if isinstance(each, str)}
    return found


def test_every_reason_for_another_peak_is_known_by_name() -> None:
    reasons = set().union(*map(_reasons, _FOLDER.glob("*.py")))
    assert len(reasons) > 10
    assert reasons <= set(FORECAST_PARTS)

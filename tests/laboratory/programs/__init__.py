"""The programs of the laboratory, by subject; PyTorch is imported when they are asked for."""

from __future__ import annotations

import importlib
from typing import Any

SUBJECTS = (
    "language", "vision", "recurrent", "huggingface", "optimizers", "inference", "leaks",
    "others", "checked", "sizes", "offloading", "offloaded_images", "ranks",
    "other_ranks", "held_data", "evaluating", "odd", "residual",
    "kept_graphs", "autocasting", "closures", "cycles",
)  # fmt: skip


def all_programs() -> dict[str, Any]:
    """Return every class of programs by its name; one without variants is for tests alone."""
    modules = [importlib.import_module(f"{__name__}.{subject}") for subject in SUBJECTS]
    return {program.name: program for module in modules for program in module.PROGRAMS}

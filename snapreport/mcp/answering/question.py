"""The questions for a recording's process, and the kinds of messages it answers with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snapreport.mcp.opened.opening_below import FileBelow

PROGRESS, ANSWER, REFUSAL = "progress", "answer", "refusal"
"""Kinds of messages; the last two end a question, and carry the process's memory in bytes."""

ANSWERING = "Answering"
"""The progress report that starts the time limit: the files are open."""


@dataclass(frozen=True)
class Question:
    """One call of a tool."""

    tool: str
    files: tuple[FileBelow, ...]
    """The recording; for ``diff`` NEW and BASE; for ``run`` the folder or zip."""
    arguments: Mapping[str, Any]
    """The tool's arguments, except files."""
    roots: tuple[Path, ...] = ()
    """For ``run``: the folders that its files have to be below."""

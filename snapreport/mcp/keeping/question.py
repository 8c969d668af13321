"""The questions for a recording's process, and the process's entry point.

The server imports this instead of the answering modules, to start quickly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snapreport.mcp.keeping.opening_below import FileBelow
from snapreport.model.name_treatment import NamesWanted

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

PROGRESS, ANSWER, REFUSAL = "progress", "answer", "refusal"
"""Kinds of messages; the last two end a question, and carry the process's memory in bytes."""

ASKING = "Asking SQLite"
"""The progress report that starts a statement's time limit."""


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


def keep(connection: Connection, names: NamesWanted) -> None:
    """Answer questions until the connection closes; runs in the process."""
    from snapreport.mcp.keeping.keeper_process import answer_all

    answer_all(connection, names)

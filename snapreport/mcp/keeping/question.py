"""The questions that a recording's process is asked, and how it is started.

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
"""Kinds of messages; the last two end an answer, and tell how much memory the process has."""

ASKING = "Asking SQLite"
"""The progress from which on a statement's time counts."""


@dataclass(frozen=True)
class Question:
    """One call of a tool."""

    tool: str
    files: tuple[FileBelow, ...]
    """The recording; for ``diff`` NEW and BASE; for ``run`` the folder or zip."""
    arguments: Mapping[str, Any]
    """As the tool takes them, but for files."""
    roots: tuple[Path, ...] = ()
    """For ``run``: folders that its files have to lie below."""


def keep(connection: Connection, names: NamesWanted) -> None:
    """Answer questions until the connection closes; runs in the process."""
    from snapreport.mcp.keeping.keeper_process import answer_all

    answer_all(connection, names)

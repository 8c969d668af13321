"""Name the outputs of several inputs so that no two names are the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from snapreport.ground.errors import OutputError
from snapreport.ground.files import stem_of, telling_folders

StandIns: TypeAlias = Callable[[list[str]], list[str]]
"""Returns what to write for names of files and folders: stand-ins, or with ``list`` the names."""


@dataclass(frozen=True)
class Named:
    """An input, a name that no other input has, and its output."""

    source: Path
    label: str
    """``snapshot``, or ``rank0/snapshot`` if several inputs are called ``snapshot``."""
    target: Path


def name_outputs(
    sources: Sequence[Path], folder: Path, ending: str, stand_ins: StandIns = list
) -> list[Named]:
    """Name an output for each input: after the input and, if several have one name, its folders.

    ``run/rank0/snapshot.pickle`` and ``run/rank1/snapshot.pickle`` give ``rank0-snapshot.zip`` and
    ``rank1-snapshot.zip``, with only those folders in which the paths differ.

    Args:
        sources: different files.
        folder: to write into.
        ending: of the outputs, with its dot.
        stand_ins: gives the names to write.

    Raises:
        OutputError: two outputs would still have one name, or names that differ only in case.
    """
    groups: dict[str, list[Path]] = {}
    for source in sources:
        groups.setdefault(stem_of(source.name).casefold(), []).append(source)
    folders: dict[Path, tuple[str, ...]] = {}
    for group in groups.values():
        folders |= zip(group, telling_folders(group), strict=True)
    labels = replaced_parts([[*folders[each], stem_of(each.name)] for each in sources], stand_ins)
    named = [
        Named(source, "/".join(parts), folder / ("-".join(parts) + ending))
        for source, parts in zip(sources, labels, strict=True)
    ]
    seen: dict[str, Path] = {}
    for each in named:
        name = each.target.name
        other = seen.setdefault(name.casefold(), each.source)
        if other is not each.source:
            raise OutputError(
                f"{other} and {each.source} would both be written to {name};"
                " rename one of them, or work on it alone."
            )
    return named


def replaced_parts(paths: Sequence[Sequence[str]], stand_ins: StandIns) -> list[list[str]]:
    """Return paths, given as their parts, with what to write for each part."""
    shown = iter(stand_ins([part for parts in paths for part in parts]))
    return [[next(shown) for _ in parts] for parts in paths]

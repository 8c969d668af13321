"""What the outputs of several inputs are called, so that no two are the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from snapreport.ground.errors import OutputError
from snapreport.ground.files import stem_of, telling_folders


@dataclass(frozen=True)
class Named:
    """An input with the name that tells it from the others, and its output."""

    source: Path
    label: str
    """``snapshot``, or ``rank0/snapshot`` where several have that name."""
    target: Path


def name_outputs(
    sources: Sequence[Path],
    folder: Path,
    ending: str,
    reserved: str | None = None,
    stand_ins: Callable[[list[str]], list[str]] | None = None,
) -> list[Named]:
    """Name an output for each input, after the input and, where that is not enough, its folders.

    ``run/rank0/snapshot.pickle`` and ``run/rank1/snapshot.pickle`` give ``rank0-snapshot.zip`` and
    ``rank1-snapshot.zip``: of the folders those in which the paths differ.

    Args:
        sources: different files.
        folder: to write into.
        ending: of the outputs, with its dot.
        reserved: a name in that folder that none may have.
        stand_ins: gives what to write for the names of files and folders; None for the names.

    Raises:
        OutputError: two would still have one name, which is also so where capitals alone differ.
    """
    places = _places(sources)
    labels = []
    for source, place in zip(sources, places, strict=True):
        parts = [*place, stem_of(source.name)]
        labels.append(parts)
    if stand_ins is not None:
        flat = iter(stand_ins([part for parts in labels for part in parts]))
        labels = [[next(flat) for _ in parts] for parts in labels]
    named = [
        Named(source, "/".join(parts), folder / ("-".join(parts) + ending))
        for source, parts in zip(sources, labels, strict=True)
    ]
    seen: dict[str, Path] = {}
    for each in named:
        name = each.target.name
        if reserved is not None and name.casefold() == reserved.casefold():
            raise OutputError(f"{each.source} would be written to {name}, which lists the others;"
                              " rename it, or work on it alone.")  # fmt: skip
        other = seen.setdefault(name.casefold(), each.source)
        if other is not each.source:
            raise OutputError(
                f"{other} and {each.source} would both be written to {name};"
                " rename one of them, or work on it alone."
            )
    return named


def _places(sources: Sequence[Path]) -> list[tuple[str, ...]]:
    """Return for each input the folders that tell it from others with the same stem."""
    groups: dict[str, list[int]] = {}
    for k, source in enumerate(sources):
        groups.setdefault(stem_of(source.name).casefold(), []).append(k)
    places: list[tuple[str, ...]] = [()] * len(sources)
    for group in groups.values():
        if len(group) < 2:
            continue
        for k, folders in zip(group, telling_folders([sources[k] for k in group]), strict=True):
            places[k] = folders
    return places

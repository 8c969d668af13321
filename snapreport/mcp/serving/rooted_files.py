"""Which files clients may name: those below the roots once links are resolved."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from snapreport.ground.errors import InputError
from snapreport.ground.files import stem_of
from snapreport.ground.safe_text import visible
from snapreport.mcp.opened.opening_below import FileBelow, file_below
from snapreport.model.name_treatment import NamesWanted
from snapreport.names.quoted_strings import quoted
from snapreport.runs.rank_names import read_name

ENDINGS = (".pickle", ".pkl", ".zip", ".json", ".gz", ".zst")
"""The file names that are listed end like this; a client can open any other file by its name."""

_MOST_ENTRIES = 20_000
"""The most files and folders that a list searches."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(//|(?![\\/]))")
_LONGEST = 4096


class RootedFiles:
    """The files below some folders."""

    def __init__(self, roots: Sequence[Path], names: NamesWanted) -> None:
        """Take the roots.

        Args:
            roots: folders; links to them are resolved now.
            names: says whether file names are redacted.

        Raises:
            InputError: one is not a folder.
        """
        self.roots = tuple(_root(each) for each in roots)
        self._names = names

    def find(self, name: str, *, folders: bool = False) -> FileBelow:
        """Return the file that a client names by a path below a root, or by its absolute path.

        Args:
            name: from the client.
            folders: whether it may be a folder, too.

        Raises:
            InputError: it is not below the roots; the message reveals nothing about other files.
        """
        if "\0" in name or not name or len(name) > _LONGEST:
            raise InputError("That is not the name of a file.")
        if _SCHEME.match(name) and not Path(name).drive:
            raise InputError("Files are named by paths below the roots; addresses are not opened.")
        named = (root / name for root in self.roots)
        # The name in a list may differ from the file's own.
        listed = (path for path in self._listed(folders) if self._shown(path) == name)
        for path in itertools.chain(named, listed):
            found = self._below(path)
            if found is not None and (folders or not found.folder):
                return found
        what = "file or folder" if folders else "file"
        raise InputError(
            f"{visible(name[:200])} is not a {what} below the roots of this server; call open"
            " without a file for a list."
        )

    def list(self) -> list[FileBelow]:
        """Return the files below the roots that are recordings by their names, in order."""
        found = [file for path in self._walk() if (file := self._below(path)) is not None]
        return sorted(found, key=lambda file: file.shown)

    def list_runs(self) -> Sequence[tuple[str, int]]:
        """Return the folders with files of several ranks, and how many ranks, in order."""
        return sorted((self._shown(path), ranks) for path, ranks in self._runs().items())

    def _listed(self, folders: bool) -> Iterator[Path]:
        yield from self._runs() if folders else ()
        yield from self._walk()

    def _runs(self) -> dict[Path, int]:
        ranks: dict[Path, set[int]] = {}
        for path in self._walk():
            root = next(each for each in self.roots if path.is_relative_to(each))
            rank = read_name(path.relative_to(root).as_posix()).rank
            if rank is not None and self._below(path) is not None:
                ranks.setdefault(_run_of(path, root), set()).add(rank)
        return {path: len(found) for path, found in ranks.items() if len(found) > 1}

    def _below(self, path: Path) -> FileBelow | None:
        """Return a regular file, or a folder, if it is below a root after resolving links."""
        found = file_below(path, self.roots)
        return None if found is None else replace(found, shown=self._shown(found.path))

    def _shown(self, path: Path) -> str:
        """Return a file's name in answers: its path below the root, without any home folder."""
        root = next(each for each in self.roots if path.is_relative_to(each))
        name = path.relative_to(root).as_posix()
        if sum(_is_there(each / name) for each in self.roots) > 1:
            name = path.as_posix()
        if not self._names.redacted:
            return quoted(visible(name))
        return _stand_in(name, self._names.salt)

    def _walk(self) -> Iterator[Path]:
        left = _MOST_ENTRIES
        for root in self.roots:
            for folder, folders, files in os.walk(root):
                folders[:] = sorted(each for each in folders if not each.startswith("."))
                for name in sorted(files):
                    if name.lower().endswith(ENDINGS) and not name.startswith("."):
                        yield Path(folder, name)
                left -= len(folders) + len(files)
                if left < 0:
                    return


def _root(path: Path) -> Path:
    try:
        real = Path(os.path.realpath(path.expanduser(), strict=True))
    except OSError:
        raise InputError(f"{path} does not exist; a root is a folder that does.") from None
    if not real.is_dir():
        raise InputError(f"{path} is not a folder; name the one that the files are in.")
    return real


def _run_of(path: Path, root: Path) -> Path:
    """Return the run's folder for a rank's file: above the folders of its host and step."""
    folder = path.parent
    while folder != root:
        name = read_name(f"{folder.name}/x")
        if name.dump is None and not name.host and not name.coordinates:
            break
        folder = folder.parent
    return folder


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


@lru_cache(maxsize=_MOST_ENTRIES)
def _stand_in(name: str, salt: str | None) -> str:
    from snapreport.api.loading import redacted_names

    stem = stem_of(name)
    return redacted_names([stem], salt)[0] + name.removeprefix(stem)

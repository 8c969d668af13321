"""Lists of names in installed copies of PyTorch, Python and known libraries.

``tools/known_names.py`` makes them. They leave out words of one or two letters, which say nothing.
"""

from __future__ import annotations

import lzma
import re
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_LISTS = Path(__file__).with_name("known_names.txt.xz")
_WORD = re.compile(r"\w+")
_SHORTEST = 3
_CUT = 250
"""Names of this length may have been cut off when they were recorded."""


@dataclass(frozen=True)
class KnownNames:
    """Sorted, by what they are names of."""

    lists: dict[str, list[str]]
    """``cpp``: words of C++ functions; ``c``: functions; ``files``: folders and names of Python's
    modules; ``functions``: those that these define; ``folders`` and ``sources``: of C and C++;
    ``stages``: of torch.compile."""
    sets: dict[str, frozenset[str]]

    def has(self, kind: str, word: str) -> bool:
        """Say whether a word is listed, or too short to say anything."""
        return len(word) < _SHORTEST or word in self.sets[kind]

    def is_cpp(self, name: str) -> bool:
        """Say whether all words of a C++ function are known; the last of a name may be cut off."""
        unknown = [
            found
            for found in _WORD.finditer(name)
            if not found[0][0].isdigit() and not self.has("cpp", found[0])
        ]
        if len(unknown) != 1 or unknown[0].end() != len(name) or len(name) < _CUT:
            return not unknown
        return self._begins("cpp", unknown[0][0])

    def _begins(self, kind: str, start: str) -> bool:
        words = self.lists[kind]
        at = bisect_left(words, start)
        return at < len(words) and words[at].startswith(start)


@lru_cache(maxsize=1)
def known_names() -> KnownNames:
    """Read the lists, once."""
    lists: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lzma.decompress(_LISTS.read_bytes()).decode().splitlines():
        if line.startswith("["):
            current = lists.setdefault(line[1:-1], [])
        else:
            current.append(line)
    return KnownNames(lists, {kind: frozenset(words) for kind, words in lists.items()})

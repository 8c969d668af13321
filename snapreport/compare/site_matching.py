"""Match call sites of two recordings of a program that may have been edited in between."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from snapreport.compare.diff_types import EXACT, MOVED_FILE, MOVED_LINE, ONLY_BASE, ONLY_NEW
from snapreport.compare.line_matching import match_lines
from snapreport.frames.frame_kinds import classify_frames
from snapreport.frames.site_names import function_of
from snapreport.frames.source_files import FileKey, Keys, likeness, pair_files
from snapreport.model.findings import MACHINERY
from snapreport.model.stacks import UNKNOWN_LINE, StackTable


@dataclass(frozen=True, order=True)
class Site:
    """A source line as a frame names it."""

    filename: str
    function: str
    line: int
    """UNKNOWN_LINE if there is none."""


def site_of(stacks: StackTable, frame: int) -> Site:
    """Return the source line of a frame; C++ frames with an unknown line have line 0."""
    frames = stacks.frames
    line = int(frames.lines[frame]) or UNKNOWN_LINE
    return Site(frames.filenames[frame], function_of(frames, frame), line)


@dataclass(frozen=True)
class SiteList:
    """The call sites of one recording, each once, and all its stacks."""

    sites: tuple[Site, ...]
    stacks: StackTable

    def filenames(self) -> list[str]:
        """Return every file of the recording."""
        return sorted(set(self.stacks.frames.filenames))


@dataclass(frozen=True)
class Pair:
    """Sites of both recordings that are the same; several of one side are equal after renaming."""

    base: tuple[int, ...]
    """Positions in BASE's list of sites; empty if only NEW has the site."""
    new: tuple[int, ...]
    """Positions in NEW's list of sites; empty if only BASE has the site."""
    match: str

    def turned(self) -> Pair:
        """Return the pair with BASE and NEW exchanged."""
        match = {ONLY_BASE: ONLY_NEW, ONLY_NEW: ONLY_BASE}.get(self.match, self.match)
        return Pair(self.new, self.base, match)


def match_sites(base: SiteList, new: SiteList) -> list[Pair]:
    """Find which call sites of two recordings are the same; every site is in one pair.

    First, functions that both recordings have in the same file are matched by their lines, in place
    or moved by an edit above them. Then functions are matched with those of the same name in files
    of the same name in another folder. All lines that any call stack passes through help to find
    where lines moved. The result does not depend on which recording comes first.
    """
    if sorted(base.sites) > sorted(new.sites):
        return [pair.turned() for pair in match_sites(new, base)]
    keys = pair_files(base.filenames(), new.filenames())
    sides = (_Side(base, keys[0]), _Side(new, keys[1]))
    found: list[Pair] = []
    for group in sorted(sides[0].lines.keys() & sides[1].lines.keys()):
        found += _match_group(sides, group, group)
    apart = [
        {group for group in one.sites if group not in other.lines}
        for one, other in (sides, (sides[1], sides[0]))
    ]
    for one, other in _moved(sides, *apart):
        found += _match_group(sides, one, other)
    matched = {place for pair in found for place in pair.base}
    found += [Pair(at, (), ONLY_BASE) for at in sides[0].lone(matched)]
    matched = {place for pair in found for place in pair.new}
    return [*found, *(Pair((), at, ONLY_NEW) for at in sides[1].lone(matched))]


Group = tuple[FileKey, str]
"""A function of a file."""


class _Side:
    """One recording's source lines by file and function, with those that are call sites."""

    def __init__(self, sites: SiteList, keys: Keys) -> None:
        self.sites: dict[Group, dict[int, list[int]]] = {}
        """The call sites at each line of each function."""
        for place, site in enumerate(sites.sites):
            group = self.sites.setdefault((keys[site.filename], site.function), {})
            group.setdefault(site.line, []).append(place)
        self.lines: dict[Group, set[int]] = defaultdict(set)
        """The lines of each function that any stack passes through."""
        self.of_file: dict[FileKey, set[tuple[str, int]]] = defaultdict(set)
        """The functions and lines of each file."""
        stacks = sites.stacks
        self._frame_lines = [site_of(stacks, frame) for frame in range(len(stacks.frames))]
        for line in self._frame_lines:
            self.lines[keys[line.filename], line.function].add(line.line)
            self.of_file[keys[line.filename]].add((line.function, line.line))
        self._keys = keys
        self._around: dict[tuple[Group, int], tuple[set[str], set[str]]] | None = None
        self._stacks = stacks

    def lone(self, matched: set[int]) -> list[tuple[int, ...]]:
        """Return the call sites at each line whose sites are not matched."""
        lines = (at for group in self.sites.values() for at in group.values())
        return [tuple(at) for at in lines if at[0] not in matched]

    def around(self, group: Group, line: int) -> tuple[set[str], set[str]]:
        """Return the functions that a line calls and those that call it, without machinery."""
        if self._around is None:
            self._around = self._look_around()
        return self._around[group, line]

    def _look_around(self) -> dict[tuple[Group, int], tuple[set[str], set[str]]]:
        stacks = self._stacks
        kinds = classify_frames(stacks.frames).tolist()
        where = [((self._keys[s.filename], s.function), s.line) for s in self._frame_lines]
        found: dict[tuple[Group, int], tuple[set[str], set[str]]] = {}
        for line in where:
            found[line] = (set(), set())
        caller = [-1] * len(stacks.node_parent)  # the nearest frame that is not machinery
        nodes = zip(stacks.node_parent.tolist(), stacks.node_frame.tolist(), strict=True)
        for node, (parent, frame) in enumerate(nodes):
            outer = caller[parent] if parent >= 0 else -1
            counts = kinds[frame] != MACHINERY
            caller[node] = frame if counts else outer
            if counts and outer >= 0:
                found[where[outer]][0].add(self._frame_lines[frame].function)
                found[where[frame]][1].add(self._frame_lines[outer].function)
        return found


_Sides = tuple[_Side, _Side]


def _match_group(sides: _Sides, one: Group, other: Group) -> list[Pair]:
    """Match the call sites in a function of both recordings."""
    at_base, at_new = sides[0].sites.get(one, {}), sides[1].sites.get(other, {})
    if not at_base or not at_new:
        return []
    files = (sides[0].of_file[one[0]], sides[1].of_file[other[0]])

    def alike(line: int, other_line: int) -> tuple[int, int]:
        here, there = sides[0].around(one, line), sides[1].around(other, other_line)
        return _percent(here[0], there[0]), _percent(here[1], there[1])

    def file_agrees(shift: int) -> int:
        return sum((name, line + shift) in files[1] for name, line in files[0])

    def how(a: int, b: int) -> str:
        return MOVED_FILE if one != other else EXACT if a == b else MOVED_LINE

    lines = sorted(sides[0].lines[one]), sorted(sides[1].lines[other])
    return [
        Pair(tuple(at_base[a]), tuple(at_new[b]), how(a, b))
        for a, b in match_lines(*lines, alike, file_agrees)
        if a in at_base and b in at_new
    ]


def _percent(one: set[str], other: set[str]) -> int:
    """Return how much of two sets is in both, in percent."""
    return 100 * len(one & other) // len(one | other) if one or other else 100


def _moved(sides: _Sides, base: Iterable[Group], new: Iterable[Group]) -> list[tuple[Group, Group]]:
    """Pair functions of one name in files of one name, the most alike first."""
    by_function: dict[str, list[Group]] = defaultdict(list)
    for group in new:
        by_function[group[1]].append(group)
    candidates = []
    for one in base:
        for other in by_function[one[1]]:
            alike = likeness(one[0], other[0])
            if alike is not None:
                shared = len(sides[0].of_file[one[0]] & sides[1].of_file[other[0]])
                same = len(sides[0].lines[one] & sides[1].lines[other])
                candidates.append((-alike, -shared, -same, one, other))
    taken: set[tuple[str, Group]] = set()
    pairs = []
    for *_, one, other in sorted(candidates):
        if ("base", one) not in taken and ("new", other) not in taken:
            taken |= {("base", one), ("new", other)}
            pairs.append((one, other))
    return pairs

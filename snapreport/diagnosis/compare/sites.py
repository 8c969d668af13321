"""Match the call sites of two recordings of a program that may have been edited in between."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.compare.diff_types import (
    EXACT,
    MOVED_FILE,
    MOVED_LINE,
    ONLY_BASE,
    ONLY_NEW,
)
from snapreport.ground.memoize import once_for_each
from snapreport.ground.records import dataclass
from snapreport.model.findings import MACHINERY
from snapreport.model.snapshot import UNKNOWN_LINE, StackTable
from snapreport.roles.frames import classify_frames, compiled_frames, function_of, site_names
from snapreport.roles.source_files import FileKey, Keys, can_move, last_parts, pair_files


@dataclass(frozen=True, order=True)
class Site:
    """A source line as a frame names it."""

    filename: str
    function: str
    line: int
    """UNKNOWN_LINE if there is none."""


@once_for_each
def frame_sites(stacks: StackTable) -> list[Site]:
    """Return the source line of each frame; C++ frames with an unknown line have line 0."""
    frames, names = stacks.frames, site_names(stacks)
    return [
        Site("", names[frame], UNKNOWN_LINE)
        if compiled
        else Site(frames.filenames[frame], function_of(frames, frame), line or UNKNOWN_LINE)
        for frame, (compiled, line) in enumerate(
            zip(compiled_frames(frames).tolist(), frames.lines.tolist(), strict=True)
        )
    ]


@dataclass(frozen=True)
class SiteList:
    """The call sites of one recording, each once, and all its stacks."""

    sites: tuple[Site, ...]
    stacks: StackTable

    def filenames(self) -> list[str]:
        """Return every file that a call site or a frame of the recording is in."""
        return sorted({site.filename for site in (*self.sites, *frame_sites(self.stacks))})


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
    matching = _Matching(_Side(base, keys[0]), _Side(new, keys[1]))
    sides = matching.sides
    found: list[Pair] = []
    for group in sorted(sides[0].lines.keys() & sides[1].lines.keys()):
        found += matching.match_group(group, group)
    apart = [
        {group for group in one.sites if group not in other.lines}
        for one, other in (sides, (sides[1], sides[0]))
    ]
    for one, other in matching.moved(*apart):
        found += matching.match_group(one, other)
    matched = {place for pair in found for place in pair.base}
    found += [Pair(at, (), ONLY_BASE) for at in sides[0].lone(matched)]
    matched = {place for pair in found for place in pair.new}
    return [*found, *(Pair((), at, ONLY_NEW) for at in sides[1].lone(matched))]


def number_places(base: SiteList, new: SiteList) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number the places in the code of all frames; a place of both recordings has one number.

    Call sites are the same where ``match_sites`` says so: what is added up by these numbers are the
    changes of a comparison. All other lines are matched in the same way.

    Returns:
        A number for each frame of BASE, and for each of NEW.
    """
    known: tuple[dict[Site, int], dict[Site, int]] = ({}, {})
    number = itertools.count()
    alone = set()
    for pair in match_sites(base, new):
        one = next(number)
        if not pair.base or not pair.new:
            alone.add(one)
        known[0].update((base.sites[place], one) for place in pair.base)
        known[1].update((new.sites[place], one) for place in pair.new)
    every = [
        SiteList(tuple(dict.fromkeys(frame_sites(side.stacks))), side.stacks)
        for side in (base, new)
    ]
    for pair in match_sites(*every):
        both = [
            [side.sites[place] for place in places]
            for side, places in zip(every, (pair.base, pair.new), strict=True)
        ]
        # A call site of one recording alone may be a caller in the other.
        numbered = (of.get(site) for of, sites in zip(known, both, strict=True) for site in sites)
        one = next((each for each in numbered if each in alone), next(number))
        alone.discard(one)
        for of, sites in zip(known, both, strict=True):
            for site in sites:
                of.setdefault(site, one)
    first, second = (
        np.array([of[site] for site in frame_sites(side.stacks)], np.int64)
        for of, side in zip(known, (base, new), strict=True)
    )
    return first, second


# Functions: those of both recordings, and those that moved to another file.


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
        self._frame_lines = frame_sites(stacks)
        for line in self._frame_lines:
            self.lines[keys[line.filename], line.function].add(line.line)
            self.of_file[keys[line.filename]].add((line.function, line.line))
        self._keys = keys
        self.size = len(stacks.frames) + len(stacks.node_parent)
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


LEAST_COMPARED, COMPARED_OF_EACH = 2_000_000, 32
"""The most comparisons: a total, or so many for each frame and each node of the call stacks."""
_OF_A_PAIR = 10
"""What it costs to rank two functions, in comparisons."""


class Comparisons:
    """How many more comparisons may be made: files can be made that need the square of their size.

    No recording of a real program comes near the limit.
    """

    def __init__(self, most: int) -> None:
        """Allow so many."""
        self.left = most

    def take(self, count: int) -> bool:
        """Use up some; return whether there were as many left."""
        enough = count <= self.left
        self.left -= count if enough else 0
        return enough


class _Matching:
    """Matches the functions of two recordings, with as many comparisons as their size allows."""

    def __init__(self, base: _Side, new: _Side) -> None:
        self.sides = (base, new)
        self._left = Comparisons(max(LEAST_COMPARED, COMPARED_OF_EACH * (base.size + new.size)))
        self._agreeing: dict[tuple[FileKey, FileKey, int], int] = {}
        self._shared: dict[tuple[FileKey, FileKey], int] = {}
        self._code: dict[tuple[int, FileKey], int] = {}

    def match_group(self, one: Group, other: Group) -> list[Pair]:
        """Match the call sites in a function of both recordings."""
        base, new = self.sides
        at_base, at_new = base.sites.get(one, {}), new.sites.get(other, {})
        if not at_base or not at_new:
            return []

        def alike(line: int, other_line: int) -> tuple[int, int]:
            here, there = base.around(one, line), new.around(other, other_line)
            if not self._left.take(1 + sum(map(len, here)) + sum(map(len, there))):
                return 0, 0
            return _percent(here[0], there[0]), _percent(here[1], there[1])

        def file_agrees(shift: int) -> int:
            return self._file_agrees(one[0], other[0], shift)

        def how(a: int, b: int) -> str:
            return MOVED_FILE if one != other else EXACT if a == b else MOVED_LINE

        lines = sorted(base.lines[one]), sorted(new.lines[other])
        return [
            Pair(tuple(at_base[a]), tuple(at_new[b]), how(a, b))
            for a, b in match_lines(*lines, alike, file_agrees, self._left)
            if a in at_base and b in at_new
        ]

    def _file_agrees(self, one: FileKey, other: FileKey, shift: int) -> int:
        """Return how many lines of a file a shift explains; 0 where nothing may be compared."""
        known = self._agreeing.get((one, other, shift))
        if known is None:
            here, there = self.sides[0].of_file[one], self.sides[1].of_file[other]
            known = 0
            if self._left.take(len(here)):
                known = sum((name, line + shift) in there for name, line in here)
            self._agreeing[one, other, shift] = known
        return known

    def moved(self, base: Iterable[Group], new: Iterable[Group]) -> list[tuple[Group, Group]]:
        """Pair functions of one name in files of one name, the most alike first.

        The more parts two paths share at their ends, the more alike are the files; then the more
        lines both have. Compiled files are named after a hash of their code, so any two may be the
        same.
        """
        by_function: dict[str, tuple[_Groups, _Groups]] = defaultdict(lambda: ([], []))
        for side, groups in enumerate((base, new)):
            for group in sorted(groups):
                if can_move(group[0]):
                    by_function[group[1]][side].append((last_parts(group[0]), group))
        pairs: list[tuple[Group, Group]] = []
        for function in sorted(by_function):
            left = self._pair_below(*by_function[function], 0, pairs)
            base_code, new_code = (
                [each for each in side if each[1][0][0] == "compiled"] for side in left
            )
            self._pair_equals(base_code, new_code, pairs)
        return pairs

    def _pair_below(
        self, base: _Groups, new: _Groups, depth: int, pairs: list[tuple[Group, Group]]
    ) -> tuple[_Groups, _Groups]:
        """Pair functions in files whose paths end in the same ``depth`` parts; return the rest."""
        if not base or not new:
            return base, new
        below: dict[str, tuple[_Groups, _Groups]] = defaultdict(lambda: ([], []))
        left: tuple[_Groups, _Groups] = ([], [])
        for side, groups in enumerate((base, new)):
            for parts, group in groups:
                (below[parts[depth]] if depth < len(parts) else left)[side].append((parts, group))
        for both in below.values():
            for side, groups in enumerate(self._pair_below(*both, depth + 1, pairs)):
                left[side].extend(groups)
        return self._pair_equals(*left, pairs) if depth else left

    def _pair_equals(
        self, base: _Groups, new: _Groups, pairs: list[tuple[Group, Group]]
    ) -> tuple[_Groups, _Groups]:
        """Pair functions whose paths are equally alike; return what one recording has more of."""
        if not base or not new:
            return base, new
        taken: tuple[set[Group], set[Group]] = (set(), set())
        for pair in self._ranked([each for _, each in base], [each for _, each in new]):
            if pair[0] not in taken[0] and pair[1] not in taken[1]:
                taken[0].add(pair[0])
                taken[1].add(pair[1])
                pairs.append(pair)
        ones, others = (
            sorted((each for each in side if each[1] not in done), key=itemgetter(1))
            for side, done in zip((base, new), taken, strict=True)
        )
        pairs += [(one[1], other[1]) for one, other in zip(ones, others, strict=False)]
        return ones[len(others) :], others[len(ones) :]

    def _ranked(self, base: list[Group], new: list[Group]) -> Iterable[tuple[Group, Group]]:
        """Return pairs, those that share the most lines first.

        Where there are too many to compare each with each: those of the same code alone.
        """
        if len(base) == len(new) == 1:
            return [(base[0], new[0])]
        if self._left.take(_OF_A_PAIR * len(base) * len(new)):
            every = itertools.product(base, new)
            return sorted(every, key=lambda pair: (*self._unlike(*pair), *pair))
        by_code: dict[int, tuple[list[Group], list[Group]]] = defaultdict(lambda: ([], []))
        for side, groups in enumerate((base, new)):
            for group in sorted(groups):
                by_code[self._code_of(side, group)][side].append(group)
        return [pair for both in by_code.values() for pair in zip(*both, strict=False)]

    def _unlike(self, one: Group, other: Group) -> tuple[int, int]:
        """Return minus the lines that both files have, and minus those that both functions have."""
        base, new = self.sides
        files = (one[0], other[0])
        if files not in self._shared:
            here, there = base.of_file[files[0]], new.of_file[files[1]]
            counted = self._left.take(min(len(here), len(there)))
            self._shared[files] = len(here & there) if counted else 0
        lines = base.lines[one], new.lines[other]
        same = len(lines[0] & lines[1]) if self._left.take(min(map(len, lines))) else 0
        return -self._shared[files], -same

    def _code_of(self, side: int, group: Group) -> int:
        """Return a number that is the same for a function of the same lines in an equal file."""
        file, of = group[0], self.sides[side]
        if (side, file) not in self._code:
            self._code[side, file] = hash(frozenset(of.of_file[file]))
        return hash((self._code[side, file], frozenset(of.lines[group])))


_Groups = list[tuple[tuple[str, ...], Group]]
"""Functions, each after the last parts of its file's path, the name first."""


def _percent(one: set[str], other: set[str]) -> int:
    """Return how much of two sets is in both, in percent."""
    return 100 * len(one & other) // len(one | other) if one or other else 100


# The lines of one function, before and after an edit.


Alike = Callable[[int, int], tuple[int, int]]
"""How alike a line of each is, in percent: by what they call, and by what calls them."""
_MOST_SHIFTS = 200
_MOST_VOTES, _LEAST_VOTERS = 250_000, 32
_MOST_CELLS = 10_000
_OF_A_CELL = 10
"""What a cell of the table of two runs of lines costs, in comparisons."""


def match_lines(
    base: Sequence[int],
    new: Sequence[int],
    alike: Alike,
    file_agrees: Callable[[int], int],
    comparisons: Comparisons,
) -> list[tuple[int, int]]:
    """Match lines in their order.

    Lines inserted above move all lines below by the same number, so the shift that most lines agree
    on is applied first. Lines in between are then matched if they call the same functions, the most
    alike first, then the nearest.

    Args:
        base: ascending line numbers.
        new: ascending line numbers.
        alike: compares two lines; it breaks ties.
        file_agrees: how many lines of the file a shift explains; it also breaks ties.
        comparisons: without any left, lines are matched by a shift alone.

    Returns:
        Pairs of lines, both ascending.
    """
    if list(base) == list(new):
        return list(zip(base, new, strict=True))
    shift = _best_shift(base, new, alike, file_agrees, comparisons)
    there = set(new)
    fixed = [(line, line + shift) for line in base if line + shift in there]
    found: list[tuple[int, int]] = []
    at_base = at_new = 0
    for a, b in [*fixed, (None, None)]:
        end_base = len(base) if a is None else base.index(a, at_base)
        end_new = len(new) if b is None else new.index(b, at_new)
        found += _fill(base[at_base:end_base], new[at_new:end_new], shift, alike, comparisons)
        if a is not None and b is not None:
            found.append((a, b))
        at_base, at_new = end_base + 1, end_new + 1
    return found


def _best_shift(
    base: Sequence[int],
    new: Sequence[int],
    alike: Alike,
    file_agrees: Callable[[int], int],
    comparisons: Comparisons,
) -> int:
    # Generated code has functions of thousands of lines; some of them are enough to vote.
    voters = base[:: 1 + len(base) * len(new) // _MOST_VOTES]
    if len(voters) < _LEAST_VOTERS or not comparisons.take(len(voters) * len(new)):
        voters = base[:: 1 + len(base) // _LEAST_VOTERS]
    votes = np.subtract.outer(np.array(new, np.int64), np.array(voters, np.int64))
    shifts, counts = np.unique(votes, return_counts=True)
    best: list[int] = sorted(shifts[counts == counts.max()].tolist(), key=abs)
    if len(best) == 1:
        return best[0]
    there = set(new)

    def rank(shift: int) -> tuple[int, int, int, int]:
        inside = outside = 0
        if comparisons.take(len(base)):
            for line in base:
                if line + shift in there:
                    likeness = alike(line, line + shift)
                    inside, outside = inside + likeness[0], outside + likeness[1]
        return inside, file_agrees(shift), outside, -abs(shift)

    return max(best[:_MOST_SHIFTS], key=rank)


def _fill(
    base: Sequence[int], new: Sequence[int], shift: int, alike: Alike, comparisons: Comparisons
) -> list[tuple[int, int]]:
    """Match lines that call the same, in order, to make the pairs as alike and near as possible."""
    if not base or not new:
        return []
    cells = len(base) * len(new)
    if cells > _MOST_CELLS or not comparisons.take(_OF_A_CELL * cells):
        return [pair for pair in zip(base, new, strict=False) if alike(*pair)[0]]
    # For the lines of base so far: the best score and its pairs among the first j lines of new.
    row: list[_Best] = [((0, 0, 0), ())] * (len(new) + 1)
    for a in base:
        following = [row[0]]
        for j, b in enumerate(new):
            best = max(row[j + 1], following[j])
            inside, outside = alike(a, b)
            if inside:
                sums, pairs = row[j]
                far = abs(b - a - shift)
                paired = (sums[0] + inside, sums[1] + outside, sums[2] - far), (*pairs, (a, b))
                best = max(best, paired)
            following.append(best)
        row = following
    return list(row[-1][1])


_Best = tuple[tuple[int, int, int], tuple[tuple[int, int], ...]]

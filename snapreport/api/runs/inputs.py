"""Files to work on: which ones a user names, what their outputs are called, and whose they are.

A folder stands for the snapshots and bundles in it; a file's name may tell which rank wrote it,
after which step, and on which host.
"""

from __future__ import annotations

import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import orjson

from snapreport.bundle.archive import checked_members
from snapreport.bundle.members import MANIFEST, MOST_MANIFEST, NotABundleError
from snapreport.ground.errors import InputError, OutputError
from snapreport.ground.files import (
    LATEST_FILE,
    NUMBER,
    WRITTEN,
    by_number,
    is_folder,
    latest_number,
    open_regular,
    sha256_of,
    stem_of,
    telling_folders,
)
from snapreport.ground.records import dataclass
from snapreport.ground.stores import is_remote
from snapreport.model.run import RankName

_GZIP, _ZSTD = ".gz", (".zst", ".zstd")
_SNAPSHOTS = (".pickle", ".pkl", ".json")
_BUNDLE = ".zip"
_PEEK = 1 << 16
"""A snapshot names one of its parts within this many bytes from the beginning."""
_PARTS = (b"segments", b"device_traces", b"blocks")

NO_SNAPSHOT_NAME = "not named like a snapshot or bundle"
NO_CONVERTING = "a zip; bundles need no converting"
NO_SNAPSHOT = "does not begin like a snapshot"
NO_BUNDLE = "a zip, but not a bundle"
NO_FILE = "a pipe or device, not a file"
CONVERTED = "its bundle is used instead"
NAMED = "already named"
OTHER = "another recording; the newest is used"
OURS = "a recording's report"
NOT_ALLOWED = "outside the folders that may be read"
DEEPER = "too many folders deep; name it directly"

DEEPEST = 8
"""How many levels of subfolders are searched."""
MOST_ENTRIES = 100_000
"""The most files and folders in a folder; more are a home folder or a disk, not a run."""


@dataclass(frozen=True)
class Skipped:
    """A file or folder that was left out."""

    path: Path
    reason: str
    """Why: ``a zip, but not a bundle``."""


@dataclass(frozen=True)
class Inputs:
    """The files to work on, and what was left out of folders."""

    files: tuple[Path, ...]
    """In the order given; files of a folder by name, ``rank2`` before ``rank10``."""
    skipped: tuple[Skipped, ...]


def find_inputs(
    paths: Iterable[Path], *, bundles: bool, allowed: Callable[[Path], bool] | None = None
) -> Inputs:
    """Replace each folder by the snapshots in it and, with ``bundles``, the bundles.

    A file that was named is taken, whatever it is: its reader says what is wrong with it. Folders
    are searched, subfolders too, for bundles (``.zip``) and for files that end in ``.pickle``,
    ``.pkl`` or ``.json`` (also with ``.gz`` or ``.zst``) and begin like a snapshot. A snapshot with
    its bundle among them is left out, and so are all numbered recordings but the one that
    ``latest`` leads to. Hidden files and folders, reports of recordings, and folders that links
    lead to a second time are skipped silently.

    Args:
        paths: files and folders.
        bundles: whether bundles are wanted.
        allowed: says which files and folders within a folder may be read; None for all.

    Raises:
        InputError: a folder cannot be read or has no file to work on, or a file is given twice.
    """
    given = list(paths)
    named: dict[Path, Path] = {}
    for path in given:
        if not is_folder(path):
            same = named.setdefault(path.resolve(), path)
            if same is not path:
                raise InputError(f"{path} is given twice; name each file once.")
    files: list[Path] = []
    skipped: list[Skipped] = []
    taken = set(named)
    for path in given:
        if not is_folder(path):
            files.append(path)
            continue
        found, left = _look_into(path, bundles, allowed)
        if not found:
            raise InputError(_nothing_in(path, left, bundles))
        for each in found:
            if each.resolve() in taken:
                left.append(Skipped(each, NAMED))
            else:
                taken.add(each.resolve())
                files.append(each)
        skipped += [each for each in left if each.reason != OURS]
    return Inputs(tuple(files), tuple(skipped))


def the_recording(path: Path) -> Path:
    """Return the recording of a folder with a single one, such as ``out/latest``; else the path."""
    if not is_folder(path):
        return path
    try:
        found, _ = _look_into(path, True, None, enough=2)  # a snapshot and its bundle are one
    except InputError:  # whoever reads the folder meets it again
        return path
    return found[0] if len(found) == 1 else path


def skipped_words(skipped: Iterable[Skipped], most: int = 3) -> Iterator[str]:
    """Yield a line for each reason, with the names of the first few files."""
    reasons: dict[str, list[Path]] = {}
    for each in skipped:
        reasons.setdefault(each.reason, []).append(each.path)
    for reason, paths in reasons.items():
        names = ", ".join(str(path) for path in paths[:most])
        if len(paths) > most:
            names += f" and {len(paths) - most:,} more"
        yield f"{names} ({reason})"


def _look_into(
    folder: Path,
    bundles: bool,
    allowed: Callable[[Path], bool] | None,
    enough: int = MOST_ENTRIES,
) -> tuple[list[Path], list[Skipped]]:
    """Return the files in a folder that are taken, and the others; stop at more than ``enough``."""
    found: list[Path] = []
    skipped: list[Skipped] = []
    sources: set[tuple[str, int, str]] = set()
    waiting, seen, entries = [(folder, 0)], set(), 0
    while waiting:
        place, depth = waiting.pop()
        try:
            # With the dot, which a folder without search permission does not let us look at.
            status = place.stat() if is_remote(place) else os.stat(f"{place}/.")  # noqa: PTH116
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            inside = [path for path in place.iterdir() if not path.name.startswith(".")]
        except OSError as error:
            reason = f"cannot be read: {error.strerror}"
            if depth == 0:
                raise InputError(f"{folder} {reason}.") from error
            skipped.append(Skipped(place, reason))
            continue
        entries += len(inside)
        if entries > MOST_ENTRIES:
            raise InputError(
                f"{folder} has over {MOST_ENTRIES:,} files in it; name the folders of the run."
            )
        inside.sort(key=lambda path: by_number(path.name))
        if allowed is not None:
            known = {path for path in inside if allowed(path)}
            skipped += [Skipped(path, NOT_ALLOWED) for path in inside if path not in known]
            inside = [path for path in inside if path in known]
        known = {path for path in inside if is_folder(path)}
        folders = [path for path in inside if path in known]
        files = [path for path in inside if path not in known]
        if newest := latest_number(place):
            numbered = {path for path in folders if NUMBER.fullmatch(path.name)}
            others = {path for path in numbered if int(path.name) != newest}
            skipped += [Skipped(path, OTHER) for path in folders if path in others]
            folders = [path for path in folders if path not in others]
        if depth == DEEPEST:
            skipped += [Skipped(path, DEEPER) for path in folders]
        else:  # the last is searched first: a link comes after the folder that it may lead to
            folders.sort(key=lambda path: path.is_symlink())
            waiting += [(path, depth + 1) for path in reversed(folders)]
        for path in files:
            reason = _why_not(path, bundles, sources)
            if reason:
                skipped.append(Skipped(path, reason))
            else:
                found.append(path)
            if len(found) > enough:
                return found, skipped
    converted = {path for path in found if _is_one_of(path, sources)}
    skipped += [Skipped(path, CONVERTED) for path in found if path in converted]
    return [path for path in found if path not in converted], skipped


def _why_not(path: Path, bundles: bool, sources: set[tuple[str, int, str]]) -> str:
    """Say why a file is left out, ``""`` if it is taken; add the source of a bundle."""
    if _ends_in(path, (_BUNDLE,)):
        if not bundles:
            return NO_CONVERTING
        if _is_special(path):
            return NO_FILE
        source = _source_of(path)
        if source is None:
            return NO_BUNDLE
        sources.add(source)
        return ""
    if not _ends_in(path, _SNAPSHOTS):
        return OURS if _is_report(path.name) else NO_SNAPSHOT_NAME
    if _is_special(path):
        return NO_FILE
    return "" if _begins_well(path) else NO_SNAPSHOT


def _is_special(path: Path) -> bool:
    """Say whether a path, or what a link leads to, is a pipe or device: it may never end."""
    try:
        return not is_remote(path) and not stat.S_ISREG(path.stat().st_mode)
    except OSError:  # the reader meets the same error, and names it
        return False


def _is_report(name: str) -> bool:
    written = WRITTEN.fullmatch(name)
    return name == LATEST_FILE or (written is not None and written["stem"] == "report")


def _ends_in(path: Path, endings: Sequence[str]) -> bool:
    name = path.name.lower()
    if endings is _SNAPSHOTS:
        for packed in (_GZIP, *_ZSTD):
            name = name.removesuffix(packed)
    return name.endswith(tuple(endings))


def _source_of(bundle: Path) -> tuple[str, int, str] | None:
    """Return the name, size and SHA-256 of a bundle's source; None if it is not a bundle.

    A file that cannot be read may be a damaged bundle: its reader says what is wrong with it.
    """
    try:
        with checked_members(bundle) as members:
            source = orjson.loads(members.unpack(MANIFEST, MOST_MANIFEST))["source"]
            return str(source["name"]), int(source["size"]), str(source["sha256"])
    except NotABundleError:
        return None
    except Exception:  # whatever a stranger's file makes of it
        return "", -1, ""


def _is_one_of(path: Path, sources: set[tuple[str, int, str]]) -> bool:
    """Say whether a bundle was made from a snapshot; ranks may all have one name and size."""
    try:
        alike = {each[2] for each in sources if each[:2] == (path.name, path.stat().st_size)}
        return bool(alike) and sha256_of(path) in alike
    except OSError:
        return False


def _begins_well(path: Path) -> bool:
    """Say whether a file begins like a snapshot, or is empty, damaged or unreadable.

    Such a file was meant to be a snapshot: its reader says what is wrong with it.
    """
    if is_remote(path):  # each look is a request, and there may be a thousand files
        return True
    try:
        with open_regular(path) as file:
            data = file.read(_PEEK)
        if data[:2] == b"\x1f\x8b":
            data = zlib.decompressobj(wbits=31).decompress(data, _PEEK)
        elif data[:4] == b"\x28\xb5\x2f\xfd":
            import zstandard

            with zstandard.ZstdDecompressor().stream_reader(data) as reader:
                data = reader.read(_PEEK)
    except Exception:  # the reader meets the same error, and names it
        return True
    return not data or any(part in data for part in _PARTS)


def _nothing_in(folder: Path, skipped: Sequence[Skipped], bundles: bool) -> str:
    wanted = "snapshot or bundle" if bundles else "snapshot"
    if not skipped:
        return f"{folder} holds no {wanted}: there is no file in it."
    left = "; ".join(skipped_words(skipped))
    return f"{folder} holds no {wanted}, only {left}."


# Names of outputs

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
    """Return paths with a stand-in for each of their parts; a path is a list of its parts."""
    shown = iter(stand_ins([part for parts in paths for part in parts]))
    return [[next(shown) for _ in parts] for parts in paths]


# Ranks in names

NameReader = Callable[[str], RankName | None]
"""Takes a path below the run's folder, with ``/``; None if the file is not part of the run."""

_BEGIN = r"(?<![a-z0-9])"
_AS = r"[\s_.=-]*"
"""Between a word and its number: ``rank3``, ``rank_3``, ``rank=3``."""
_NUMBER = r"0*(\d{1,9})(?!\d)"


def _numbered(words: str) -> str:
    return f"{_BEGIN}(?:{words}){_AS}{_NUMBER}"


_COORDINATE = re.compile(
    f"{_BEGIN}(tp|pp|dp|cp|ep|sp|etp|edp|vpp|fsdp|hsdp)(?:[_-]?rank)?{_AS}{_NUMBER}", re.IGNORECASE
)
_LOCAL = re.compile(_numbered("local[_-]?rank"), re.IGNORECASE)
_RANK = re.compile(_numbered("(?:global[_-]?)?rank"), re.IGNORECASE)
_OTHER_RANK = re.compile(_numbered("worker|process|proc|gpu|cuda|device"), re.IGNORECASE)
_STEP = re.compile(_numbered("(?:global[_-]?)?(?:iterations?|iter|it|steps?)"), re.IGNORECASE)
_OTHER_STEP = re.compile(_numbered("epoch|batch"), re.IGNORECASE)
_HOST_NUMBER = re.compile(rf"{_BEGIN}((?:host|node)[_-]?\d{{1,9}})(?![a-z0-9])", re.IGNORECASE)
_HOST = re.compile(rf"{_BEGIN}(?:host|hostname|node)=([a-z0-9][a-z0-9.-]{{0,200}})", re.IGNORECASE)
_HOST_AND_TIME = re.compile(r"^([A-Za-z0-9][\w.-]{0,200})_[A-Z][a-z]{2}_\d\d_\d\d_\d\d_\d\d")
"""As PyTorch's own examples name a snapshot: ``gpu17_Nov_23_12_03_11.pickle``."""
_DIGITS = re.compile(r"\d+")

_FIELD = re.compile(r"\{(\w*)\}")


def read_name(path: str) -> RankName:
    """Return what a file's name says, and what it does not say from its folders' names.

    It knows the names that trainers give: torchtitan's and torchtune's
    ``iteration_20/rank3_memory_snapshot.pickle``, Megatron's ``oom_rank-3_snapshot.pickle``,
    verl's ``actor_rank3_pid77.pickle``, and any with a number after ``rank``, ``step``,
    ``iteration``, ``host``, ``node`` or a dimension such as ``tp``.
    """
    parts = path.split("/")[::-1]
    rank = dump = None
    host = ""
    coordinates: dict[str, int] = {}
    for place, part in enumerate(parts):
        found = _HOST.search(part) or _HOST_NUMBER.search(part) or _HOST_AND_TIME.match(part)
        if found:
            host = host or found[1]
            part = part[: found.start()] + " " + part[found.end() :]
        for each in _COORDINATE.finditer(part):
            coordinates.setdefault(each[1].lower(), int(each[2]))
        parts[place] = part = _LOCAL.sub(" ", _COORDINATE.sub(" ", part))
        rank = _first(rank, part, _RANK)
        dump = _first(dump, part, _STEP)
    for part in parts:
        rank = _first(rank, part, _OTHER_RANK)
        dump = _first(dump, part, _OTHER_STEP)
    return RankName(rank, dump, host, tuple(coordinates.items()))


def _first(known: int | None, part: str, pattern: re.Pattern[str]) -> int | None:
    if known is None and (found := pattern.search(part)):
        return int(found[1])
    return known


def reader_by(pattern: str) -> NameReader:
    """Return a reader of names by the user's pattern, ``{host}/it_{step}/rank{rank}.pickle``.

    ``{rank}``, ``{step}`` and a dimension such as ``{tp}`` stand for a number, ``{host}`` for a
    text, and ``*`` for anything, each within the name of one folder or file. The pattern has to
    match the end of a path; the file's extension may be left out.

    Raises:
        InputError: the pattern has no field, has one twice, or has one that is not a word.
    """
    names = _FIELD.findall(pattern)
    wrong = next((name for name in names if not re.fullmatch(r"[a-z][a-z_]{0,30}", name)), None)
    twice = next((name for name in names if names.count(name) > 1), None)
    if wrong is not None:
        raise InputError(f"--name has {{{wrong}}}; a field is a word, such as {{rank}} or {{tp}}.")
    if twice is not None:
        raise InputError(f"--name has {{{twice}}} twice.")
    if not names:
        raise InputError("--name has no field; '{host}/it_{step}/rank{rank}.pickle' has three.")
    regex = ""
    for place, text in enumerate(_FIELD.split(pattern.strip("/"))):
        if place % 2:
            number = r"\d{1,9}" if text != "host" else "[^/]{1,200}?"
            regex += f"(?P<{text}>{number})"
        else:
            regex += re.escape(text).replace(r"\*", "[^/]{0,200}?")
    whole = re.compile(f"(?:.*/)?{regex}")

    def read(path: str) -> RankName | None:
        folder, slash, name = path.rpartition("/")
        found = whole.fullmatch(path) or whole.fullmatch(folder + slash + stem_of(name))
        if found is None:
            return None
        fields = found.groupdict()
        host = fields.pop("host", "")
        numbers = {key: int(value) for key, value in fields.items()}
        rank, step = numbers.pop("rank", None), numbers.pop("step", None)
        return RankName(rank, step, host, tuple(numbers.items()))

    return read


def read_bare_numbers(paths: Sequence[str]) -> list[int] | None:
    """Return the ranks of files whose names differ only in one number, from 0 on; None otherwise.

    ``snapshot_0.pickle`` to ``snapshot_7.pickle`` are ranks; ``snapshot_100.pickle`` and
    ``snapshot_200.pickle`` may be steps, so they give None.
    """
    numbers = [_DIGITS.findall(path) for path in paths]
    if len(paths) < 2 or len({_DIGITS.sub("#", path) for path in paths}) > 1:
        return None
    differing = [k for k, each in enumerate(zip(*numbers, strict=True)) if len(set(each)) > 1]
    if len(differing) != 1:
        return None
    found = [int(each[differing[0]]) for each in numbers]
    return found if sorted(found) == list(range(len(found))) else None

"""Read from a file's name which rank wrote it, after which step, and on which host."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from snapreport.ground.errors import InputError
from snapreport.ground.files import stem_of
from snapreport.model.run.rank_facts import RankName

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

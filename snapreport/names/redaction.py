"""Change the names in histories: redact them, or quote what reads like a sentence.

Stand-ins replace whatever could name a user, a host or a project. A stand-in is a keyed hash of the
name: equal names have equal stand-ins in all files of one salt, so that recordings can still be
compared, and without the salt none can be guessed and tried.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from snapreport.ground.cards import find_card
from snapreport.ground.errors import CardError
from snapreport.ground.units import words
from snapreport.model.asked import (
    REDACTED,
    SHORT_SALT,
    NamesWanted,
    is_short_salt,
)
from snapreport.model.history import (
    History,
    NamesDone,
)
from snapreport.model.snapshot import Forecast, FrameTable, RecorderInfo
from snapreport.names.public_names import (
    is_packaged_function,
    is_public,
    is_public_counter,
    is_public_error,
    is_public_function,
    is_public_hardware,
    is_public_native_function,
    is_public_stage,
    known_native_parts,
    known_parts,
    optimizer_of,
)
from snapreport.names.short_paths import Changes, Kind, change_strings, shorten
from snapreport.roles.frames import LIBRARIES, is_native_file

_FOLDER = "project"
"""The folder that redacted file names begin with."""

_ROUNDS = 100_000
_HEX_TO_LETTERS = str.maketrans("0123456789", "ghijklmnop")
_NUMBERS = re.compile(r"\d+")
_QUOTED = re.compile(r"'.*'|\".*\"", re.DOTALL)


class StandIns:
    """Stand-ins for names; equal salts give equal ones."""

    def __init__(self, salt: str | None) -> None:
        """Take the salt; None for a random one that is not kept.

        Raises:
            ValueError: it is too short, or empty, as if from an unset variable.
        """
        if salt is not None and is_short_salt(salt):
            raise ValueError(f"the salt {SHORT_SALT}")
        self._key = secrets.token_bytes(32) if salt is None else _key_of(salt)

    def of(self, kind: str, name: str, digits: int = 8) -> str:
        """Return hexadecimal digits for a name; a name has different ones for each kind."""
        text = f"{kind}\0{name}".encode("utf-8", "surrogatepass")
        return hmac.new(self._key, text, hashlib.sha256).hexdigest()[:digits]

    def letters(self, kind: str, name: str) -> str:
        """Return letters for a name, to use where numbers have a meaning."""
        return self.of(kind, name).translate(_HEX_TO_LETTERS)


@lru_cache(maxsize=1)
def _key_of(salt: str) -> bytes:
    """Return the key of a salt; slow on purpose, so that a weak salt is hard to find by trying.

    The last key is kept: the name of an output and the names in it are made with the same one.
    """
    return hashlib.pbkdf2_hmac("sha256", salt.encode(), b"snapreport names", _ROUNDS)


_SOURCE_SUFFIX = re.compile(r"((\.(pickle|pkl|json|zip|gz|zst|zstd)){1,4})$", re.IGNORECASE)


def redact(history: History, wanted: NamesWanted) -> History:
    """Return a history without names that only some people know; its paths are shortened first."""
    functions = wanted.redact_functions
    history = shorten(history)
    done = history.names
    if done.done == REDACTED and (done.functions or not functions):
        return history
    names = StandIns(wanted.salt)
    frames = history.stacks.frames
    if done.done == REDACTED:
        return _functions_too(history, names)
    files = _files(frames, done, names)

    def function(name: str, file: str) -> str:
        return _function(name, file, files[file] != file, names) if functions else name

    def other(kind: Kind, value: str) -> str:
        if kind == "stage":
            return _stage(value, names)
        if kind == "oddity":
            return _QUOTED.sub(lambda found: f"'name-{names.of(kind, found[0])}'", value)
        if kind == "source":
            ending = _SOURCE_SUFFIX.search(value)
            return f"snapshot-{names.of(kind, value)}{ending[1].lower() if ending else ''}"
        return value if is_public(kind, value) else f"{kind}-{names.of(kind, value)}"

    changed = change_strings(
        history,
        Changes(files, function, lambda _: {}, other, lambda noted: _recorder(noted, names)),
    )
    known = tuple(package for package in done.packages if package in LIBRARIES)
    return replace(changed, names=NamesDone(REDACTED, _FOLDER, known, functions))


def _functions_too(history: History, names: StandIns) -> History:
    """Redact the functions of a history whose other names are redacted already."""
    frames, done = history.stacks.frames, history.names
    own = {file: name != file for file, name in _files(frames, done, names).items()}
    changed = [
        _function(name, file, own[file], names)
        for name, file in zip(frames.names, frames.filenames, strict=True)
    ]
    stacks = replace(history.stacks, frames=replace(frames, names=changed))
    return replace(history, stacks=stacks, names=replace(done, functions=True))


def _function(name: str, file: str, own: bool, names: StandIns) -> str:
    if is_native_file(file):
        known = is_public_native_function(name)
    else:
        # Anybody may change a package's file, and any program may compile code from a text.
        packaged = not own and (not file.startswith("<") or file.startswith("<frozen "))
        known = packaged and is_packaged_function(name)
    if known or is_public_function(name):
        return name
    return f"function_{names.of('function', name)}"


_WORD = re.compile(r"[^\W\d_]+")
_FILE_WORDS = words(
    "after before cpu cuda device dump gpu host iteration job mem memory node oom pickle pkl rank"
    " recording run snap snapshot step torch train worker"
)
"""Words that stay in file names because they do not say whose the file is."""


def redact_name(name: str, names: StandIns) -> str:
    """Return a stand-in for the name of an output; numbers and words such as ``rank`` stay."""
    return _WORD.sub(
        lambda found: (
            found[0] if found[0].lower() in _FILE_WORDS else names.letters("output", found[0])
        ),
        name,
    )


def _files(frames: FrameTable, done: NamesDone, names: StandIns) -> Mapping[str, str]:
    found: dict[str, str] = {}
    taken: set[str] = set()
    for file in sorted(set(frames.filenames)):
        known = (
            known_native_parts(file) if is_native_file(file) else known_parts(file, done.packages)
        )
        if known is not None and all(known):
            found[file] = file
            continue
        digits = 8
        while (stand_in := _file(file, done.project, known, names, digits)) in taken:
            digits += 8  # two names with one hash
        found[file] = stand_in
        taken.add(stand_in)
    return found


_SUFFIX = re.compile(r"\.(py|pyx|pyi|c|cc|cpp|cxx|cu|cuh|h|hpp|S|o|ipynb)(?=:|$)")
_NOTEBOOK = re.compile(r"ipykernel_\d+/")


def _file(file: str, project: str, known: list[bool] | None, names: StandIns, digits: int) -> str:
    """Return the stand-in of a file, folder by folder, so that a diff can match moved ones.

    Args:
        file: its short name.
        project: the project's folder.
        known: which of its parts stay; None for none.
        names: the stand-ins.
        digits: of each.
    """
    if file.startswith("<"):
        return f"<generated-{names.of('generated', _NUMBERS.sub('#', file), digits)}>"
    text = file.replace("\\", "/")
    notebook = _NOTEBOOK.match(text)
    if notebook is not None:
        return f"ipykernel_0/{names.of('file', text[notebook.end() :], digits)}.py"
    suffix = _SUFFIX.search(text)
    stem = text[: suffix.start()] if suffix else text
    ending = suffix[0] if suffix else ""
    if known is not None:
        parts = [
            part if stays else names.of("file", part, digits)
            for part, stays in zip(stem.split("/"), known, strict=True)
        ]
        return "/".join(parts) + ending
    parts = [part for part in stem.split("/") if part not in ("", ".", "~")]
    if len(parts) > 1 and parts[0] == project:
        parts = parts[1:]
    hashed = [names.of("file", part, digits) for part in parts]
    return "/".join([_FOLDER, *hashed]) + ending


def _stage(name: str, names: StandIns) -> str:
    """Return the stand-in of a stage's name, which keeps its numbers: they tell steps apart."""
    if is_public_stage(name):
        return name
    optimizer = optimizer_of(name)
    if optimizer is not None:
        return name.replace(f"#{optimizer}.", f"#optimizer_{names.letters('stage', optimizer)}.")
    numbers = _NUMBERS.findall(name)
    stand_in = f"stage-{names.letters('stage', _NUMBERS.sub('#', name))}"
    return " ".join([stand_in, "-".join(numbers)]) if numbers else stand_in


_LINE = re.compile(r"[0-9]{1,7}")
RECORDERS = ("cuda", "torch.profiler", "forecast")
_STORAGES = ("parameter", "gradient", "buffer", "optimizer state")


def _recorder(noted: RecorderInfo, names: StandIns) -> RecorderInfo:
    failure = noted.failure
    return replace(
        noted,
        made_by=_version(noted.made_by),
        recorder=noted.recorder if noted.recorder in RECORDERS else None,
        command=(),
        title=None,
        notes="",
        torch=_version(noted.torch),
        cuda=_version(noted.cuda),
        driver=_version(noted.driver),
        python=_version(noted.python),
        devices=tuple(
            replace(
                device,
                device=device.device if _is_device(device.device) else "other",
                name=device.name if device.name and is_public_hardware(device.name) else None,
                stats_before=_counters(device.stats_before),
                stats_after=_counters(device.stats_after),
            )
            for device in noted.devices
        ),
        storages=tuple(
            replace(
                each,
                device=each.device if _is_device(each.device) else "other",
                kind=each.kind if each.kind in _STORAGES else "other",
                name=f"tensor-{names.of('storage', each.name)}" if each.name else "",
            )
            for each in noted.storages
        ),
        marks=tuple(replace(mark, name=_stage(mark.name, names)) for mark in noted.marks),
        failure=None
        if failure is None
        else replace(
            failure,
            type=failure.type if is_public_error(failure.type) else "error",
            message="",
            place=None,
        ),
        forecast=None if noted.forecast is None else _forecast(noted.forecast, names),
    )


def _forecast(noted: Forecast, names: StandIns) -> Forecast:
    def place(text: str) -> str:
        file, _, line = text.rpartition(":")
        if not file:
            return text if text == "unknown" else "other"
        ending = _SUFFIX.search(file)
        stem = names.of("file", file[: ending.start()] if ending else file)
        return f"{stem}{ending[0] if ending else ''}:{line if _LINE.fullmatch(line) else 0}"

    def operator(text: str) -> str:
        return text if text.startswith("aten::") and is_public_native_function(text) else (
            f"operator-{names.of('operator', text)}"
        )  # fmt: skip

    found = noted.with_texts(lambda _: "other")
    return replace(
        found,
        card=noted.card if _is_card(noted.card) else "",
        parts=tuple(
            replace(each, device=was.device if _is_device(was.device) else "other")
            for each, was in zip(found.parts, noted.parts, strict=True)
        ),
        assumed=tuple(
            replace(each, place=place(was.place))
            for each, was in zip(found.assumed, noted.assumed, strict=True)
        ),
        unknown=tuple(replace(each, operator=operator(each.operator)) for each in noted.unknown),
        notes=(),
    )


def _is_card(name: str) -> bool:
    try:
        find_card(name)
    except CardError:
        return False
    return True


def _is_device(name: str) -> bool:
    return re.fullmatch(r"(cuda|host|cpu):\d+", name) is not None


_VERSION = re.compile(r"\d+(\.\d+)*((a|b|rc|\.dev|\.post)\d+)?(\+(cu\d+|cpu|rocm[\d.]+))?")


def _version(text: str | None) -> str | None:
    found = _VERSION.match(text or "")
    return None if found is None else found[0]


def _counters(stats: Mapping[str, int | float]) -> dict[str, int | float]:
    return {name: value for name, value in stats.items() if is_public_counter(name)}


# Strings that read like a sentence, put in quotes.

LONGEST_QUOTE = 80
"""The most letters of a sentence that are shown."""
LONGEST_NAME = 300
"""The most letters of anything else; C++ templates make long names."""

_PROSE = re.compile(r"(?<![^\W\d_])[^\W\d_]+(?:[,.;:!?]*\s+[^\W\d_]+){2,}")
"""Three words in a row, separated as in a sentence and not as in the names of a program."""
_MARKUP = re.compile(r"</|<[|!?]|[\"“”`\r\n]|\]\(|^<(?!lambda|module|\w+comp|genexpr|locals)")
_GAP = re.compile(r"\s+")


def quote_names(history: History) -> History:
    """Return a history whose strings cannot be mistaken for ours.

    Readers of our sentences, language models above all, must see which words come from the file.
    Ordinary names in programs stay unchanged, and so do all figures.
    """
    frames = history.stacks.frames
    files = {file: _file_end(file) for file in set(frames.filenames)}

    def function(name: str, file: str) -> str:
        # The first words of a C++ name say what kind of frame it is, so they must stay.
        return _joined(name) if is_native_file(file) else quoted(name)

    def fields(given: dict[str, str]) -> dict[str, str]:
        return {key: quoted(value) for key, value in given.items()}

    def other(kind: Kind, text: str) -> str:
        return text if kind == "stage" and is_public_stage(text) else quoted(text)

    return change_strings(
        history, Changes(_distinct(files), function, fields, other, _quoted_recorder)
    )


def quoted(text: str) -> str:
    """Return a text of the file, in quotes and cut if it reads like a sentence."""
    begin = text[:LONGEST_NAME]  # the rest is not shown
    if begin.isascii() and not _PROSE.search(begin) and not _MARKUP.search(begin):
        return text if len(text) <= LONGEST_NAME else f"{begin}… ({_mark(text)})"
    short = " ".join(begin.replace("“", '"').replace("”", '"').split())
    fits = len(text) <= LONGEST_NAME and len(short) <= LONGEST_QUOTE
    return f"“{short}”" if fits else f"“{short[:LONGEST_QUOTE]}… ({_mark(text)})”"


def _joined(name: str) -> str:
    """Return a C++ name in which the words of any sentence are joined by dots."""
    joined = _PROSE.sub(lambda found: _GAP.sub("·", found[0]), name[:LONGEST_NAME])
    return joined if len(name) <= LONGEST_NAME else f"{joined}… ({_mark(name)})"


def _file_end(name: str) -> str:
    """Return a file's name as ``_joined`` does; a long one keeps its end, with the extension."""
    if len(name) <= LONGEST_NAME:
        return _joined(name)
    return f"{_mark(name)}…{_joined(name[-LONGEST_NAME:])}"


def _distinct(files: dict[str, str]) -> dict[str, str]:
    """Keep names distinct that were distinct before."""
    taken: set[str] = set()
    for file, name in sorted(files.items(), key=lambda pair: (pair[0] != pair[1], pair[0])):
        if name in taken:
            files[file] = f"{_mark(file)}·{name}"
        taken.add(files[file])
    return files


def _mark(text: str) -> str:
    """Return what tells a text that is cut from others that begin alike."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=3).hexdigest()


def _quoted_recorder(noted: RecorderInfo) -> RecorderInfo:
    marked = noted.with_texts(quoted)
    devices = tuple(replace(one, device=quoted(one.device)) for one in marked.devices)
    return replace(marked, title=None, notes="", devices=devices)


def renamed(history: History, name: str) -> History:
    """Return the history with another name for its source than the path it was read from."""
    return replace(history, source=replace(history.source, name=name))

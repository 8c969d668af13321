"""Put strings of a stranger's file in quotes if they read like a sentence.

Readers of our sentences, language models above all, must see which words come from the file.
Ordinary names in programs stay unchanged, and so do all figures.
"""

from __future__ import annotations

import re
from dataclasses import replace
from hashlib import blake2b

from snapreport.frames.frame_kinds import is_native_file
from snapreport.model.history import History
from snapreport.model.recorder_notes import RecorderInfo
from snapreport.names.history_strings import Changes, Kind, change_strings
from snapreport.names.public_names import is_public_stage

LONGEST_QUOTE = 80
"""The most letters of a sentence that are shown."""
LONGEST_NAME = 300
"""The most letters of anything else; C++ templates make long names."""

_PROSE = re.compile(r"(?<![^\W\d_])[^\W\d_]+(?:[,.;:!?]*\s+[^\W\d_]+){2,}")
"""Three words, with nothing between them that programs put between names."""
_MARKUP = re.compile(r"</|<[|!?]|[\"“”`\r\n]|\]\(|^<(?!lambda|module|\w+comp|genexpr|locals)")
_GAP = re.compile(r"\s+")


def quote_names(history: History) -> History:
    """Return a history whose strings cannot be mistaken for ours."""
    frames = history.stacks.frames
    files = {file: _file(file) for file in set(frames.filenames)}

    def function(name: str, file: str) -> str:
        # The first words of a C++ name say what kind of frame it is, so they must stay.
        return _joined(name) if is_native_file(file) else quoted(name)

    def fields(given: dict[str, str]) -> dict[str, str]:
        return {key: quoted(value) for key, value in given.items()}

    def other(kind: Kind, text: str) -> str:
        return text if kind == "stage" and is_public_stage(text) else quoted(text)

    return change_strings(history, Changes(_distinct(files), function, fields, other, _recorder))


def quoted(text: str) -> str:
    """Return a text of the file, in quotes and cut if it reads like a sentence."""
    begin = text[:LONGEST_NAME]  # the rest is not shown
    if begin.isascii() and not _PROSE.search(begin) and not _MARKUP.search(begin):
        return _cut(text, LONGEST_NAME)
    short = _flat(begin)
    fits = len(text) <= LONGEST_NAME and len(short) <= LONGEST_QUOTE
    return f"“{short}”" if fits else f"“{short[:LONGEST_QUOTE]}… ({_mark(text)})”"


def _flat(text: str) -> str:
    return " ".join(text.replace("“", '"').replace("”", '"').split())


def _joined(name: str) -> str:
    """Return a C++ name in which the words of any sentence are joined by dots."""
    joined = _PROSE.sub(lambda found: _GAP.sub("·", found[0]), name[:LONGEST_NAME])
    return joined if len(name) <= LONGEST_NAME else f"{joined}… ({_mark(name)})"


def _file(name: str) -> str:
    """Return a file's name as ``_joined`` does; a long one keeps its end, with the extension."""
    joined = _joined(name) if len(name) <= LONGEST_NAME else _joined(name[-LONGEST_NAME:])
    return joined if len(name) <= LONGEST_NAME else f"{_mark(name)}…{joined}"


def _distinct(files: dict[str, str]) -> dict[str, str]:
    """Keep names distinct that were distinct before."""
    taken: set[str] = set()
    for file, name in sorted(files.items(), key=lambda pair: (pair[0] != pair[1], pair[0])):
        if name in taken:
            files[file] = f"{_mark(file)}·{name}"
        taken.add(files[file])
    return files


def _cut(text: str, longest: int) -> str:
    """Cut a long text; a mark tells it from others that begin alike."""
    return text if len(text) <= longest else f"{text[:longest]}… ({_mark(text)})"


def _mark(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=3).hexdigest()


def _recorder(noted: RecorderInfo) -> RecorderInfo:
    marked = noted.with_texts(quoted)
    devices = tuple(replace(one, device=quoted(one.device)) for one in marked.devices)
    return replace(marked, title=None, notes="", devices=devices)


def renamed(history: History, name: str) -> History:
    """Return the history with another name for its source than the path it was read from."""
    return replace(history, source=replace(history.source, name=name))

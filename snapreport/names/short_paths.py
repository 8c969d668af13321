"""Change the strings in histories; shorten file names to the part that identifies the file.

A file of a package is named from its package on (``torch/nn/modules/module.py``), one of Python
from Python's version on (``python3.11/threading.py``), one of the project from the last folder of
the path that all of the project's files share (``train/models.py``), and elsewhere a home is
``~``. A name of a library, of Python or of the project is still recognized as such, and different
names stay different.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from snapreport.ground.files import common_beginning
from snapreport.ground.later import expression
from snapreport.ground.records import dataclass
from snapreport.model.asked import (
    KEPT,
    SHORT,
)
from snapreport.model.history import (
    INTERNAL,
    DeviceHistory,
    History,
    NamesDone,
)
from snapreport.model.snapshot import GRADIENT_OF, FrameTable, RecorderInfo
from snapreport.names.personal_data import (
    NOBODY,
    find_users,
    folders_of,
    hide_homes,
    hide_in_recording,
    hide_servers,
    home_of,
)
from snapreport.roles.frames import LIBRARIES, classify_file
from snapreport.roles.source_files import file_key
from snapreport.roles.stack_kinds import DEFAULT_RULES

_Change = Callable[[str], str]
Kind = Literal["text", "stage", "action", "setting", "oddity", "source"]
"""A category, compile context or metadata; a stage's name; an event's action; an allocator setting
that is a text, or the name of a setting; a part of the file that is not known; the file's name."""


@dataclass(frozen=True)
class Changes:
    """How to change each kind of string."""

    files: Mapping[str, str]
    """The new name of every distinct file name of a frame."""
    function: Callable[[str, str], str]
    """Changes a frame's function, given the function and its file, both as they were."""
    fields: Callable[[dict[str, str]], dict[str, str]]
    """Changes the FX fields of a frame."""
    other: Callable[[Kind, str], str]
    """Changes a string of any other kind."""
    recorder: Callable[[RecorderInfo], RecorderInfo]


def change_strings(history: History, changes: Changes) -> History:
    """Return the history with all strings changed that a bundle or a report could show.

    Only the tables of distinct strings change; all else is the same objects.
    """
    frames = history.stacks.frames
    changed = FrameTable(
        [
            _but(GRADIENT_OF, name, partial(_function, changes, file))
            for name, file in zip(frames.names, frames.filenames, strict=True)
        ],
        [changes.files[file] for file in frames.filenames],
        frames.lines,
        {i: fields for i, old in frames.extra.items() if (fields := changes.fields(old))},
    )
    oddities: Counter[str] = Counter()
    for key, count in history.oddities.items():
        oddities[changes.other("oddity", key)] += count
    return replace(
        history,
        source=replace(history.source, name=changes.other("source", history.source.name)),
        stacks=replace(history.stacks, frames=changed),
        strings=[changes.other("text", text) for text in history.strings],
        devices=tuple(_change_device(device, changes) for device in history.devices),
        settings=_change_json(history.settings, partial(changes.other, "setting")),
        oddities=dict(oddities),
        recorder=None if history.recorder is None else changes.recorder(history.recorder),
    )


def _function(changes: Changes, file: str, name: str) -> str:
    return changes.function(name, file)


def _but(words: str, text: str, change: _Change) -> str:
    """Change a text, but not the words of ours that it begins with."""
    own = words if text.startswith(words) else ""
    return own + change(text[len(own) :])


def _change_device(device: DeviceHistory, changes: Changes) -> DeviceHistory:
    stages, other = device.stages, device.other
    names = {name: changes.other("stage", name) for name in set(stages.name)}
    actions = {
        action: _but(INTERNAL, action, partial(changes.other, "action"))
        for action in set(other.action)
    }
    if any(old != new for old, new in actions.items()):  # hardly ever, and there are many events
        other = replace(other, action=[actions[action] for action in other.action])
    return replace(
        device, stages=replace(stages, name=[names[name] for name in stages.name]), other=other
    )


def _change_json(value: Any, change: _Change) -> Any:
    """Return a value of JSON with every text in it changed, names included."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _change_json(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_change_json(item, change) for item in value]
    return value


# Scripts that are started by name are not part of the project, wherever they are installed.
_SCRIPT = expression(r"(?:^|/)((?:bin|Scripts)/[^/.]+(?:\.exe|-script\.py)?)$")


@dataclass(frozen=True)
class _ShortNames:
    """The short file names of a recording."""

    names: Mapping[str, str]
    """The short name of every name; the same name if nothing can be left out."""
    root: tuple[str, ...]
    """The folder of the project as its parts; empty if there is none."""
    packages: tuple[str, ...]
    """The folders that short names of packages begin with, in order."""


def short_names(filenames: Iterable[str], users: Collection[str] = ()) -> _ShortNames:
    """Shorten the file names of a recording. Names that are short already stay as they are.

    Args:
        filenames: of its frames.
        users: whose folders count as homes, wherever they are.
    """
    paths = {name: _parts(name) for name in filenames}
    # The same file is named in more than one way only where someone wrote ".." into a path.
    places = {name: file_key(name) for name in paths}
    loose = [
        tuple(parts)
        for name, parts in paths.items()
        if places[name][0] == "file" and _is_absolute(parts) and not _SCRIPT.search("/".join(parts))
    ]
    root = _root(loose, users, {path.split("/")[0] for _, path in places.values()})
    found: dict[str, str] = {}
    taken: set[str] = set()
    numbers: dict[str, int] = {}  # the next number to try for each short name
    # Names that stay as they are come first: no other may become one of them.
    wanted = {name: _short(name, paths[name], places[name], root, users) for name in paths}
    for name in sorted(wanted, key=lambda name: (wanted[name] != name, name)):
        short = wanted[name]
        if short in taken:
            short = _at_home(name, paths[name], users)
        number = numbers.get(short, 2)
        free = short
        while free in taken:
            first, slash, rest = short.partition("/")
            free = f"{first}({number}){slash}{rest}" if slash else f"({number})/{short}"
            number += 1
        numbers[short] = number
        found[name] = free
        taken.add(free)
    packages = {
        path.split("/")[0]
        for name, (kind, path) in places.items()
        if kind == "package" and "/" in path and found[name] == path != name
    }
    return _ShortNames(found, root, tuple(sorted(packages)))


def _parts(name: str) -> list[str]:
    text = hide_servers(name).replace("\\", "/")
    if text.startswith(("/", "~/")) or text[1:3] == ":/":
        text = posixpath.normpath(text)
        text = "/" + text.lstrip("/") if text.startswith("//") else text
    return text.split("/")


def _is_absolute(parts: list[str]) -> bool:
    return len(parts) > 1 and (parts[0] in ("", "~") or parts[0][1:] == ":")


_RESERVED = expression(
    r"python3|ipykernel_|torchinductor_|(bin|Scripts|homes?|Users|(site|dist)-packages)$|[.~<]"
)


def _root(
    loose: list[tuple[str, ...]], users: Collection[str], others: set[str]
) -> tuple[str, ...]:
    """Return the deepest folder that all files of the project share, if its name is unambiguous."""
    # An editor's debugger, and a model's code from a hub's cache, are in hidden folders.
    open_ones = [path for path in loose if not any(part[:1] == "." for part in path)] or loose
    if not open_ones:
        return ()
    root = common_beginning([path[:-1] for path in open_ones])
    if len(root) < 2 or len(root) == home_of([*root, ""], users):
        return ()
    name = root[-1]
    if name in LIBRARIES or name in others or _RESERVED.match(name):
        return ()  # it would look like a package's name
    return root


_NOTEBOOK = expression(r"(?:^|/)(ipykernel_\d+/.+)", re.DOTALL)


def _short(
    name: str,
    parts: list[str],
    place: tuple[str, str],
    root: tuple[str, ...],
    users: Collection[str],
) -> str:
    kind, inside = place
    text = "/".join(parts)
    if kind in ("none", "generated"):
        return name
    if kind == "package" and _is_absolute(parts):
        return inside if "/" in inside else f"site-packages/{inside}"
    if kind == "compiled":
        return f"torchinductor_~/{inside}"
    if kind == "python" and _is_absolute(parts):
        return f"{_python(text)}/{inside}"
    if kind == "notebook" and (found := _NOTEBOOK.search(text)):
        return found[1]
    if not _is_absolute(parts):
        return hide_homes(name)
    if found := _SCRIPT.search(text):
        return found[1]
    home = _at_home(name, parts, users)
    if root and tuple(parts[: len(root)]) == root and len(parts) > len(root):
        below = "/".join([root[-1], *parts[len(root) :]])
        if _judge(below) == _judge(name):
            return below
    return home


def _at_home(name: str, parts: list[str], users: Collection[str]) -> str:
    at = home_of(parts, users)
    return "/".join(["~", *parts[at:]]) if at else hide_homes(name)


_PYTHON = expression(r"(?:^|/)lib(?:64)?/(python3[^/]*)/.")
_PYTHON_WINDOWS = expression(r"c?python-?(\d)\.?(\d{1,3})?[^/]{0,60}/lib/", re.IGNORECASE)


def _python(text: str) -> str:
    found = _PYTHON.search(text)
    if found:
        return found[1]
    windows = _PYTHON_WINDOWS.search(text)
    return "python3" if windows is None else "python" + ".".join(filter(None, windows.groups()))


_RULES = tuple(rule.file for rule in DEFAULT_RULES if rule.file is not None)


def _judge(name: str) -> tuple[object, ...]:
    """Return everything that we infer from a file's name."""
    return classify_file(name), *(rule.search(name) is not None for rule in _RULES)


def shorten(history: History) -> History:
    """Return a history with short paths; unchanged if its names are no longer as recorded."""
    if history.names.done != KEPT:
        return history
    files = set(history.stacks.frames.filenames)
    seen: set[str] = set(files)

    def noting(text: str) -> str:
        seen.add(text)
        return text

    change_strings(history, _changes({file: file for file in files}, noting))
    users = find_users(seen)
    short = short_names(files, users)
    changed = change_strings(history, _changes(short.names, _shorten_texts(short.root, users)))
    project = short.root[-1] if short.root else ""
    return replace(changed, names=NamesDone(SHORT, project, short.packages))


_PACKAGES = expression(
    r"(?<![\w.~-])(?:(?<![\\/])(?:~|[A-Za-z]:))?(?:[\\/]{1,2}[^\\/\s:\"'<>|,;]+){0,20}?"
    r"[\\/]{1,2}(?:site|dist)-packages[\\/]{1,2}"
)
_STANDARD = expression(
    r"(?<![\w.~-])(?:(?<![\\/])(?:~|[A-Za-z]:))?(?:[\\/]{1,2}[^\\/\s:\"'<>|,;]+){0,20}?"
    r"[\\/]{1,2}lib(?:64)?[\\/]{1,2}(python3\.\d+t?[\\/])"
)


def _shorten_texts(root: tuple[str, ...], users: Collection[str]) -> _Change:
    """Return a function that shortens the paths in a text."""
    folders = folders_of(users)
    below = None
    if len(root) > 2:
        joined = r"[\\/]{1,2}".join(map(re.escape, root))
        below = re.compile(rf"(?<![\w.~-]){joined}(?![\w.-])")

    def change(text: str) -> str:
        if "/" in text or "\\" in text:
            if below is not None:
                text = below.sub(lambda _: root[-1], text)
            text = _STANDARD.sub(r"\1", _PACKAGES.sub("", text))
        return hide_homes(text, folders)

    return change


def _changes(files: Mapping[str, str], change: _Change) -> Changes:
    return Changes(
        files=files,
        function=lambda name, _: change(name),
        fields=lambda fields: {change(key): change(value) for key, value in fields.items()},
        other=lambda _, text: change(text),
        recorder=lambda noted: hide_in_recording(noted.with_texts(change), NOBODY),
    )

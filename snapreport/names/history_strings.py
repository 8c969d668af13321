"""Replace the strings in a history: all that a bundle or a report could show.

Only the tables of distinct strings change; the columns of allocations and events stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from snapreport.model.history import INTERNAL, DeviceHistory, History
from snapreport.model.recorder_notes import RecorderInfo
from snapreport.model.stacks import GRADIENT_OF, FrameTable

Change = Callable[[str], str]
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
    """Return the history with its strings changed; the rest is the same objects."""
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
        settings=change_json(history.settings, partial(changes.other, "setting")),
        oddities=dict(oddities),
        recorder=None if history.recorder is None else changes.recorder(history.recorder),
    )


def _function(changes: Changes, file: str, name: str) -> str:
    return changes.function(name, file)


def _but(words: str, text: str, change: Change) -> str:
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
    return replace(
        device,
        stages=replace(stages, name=[names[name] for name in stages.name]),
        other=replace(other, action=[actions[action] for action in other.action]),
    )


def change_json(value: Any, change: Change) -> Any:
    """Return a value of JSON with every text in it changed, names included."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): change_json(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [change_json(item, change) for item in value]
    return value

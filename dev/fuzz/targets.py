"""What is fuzzed: each takes any bytes as a file, and raises only what is a bug."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from unittest import mock

from snapreport.bundle import read_bundle
from snapreport.ground.errors import SnapreportError
from snapreport.ground.native.library import scan
from snapreport.history.build import build_history
from snapreport.model.snapshot import RawSnapshot
from snapreport.read import read_budget, read_bytes, read_snapshot, unpickle
from snapreport.read.source import read_rules
from snapreport.reporters.notes import notes_as_html, tame_notes
from tests.builders import differences
from tests.reference.opcodes import scan as scan_plainly


def snapshot(data: bytes) -> None:
    """Read a pickle or JSON, and pair its events."""
    build_history(read_bytes(data, "fuzz"))


def native(data: bytes) -> None:
    """Read a pickle with the native library and without it: the outcomes have to be the same."""
    if data:
        assert scan(data) == scan_plainly(data)
    ours = _outcome(data)
    with mock.patch.object(unpickle, "parse", return_value=None):
        generally = _outcome(data)
    if isinstance(ours, str) or isinstance(generally, str):
        assert ours == generally
    else:
        assert differences(ours, generally, "raw") == []


def _outcome(data: bytes) -> RawSnapshot | str:
    try:
        return read_bytes(data, "fuzz")
    except SnapreportError as error:
        return f"{type(error).__name__}: {error}"


def packed(data: bytes) -> None:
    """Read a file that may be packed."""
    read_snapshot(_file(data))


def bundle(data: bytes) -> None:
    """Read a bundle."""
    read_bundle(_file(data))


def rules(data: bytes) -> None:
    """Read rules of JSON or YAML."""
    read_rules(str(_file(data)))


def budget(data: bytes) -> None:
    """Read a TOML file of budgets."""
    read_budget(_file(data))


def notes(data: bytes) -> None:
    """Render notes of Markdown."""
    text = data.decode(errors="replace")
    tame_notes(text, stranger=True)
    notes_as_html(text, stranger=True)


TARGETS: dict[str, Callable[[bytes], None]] = {
    each.__name__: each for each in (snapshot, native, packed, bundle, rules, budget, notes)
}


def run(name: str, data: bytes) -> None:
    """Give data to a target; what a user would be told is no crash."""
    with suppress(SnapreportError):
        TARGETS[name](data)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="fuzz-")


def _file(data: bytes) -> Path:
    path = Path(_folder().name, "input")
    path.write_bytes(data)
    return path

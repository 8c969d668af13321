"""What commands that print an answer share: options, loading a device, text and JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import snapreport
from snapreport.commands.options.name_options import keep_paths_option, paths_kept
from snapreport.commands.options.shared_options import (
    full_option,
    json_option,
    quiet_option,
    together,
    top_option,
)
from snapreport.commands.output.console import in_colour, print_bytes, print_clean, progress_bar
from snapreport.ground.safe_text import plain_json
from snapreport.model.answer_tables import Group

if TYPE_CHECKING:
    from snapreport.api.device import Device
    from snapreport.api.device_data import DeviceData
    from snapreport.reporters.terminal.text_tables import Page


F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Answer:
    """How to print an answer."""

    as_json: bool
    full: bool = False
    quiet: bool = False
    top: int | None = None
    """Rows to show as text; None for all."""

    def device(self, source: Path, device: str | None) -> Device:
        """Load a file, and pick a device; None for the one that a report opens with."""
        with progress_bar(self.quiet) as progress:
            found = snapreport.load(source, keep_paths=paths_kept(), progress=progress)
            return found.device(device)

    def page(self) -> Page:
        """Return a page as wide as the terminal, or with ``full`` as wide as its texts."""
        from snapreport.reporters.terminal.text_tables import Page, terminal_width

        return Page(terminal_width(self.full), colour=in_colour(sys.stdout))


def answer_options(rows: int | None = None) -> Callable[[F], F]:
    """``--json``, ``--full``, ``--keep-paths`` and ``-q``, in this order, as ``answer``.

    Args:
        rows: the default of ``--top``; None for a command without it.
    """
    options = (json_option, full_option, keep_paths_option, quiet_option)
    return together("answer", _answer, *([] if rows is None else [top_option(rows)]), *options)


def _answer(as_json: bool, full: bool, quiet: bool, top: int | None = None) -> Answer:
    return Answer(as_json, full, quiet, None if full else top)


def device_json(device: DeviceData) -> dict[str, Any]:
    """Return the names of the file and the device; most answers begin with them."""
    return {"file": device.file.source.name, "device": device.name}


def groups_json(device: DeviceData, groups: Sequence[Group], by: str) -> list[dict[str, Any]]:
    """Return groups as plain objects."""
    from snapreport.reporters.json.json_parts import group_as_json

    return [group_as_json(group, device.file.stacks, by) for group in groups]


def print_json(name: str, answer: dict[str, Any]) -> None:
    """Write an answer as indented JSON that begins with the name and version of its format."""
    import orjson

    from snapreport.reporters.json.json_parts import with_format

    whole = orjson.dumps(with_format(name, answer), option=orjson.OPT_INDENT_2)
    print_bytes(plain_json(whole) + b"\n")


def print_page(page: Page) -> None:
    """Write a page to stdout."""
    print_clean(page.render())

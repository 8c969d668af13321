"""Colours: on a terminal that shows them, and nowhere else."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from snapreport.commands import cli
from tests.commands.terminals import on_terminal

SAMPLES = Path(__file__).resolve().parents[2] / "sample_snapshots"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_COMMANDS = (
    ("summary",),
    ("summary", "--findings"),
    ("live", "--by", "tree"),
    ("live", "--by", "file"),
    ("summary", "--recording"),
)


def on_a_terminal(*arguments: str, **variables: str) -> str:
    """Run ``snapreport`` on a terminal of its own; return what it shows, stderr included."""
    kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}
    environment = kept | {"TERM": "xterm", "COLUMNS": "100", **variables}
    ((_, shown),) = on_terminal([arguments], SAMPLES, environment)
    return shown


@pytest.mark.parametrize("command", _COMMANDS, ids=" ".join)
def test_a_terminal_gets_the_text_of_a_pipe_in_colour(command: tuple[str, ...]) -> None:
    given = (*command, str(SAMPLES / "out_of_memory.pickle.gz"), "--quiet")
    environment = {"COLUMNS": "100", "TERM": "xterm"}
    piped = CliRunner(env=environment).invoke(cli, given, catch_exceptions=False).stdout
    shown = on_a_terminal(*given)
    assert "\x1b" not in piped
    assert _COLOUR.search(shown)
    plain = [line.rstrip() for line in _COLOUR.sub("", shown).splitlines()]
    assert plain == piped.splitlines()


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_who_wants_no_colour_gets_none(variables: dict[str, str]) -> None:
    for command in (("--findings",), ("--device", "cuda:9")):
        given = ("summary", *command, str(SAMPLES / "out_of_memory.pickle.gz"), "--quiet")
        assert "\x1b[" not in on_a_terminal(*given, **variables)


def test_what_is_critical_is_red_and_what_is_large_is_warm() -> None:
    given = (str(SAMPLES / "out_of_memory.pickle.gz"), "--quiet")
    assert "\x1b[1;31mCRITICAL" in on_a_terminal("summary", "--findings", *given)
    assert re.search(r"\x1b\[31m *[0-9.]+ GiB", on_a_terminal("live", "--by", "tree", *given))


def test_an_error_begins_in_red_on_a_terminal() -> None:
    given = (str(SAMPLES / "out_of_memory.pickle.gz"), "--device", "cuda:9", "--quiet")
    shown = on_a_terminal("summary", *given)
    assert shown.startswith("\x1b[31m\x1b[1mError:")
    assert shown.count("\n") == 1

"""The questions of other tools in docs/page.md: each command there runs, and none is missing."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from snapreport.commands import cli
from tests.docs.examples import ROOT, SAMPLES

_, SECTION = (
    (ROOT / "docs" / "page.md")
    .read_text(encoding="utf-8")
    .split("\n## Questions that other tools ask\n")
)
COMMANDS = sorted(set(re.findall(r"`snapreport (.*?)`", SECTION)))
STANDS_FOR = {
    "F": str(SAMPLES / "training_step.pickle"),
    "A": "100", "B": "400", "C": "700", "D": "900", "ADDRESS": "7f20b9600000_1",
}  # fmt: skip
RULES = (
    "Active Allocs", "Before", "After", "Decline", "Growth", "Growth vs. Decline", "Free Events",
    "Alloc Events", "Short Living Allocs", "Long Living Allocs", "Memory Leaks", "Limited Lifetime",
    "Decline of Long Living Allocs", "Specific Lifetime", "Paged-Out Allocs", "Paged-In Allocs",
)  # fmt: skip
"""As ``FMemorySharedState::InitMemoryRules`` of Unreal Engine 5 has them."""
VIEWS = (
    "Active Memory Timeline", "Allocated Memory (incl. Private Pools)", "Allocator State History",
    "Active Cached Segment Timeline", "Allocator Settings",
)  # fmt: skip
"""The ``kinds`` of MemoryViz.js."""
PANES = (
    "Timeline", "Snapshot", "System information", "Heap overview", "Carousel", "Resource overview",
    "Resource list", "Allocation overview", "Allocation explorer", "Resource details",
    "Snapshot delta", "Memory leak finder",
)  # fmt: skip
"""As AMD's manual lists them."""


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_answers(command: str, tmp_path: Path) -> None:
    words = [STANDS_FOR.get(word, word) for word in shlex.split(command)]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    assert result.stdout


@pytest.mark.parametrize("name", [*RULES, *VIEWS, *PANES])
def test_no_question_is_missing(name: str) -> None:
    assert re.search(rf"^\| {re.escape(name)} \|", SECTION, re.MULTILINE)


def test_each_question_has_steps_and_a_command_or_a_reason() -> None:
    tables = re.split(r"^\|[-|]+\|$", SECTION, flags=re.MULTILINE)[1:]
    rows = [row for table in tables for row in re.findall(r"^\|.*\|$", table, re.MULTILINE)]
    assert len(rows) > 50
    for row in rows:
        *_, here, steps, command = (cell.strip() for cell in row[1:-1].split("|"))
        reason = here.startswith(("not asked", "not needed")) or command == "command"
        assert reason or (steps and command.startswith("`snapreport ")), row

"""docs/mcp.md: its tools are the server's, and each client's settings start a server."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

from snapreport.commands.mcp_server.guidance import INSTRUCTIONS, PAGES, PARTS, PROMPTS, TOOLS
from snapreport.commands.mcp_server.keeping import MOST_FILES
from snapreport.commands.mcp_server.reply import USUAL, count_tokens
from snapreport.names.redaction import LONGEST_QUOTE
from tests.mcp.desks import run

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "mcp.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(json|toml)\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
PLACES = ("mcpServers", "servers", "context_servers", "mcp_servers")
MOST_OF_A_LIST = 2500


def settings() -> list[dict[str, Any]]:
    """Return what each client is told about the server."""
    found = []
    for kind, text in BLOCKS:
        whole: dict[str, Any] = json.loads(text) if kind == "json" else tomllib.loads(text)
        (place,) = whole
        assert place in PLACES
        found.append(whole[place]["snapreport"])
    return found


def commands() -> list[list[str]]:
    said = re.findall(r"`(?:claude|codex) mcp add snapreport -- (.*?)`", DOCUMENT)
    listed = [[each["command"], *each["args"]] for each in settings() if "command" in each]
    return listed + [each.split() for each in said]


def test_every_client_starts_the_same_command() -> None:
    plain = ["snapreport", "mcp", "--root", "runs"]
    for command in commands():
        assert [each.replace("${workspaceFolder}/", "") for each in command] == plain
    assert len(commands()) == 6


def test_that_command_serves_a_client(samples: Path, tmp_path: Path) -> None:
    (tmp_path / "runs").symlink_to(samples)
    command = settings()[0]
    server = StdioServerParameters(
        command=str(Path(sys.executable).with_name(command["command"])),
        args=command["args"],
        cwd=str(tmp_path),
        env=dict(os.environ),
    )

    async def work() -> None:
        async with Client(server, mode="legacy") as client:
            assert [each.name for each in (await client.list_tools()).tools] == [
                each.name for each in TOOLS
            ]

    run(work)


def test_the_address_is_the_server_s() -> None:
    (over_http,) = [each for each in settings() if "url" in each]
    assert f"`{over_http['url']}`" in DOCUMENT
    assert over_http["headers"] == {"Authorization": "Bearer ${SNAPREPORT_MCP_TOKEN}"}


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_tools_and_their_arguments_are_in_the_table(tool: Any) -> None:
    (row,) = re.findall(rf"^\| `{tool.name}` \|.*\|$", DOCUMENT, re.MULTILINE)
    arguments = row.split("|")[3]
    for name in tool.input_schema["properties"].keys() - {"cursor", "max_tokens"}:
        assert f"`{name}`" in arguments
    for part in PARTS if tool.name == "summary" else ():
        assert f"`{part}`" in arguments


def test_what_is_said_beside_the_table_is_true() -> None:
    for each in (*(page.about.uri for page in PAGES), *(prompt.about.name for prompt in PROMPTS)):
        assert f"`{each}`" in DOCUMENT
    assert f"At most {MOST_FILES} files are open" in DOCUMENT
    assert f"cut to {LONGEST_QUOTE} letters" in DOCUMENT
    assert f"at most {USUAL:,} tokens" in DOCUMENT


def test_the_list_of_tools_leaves_room_for_other_things() -> None:
    """The estimate is half as much again as two vocabularies make of it."""
    listed = [each.model_dump(by_alias=True, exclude_none=True) for each in TOOLS]
    text = json.dumps(listed, separators=(",", ":"))
    assert count_tokens(text) / 1.45 < MOST_OF_A_LIST
    assert count_tokens(INSTRUCTIONS) < 200
    for page in PAGES:
        assert count_tokens(page.text()) < 4500, page.about.name

"""Questions to a desk without a server, and servers with a client, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp.client.client import Client
from mcp_types import CallToolResult, TextContent

from snapreport.commands.mcp_server.answering import Desk
from snapreport.commands.mcp_server.keeping import FileKeepers
from snapreport.commands.mcp_server.protocol import make_server
from snapreport.commands.mcp_server.questions import Question, RootedFiles
from snapreport.ground.progress import silent
from snapreport.model.asked import (
    NamesWanted,
)

PLAIN = NamesWanted()


class DeskBelow:
    """A desk for the files below a folder."""

    def __init__(self, root: Path, names: NamesWanted = PLAIN) -> None:
        self.files, self.desk = RootedFiles([root], names), Desk(names)

    def ask(self, tool: str, file: str, base: str = "", **arguments: Any) -> dict[str, Any]:
        files = tuple(self.files.find(each) for each in (file, base) if each)
        return self.desk.answer(Question(tool, files, arguments), silent)

    def ask_all(self, tool: str, file: str, **arguments: Any) -> list[dict[str, Any]]:
        """Return every page."""
        pages = [self.ask(tool, file, **arguments)]
        while "cursor" in pages[-1]:
            pages.append(self.ask(tool, file, **arguments, cursor=pages[-1]["cursor"]))
            assert len(pages) < 10_000
        return pages


@asynccontextmanager
async def connected(
    root: Path, names: NamesWanted = PLAIN, *, mode: str = "auto", **limits: Any
) -> AsyncIterator[tuple[Client, FileKeepers]]:
    """Give a client of a server over some files, and what keeps those open."""
    keepers = FileKeepers(names, **limits)
    try:
        server = make_server(RootedFiles([root], names), keepers)
        async with Client(server, mode=mode) as client:
            yield client, keepers
    finally:
        keepers.close()


def text_of(result: CallToolResult) -> str:
    """Return what a model reads of a result."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def run(work: Callable[[], Awaitable[None]], seconds: float = 60) -> None:
    """Run a test that waits for things, but not for ever."""

    async def limited() -> None:
        with anyio.fail_after(seconds):
            await work()

    # In a thread of its own: a browser of another test may have left a loop in this one.
    with ThreadPoolExecutor(1) as executor:
        executor.submit(anyio.run, limited).result()

"""A client without a model: it does what the recipes say, and counts calls and tokens."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mcp import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

from dev.evals.questions import Question, is_right
from dev.evals.recipes import RECIPES
from dev.evals.run_recipes import RUN_RECIPES
from snapreport.commands.mcp_server.reply import count_tokens

_RECIPES = {**RECIPES, **RUN_RECIPES}


@dataclass(frozen=True)
class Result:
    """How a question went."""

    question: Question
    said: str
    """The answer, or why there is none."""
    calls: int
    tokens: tuple[int, ...]
    """Of each reply, estimated on the high side."""

    @property
    def right(self) -> bool:
        """Whether the answer is the right one."""
        return is_right(self.question, self.said)


def ask_all(questions: Sequence[Question], roots: Sequence[Path]) -> list[Result]:
    """Ask a server over these folders every question, in one session."""
    # In a thread of its own: the caller's may have a loop that runs.
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(asyncio.run, _ask_all(questions, roots)).result()


async def _ask_all(questions: Sequence[Question], roots: Sequence[Path]) -> list[Result]:
    arguments = [part for root in roots for part in ("--root", str(root))]
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "snapreport", "mcp", *arguments]
    )
    async with (
        stdio_client(server) as (reading, writing),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        return [await _ask(session, question) for question in questions]


async def _ask(session: ClientSession, question: Question) -> Result:
    recipe, tokens, said = _RECIPES[question.kind], [], ""
    reply = None
    for call in recipe.calls:
        name, arguments = call(question)
        reply = await session.call_tool(name, arguments)
        text = "".join(getattr(part, "text", "") for part in reply.content)
        tokens.append(count_tokens(text))
        if reply.is_error:
            return Result(question, text, len(tokens), tuple(tokens))
    assert reply is not None
    try:
        said = str(recipe.read(question, reply.structured_content or {}))
    except (LookupError, StopIteration, TypeError) as error:
        said = f"not found in the reply: {error!r}"
    return Result(question, said, len(tokens), tuple(tokens))

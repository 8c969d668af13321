"""The server: turns protocol requests into questions, and sends the answers back."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import jsonschema
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from snapreport.ground.errors import SnapreportError
from snapreport.ground.version import __version__
from snapreport.mcp.answering.clean_values import clean_text
from snapreport.mcp.answering.pages_of_replies import (
    USUAL,
    as_text,
    digest_of,
    fit_page,
    read_cursor,
)
from snapreport.mcp.answering.question import Question
from snapreport.mcp.answering.reply import Reply, table
from snapreport.mcp.keeping.file_keepers import FileKeepers
from snapreport.mcp.serving.guidance import (
    INSTRUCTIONS,
    PAGES,
    PAGES_BY_URI,
    PROMPTS,
    PROMPTS_BY_NAME,
    prompt_text,
)
from snapreport.mcp.serving.rooted_files import RootedFiles
from snapreport.mcp.serving.tool_list import BY_NAME, TEXTS, TOOLS

logger = logging.getLogger(__name__)

Context = ServerRequestContext[Any, Any]

_FILES = ("file", "base", "new")
_LONGEST_ERROR = 600
_RUNS = (("file", "text"), ("ranks", "count"))


def make_server(files: RootedFiles, keepers: FileKeepers) -> Server[Any]:
    """Return a server for any number of clients; close ``keepers`` after it."""
    service = _Service(files, keepers)
    return Server(
        "snapreport",
        version=__version__,
        title="snapreport",
        instructions=INSTRUCTIONS,
        on_list_tools=service.list_tools,
        on_call_tool=service.call_tool,
        on_list_resources=service.list_resources,
        on_read_resource=service.read_resource,
        on_list_prompts=service.list_prompts,
        on_get_prompt=service.get_prompt,
    )


class _Service:
    """Handles the requests."""

    def __init__(self, files: RootedFiles, keepers: FileKeepers) -> None:
        self.files, self.keepers = files, keepers

    async def list_tools(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=list(TOOLS))

    async def call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = BY_NAME.get(params.name)
        if tool is None:
            known = ", ".join(BY_NAME)
            raise MCPError(
                types.INVALID_PARAMS,
                f"There is no tool {clean_text(params.name, 60)!r}; there are {known}.",
            )
        arguments = _with_lists(tool, params.arguments or {})
        try:
            _check(tool, arguments)
            answer = await self._answer(context, tool, arguments)
        except SnapreportError as error:
            said = clean_text(str(error), _LONGEST_ERROR)
            return types.CallToolResult(content=[types.TextContent(text=said)], is_error=True)
        text = types.TextContent(text=as_text(answer))
        return types.CallToolResult(content=[text], structured_content=answer)

    async def _answer(
        self, context: Context, tool: types.Tool, arguments: Mapping[str, Any]
    ) -> dict[str, Any]:
        if tool.name == "open" and "file" not in arguments:
            return self._list(arguments)
        named = ("new", "base") if tool.name == "diff" else ("file",)
        whole_run = tool.name == "run"
        found = tuple(self.files.find(arguments[name], folders=whole_run) for name in named)
        roots = self.files.roots if whole_run else ()
        rest = {name: value for name, value in arguments.items() if name not in _FILES}
        steps = 0

        async def report(what: str, fraction: float | None) -> None:
            nonlocal steps
            steps += 1  # must rise with each report; a fraction covers only part of the work
            said = what if fraction is None else f"{what}: {fraction:.0%}"
            await context.session.report_progress(steps, message=clean_text(said, 200))

        return await self.keepers.ask(Question(tool.name, found, rest, roots), report)

    def _list(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        files = self.files.list()
        runs = self.files.list_runs()
        about = [*runs, *((each.shown, each.size) for each in files)]
        place = read_cursor(arguments.get("cursor"), digest_of("list", about))
        columns = (("file", "text"), ("size", "bytes"))
        rows = [(each.shown, each.size) for each in files]
        said = f"{len(rows):,} recordings" if rows else "There are no recordings below the roots."
        of_runs = table("Runs: folders that the tool run takes", _RUNS, runs)
        reply = Reply({}, {"answer": said}, (of_runs, table("Recordings", columns, rows)))
        return fit_page(reply, place, arguments.get("max_tokens", USUAL))

    async def list_resources(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[page.about for page in PAGES])

    async def read_resource(
        self, _: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        page = PAGES_BY_URI.get(str(params.uri))
        if page is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no {clean_text(str(params.uri), 100)}.")
        text = types.TextResourceContents(
            uri=page.about.uri, mime_type=page.about.mime_type, text=page.text()
        )
        return types.ReadResourceResult(contents=[text])

    async def list_prompts(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[prompt.about for prompt in PROMPTS])

    async def get_prompt(
        self, _: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        prompt = PROMPTS_BY_NAME.get(params.name)
        if prompt is None:
            raise MCPError(
                types.INVALID_PARAMS, f"There is no prompt {clean_text(params.name, 60)!r}."
            )
        arguments = params.arguments or {}
        missing = [name for name in prompt.takes if not arguments.get(name)]
        if missing:
            raise MCPError(
                types.INVALID_PARAMS, f"{prompt.about.name} needs {' and '.join(missing)}."
            )
        content = types.TextContent(text=prompt_text(prompt, arguments))
        return types.GetPromptResult(
            description=prompt.about.description,
            messages=[types.PromptMessage(role="user", content=content)],
        )


class ArgumentsError(SnapreportError):
    """A tool was called with wrong arguments; the message lists the right ones."""


def _with_lists(tool: types.Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Turn a single text into a list where a list is expected: agents often send that."""
    takes = tool.input_schema["properties"]
    return {
        name: [value] if isinstance(value, str) and takes.get(name) == TEXTS else value
        for name, value in arguments.items()
    }


def _check(tool: types.Tool, arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that a tool does not take.

    Raises:
        ArgumentsError: with the first mistake.
    """
    validator = jsonschema.Draft202012Validator(tool.input_schema)
    error = jsonschema.exceptions.best_match(validator.iter_errors(dict(arguments)))
    if error is not None:
        place = "".join(f"{part}: " for part in error.absolute_path)
        takes = ", ".join(tool.input_schema["properties"])
        raise ArgumentsError(
            f"{tool.name}: {place}{clean_text(error.message, 200)}. It takes {takes}."
        )

"""The server: turns protocol requests into questions, and sends the answers back.

It speaks over standard input and output, or over HTTP on this machine only.
"""

from __future__ import annotations

import gc
import hmac
import logging
import os
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import anyio
import jsonschema
import mcp_types as types
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from snapreport.commands.mcp_server.guidance import (
    BY_NAME,
    INSTRUCTIONS,
    PAGES,
    PAGES_BY_URI,
    PROMPTS,
    PROMPTS_BY_NAME,
    TEXTS,
    TOOLS,
    prompt_text,
)
from snapreport.commands.mcp_server.keeping import FileKeepers, make_ready
from snapreport.commands.mcp_server.questions import Question, RootedFiles
from snapreport.commands.mcp_server.reply import (
    USUAL,
    Reply,
    as_text,
    clean_text,
    digest_of,
    fit_page,
    read_cursor,
    table,
)
from snapreport.ground.errors import InputError, SnapreportError
from snapreport.ground.processes import ENDING
from snapreport.ground.version import __version__
from snapreport.model.asked import (
    NamesWanted,
)

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


# Transports

HOST = "127.0.0.1"
PATH = "/mcp"
_LEAST_TOKEN = 16
_MOST_BODY = 2**20


def serve(
    roots: Sequence[Path],
    names: NamesWanted,
    *,
    port: int | None = None,
    token: str | None = None,
    say: Callable[[str], None],
) -> None:
    """Serve until the client disconnects, or a signal ends the process.

    Args:
        roots: folders whose files may be opened.
        names: how the names in files are treated.
        port: for HTTP, 0 for a free one; None for standard input and output.
        token: what HTTP clients have to send; None for a new one, which is printed.
        say: called with each line that the user has to see.

    Raises:
        SnapreportError: a root is not a folder, or the port is taken.
    """
    files = RootedFiles(roots, names)
    keepers = FileKeepers(names)
    server = make_server(files, keepers)
    gc.enable()  # commands run without a collector, and this one runs for days
    try:
        if port is None:
            _end_on_signals(keepers)
            anyio.run(_serve_stdio, server)
        else:
            anyio.run(_serve_http, server, _listen(port), token, say)
    finally:
        keepers.close()


def _end_on_signals(keepers: FileKeepers) -> None:
    """Let Ctrl-C and the other signals that end a process do so at once.

    A thread waits for a line of input, and Python would wait for the thread.
    """

    def leave(number: int, _frame: FrameType | None) -> NoReturn:
        keepers.close()
        os._exit(128 + number)

    for number in (signal.SIGINT, *ENDING):
        if number == signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, leave)


async def _serve_stdio(server: Server[Any]) -> None:
    async with stdio_server() as (read, write):
        # Only now, because processes started here must not inherit the client's input and output.
        threading.Thread(target=make_ready, daemon=True).start()
        await server.run(read, write, server.create_initialization_options())


async def _serve_http(
    server: Server[Any],
    listening: socket.socket,
    token: str | None,
    say: Callable[[str], None],
) -> None:
    port = listening.getsockname()[1]
    secret = token or secrets.token_urlsafe(32)
    say(f"Serving http://{HOST}:{port}{PATH}")
    if token is None:
        say(f"Token: {secret}")
    app = guarded_app(server, port, secret)
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
    threading.Thread(target=make_ready, daemon=True).start()
    await uvicorn.Server(config).serve(sockets=[listening])


def guarded_app(server: Server[Any], port: int, token: str) -> ASGIApp:
    """Return the server as an application that requires the token and a local Host and Origin.

    A web page that makes its own host name resolve to this machine (DNS rebinding) sends another
    Host or Origin, and is refused.
    """
    hosts = [f"{name}:{port}" for name in (HOST, "localhost", "[::1]")]
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=_MOST_BODY,
        transport_security=TransportSecuritySettings(
            allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts]
        ),
    )
    wanted = f"Bearer {token}".encode()

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, wanted):
                headers = {"WWW-Authenticate": "Bearer"}
                refusal = PlainTextResponse("The token is missing or wrong.\n", 401, headers)
                await refusal(scope, receive, send)
                return
        await app(scope, receive, send)

    return guarded


def is_short_token(token: str) -> bool:
    """Say whether a token is short enough to guess."""
    return len(token) < _LEAST_TOKEN


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        # create_server() adds the address to the system's text.
        reason = str(error.strerror).partition(" (while attempting")[0]
        raise InputError(f"Port {port} cannot be served: {reason}.") from None

"""The transports: standard input and output, or HTTP on this machine only."""

from __future__ import annotations

import gc
import hmac
import os
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import anyio
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from snapreport.ground.errors import InputError
from snapreport.ground.processes.ending_signals import ENDING
from snapreport.mcp.keeping.file_keepers import FileKeepers, make_ready
from snapreport.mcp.serving.protocol import make_server
from snapreport.mcp.serving.rooted_files import RootedFiles
from snapreport.model.name_treatment import NamesWanted

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

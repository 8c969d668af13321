"""``snapreport mcp``: serve recordings to agents over the Model Context Protocol."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import click

from snapreport.commands.console import say
from snapreport.commands.options import names_options
from snapreport.ground.errors import InputError
from snapreport.model.asked import (
    NamesWanted,
)

TOKEN = "SNAPREPORT_MCP_TOKEN"  # noqa: S105  (a variable's name)


@click.command()
@click.option(
    "--root",
    "roots",
    multiple=True,
    required=True,
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Only files below this folder may be opened; may be repeated.",
)
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help=f"Serve HTTP on 127.0.0.1 instead of stdin and stdout; 0 picks a free port. Clients must"
    f" send the token in {TOKEN}, or else the one printed at the start.",
)
@names_options
def mcp(roots: tuple[Path, ...], port: int | None, names: NamesWanted) -> None:
    """Serve the recordings below some FOLDERs to agents over the Model Context Protocol.

    A client starts this command and calls its tools: open, summary, findings, at, diff, whatif,
    run and query. Nothing is written, and nothing outside the folders is read. docs/mcp.md has the
    settings of common clients.

    This needs the official SDK: pip install 'mcp>=2,<3'

    \b
    Example:
      snapreport mcp --root runs
    """  # fmt: skip
    if importlib.util.find_spec("mcp") is None:
        raise InputError("This needs the official SDK; run pip install 'mcp>=2,<3'.")
    from snapreport.commands.mcp_server.protocol import is_short_token, serve

    token = os.environ.get(TOKEN)
    if token is not None and is_short_token(token):
        raise click.UsageError(f"{TOKEN} is short enough to guess; use at least 16 characters.")
    serve(roots, names, port=port, token=token, say=say)

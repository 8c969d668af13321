"""``snapreport mcp``: recordings for agents, by the Model Context Protocol."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import click

from snapreport.commands.options.name_options import names_options
from snapreport.commands.output.console import say
from snapreport.ground.errors import InputError
from snapreport.model.name_treatment import NamesWanted

TOKEN = "SNAPREPORT_MCP_TOKEN"  # noqa: S105  (a variable's name)


@click.command(short_help="Let coding agents ask about recordings (MCP).")
@click.option(
    "--root",
    "roots",
    multiple=True,
    required=True,
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Files below it may be opened, and no others; may be given again.",
)
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help=f"Serve HTTP on 127.0.0.1 instead of stdin and stdout; 0 for a free port. Clients send the"
    f" token in {TOKEN}, or one that is printed.",
)
@names_options
def mcp(roots: tuple[Path, ...], port: int | None, names: NamesWanted) -> None:
    """Serve the recordings below some FOLDERs to agents, by the Model Context Protocol.

    A client starts this command and asks by its tools: open, summary, findings, at, diff, whatif
    and query. Nothing is written, and nothing outside of the folders is read. docs/mcp.md has the
    settings of common clients.

    It needs the official SDK: pip install 'mcp>=2,<3'

    \b
    Example:
      snapreport mcp --root runs
    """  # fmt: skip
    if importlib.util.find_spec("mcp") is None:
        raise InputError("This needs the official SDK; run pip install 'mcp>=2,<3'.")
    from snapreport.mcp.serving.doors import is_short_token, serve

    token = os.environ.get(TOKEN)
    if token is not None and is_short_token(token):
        raise click.UsageError(f"{TOKEN} is short enough to be found by trying; use 16 characters.")
    serve(roots, names, port=port, token=token, say=say)

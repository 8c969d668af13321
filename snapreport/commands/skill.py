"""``snapreport skill``: a guide for agents that have a shell and no MCP server."""

from __future__ import annotations

from pathlib import Path

import click

from snapreport.commands.console import print_path
from snapreport.commands.options import force_option
from snapreport.ground.errors import OutputError
from snapreport.ground.files import write_atomically

GUIDE = Path(__file__).with_name("skill.md")


@click.command()
@click.option(
    "--write",
    "folder",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Write it to FOLDER/snapreport/SKILL.md, where agents look for skills.",
)
@force_option
def skill(folder: Path | None, force: bool) -> None:
    """Print a guide for coding agents: which command answers which question.

    It is for agents with a shell; `snapreport mcp` serves agents that use the Model Context
    Protocol.

    \b
    Example:
      snapreport skill
      snapreport skill --write .claude/skills
    """
    text = GUIDE.read_bytes()
    if folder is None:
        click.echo(text, nl=False)
        return
    target = folder / "snapreport" / "SKILL.md"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{target.parent} cannot be made: {error.strerror}.") from error
    with write_atomically(target, force) as out:
        out.write(text)
    print_path(target)

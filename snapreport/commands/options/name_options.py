"""Options for how much of paths and names is shown: ``--keep-paths`` and ``--redact``."""

from __future__ import annotations

import secrets

import click

from snapreport.commands.options.shared_options import together
from snapreport.model.name_treatment import SHORT_SALT, NamesWanted, is_short_salt

_KEPT = "snapreport.keep_paths"


def _note_kept(context: click.Context, _option: click.Parameter, kept: bool) -> None:
    context.meta[_KEPT] = kept


keep_paths_option = click.option(
    "--keep-paths",
    is_flag=True,
    expose_value=False,
    callback=_note_kept,
    help="Show file names and paths as recorded, home folders included.",
)
"""For every command that reads a snapshot; ``paths_kept()`` returns its value."""


def paths_kept() -> bool:
    """Say whether the running command was given ``--keep-paths``."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_KEPT, False))


def _names(redact: bool, redact_functions: bool, salt: str | None) -> NamesWanted:
    if paths_kept() and (redact or redact_functions):
        raise click.UsageError("--keep-paths and --redact contradict each other.")
    if salt is not None and not (redact or redact_functions):
        raise click.UsageError("--salt belongs to --redact.")
    if salt is not None and is_short_salt(salt):
        raise click.UsageError(f"--salt {SHORT_SALT}.")
    if (redact or redact_functions) and salt is None:
        salt = secrets.token_urlsafe(32)  # the same for all files of this command
        if not click.get_current_context().params.get("quiet"):
            note = "Redacted with a random salt; --salt gives later files equal stand-ins."
            click.echo(note, err=True)
    return NamesWanted(paths_kept(), redact, redact_functions, salt)


names_options = together(
    "names",
    _names,
    keep_paths_option,
    click.option(
        "--redact", is_flag=True, help="Replace whatever could name a user, a host or a project."
    ),
    click.option(
        "--redact-functions",
        is_flag=True,
        help="Also replace the names of functions that no known package defines.",
    ),
    click.option(
        "--salt",
        metavar="TEXT",
        help="For --redact: a secret that gives equal names equal stand-ins across files; random "
        "by default.",
    ),
)

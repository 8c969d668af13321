"""Finds the page's templates and its built script and style, installed or in a checkout."""

from __future__ import annotations

import base64
import hashlib
import zlib
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from snapreport.safe_text import shown

_PACKAGE = Path(__file__).resolve().parent.parent


def templates_folder() -> Path:
    """The folder of the templates: inside an installed package, beside it in a checkout."""
    installed = _PACKAGE / "_templates"
    return installed if installed.is_dir() else _PACKAGE.parent / "templates"


@cache
def environment() -> jinja2.Environment:
    """Jinja's environment, with autoescape on for every template whatever its name ends in."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates_folder()),
        autoescape=True,
        finalize=_shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _shown(value: object) -> object:
    """Keep a stranger's text from turning the line that it stands in; ours is marked as such."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return shown(value)
    return value


@cache
def built(name: str) -> str:
    """The text of a built file: ``app.js`` or ``style.css``."""
    return (templates_folder() / "built" / name).read_text(encoding="utf-8")


@cache
def built_packed(name: str) -> str:
    """The same, gzip-compressed and in base64; equal files give equal text."""
    packer = zlib.compressobj(level=9, wbits=31)
    packed = packer.compress(built(name).encode()) + packer.flush()
    return base64.b64encode(packed).decode("ascii")


@cache
def style_beside(name: str) -> str:
    """The text of a style that lies beside the templates as it is: ``diff.css``."""
    return (templates_folder() / name).read_text(encoding="utf-8")


def hash_source(text: str) -> str:
    """What names a style or script in a Content-Security-Policy: its SHA-256."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"

"""Finds the page's templates and its built script and style, installed or in a checkout."""

from __future__ import annotations

import base64
import hashlib
import sys
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path

import jinja2
import jinja2.bccache
import jinja2.compiler
from markupsafe import Markup

from snapreport.ground.files import gzipped
from snapreport.ground.safe_text import shown

_PACKAGE = Path(__file__).resolve().parent.parent

STARTER = (
    "document.documentElement.className='js starting';"
    "document.createElement('canvas').getContext('2d',{willReadFrequently:true})?.fillRect(0,0,1,1)"
)
"""Runs in the head, before anything is laid out or drawn. While the page starts, what its panels
will show instead is hidden: to lay it out took longer than all else of the page. The first use of
any canvas waits for the graphics process: 100 to 200 ms once that has the page to draw, and little
before."""

LOADER = (
    "(async()=>{"
    "const text=document.getElementById('app').textContent,"
    "packed=Uint8Array.fromBase64?Uint8Array.fromBase64(text)"
    ":Uint8Array.from(atob(text),(each)=>each.charCodeAt(0)),"
    "script=document.createElement('script'),"
    "stream=new Response(packed).body.pipeThrough(new DecompressionStream('gzip'));"
    "script.textContent=await new Response(stream).text();"
    "document.body.append(script)"
    "})().catch(error=>{"
    "document.documentElement.className='';"
    "const note=document.createElement('p');"
    "note.className='note';"
    "note.textContent='The interactive part of this page could not start ('+error.message+').'"
    "+' What follows does without it.';"
    "document.querySelector('main').prepend(note)"
    "})"
)
"""Unpacks the page's own code and runs it; the policy names both by hash, so it can be no other.
Packed it takes less than half of its size in every report."""


def templates_folder() -> Path:
    """The folder of the templates: inside an installed package, beside it in a checkout."""
    installed = _PACKAGE / "_templates"
    return installed if installed.is_dir() else _PACKAGE.parent / "templates" / "shipped"


class _CompiledBeside(jinja2.FileSystemBytecodeCache):
    """Keeps compiled templates as Python keeps compiled modules, and as safely: beside the source.

    Each contains its source's hash and Python's version, and its name stands for the compiler and
    the options that made it. Compiling the page's templates takes as long as analysing a small
    recording.
    """

    def __init__(self, folder: Path) -> None:
        """``folder``: of the templates."""
        made_by = [Path(each).stat() for each in (jinja2.compiler.__file__, __file__)]
        stamp = zlib.crc32(repr([(each.st_size, each.st_mtime_ns) for each in made_by]).encode())
        super().__init__(str(folder / "__pycache__"), f"%s-{stamp:08x}.jinja")

    def load_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        """Take it, if it is there and whole."""
        try:
            super().load_bytecode(bucket)
        except Exception:
            # A file in the folder's place, or a damaged one: it begins with a pickle, which raises
            # whatever its bytes lead to, SystemError and MemoryError among seven types that were
            # seen. No matter which, the source is there to be compiled again.
            bucket.reset()

    def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        """Write it, where Python would write its own, and where one may."""
        if sys.dont_write_bytecode or sys.pycache_prefix is not None:
            return
        with suppress(OSError):
            Path(self.directory).mkdir(exist_ok=True)
            super().dump_bytecode(bucket)
            Path(self.directory, self.pattern % bucket.key).chmod(0o644)  # for other users, too


@cache
def environment() -> jinja2.Environment:
    """Jinja's environment, with autoescape on for every template whatever its name ends in."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates_folder()),
        bytecode_cache=_CompiledBeside(templates_folder()),
        autoescape=True,
        finalize=_shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _shown(value: object) -> object:
    """Keep a stranger's text from reversing its line; our own is Markup."""
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
    return base64.b64encode(gzipped([built(name).encode()], 9)).decode("ascii")


@cache
def style_beside(name: str) -> str:
    """The text of a style sheet beside the templates, such as ``diff.css``."""
    return (templates_folder() / name).read_text(encoding="utf-8")


def hash_source(text: str) -> str:
    """What names a style or script in a Content-Security-Policy: its SHA-256."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"

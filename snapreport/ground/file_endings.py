"""Known endings of file names, so that no output gets an ending of another form."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from snapreport.ground.errors import OutputError


class _Form(NamedTuple):
    what: str
    endings: tuple[str, ...]
    """The names of no other form end in these."""
    also: tuple[str, ...] = ()
    """Endings that it may have besides."""
    made_by: str = ""
    """The command that writes it."""


_FORMS = (
    _Form("a bundle", (".zip",), made_by="convert"),
    _Form("a page", (".html", ".htm"), made_by="render"),
    _Form("Markdown", (".md", ".markdown"), (".txt",), "render"),
    _Form("JSON", (".json",), made_by="export json"),
    _Form("a pickle", (".pickle", ".pkl"), made_by="export pickle"),
    _Form("a profile for speedscope", (".speedscope.json",), (".json",), "export speedscope"),
    _Form("collapsed stacks", (".collapsed.txt", ".collapsed", ".folded"), (".txt",),
          "export collapsed"),
    _Form("a profile for pprof", (".pb.gz", ".pprof"), (".gz",), "export pprof"),
    _Form("a Perfetto trace", (".perfetto-trace", ".pftrace"), made_by="export perfetto"),
    _Form("CSV", (".csv",), (".txt",), "export csv"),
    _Form("Parquet", (".parquet",), made_by="export parquet"),
    _Form("a folder for SnapViewer", (".snapviewer",), made_by="export snapviewer"),
    _Form("text", (".txt",)),
    _Form("a compressed file", (".gz", ".zst", ".zstd")),
    _Form("a picture", (".svg", ".png", ".pdf")),
    _Form("a database", (".db", ".sqlite")),
)  # fmt: skip
_BY_ENDING = {ending: form for form in _FORMS for ending in form.endings}


def check_ending(output: Path, *own: str) -> None:
    """Refuse a name whose ending belongs to another form than the one that is written.

    Args:
        output: the file to write; an unknown ending counts as none.
        own: an ending of each form that it may have.

    Raises:
        OutputError: it ends as another form does; the message says what to do.
    """
    ending = _ending_of(output.name)
    forms = [_BY_ENDING[_ending_of(each)] for each in own]
    if not ending or any(ending in form.endings + form.also for form in forms):
        return
    found = _BY_ENDING[ending]
    instead = f", or make {found.what} with 'snapreport {found.made_by}'" if found.made_by else ""
    raise OutputError(
        f"{output} has the ending of {found.what}, and {' or '.join(form.what for form in forms)}"
        f" would be written; end the name in {' or '.join(form.endings[0] for form in forms)}"
        f"{instead}."
    )


def check_folder(output: Path) -> None:
    """Refuse a name for a folder that ends as a file's does.

    Raises:
        OutputError: it does, or is ``-``, and is not a folder so far.
    """
    if str(output) == "-" or (is_named_as_file(output) and not output.is_dir()):
        raise OutputError(f"{output} is named as a file is; here -o names a folder.")


def is_named_as_file(output: Path) -> bool:
    """Say whether a name has an ending that says what a file holds; ``v1.5`` has none."""
    return bool(_ending_of(output.name))


def _ending_of(name: str) -> str:
    """Return the longest ending of a name that is known, in small letters; ``""`` if none is."""
    for place in (k for k, letter in enumerate(name) if letter == "."):
        if name[place:].lower() in _BY_ENDING:
            return name[place:].lower()
    return ""

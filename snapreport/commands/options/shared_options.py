"""Arguments and options that several commands share."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeVar

import click

import snapreport
from snapreport.ground.errors import SnapreportError
from snapreport.ground.files import is_folder, made_folder
from snapreport.ground.glossary import FIGURES, GLOSSARY
from snapreport.ground.remote.remote_paths import as_path
from snapreport.ground.units import parse_size
from snapreport.model.diagnoses import CODES, TOPICS, names_a_finding
from snapreport.model.moment_wanted import CURVES

F = TypeVar("F", bound=Callable[..., Any])


class AnyPath(click.Path):
    """A path, local or in a store, such as ``s3://bucket/rank0.pickle``.

    A missing file is the reader's error (status 1), not wrong usage.
    """

    def coerce_path_result(self, value: str | os.PathLike[str]) -> Path:
        """Return the path or store address that the text names."""
        return as_path(value)


ANY_PATH = AnyPath()


def the_recording(path: Path) -> Path:
    """Return the recording of a folder with a single one, such as ``out/latest``; else the path."""
    if not is_folder(path):
        return path
    from snapreport.runs import inputs

    return inputs.the_recording(path)


def source_argument(
    metavar: str, name: str = "source", *, folders: bool = False, required: bool = True
) -> Callable[[F], F]:
    """The input file. A missing one is the reader's error (status 1), not wrong usage.

    A folder with a single recording is that recording, unless ``folders`` are inputs themselves.
    """

    def taken(_context: object, _argument: object, path: Path | None) -> Path | None:
        return path if folders or path is None else the_recording(path)

    return click.argument(name, metavar=metavar, required=required, type=ANY_PATH, callback=taken)


def sources_argument(metavar: str, *, folders: bool = False) -> Callable[[F], F]:
    """The input files and folders. A missing one is the reader's error (status 1).

    A folder alone, with a single recording, is as in ``source_argument()``.
    """

    def taken(_context: object, _argument: object, paths: tuple[Path, ...]) -> tuple[Path, ...]:
        return (the_recording(paths[0]),) if len(paths) == 1 and not folders else paths

    return click.argument(
        "sources", metavar=metavar, nargs=-1, required=True, type=ANY_PATH, callback=taken
    )


def output_option(
    metavar: str,
    what: str = "File to write, or folder to write into (one that ends in a slash is created). "
    "By default a file in the current folder, named after the input.",
) -> Callable[[F], F]:
    """``-o``: the file to write, or a folder to write into; one that ends in a slash is created."""

    def decorate(command: F) -> F:
        @click.option("-o", "--output", metavar=metavar, type=click.Path(), help=what)
        @functools.wraps(command)
        def with_output(output: str | None, **values: Any) -> Any:
            path = None if output is None else as_path(output)
            names_folder = path is not None and str(output).endswith(("/", os.sep))
            with made_folder(path) if path and names_folder else nullcontext():
                return command(output=path, **values)

        return with_output  # type: ignore[return-value]

    return decorate


def device_option(what: str) -> Callable[[F], F]:
    """``--device``: which device, by number or name."""
    return click.option("--device", metavar="N", help=f"{what}, such as 0, cuda:1 or cpu.")


def reads(parse: Callable[[Any], Any], *, keep: bool = False) -> Callable[..., Any]:
    """Parse an option's value in its callback, so that an error names the option.

    Args:
        parse: what parses it.
        keep: give the command the value as it was typed.
    """

    def read(_context: click.Context, _option: click.Parameter, value: Any) -> Any:
        try:
            found = None if value is None else parse(value)
            return value if keep else found
        except (SnapreportError, ValueError) as error:
            raise click.BadParameter(f"{str(error).removesuffix('.')}.") from None

    return read


def together(
    name: str, make: Callable[..., Any], *options: Callable[[Any], Any]
) -> Callable[[F], F]:
    """Add options to a command, in this order, which gets them as one argument.

    Args:
        name: the argument.
        make: makes its value of those of the options, each by the name of its parameter.
        options: what ``click.option()`` returns, or several of these as one.
    """
    taken = inspect.signature(make).parameters

    def add(command: F) -> F:
        @functools.wraps(command)
        def with_one(**values: Any) -> Any:
            own = {each: values.pop(each) for each in taken if each in values}
            return command(**{name: make(**own)}, **values)

        with_options: Any = with_one
        for option in reversed(options):
            with_options = option(with_options)
        added: F = with_options
        return added

    return add


_TINY = 1024
"""A size below this many bytes must be a number without its unit."""


def size_with_unit(text: str) -> int:
    """Return the bytes of a size.

    Raises:
        ValueError: it is not a size, or so small that its unit must be missing.
    """
    size = parse_size(text)
    if size < _TINY:
        raise ValueError(f"{text!r} is {size} bytes; write a unit, such as 24GiB or 24GB")
    return size


force_option = click.option("--force", is_flag=True, help="Replace the output if it exists.")
quiet_option = click.option(
    "-q", "--quiet", is_flag=True, help="No progress, notes or warnings on stderr."
)

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print everything as JSON, sizes in bytes."
)
full_option = click.option("--full", is_flag=True, help="Print every row, and texts in full.")


def _check_names(
    _context: click.Context, _option: click.Parameter, names: tuple[str, ...]
) -> tuple[str, ...]:
    # As for `check`: the option may be repeated, and each value may hold several with commas.
    single = tuple(name.strip() for each in names for name in each.split(",") if name.strip())
    for name in single:
        if not names_a_finding(name):
            known = ", ".join((*TOPICS, *CODES))
            raise click.BadParameter(f"{name!r} is not the name of a finding; known are {known}.")
    return single


ignore_option = click.option(
    "--ignore",
    multiple=True,
    metavar="NAME,...",
    callback=_check_names,
    help="Leave out findings: ids such as leak/1a2b3c, codes or topics; may be repeated.",
)

rules_option = click.option(
    "--rules",
    metavar="FILE|JSON|YAML",
    callback=lambda _context, _option, text: text and snapreport.load_rules(text),
    help="Rules for categories; the first that matches wins.",
)


FIGURES_DEFINED = "\n\n".join(f"{term}: {GLOSSARY[term]}" for term in FIGURES)
"""What the printed figures mean: the end of a command's help."""


def curve_option(
    curves: Sequence[str] = CURVES, counted: str = "What to count."
) -> Callable[[F], F]:
    """``--curve``: one of these curves, allocated bytes by default."""
    return click.option(
        "--curve", type=click.Choice(curves), default="allocated", show_default=True, help=counted
    )


def top_option(rows: int) -> Callable[[F], F]:
    """``--top``: how many rows to show as text."""
    return click.option(
        "--top", type=click.IntRange(min=1), default=rows, show_default=True, metavar="N",
        help="Rows to show as text.",
    )  # fmt: skip

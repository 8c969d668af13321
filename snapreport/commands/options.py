"""Arguments and options that several commands share, by subject."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeVar

import click

import snapreport
from snapreport.ground.cards import find_card
from snapreport.ground.errors import SnapreportError
from snapreport.ground.files import is_folder, is_zip, made_folder
from snapreport.ground.records import dataclass
from snapreport.ground.stores import as_path
from snapreport.ground.units import parse_size
from snapreport.model.asked import (
    CURVES,
    SHORT_SALT,
    Address,
    MomentWanted,
    NamesWanted,
    cut_size,
    is_short_salt,
    make_cut,
    parse_address,
    parse_bound,
)
from snapreport.model.diagnoses import CODES, TOPICS, names_a_finding

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
    from snapreport.api.runs import inputs

    return inputs.the_recording(path)


def source_argument(
    metavar: str,
    name: str = "source",
    *,
    several: bool = False,
    folders: bool = False,
    required: bool = True,
) -> Callable[[F], F]:
    """An input file, or several. A missing one is the reader's error (status 1), not wrong usage.

    A folder alone with a single recording is that recording, unless ``folders`` are inputs.
    """

    def taken(context: click.Context, _argument: object, given: Any) -> Any:
        if folders or not given or (several and len(given) > 1):
            return given
        if context.resilient_parsing:  # a shell completes what follows: nothing is opened
            return given
        return (the_recording(given[0]),) if several else the_recording(given)

    return click.argument(
        name, metavar=metavar, nargs=-1 if several else 1, required=required, type=ANY_PATH,
        callback=taken,
    )  # fmt: skip


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


def curve_option(
    curves: Sequence[str] = CURVES, counted: str = "What to count."
) -> Callable[[F], F]:
    """``--curve``: one of these curves, allocated bytes by default."""
    return click.option(
        "--curve", type=click.Choice(curves), default="allocated", show_default=True, help=counted
    )


# Options that name a card: whether a recording fits on it.


_SIZES = "h100-80, rtx-4090 and so on, or a size such as 24GB"


card_option = click.option(
    "--card",
    metavar="CARD",
    callback=reads(find_card, keep=True),
    help=f"Say whether it fits on this card: {_SIZES}.",
)
fits_option = click.option(
    "--fits",
    metavar="CARD",
    help=f"Fail if it does not fit on this card under the recorded settings: {_SIZES}.",
)
allow_option = click.option(
    "--allow",
    metavar="SIZE",
    callback=reads(parse_size, keep=True),
    help="Memory of the card that PyTorch's allocator cannot use: CUDA, NCCL, other programs. By "
    "default as measured while recording, else 700 MiB, or 1.5 GiB with several processes.",
)


# Options that say what is drawn: the same for ``render`` and ``convert``.


cut_options = together(
    "cut",
    make_cut,
    click.option(
        "--from",
        "from_",
        metavar="EVENT|TIME",
        callback=reads(parse_bound),
        help="Draw from this event or time after the first event on: 1200, 1.5s, 200ms.",
    ),
    click.option(
        "--to",
        metavar="EVENT|TIME",
        callback=reads(parse_bound),
        help="Draw up to this event or time.",
    ),
    click.option(
        "--min-size",
        metavar="SIZE",
        callback=reads(cut_size),
        help="Draw only allocations of at least this size: 1MiB, 64kB or bytes. The rest is drawn"
        " as one band, and every figure still counts it.",
    ),
)
# Options that name a moment, shared by every command that answers about one.


def _moment(
    event: int | None,
    time_us: int | None,
    stage: str | None,
    between: tuple[int, int] | None,
    at: tuple[str, Address] | None,
    curve: str,
) -> MomentWanted:
    named = {"event": event, "time": time_us, "stage": stage, "between": between, "at": at}
    given = [f"--{name}" for name, value in named.items() if value is not None]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} each name a moment; give one of them.")
    by_address: dict[str, Address] = dict([at] if at else [])
    return MomentWanted(event, time_us, stage, between, **by_address, curve=curve)


moment_options = together(
    "wanted",
    _moment,
    click.option(
        "--event", type=int, metavar="N", help="At the state after event N; -1 is the start."
    ),
    click.option(
        "--time", "time_us", type=int, metavar="US",
        help="At a time in microseconds, since 1970 or since the first event.",
    ),
    click.option("--stage", metavar="NAME", help="At the peak within a stage, or NAME[2]."),
    click.option(
        "--between", type=int, nargs=2, metavar="A B", help="At the peak between two events."
    ),
    click.option(
        "--at", type=(click.Choice(["alloc", "free"]), str), metavar="alloc|free ADDRESS",
        callback=reads(lambda at: (at[0], parse_address(at[1]))),
        help="After the allocation or free of an address, or ADDRESS_VERSION.",
    ),
    curve_option(),
)  # fmt: skip


# Options that ask about lifetimes: as ``Device.ask()`` takes it, or ``changed`` for its sibling.


_Span = tuple[str, str]


def _lifetimes(
    made_between: _Span | None,
    freed_between: _Span | None,
    made_and_freed_between: _Span | None,
    alive_at: str | None,
    alive_throughout: _Span | None,
    changed_between: _Span | None,
) -> dict[str, Any]:
    given = {name: value for name, value in locals().items() if value is not None}
    for name, others in (
        ("made_and_freed_between", {"made_between", "freed_between"}),
        ("alive_throughout", {"alive_at"}),
        ("changed_between", given.keys() - {"changed_between"}),
    ):
        if name in given and (refused := sorted(given.keys() & others)):
            both = " and ".join(f"--{each.replace('_', '-')}" for each in (name, refused[0]))
            raise click.UsageError(f"{both} exclude each other; give one of them.")
    asked = {
        "made": made_and_freed_between or made_between,
        "freed": made_and_freed_between or freed_between,
        "alive": alive_throughout or alive_at,
        "changed": changed_between,
    }
    return {name: value for name, value in asked.items() if value is not None}


def _span_option(name: str, what: str) -> Callable[[Any], Any]:
    return click.option(name, type=str, nargs=2, metavar="A B", help=what)


lifetime_options = together(
    "lifetimes",
    _lifetimes,
    _span_option(
        "--made-between",
        "Instead of what is live at a moment, what was made after A, up to B. Each is an event, a "
        "time such as 1.5s, start, peak, end or a stage: its start as A, its end as B or C.",
    ),
    click.option(
        "--alive-at",
        metavar="C",
        help="What is alive at C. With other options, what fits all of them.",
    ),
    _span_option("--freed-between", "What was freed after A, up to B, whenever it was made."),
    _span_option("--made-and-freed-between", "What was both made and freed between A and B."),
    _span_option("--alive-throughout", "What is alive from A to B, all the time."),
    _span_option(
        "--changed-between",
        "What came between A and B and stayed, and what went: why the curve changed.",
    ),
)  # fmt: skip


# Options for how much of paths and names is shown: ``--keep-paths`` and ``--redact``.


keep_paths_option = click.option(
    "--keep-paths",
    is_flag=True,
    help="Show file names and paths as recorded, home folders included.",
)


def _names(keep_paths: bool, redact: bool, redact_functions: bool, salt: str | None) -> NamesWanted:
    redacted = redact or redact_functions
    if keep_paths and redacted:
        raise click.UsageError("--keep-paths and --redact contradict each other.")
    if salt is not None and not redacted:
        raise click.UsageError("--salt belongs to --redact.")
    if salt is not None and is_short_salt(salt):
        raise click.UsageError(f"--salt {SHORT_SALT}.")
    if redacted and salt is None:
        import secrets  # few commands take a salt

        salt = secrets.token_urlsafe(32)  # the same for all files of this command
        if not click.get_current_context().params.get("quiet"):
            note = "Redacted with a random salt; --salt gives later files equal stand-ins."
            click.echo(note, err=True)
    return NamesWanted(keep_paths, redact, redact_functions, salt)


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


# Options of commands that take an entire run, and checks for whether they were given one.


@dataclass(frozen=True)
class RunWanted:
    """How to read the files of a run: arguments of ``load_run()``."""

    name: str | None
    layout: str | None
    jobs: int | None
    engine: str


_jobs = click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Work on N files at once. Default: as many as processors and free memory allow.",
)
_engine = click.option(
    "--engine",
    metavar="ENGINE",
    default="local",
    help="Where to work on several files: local (processes) or dask; dask=ADDRESS for a running"
    " cluster.  [default: local]",
)


def workers_options(command: F) -> F:
    """``--jobs`` and ``--engine``."""
    return _jobs(_engine(command))


run_options = together(
    "run",
    RunWanted,
    click.option(
        "--name",
        metavar="PATTERN",
        help="How the files of a run are named, such as '{host}/it_{step}/rank{rank}.pickle'; by"
        " default the names that common trainers give are recognized.",
    ),
    click.option(
        "--layout",
        metavar="DIM=N,...",
        help="Parallel dimensions of a run in the order of ranks, the first changing fastest:"
        " tp=8,pp=4,dp=2.",
    ),
    workers_options,
)


def is_run(sources: Sequence[Path]) -> bool:
    """Say whether a run was given: several files, a folder of them, or the zip of a run."""
    if len(sources) > 1 or is_folder(sources[0]):
        return True
    if not is_zip(sources[0]):
        return False
    from snapreport.bundle.run_archive import is_run_bundle

    return is_run_bundle(sources[0])


def refuse_for_run(**given: object) -> None:
    """Refuse options that mean nothing for a run.

    Raises:
        UsageError: one was given.
    """
    _refuse(given, "a single file, and this is a run")


def refuse_for_file(run: RunWanted, **given: object) -> None:
    """Refuse options that mean nothing for a single file.

    Raises:
        UsageError: one was given.
    """
    _refuse(
        {**given, "name": run.name, "layout": run.layout},
        "a run: several files, or a folder of them",
    )


def _refuse(given: Mapping[str, object], purpose: str) -> None:
    for option, value in given.items():
        if value:
            name = option.replace("_", "-")
            raise click.UsageError(f"--{name} is for {purpose}.")

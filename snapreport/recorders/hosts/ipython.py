"""The IPython magic ``%%snapreport_memory``: runs a cell, and shows below it what held memory."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import os
import re
from pathlib import Path
from types import CodeType
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import FileLink, display
from IPython.utils.process import arg_split

import snapreport
from snapreport.ground.errors import SnapreportError

_FOLDER = "cell.memory"


@magics_class
class MemoryMagics(Magics):
    """The magics that ``%load_ext snapreport`` adds."""

    @magic_arguments()
    @argument("-o", "--output", metavar="FOLDER", default=_FOLDER, help="folder for the files")
    @argument("--title", metavar="TEXT", help="title of the report; by default the cell's number")
    @argument("--into", metavar="NAME", help="leave the Snapshot in this variable")
    @argument("--stacks", choices=("python", "all"), help="whether to record C++ frames too")
    @argument("--max-entries", metavar="N", type=int, help="how many of the newest events to keep")
    @argument("--compress", action="store_true", help="write snapshot.pickle.zst")
    @argument("statement", nargs="...", help="the statement of a line magic")
    @no_var_expand
    @line_cell_magic
    def snapreport_memory(self, line: str, cell: str | None = None) -> Any:
        """Record the memory of a cell or statement, show a summary, and link the report.

        The value of the last line is shown as usual, and an exception propagates; the report is
        made all the same. Each recording has a folder of its own: 1, 2, and so on; latest is the
        newest.

        Example::

            %%snapreport_memory -o out
            loss = model(batch).sum()
            loss.backward()
        """
        __tracebackhide__ = True
        wanted = parse_argstring(self.snapreport_memory, line)
        statement = _as_written(line, wanted.statement)
        if (cell is None) == (not statement):
            raise UsageError("%%snapreport_memory takes a cell, %snapreport_memory a statement.")
        arguments = {"stacks": wanted.stacks, "compress": wanted.compress}
        if wanted.max_entries is not None:
            arguments["max_entries"] = wanted.max_entries
        title = wanted.title or f"In [{self._number()}]"
        body, last = self._compile(statement if cell is None else cell)
        if (_awaits(body) or _awaits(last)) and _loop_runs():
            raise UsageError(
                "A magic cannot await while an event loop runs, as in a notebook. Write"
                f" `with snapreport.record({wanted.output!r}):` around the code, in a plain cell."
            )
        with contextlib.ExitStack() as stack:
            try:
                recording = snapreport.record(wanted.output, title=title, quiet=True, **arguments)
                stack.callback(self._show, recording, wanted.into)
                stack.enter_context(recording)
            except (SnapreportError, ValueError) as error:
                raise UsageError(str(error)) from None
            made = eval(body, self.shell.user_ns)  # noqa: S307  (the user's own code)
            if _awaits(body):
                self.shell.loop_runner(made)
            if last is None:
                return None
            made = eval(last, self.shell.user_ns)  # noqa: S307
            return self.shell.loop_runner(made) if _awaits(last) else made

    def _compile(self, cell: str) -> tuple[Any, Any]:
        """Return the code of a cell, and that of the expression at its end if there is one.

        It is compiled as IPython does it: magics inside work, and frames have source lines.
        """
        compiler = self.shell.compile
        source = self.shell.transform_cell(cell)
        name = compiler.cache(source, self._number(), raw_code=cell)
        allowed = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if self.shell.autoawait else 0
        last = None
        quiet = source.rstrip().endswith(";")
        with compiler.extra_flags(allowed):
            tree = self.shell.transform_ast(compiler.ast_parse(source, filename=name))
            if tree.body and isinstance(tree.body[-1], ast.Expr) and not quiet:
                last = compiler(ast.Expression(tree.body.pop().value), name, "eval")
            return compiler(tree, name, "exec"), last

    def _number(self) -> int:
        """Return the cell's number; newer IPythons have the next cell's in ``execution_count``."""
        history = self.shell.history_manager
        kept = len(history.input_hist_parsed) - 1 if history is not None else 0
        return kept or self.shell.execution_count

    def _show(self, recording: snapreport.Recording, into: str | None) -> None:
        """Show the summary, and link the page."""
        files = recording.files
        if "zip" not in files:
            return  # it never started, or the log says why
        snapshot = snapreport.load(files["zip"])
        if into:
            self.shell.user_ns[into] = snapshot
        display(snapshot, FileLink(_from_here(files["html"])))


def _awaits(code: CodeType | None) -> bool:
    return code is not None and bool(code.co_flags & inspect.CO_COROUTINE)


def _loop_runs() -> bool:
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        return True
    return False


def _as_written(line: str, words: list[str]) -> str:
    """Return the end of a line that was split into these words, with its original blanks."""
    starts = (found.start() for found in re.finditer(r"\S+", line))
    return next((line[k:] for k in starts if words and arg_split(line[k:]) == words), "")


def _from_here(path: Path) -> str:
    """Return a path as a notebook links it: relative to its folder, if possible."""
    try:
        return os.path.relpath(path)
    except ValueError:  # it is on another drive
        return str(path)


def load(shell: Any) -> None:
    """Add the magics to a running IPython."""
    shell.register_magics(MemoryMagics)

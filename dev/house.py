"""Count what a visitor of the house has to open: modules, lines, imports, and what commands enter.

``python -m dev.house`` counts this checkout, ``python -m dev.house ../before`` another one.
"""

from __future__ import annotations

import ast
import io
import os
import statistics
import subprocess
import sys
import tempfile
import tokenize
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parents[1]

COMMANDS = {
    "convert": ("convert", "{snapshot}", "-o", "{out}/snap.zip"),
    "render": ("render", "{out}/snap.zip", "-o", "{out}/report.html"),
    "summary --findings": ("summary", "--findings", "{out}/snap.zip"),
}

# Runs one command in a process of its own, and counts the modules and functions of ours that it
# calls. What an import runs at the top of a module, or in the body of a class, does not count.
_ENTERED = """
import sys, threading
root = sys.argv.pop(1)
seen = set()
def note(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_flags & 1 and code.co_filename.startswith(root):
        seen.add((code.co_filename, code.co_qualname if hasattr(code, "co_qualname")
                  else f"{code.co_name}:{code.co_firstlineno}"))
threading.setprofile(note)
sys.setprofile(note)
from snapreport.__main__ import main
try:
    sys.exit(main())
finally:
    sys.setprofile(None)
    print(len({file for file, _ in seen}), len(seen), file=sys.stderr)
"""


class Lines(NamedTuple):
    """What the lines of a module are."""

    code: int
    imports: int
    comments: int
    """Comments, docstrings and blank lines."""


def lines_of(text: str) -> Lines:
    """Count the lines of a module; a line with code and a comment is code."""
    tree = ast.parse(text)
    imports: set[int] = set()
    told: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imports |= _lines(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            told |= _lines(node)  # docstrings, those of constants included
    coded: set[int] = set()
    beside = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in beside:
            coded |= set(range(token.start[0], token.end[0] + 1))
    total = text.count("\n")
    coded = {line for line in coded if line <= total} - told
    return Lines(len(coded - imports), len(imports), total - len(coded | imports))


def _lines(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def entered(checkout: Path, folder: Path, command: tuple[str, ...]) -> tuple[int, int]:
    """Return the modules and the functions of ours that a command enters."""
    snapshot = checkout / "sample_snapshots" / "training_step.pickle"
    words = [word.format(snapshot=snapshot, out=folder) for word in command]
    done = subprocess.run(
        [sys.executable, "-c", _ENTERED, str(checkout / "snapreport"), *words],
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        check=True,
    )
    modules, functions = done.stderr.splitlines()[-1].split()
    return int(modules), int(functions)


def main() -> None:
    """Print the figures of a checkout."""
    checkout = Path(sys.argv[1]).resolve() if sys.argv[1:] else HERE
    package = checkout / "snapreport"
    modules = [path for path in package.rglob("*.py") if path.name != "__init__.py"]
    rooms = [path for path in package.iterdir() if (path / "__init__.py").exists()]
    counted = [lines_of(path.read_text("utf-8")) for path in package.rglob("*.py")]
    own = [lines_of(path.read_text("utf-8")) for path in modules]
    print(f"{'modules':24}{len(modules):>8,}")
    print(f"{'rooms':24}{len(rooms):>8,}")
    print(f"{'lines of code':24}{sum(each.code for each in counted):>8,}")
    print(f"{'lines of imports':24}{sum(each.imports for each in counted):>8,}")
    print(f"{'lines of words':24}{sum(each.comments for each in counted):>8,}")
    print(f"{'code in a median module':24}{statistics.median(each.code for each in own):>8,.0f}")
    with tempfile.TemporaryDirectory() as folder:
        for name, command in COMMANDS.items():
            found = entered(checkout, Path(folder), command)
            print(f"{name:24}{found[0]:>8,} modules, {found[1]:,} functions entered")


if __name__ == "__main__":
    main()

"""The examples in our documents: found, run, and with new outputs written back.

``python -m tests.docs.examples docs/commands.md`` writes what the examples print now into a
document; read the difference before you commit it.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from sample_snapshots.make_samples import as_pickle, training_step
from snapreport.commands import cli
from tests.docs.made_runs import make_runs

ROOT = Path(__file__).resolve().parent.parent.parent
SAMPLES = ROOT / "sample_snapshots"
COPIES = {
    "snap.pickle": "training_step.pickle",
    "two_gpus.pickle": "three_devices.pickle",
    "oom.pickle.gz": "out_of_memory.pickle.gz",
    "ring.pickle": "truncated_ring.pickle",
}
"""What examples call the samples."""
PROGRAM = """\
import sys

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Linear(256, 256).to(device)
for epoch in range(int(sys.argv[2])):
    model(torch.randn(64, 256, device=device)).sum().backward()
    print("epoch", epoch + 1)
"""
"""Their ``train.py``."""

HOSTS = {"huggingface": "transformers", "lightning": "lightning"}
"""The libraries behind the hooks that documents show."""

_QUOTED = re.compile(r"'[^']*'|\"[^\"$`]*\"")
"""What a shell takes as it stands."""

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    """A command, or a piece of Python, and what the document says that it prints."""

    code: str
    output: str | None
    """None where the document does not show it."""
    line: int
    """Of the document, where it begins."""


def find_commands(text: str) -> list[Example]:
    """Find the ``$`` lines of the ``console`` blocks, each with the lines below it."""
    found = []
    for block in _BLOCK.finditer(text):
        if block[1] != "console":
            continue
        first = text.count("\n", 0, block.start(2)) + 1
        lines = block[2].splitlines(keepends=True)
        starts = [k for k, line in enumerate(lines) if line.startswith("$ ")]
        assert starts[:1] == [0], f"line {first}: a console block begins with a command"
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            output = "".join(lines[start + 1 : end])
            found.append(Example(lines[start][2:].rstrip("\n"), output, first + start))
    return found


def find_cells(text: str) -> list[str]:
    """Find what is for a notebook: the ``python`` and the ``ipython`` blocks."""
    return [block[2] for block in _BLOCK.finditer(text) if block[1] in ("python", "ipython")]


def find_python(text: str) -> list[Example]:
    """Find the ``python`` blocks, each with the ``text`` block that follows it at once."""
    blocks = list(_BLOCK.finditer(text))
    found = []
    for k, block in enumerate(blocks):
        if block[1] != "python":
            continue
        after = blocks[k + 1] if k + 1 < len(blocks) else None
        shown = after is not None and after[1] == "text" and after.start() - block.end() <= 2
        line = text.count("\n", 0, block.start(2)) + 1
        found.append(Example(block[2], after[2] if after is not None and shown else None, line))
    return found


def lay_out(folder: Path) -> None:
    """Put the samples into a folder, under the names that the examples use."""
    for name, sample in COPIES.items():
        (folder / name).write_bytes((SAMPLES / sample).read_bytes())
    (folder / "at4.pickle").write_bytes(_smaller_batch())
    (folder / "train.py").write_text(PROGRAM)
    make_runs(folder)


@functools.cache
def _smaller_batch() -> bytes:
    """Return the training step with half its batch."""
    return as_pickle(training_step(batch=4).snapshot())


def records(example: Example) -> bool:
    """Say whether an example records, or looks at what one before it recorded."""
    return bool(
        re.search(
            r"snapreport (record|forecast) |\bls out\b|\bout\.forecast\b"
            r"|snapreport\.(record|forecast|start)\(",
            example.code,
        )
    )


def host_of(example: Example) -> str | None:
    """Return the library that an example hooks into, None where it is none."""
    found = re.search(r"(?m)^(?:from|import) (ray|IPython)\b", example.code)
    hook = re.search(r"from snapreport\.recorders\.hosts\.(\w+) import", example.code)
    return found[1] if found else HOSTS[hook[1]] if hook else None


def run_example(example: Example, folder: Path) -> str:
    """Run a command in the current folder; return its stdout or, where it fails, its stderr.

    One that begins with ``snapreport`` needs no Python of its own, which takes as long as ten
    commands; what stands behind it takes its stdout or its status.
    """
    unquoted = _QUOTED.sub(lambda quoted: "_" * len(quoted[0]), example.code)
    ours, then, _ = re.split(r"( \| |; | \|\| |$)", unquoted, maxsplit=1)
    others = example.code[len(ours + then) :]
    command, *arguments = shlex.split(example.code[: len(ours)])
    if command != "snapreport" or records(example) or re.search(r"[|&;<>$*~]", ours):
        return run_command(example.code, folder)
    done = CliRunner(env={"COLUMNS": "100"}).invoke(cli, arguments)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    if then == " | ":
        return run_command(others, folder, done.stdout)
    if then:
        return done.stdout + run_command(f"(exit {done.exit_code}){then}{others}", folder)
    return done.stderr if done.exit_code else done.stdout


def run_command(code: str, folder: Path, stdin: str | None = None) -> str:
    """Run a line of shell in a folder; return its stdout or, where it fails, its stderr."""
    program = f'snapreport() {{ "{sys.executable}" -m snapreport "$@"; }}\n{code}\n'
    environment = os.environ | {"COLUMNS": "100", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["/bin/bash", "-c", program],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False,
        input=stdin,
    )  # fmt: skip
    return done.stderr if done.returncode else done.stdout


def run_python(code: str, names: dict[str, Any]) -> str:
    """Run a piece of Python with the names that earlier ones left, and return what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "<document>", "exec"), names)
    return printed.getvalue()


def is_like(printed: str, shown: str) -> bool:
    """Say whether an output is as shown, where a line ``...`` stands for any number of lines."""
    parts = [re.escape(part) for part in re.split(r"(?m)^\.\.\.\n", shown)]
    return re.fullmatch(r"(?:.*\n)*?".join(parts), printed) is not None


def _rewrite(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lay_out(folder)
        for example in find_commands(text):
            printed = run_command(example.code, folder)
            if not is_like(printed, example.output or ""):
                old = f"$ {example.code}\n{example.output}"
                text = text.replace(old, f"$ {example.code}\n{printed}", 1)
        names: dict[str, Any] = {}
        os.chdir(folder)
        for example in find_python(text):
            printed = run_python(example.code, names)
            if example.output is not None and not is_like(printed, example.output):
                old = f"{example.code}```\n\n```text\n{example.output}"
                assert old in text, f"line {example.line}"
                text = text.replace(old, f"{example.code}```\n\n```text\n{printed}", 1)
        os.chdir(ROOT)
    document.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        _rewrite(Path(argument).resolve())

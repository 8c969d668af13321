"""Ask an agent of any make: a command that gets the question and a configuration of the server.

The server runs behind ``dev.evals.counted``, which writes down each call and the size of each
reply.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dev.evals.questions import Question
from dev.evals.scripted import Result

_PATIENCE = 600
_HOW = " Use the tools of the server snapreport. End with one line: ANSWER: and the answer alone."


def ask_each(client: str, questions: Sequence[Question], roots: Sequence[Path]) -> list[Result]:
    """Run the command once for each question.

    Args:
        client: with ``{question}`` and ``{config}`` in it, the latter a file in the form that most
            clients share: ``{"mcpServers": {"snapreport": {"command": ..., "args": ...}}}``.
        questions: asked in their order.
        roots: folders of the recordings.
    """
    with tempfile.TemporaryDirectory() as folder:
        return [_ask(client, question, roots, Path(folder)) for question in questions]


def _ask(client: str, question: Question, roots: Sequence[Path], folder: Path) -> Result:
    log, config = folder / "log", folder / "config.json"
    log.write_text("")
    arguments = [part for root in roots for part in ("--root", str(root.resolve()))]
    server = {
        "command": sys.executable,
        "args": [
            *("-m", "dev.evals.counted", str(log)),
            *(sys.executable, "-m", "snapreport", "mcp", *arguments),
        ],
        "env": {"PYTHONPATH": str(Path(__file__).parents[2])},
    }
    config.write_text(json.dumps({"mcpServers": {"snapreport": server}}))
    command = [
        part.format(question=question.asked + _HOW, config=config) for part in shlex.split(client)
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_PATIENCE
        )
        said = done.stdout if done.returncode == 0 else f"status {done.returncode}: {done.stderr}"
    except subprocess.TimeoutExpired:
        said = f"no answer in {_PATIENCE} s"
    tokens = tuple(map(int, log.read_text().split()))
    return Result(question, said, len(tokens), tokens)

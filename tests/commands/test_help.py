"""``--help`` and ``--version``."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from snapreport.commands import cli
from snapreport.version import __version__
from tests.commands.conftest import Run


@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("command", [[], *([name] for name in cli.commands)])
def test_help_is_short_and_has_an_example(run: Run, command: list[str], option: str) -> None:
    result = run(*command, option)
    assert result.exit_code == 0
    assert "Example:\n    snapreport " in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize("name", list(cli.commands))
def test_the_example_works_as_it_stands(
    run: Run, snapshot: Path, bundle: Path, folder: Path, name: str
) -> None:
    (folder / "snap.pickle").write_bytes(snapshot.read_bytes())
    if name != "convert":
        (folder / "snap.zip").write_bytes(bundle.read_bytes())
    if name == "diff":  # which takes two
        (folder / "base.zip").write_bytes(bundle.read_bytes())
        (folder / "new.pickle").write_bytes(snapshot.read_bytes())
    if name == "record":  # a program, which needs PyTorch
        pytest.importorskip("torch")
        (folder / "train.py").write_text("import torch\ntorch.ones(2**20)\n")
    example = (cli.commands[name].help or "").strip().splitlines()[-1]
    program, *arguments = shlex.split(example)
    assert program == "snapreport"
    assert run(*arguments).exit_code == 0


def test_the_version_is_the_package_s(run: Run) -> None:
    assert run("--version").stdout == f"snapreport {__version__}\n"

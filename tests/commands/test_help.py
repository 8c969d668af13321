"""``--help`` and ``--version``."""

from __future__ import annotations

import gzip
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from snapreport.commands import cli
from snapreport.ground import processes
from snapreport.ground.version import __version__
from snapreport.read import parsed
from tests.commands.conftest import Run


@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("command", [[], *([name] for name in cli.commands)])
def test_help_is_short_and_has_an_example(run: Run, command: list[str], option: str) -> None:
    result = run(*command, option)
    assert result.exit_code == 0
    assert "Example:\n    snapreport " in result.stdout
    assert result.stderr == ""


def _ran(*arguments: str) -> tuple[str, set[str]]:
    """Run the command line in a new Python; return what it wrote, and the modules it imported."""
    code = (
        "import sys; from snapreport.__main__ import main\n"
        "try: main()\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout, set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("command", ["convert", "live", "mcp", "render", "summary"])
def test_the_help_of_the_common_commands_needs_no_numpy(command: str) -> None:
    out, imported = _ran(command, "--help")
    assert "Example:" in out
    assert not imported & {"numpy", "multiprocessing"}


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["unknown"]])
def test_the_command_line_starts_without_what_commands_need(arguments: list[str]) -> None:
    """NumPy takes longer to import than all else together, and each command has its modules."""
    out, imported = _ran(*arguments)
    assert not imported & {"numpy", "orjson", "rich", "jinja2", "apsw", "zstandard", "torch"}
    ours = {name for name in imported if name.startswith("snapreport")}
    assert "snapreport.commands" in ours
    assert len(ours) < 20, sorted(ours)
    assert len(imported) < 180, sorted(imported)
    if arguments == ["--help"]:
        listed = re.findall(r"^  ([a-z]+)  ", out.partition("Commands:")[2], re.MULTILINE)
        assert listed == sorted(cli.commands)


@pytest.mark.parametrize("name", list(cli.commands))
def test_the_example_works_as_it_stands(
    run: Run, snapshot: Path, bundle: Path, folder: Path, name: str
) -> None:
    (folder / "snap.pickle").write_bytes(snapshot.read_bytes())
    if name != "convert":
        (folder / "snap.zip").write_bytes(bundle.read_bytes())
    if name == "render":
        (folder / "run").mkdir()
        for rank in (0, 1):
            (folder / "run" / f"rank{rank}.pickle").write_bytes(snapshot.read_bytes())
    if name == "diff":  # which takes two
        (folder / "base.zip").write_bytes(bundle.read_bytes())
        (folder / "new.pickle").write_bytes(snapshot.read_bytes())
    if name == "record":  # a program, which needs PyTorch
        pytest.importorskip("torch")
        (folder / "job.sh").write_text(f"{sys.executable} -c 'import torch; torch.ones(9)'\n")
    if name == "forecast":  # its last line compares with a recording; the documents' examples run
        return
    lines = map(str.strip, (cli.commands[name].help or "").splitlines())
    example = [line for line in lines if line.startswith("snapreport ")][-1]
    _, *arguments = shlex.split(example)
    if name == "explore":  # which needs a terminal; tests/explorer has one
        (folder / "before.zip").write_bytes(bundle.read_bytes())
        (folder / "after.zip").write_bytes(bundle.read_bytes())
        assert "needs a terminal" in run(*arguments).stderr
        return
    if name == "mcp":  # which serves until its client goes; tests/mcp has clients
        assert "runs does not exist" in run(*arguments).stderr
        return
    assert run(*arguments).exit_code == 0
    if name == "record":
        assert (folder / "out" / "1" / "report.html").is_file()


def test_the_version_is_the_package_s(run: Run) -> None:
    assert run("--version").stdout == f"snapreport {__version__}\n"


def test_a_packed_bomb_is_refused_and_an_option_trusts_it(
    run: Run, snapshot: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(processes.MAX_UNPACKED, "100")
    packed = folder / "snap.pickle.gz"
    packed.write_bytes(gzip.compress(snapshot.read_bytes()))
    refused = run("summary", str(packed))
    assert refused.exit_code == 1
    assert "unpacks to more than 100 B" in refused.stderr
    assert run("--max-unpacked", "1GiB", "summary", str(packed)).exit_code == 0
    for source in (packed, snapshot):  # also where nothing is unpacked
        wrong = run("--max-unpacked", "much", "summary", str(source))
        assert wrong.exit_code == 2
        assert "'much' is not a size; write 40GiB" in wrong.stderr


def test_the_check_of_memory_can_be_left_out(
    run: Run, snapshot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parsed, "available_memory", lambda _root: 0)
    monkeypatch.setattr(parsed, "_ALWAYS_TRIED", -1)
    monkeypatch.delenv(processes.NO_MEMORY_CHECK, raising=False)
    assert processes.NO_MEMORY_CHECK in run("summary", str(snapshot)).stderr
    monkeypatch.setenv(processes.NO_MEMORY_CHECK, "")  # so that what the option sets is undone
    assert run("--no-memory-check", "summary", str(snapshot)).exit_code == 0

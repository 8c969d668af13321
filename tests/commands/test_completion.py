"""Completion in a shell, and ``python -m snapreport``, as docs/howto-editors.md has them."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from snapreport.commands import cli
from tests.commands.terminals import read_terminal
from tests.conftest import REPOSITORY

DOCUMENT = REPOSITORY / "docs" / "howto-editors.md"

COMMAND = f"""#!/bin/sh
if [ "$_SNAPREPORT_COMPLETE" ]; then
    PYTHONPATH='{REPOSITORY}' exec '{sys.executable}' -m snapreport "$@"
fi
printf '<%s>' "$@"
"""
"""A ``snapreport`` that completes as ours does, and else says what it was given."""


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """The environment of somebody whose ``snapreport`` is that one."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "snapreport"
    command.write_text(COMMAND)
    command.chmod(0o755)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"HOME": str(tmp_path), "PATH": path, "TERM": "dumb", "PS1": "$ "}


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_the_tab_key_completes_what_the_document_says(
    shell: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "snap.pickle").touch()
    text = DOCUMENT.read_text(encoding="utf-8")
    (lines,) = re.findall(r"```sh\n(_SNAPREPORT_COMPLETE=bash_source .*?)```", text, re.DOTALL)
    subprocess.run(["bash", "-c", lines], env=shell, check=True)
    typed = [
        b"snapreport summ\tsna\t--jso\t\n",
        b"snapreport live --by alloc\t\n",
        b"snapreport record sna\t--epochs sna\t\n",
        b"snapreport plan sna\t\n",
        b"exit\n",
    ]
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        ["bash", "--noprofile", "-i"], cwd=tmp_path, env=shell, start_new_session=True,
        stdin=theirs, stdout=theirs, stderr=theirs,
    ):  # fmt: skip
        os.close(theirs)
        os.write(ours, b"".join(typed))
        written = read_terminal(ours).decode()
    os.close(ours)
    assert re.findall(r"<\S+>", written) == [
        "<summary><snap.pickle><--json>",
        "<live><--by><allocation>",
        "<record><snap.pickle><--epochs><snap.pickle>",
        "<plan><snap.pickle>",
    ]


def completed(*words: str, of: str) -> tuple[list[str], set[str]]:
    """Complete the last word; return what a shell gets, and the modules that were imported."""
    code = (
        "import sys; from snapreport.__main__ import main\n"
        "try: main()\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    asked = {
        "_SNAPREPORT_COMPLETE": f"{of}_complete",
        "COMP_WORDS": " ".join(["snapreport", *words]),
        "COMP_CWORD": str(len(words)) if of == "bash" else words[-1],
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env=os.environ | asked, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return done.stdout.splitlines(), set(done.stderr.splitlines()[-1].split())


def test_completing_a_command_imports_none_and_no_library() -> None:
    for words in ([""], ["live", "--"], ["live", "."]):
        items, imported = completed(*words, of="bash")
        assert not imported & {"numpy", "orjson", "rich", "jinja2", "apsw", "zstandard", "torch"}
        ours = {name for name in imported if name.startswith("snapreport")}
        assert len(ours) < 25, sorted(ours)
        if words == ["live", "."]:
            assert items == ["file,."]
        if words == [""]:
            assert items == [f"plain,{name}" for name in sorted(cli.commands)]
            assert not ours & {f"snapreport.commands.{name}" for name in cli.commands}


def test_a_shell_that_shows_help_gets_what_each_command_does() -> None:
    items, _ = completed("re", of="fish")
    assert [item.partition(":")[0].partition("\t")[0] for item in items] == [
        "plain,record",
        "plain,render",
    ]
    assert "Run a program and report on its memory." in items[0]


def test_the_module_is_the_same_as_the_command() -> None:
    for arguments, status in ((["--help"], 0), (["live"], 2)):
        done = [
            subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
            for command in (
                [sys.executable, "-m", "snapreport"],
                [sys.executable, "-c", "from snapreport.__main__ import main; main()"],
            )
        ]
        assert [each.returncode for each in done] == [status, status]
        assert done[0].stdout == done[1].stdout
        assert done[0].stderr == done[1].stderr
        assert (done[0].stdout + done[0].stderr).startswith("Usage: snapreport ")

"""Every command on a real terminal, of a file whose texts attack: nothing drives it."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

import apsw
import pytest

import snapreport
from snapreport.commands import cli
from tests.commands.terminals import on_terminal
from tests.forked_commands import run
from tests.hostile_text import ATTACKS, NAMES, is_calm, write_snapshot

SNAPREPORT = [sys.executable, "-m", "snapreport"]

# What rich writes to draw a bar and remove it again, and readline around its prompt.
_OURS = re.compile(
    r"\x1b\[(?:2K|1A|\?25[lh]|\?2004[lh]|(?:0|1|2|3[0-7]|9[0-7]|38;5;\d+)(?:;38;5;\d+|;3[0-7])*m)"
)

# Names stand for files: SNAP and ZIP are the same hostile recording, OUT is a name to write to.
COMMANDS: dict[str, list[list[str]]] = {
    "convert": [["ATTACK"], ["SNAP", "-o", "OUT.zip"], ["SNAP", "ZIP", "-o", "FOLDER"]],
    "render": [
        ["ATTACK"],
        ["SNAP", "-o", "OUT.html"],
        ["ZIP", "-o", "OUT.md"],
        ["SNAP", "ZIP", "BROKEN", "-o", "FOLDER", "--jobs", "1"],
        ["SNAP", "-o", "OUT.attack"],
    ],
    "summary": [
        ["ATTACK"],
        ["SNAP"],
        ["SNAP", "--full"],
        ["SNAP", "--findings"],
        ["SNAP", "--findings", "--full"],
        ["SNAP", "--recording"],
        ["SNAP", "--md"],
        ["ZIP", "--json"],
        ["SNAP", "--device", "ATTACK"],
        ["SNAP", "--card", "ATTACK"],
    ],
    "profile": [
        ["SNAP", "--by", "context"],
        ["SNAP", "--json"],
        ["SNAP", "--csv"],
        ["SNAP", "--md"],
    ],
    "stages": [["ATTACK"], ["SNAP"], ["SNAP", "--json"], ["SNAP", "--md"]],
    "whatif": [
        ["SNAP", "--without", "*"],
        ["SNAP", "--without", "*", "--md"],
        ["SNAP", "--without", "no ATTACK"],
        ["SNAP", "--allocator", "ATTACK"],
    ],
    "plan": [
        ["SNAP", "--fit", "1KiB"],
        ["SNAP", "--fit", "1KiB", "--md"],
        ["SNAP", "--fit", "ATTACK"],
        ["--batch-from", "1:ATTACK", "2:SNAP"],
    ],
    "live": [
        ["ATTACK"],
        *(["SNAP", "--by", by] for by in ("stack", "file", "line", "tree", "allocation")),
        ["SNAP", "--json"],
        ["SNAP", "--by", "line", "--json"],
        ["SNAP", "--by", "tree", "--md"],
        ["SNAP", "--stage", "no ATTACK"],
    ],
    "diff": [
        ["SNAP", "ATTACK"],
        ["SNAP", "ZIP"],
        ["SNAP", "ZIP", "--json"],
        ["SNAP", "ZIP", "--md"],
        ["SNAP", "ZIP", "-o", "OUT.html"],
    ],
    "check": [
        ["SNAP", "--max-peak", "1MiB", "--fail-on", "oom,odd-events"],
        ["SNAP", "--max-peak", "1MiB", "--json"],
        ["SNAP", "--max-peak", "1MiB", "--md"],
        ["SNAP", "--max-stage", "no ATTACK=1MiB", "--base", "ZIP"],
        ["SNAP", "--max-peak", "ATTACK"],
    ],
    # What its screens write is tried with the same texts in tests/explorer/test_program.py.
    "explore": [["ATTACK"], ["SNAP", "--theme", "ATTACK"]],
    # What it answers is tried with the same texts in tests/mcp/test_strange_texts.py.
    "mcp": [["--root", "ATTACK"], ["--root", "FOLDER"], ["--root", "SNAP", "--http", "ATTACK"]],
    # It reads no recording, and what it prints is ours; a folder is all that it is told.
    "skill": [["ATTACK"], ["--write", "FOLDER"], ["--write", "SNAP"], ["--write", "ATTACK"]],
    "strings": [["ATTACK"], ["SNAP"], ["ZIP", "--check"], ["SNAP", "--json"]],
    "query": [
        ["ATTACK"],
        ["ZIP", "SELECT * FROM frames"],
        ["ZIP", "SELECT * FROM allocations", "--full"],
        ["ZIP", "SELECT * FROM annotations", "--json"],
        ["ZIP", "SELECT * FROM frames", "--md"],
        ["ZIP", "SELECT callstack FROM stacks", "--csv"],
        ["ZIP", "SELECT 1 AS 'ATTACK'"],
        ["ZIP", "SELECT ATTACK"],
        ["EVIL", "--schema"],
    ],
    "export": [
        ["collapsed", "SNAP", "-o", "OUT.txt"],
        ["speedscope", "SNAP", "-o", "OUT.json"],
        ["ATTACK", "SNAP"],
        ["csv", "ATTACK"],
        ["csv", "SNAP", "-o", "ATTACK"],
    ],
    "record": [["no such ATTACK.py"], ["--ATTACK"]],
    "forecast": [
        ["--card", "ATTACK", "train.py"],
        ["--card", "h100-80", "--assume", "ATTACK", "train.py"],
        ["--card", "h100-80", "no such ATTACK.py"],
        ["--ATTACK"],
    ],
}


@dataclass(frozen=True)
class Files:
    folder: Path
    snap: Path
    bundle: Path
    evil: Path
    broken: Path

    def fill(self, word: str, number: int) -> str:
        attack = "".join(t for t in ATTACKS.values() if len(t) < 500).replace("\0", "")
        attack = attack.encode("utf-8", "replace").decode()
        places = {
            "SNAP": str(self.snap),
            "ZIP": str(self.bundle),
            "EVIL": str(self.evil),
            "BROKEN": str(self.broken),
            "FOLDER": str(self.folder / f"many-\x1b]0;x\x07{number}"),
            "OUT": str(self.folder / f"out-\x1b[2J\u202e{number}"),
            "ATTACK": attack,
        }
        for name, value in places.items():
            word = word.replace(name, value)
        return word


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("hostile")
    snap = write_snapshot(folder / NAMES[1])
    bundle = snapreport.convert(snap, folder / f"{NAMES[1]}.zip")
    broken = folder / "\x1b[2Jbroken\u202e.pickle"
    broken.write_bytes(b"\x80\x04}\x8c\x08\x1b[2J\x1b]0;.")
    return Files(folder, snap, bundle, _other_schema(bundle), broken)


def _other_schema(bundle: Path) -> Path:
    """A bundle with tables, columns and comments whose names drive a terminal."""
    target = bundle.with_name("evil.zip")
    with zipfile.ZipFile(bundle) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "elements.db":
                connection = apsw.Connection(":memory:")
                connection.deserialize("main", data)
                connection.execute('CREATE TABLE "\x1b[2J\u202e\x9b" ("\x1b]0;x\x07" /* \x1bc */)')
                data = connection.serialize("main")
            new.writestr(name, data)
    return target


def environment(folder: Path) -> dict[str, str]:
    more = {"TERM": "xterm-256color", "COLUMNS": "100", "XDG_STATE_HOME": str(folder / "state")}
    return {**os.environ, **more, "OPENBLAS_NUM_THREADS": "1"}


def in_a_shell(command: list[str], folder: Path, typed: str) -> tuple[int, str]:
    """Type lines into a command on a terminal; return its exit status and all that it wrote."""
    primary, secondary = pty.openpty()
    with subprocess.Popen(
        command,
        stdin=secondary,
        stdout=secondary,
        stderr=secondary,
        cwd=folder,
        env=environment(folder),
        start_new_session=True,
    ) as process:
        os.close(secondary)
        written = b""
        waiting = typed.encode().splitlines(keepends=True)
        end = time.monotonic() + 120
        while time.monotonic() < end:
            if waiting and written.endswith((b"sql> ", b"...> ")):
                os.write(primary, waiting.pop(0))
            if not select.select([primary], [], [], 0.2)[0]:
                continue
            try:
                more = os.read(primary, 65536)
            except OSError:  # Linux's way to say that the other end was closed
                break
            if not more:
                break
            written += more
        status = process.wait(timeout=60)
    os.close(primary)
    return status, written.decode()


def check_terminal(text: str) -> None:
    """Fail if anything but rich's own bars and readline's own prompt drives the terminal."""
    text = _OURS.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    wrong = {character for character in set(text) if not is_calm(character)}
    odd = next((k for k, character in enumerate(text) if character in wrong), None)
    assert odd is None, repr(text[max(odd - 60, 0) : odd + 60])


def test_every_command_is_tried() -> None:
    assert set(COMMANDS) == set(cli.commands)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_writes_nothing_that_drives_the_terminal(files: Files, command: str) -> None:
    runs = [
        [command, *(files.fill(word, number) for word in words)]
        for number, words in enumerate(COMMANDS[command])
    ]
    for status, written in on_terminal(runs, files.folder, environment(files.folder)):
        assert "Traceback" not in written
        assert status in (0, 1, 2, 3)
        assert written.strip()
        check_terminal(written)


def test_the_shell_writes_nothing_that_drives_the_terminal(files: Files) -> None:
    typed = (
        '.tables\n.schema\n.schema no\nSELECT name FROM frames;\nSELECT "x";\nSELECT 1\n;\n.quit\n'
    )
    status, text = in_a_shell([*SNAPREPORT, "query", str(files.evil), "-q"], files.folder, typed)
    assert status == 0
    assert "\\x1b[2J" in text
    assert "annotations" in text
    check_terminal(text)


def test_names_of_results_are_bytes_in_a_pipe(files: Files) -> None:
    target = files.folder / "\x1b[2J\u202e.md"
    done = run(
        ["render", "-q", str(files.bundle), "-o", str(target)], stdout=subprocess.PIPE, text=False
    )
    assert done.returncode == 0
    assert done.stdout == os.fsencode(target) + b"\n"

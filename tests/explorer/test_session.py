"""A whole session of the installed command in a real terminal, which tmux is."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.forked_commands import start

COMMAND = [str(Path(sys.executable).with_name("snapreport"))]
_PATIENCE = 60.0


class Terminal:
    """A terminal of 80 by 24 that runs one command line."""

    def __init__(self, folder: Path) -> None:
        self.name = f"snapreport-{uuid.uuid4().hex[:8]}"
        self.folder = folder

    def tmux(self, *words: str) -> str:
        found = subprocess.run(
            ["tmux", "-L", self.name, "-f", os.devnull, *words],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return found.stdout

    def start(self, line: str, **environ: str) -> None:
        given = {"XDG_CACHE_HOME": str(self.folder), "LC_ALL": "C.UTF-8", **environ}
        words = shlex.join(["env", *(f"{key}={value}" for key, value in given.items())])
        shell = f"{words} {line}; echo left with $?; exec cat"
        self.tmux("new-session", "-d", "-x", "80", "-y", "24", "sh", "-c", shell)

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p")

    def until(self, *texts: str) -> str:
        """Wait until the screen says all of this."""
        begun = time.monotonic()
        while True:
            screen = self.screen()
            if all(text in screen for text in texts):
                return screen
            assert time.monotonic() - begun < _PATIENCE, f"no {texts} in:\n{screen}"
            time.sleep(0.05)

    def keys(self, *names: str) -> None:
        self.tmux("send-keys", *names)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    if shutil.which("tmux") is None:
        pytest.skip("there is no tmux")
    made = Terminal(tmp_path)
    yield made
    subprocess.run(["tmux", "-L", made.name, "kill-server"], capture_output=True, check=False)


def test_a_session_from_opening_to_leaving(terminal: Terminal, samples: Path) -> None:
    file = shlex.quote(str(samples / "training_step.pickle"))
    terminal.start(f"{shlex.join(COMMAND)} explore {file}")
    terminal.until("1 Peak", "At the peak", "Findings:")
    terminal.keys("2")
    terminal.until("▼", "a column")
    terminal.keys("Home", "p", "Enter")
    terminal.until("all that is live", "At the peak")
    terminal.keys("/")
    terminal.keys("-l", "forward")
    terminal.until("/forward")
    terminal.keys("Enter")
    terminal.until("match 1 of")
    terminal.keys("n", "f")
    terminal.until("focus: ")
    terminal.keys("q", "q", "q", "q")
    screen = terminal.until("left with 0")
    assert "Overview" not in screen, "the terminal is as it was"


def test_two_files_and_no_colours(terminal: Terminal, samples: Path) -> None:
    files = shlex.join([str(samples / "training_step.pickle"), str(samples / "two_streams.pickle")])
    terminal.start(f"{shlex.join(COMMAND)} explore {files}", NO_COLOR="1", TERM="screen")
    terminal.until("◀", "At the peak")
    terminal.keys("s")
    terminal.until("▲")
    terminal.keys("}")
    terminal.until("▼")
    colours = terminal.tmux("capture-pane", "-e", "-p")
    assert "\x1b[3" not in colours.replace("\x1b[39m", "")
    terminal.keys("C-c")
    terminal.until("left with 0")


def test_what_cannot_be_opened_is_one_line_on_a_terminal_as_it_was(
    terminal: Terminal, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.pickle"
    wrong.write_bytes(b"nothing of the kind")
    terminal.start(f"{shlex.join(COMMAND)} explore {shlex.quote(str(wrong))}")
    screen = terminal.until("left with 1")
    assert "Error: " in screen
    assert "Traceback" not in screen


def test_without_a_terminal_it_is_one_line(samples: Path) -> None:
    found = subprocess.run(
        [*COMMAND, "explore", str(samples / "two_streams.pickle")],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 1
    assert found.stdout == ""
    assert found.stderr.count("\n") == 1
    assert "needs a terminal" in found.stderr


def test_without_textual_it_is_one_line(samples: Path, tmp_path: Path) -> None:
    """As with a plain ``pip install snapreport``."""
    blocker = (
        "import importlib.util as u, sys; real = u.find_spec;"
        "u.find_spec = lambda n, *a: None if n == 'textual' else real(n, *a);"
        f"sys.argv = ['snapreport', 'explore', {str(samples / 'two_streams.pickle')!r}];"
        "from snapreport.__main__ import main; main()"
    )
    found = subprocess.run(
        [sys.executable, "-c", blocker],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 1
    assert found.stderr == ("Error: The explorer needs Textual: pip install textual platformdirs\n")


@pytest.mark.skipif(os.name != "posix", reason="has no such terminals")
@pytest.mark.parametrize("how", ["key", "signal"])
def test_the_terminal_is_left_as_it_was(how: str, samples: Path, tmp_path: Path) -> None:
    import pty
    import termios

    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    environ = os.environ | {"TERM": "xterm-256color", "XDG_CACHE_HOME": str(tmp_path)}
    program = start(
        ["explore", str(samples / "two_streams.pickle"), "--no-cache"],
        stdin=theirs, stdout=theirs, stderr=theirs, env=environ, start_new_session=True,
    )  # fmt: skip
    written = bytearray()
    reader = threading.Thread(target=_drain, args=(ours, written), daemon=True)
    reader.start()
    begun = time.monotonic()
    while b"Findings" not in written:
        assert time.monotonic() - begun < _PATIENCE, bytes(written)[-500:]
        time.sleep(0.05)
    if how == "key":
        os.write(ours, b"\x03")
    else:
        program.send_signal(signal.SIGTERM)
    assert program.wait(_PATIENCE) == (0 if how == "key" else 143)
    assert termios.tcgetattr(theirs) == before
    os.close(theirs)
    reader.join(_PATIENCE)
    os.close(ours)
    for on in re.findall(rb"\x1b\[\?(1049|1000|1003|1006|2004)h", written):
        assert written.rfind(b"\x1b[?%bl" % on) > written.rfind(b"\x1b[?%bh" % on), on
    assert written.rfind(b"\x1b[?25h") > written.rfind(b"\x1b[?25l"), "the cursor is seen again"
    assert list(tmp_path.iterdir()) == []


def _drain(file: int, into: bytearray) -> None:
    with suppress(OSError):  # the other end is closed
        while piece := os.read(file, 65536):
            into += piece

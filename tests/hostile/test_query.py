"""A query of a stranger's bundle, or of one's own, ends when it should, whatever SQLite does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import snapreport
from snapreport.commands import cli
from tests import forked_commands
from tests.conftest import REPOSITORY
from tests.hostile.databases import changed
from tests.hostile.zips import members_of

SNAPREPORT = [sys.executable, "-m", "snapreport"]

STEP = (  # one call of a function after another in one row: no step of the machine in between
    "SELECT " + " + ".join(["instr(x, y)"] * 99) + " AS place FROM (SELECT"
    " printf('%.*c', 1000000, 'a') AS x, printf('%.*c', 500000, 'a') || 'b' AS y)"
)

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    return snapreport.convert(
        REPOSITORY / "sample_snapshots" / "two_streams.pickle", folder / "snap.zip"
    )


def with_sql(bundle: Path, name: str, *statements: str) -> Path:
    """Write a bundle whose ``elements.db`` was changed."""
    members = members_of(bundle.read_bytes())
    members["elements.db"] = changed(members["elements.db"], *statements)
    path = bundle.with_name(f"{name}.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return path


def started(*arguments: str | Path, anew: bool = False) -> subprocess.Popen[str]:
    """Start a command in a fork of this Python, or in a Python of its own."""
    words = [*map(str, arguments)]
    pipes: dict[str, Any] = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    if anew:
        return subprocess.Popen([*SNAPREPORT, *words], text=True, start_new_session=True, **pipes)
    return forked_commands.start(words, start_new_session=True, **pipes)


def children(process: int) -> list[int]:
    """Return the ids of a process's children; Linux alone says which."""
    found = Path(f"/proc/{process}/task/{process}/children")
    return [int(each) for each in found.read_text().split()] if found.exists() else []


def seconds_of(process: int) -> float:
    """Return what a process took of the processor; one that asks begins within milliseconds."""
    told = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(told[11]) / os.sysconf("SC_CLK_TCK")


def ends(process: int) -> bool:
    """Say whether a process ends before long."""
    until = time.monotonic() + 60
    while is_alive(process) and time.monotonic() < until:
        time.sleep(0.05)
    return not is_alive(process)


def is_alive(process: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return False


@pytest.fixture
def busy(bundle: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A query inside of one long step, and the process that does it."""
    process = started("query", bundle, STEP, "--timeout", "0")
    until = time.monotonic() + 60
    while not children(process.pid) and time.monotonic() < until:
        time.sleep(0.05)
    (child,) = children(process.pid)
    while seconds_of(child) < 0.3 and time.monotonic() < until:
        time.sleep(0.02)
    yield process, child
    process.kill()
    process.communicate()


needs_proc = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="Linux says it alone")


@needs_proc
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_ends_a_query_in_the_middle_of_a_step(
    busy: tuple[subprocess.Popen[str], int], number: int, status: int
) -> None:
    process, child = busy
    os.killpg(process.pid, signal.SIGINT) if number == signal.SIGINT else process.send_signal(
        number
    )
    out, err = process.communicate(timeout=60)
    assert process.returncode == status
    assert out == ""
    how = "Interrupted" if number == signal.SIGINT else "Ended by SIGHUP"
    assert err == f"{how}; no unfinished file is left behind.\n"
    assert ends(child)


@needs_proc
def test_a_query_ends_with_the_command_that_was_killed(
    busy: tuple[subprocess.Popen[str], int],
) -> None:
    process, child = busy
    process.kill()
    process.communicate()
    assert ends(child)


ASKS = """
import sys
import snapreport

snapshot = snapreport.load(sys.argv[1])
assert snapshot.query("SELECT 1 AS one") == [{"one": 1}]
print("asking", flush=True)
try:
    snapshot.query(sys.argv[2])
except KeyboardInterrupt:
    print(snapshot.query("SELECT 7 AS seven"))
"""


@pytest.mark.parametrize("sql", [STEP, ENDLESS], ids=["one long step", "many rows"])
def test_ctrl_c_ends_a_query_of_a_program_which_goes_on(bundle: Path, sql: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ASKS, str(bundle), sql],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "asking\n"
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()  # else a query that goes on takes all memory there is
    assert (process.returncode, out, err) == (0, "[{'seven': 7}]\n", "")


def test_the_time_is_up_in_the_middle_of_a_step(bundle: Path) -> None:
    process = started("query", bundle, STEP, "--timeout", "0.2", anew=True)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert out == ""
    assert err == "Error: The query took more than 0.2 seconds; ask for less, or allow more.\n"


def test_a_closed_pipe_ends_a_query_quietly(bundle: Path) -> None:
    process = started("query", bundle, ENDLESS, "--csv", "--timeout", "0")
    assert process.stdout is not None
    assert process.stderr is not None
    assert [process.stdout.readline() for _ in range(3)] == ["i\n", "1\n", "2\n"]
    process.stdout.close()
    assert process.wait(timeout=60) == 1
    assert process.stderr.read() == ""
    process.stderr.close()


def test_the_next_statement_is_answered_when_rows_of_the_last_are_left(bundle: Path) -> None:
    process = started("query", bundle, f"{ENDLESS}; SELECT 7 AS seven")
    out, err = process.communicate(timeout=60)
    assert err == ""
    assert "There are more than these 100 rows" in out
    assert out.endswith("7\n")


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT length(printf('%.*c', 60000000, 'x'))", "a value of more than 1.00 MiB"),
        ("SELECT hex(x) FROM (SELECT printf('%.*c', 600000, 'x') AS x)", "a value of more than"),
        ("SELECT text FROM strings", "a value of more than 1.00 MiB"),
        ("SELECT * FROM mine", "would read mine"),
        ("SELECT count(*) FROM Mine", "would read mine"),
        ("SELECT 1 FROM mine", "would read mine"),
        ("SELECT * FROM allocs", "would read allocs"),
        ("SELECT CAST(x'ff' AS TEXT)", "not UTF-8"),
        ("SELECT name FROM other", "not UTF-8"),
    ],
)  # fmt: skip
def test_what_is_too_long_strange_or_no_text_is_one_line(bundle: Path, sql: str, said: str) -> None:
    path = with_sql(
        bundle,
        "strange",
        "INSERT INTO strings SELECT max(id) + 1, printf('%.*c', 3000000, 'a') FROM strings",
        "CREATE VIEW mine AS SELECT instr(s.text, t.text || 'b') FROM strings s, strings t",
        "DROP VIEW allocs",
        "CREATE VIEW allocs AS SELECT id AS idx FROM allocation_rows",
        "CREATE TABLE other (name)",
        "INSERT INTO other VALUES (CAST(x'e9' AS TEXT))",
    )
    done = CliRunner().invoke(cli, ["query", str(path), sql, "--timeout", "60"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["query", "SELECT * FROM frames"],
        ["query", "--schema"],
        ["strings"],
        ["strings", "--check"],
        ["render"],
        ["summary"],
        ["export", "json"],
        ["diff"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("damage", ["no UTF-8", "many tables", "control characters"])
def test_every_command_ends_in_one_line_or_without_a_word(
    bundle: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    damage: str,
    arguments: list[str],
) -> None:
    statements = {
        "no UTF-8": ["UPDATE frames SET name = CAST(x'ff' AS TEXT)"],
        "many tables": [f"CREATE TABLE t{k} (a, b, c)" for k in range(1_000)],
        "control characters": [
            "CREATE TABLE bent (a)",
            (
                "UPDATE sqlite_schema SET sql = 'CREATE TABLE \x1b[31m' || printf('%.*c', 999, 'x')"
                " || char(10) || '(' WHERE name = 'bent'"
            ),
        ],
    }[damage]
    path = bundle.with_name(f"{damage}.zip")
    if not path.exists():
        with_sql(bundle, damage, *statements)
    command, *rest = arguments
    words = [command, *rest, path] if command == "export" else [command, path, *rest]
    words += [path] if command == "diff" else []
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, list(map(str, words)))
    assert done.exit_code in (0, 1, 3), done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert b"\x1b" not in done.stdout_bytes + done.stderr_bytes
    if done.exit_code == 1:
        assert done.stderr_bytes.count(b"\n") == 1
        assert len(done.stderr_bytes) < 600

"""``snapreport query``: its forms, its shell, and its errors."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import active_count

import orjson
import pytest
from click.testing import CliRunner

import snapreport
from snapreport.commands import cli
from snapreport.commands.console import progress_bar
from snapreport.commands.query import MORE, PROMPT, Shell
from snapreport.ground.progress import Progress
from tests.commands.conftest import MIB, Run
from tests.commands.test_errors import assert_one_line_error

SQL = "SELECT id, size, NULL AS absent, callstack FROM allocations JOIN stacks USING (id) LIMIT 1"


def test_a_table_is_aligned_and_a_stack_is_one_line(run: Run, bundle: Path) -> None:
    lines = run("query", bundle, SQL).stdout.splitlines()
    assert lines[0].split() == ["id", "size", "absent", "callstack"]
    assert lines[1].split() == ["0", str(MIB), "model.py:7:forward", "<", "train.py:1:<module>"]
    assert lines[1].index(str(MIB)) + len(str(MIB)) == lines[0].index("size") + 4


def test_json_has_an_object_for_each_row(run: Run, bundle: Path) -> None:
    found = orjson.loads(run("query", bundle, SQL, "--json").stdout)
    (row,) = found["rows"]
    assert found["columns"] == list(row)
    assert list(row) == ["id", "size", "absent", "callstack"]
    assert (row["size"], row["absent"]) == (MIB, None)
    assert orjson.loads(run("query", bundle, "SELECT 1 WHERE 0", "--json").stdout)["rows"] == []


def test_csv_has_a_heading_and_quotes_lines(run: Run, bundle: Path) -> None:
    rows = list(csv.reader(io.StringIO(run("query", bundle, SQL, "--csv").stdout)))
    assert rows[0] == ["id", "size", "absent", "callstack"]
    assert rows[1] == ["0", str(MIB), "", "model.py:7:forward\ntrain.py:1:<module>"]


def test_a_snapshot_answers_as_its_bundle_does(run: Run, bundle: Path, snapshot: Path) -> None:
    sql = "SELECT * FROM allocations"
    assert run("query", snapshot, sql, "--csv").stdout == run("query", bundle, sql, "--csv").stdout


def test_python_gives_a_dict_for_each_row(bundle: Path) -> None:
    loaded = snapreport.load(bundle)
    assert loaded.query("SELECT count(*) AS n, max(size) AS most FROM allocations") == [
        {"n": 2, "most": MIB}
    ]
    assert loaded.query("-- nothing") == []
    with pytest.raises(snapreport.QueryError, match="one statement"):
        loaded.query("SELECT 1; SELECT 2")


NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {}) SELECT i FROM n"


def test_text_stops_at_a_hundred_rows_and_full_does_not(run: Run, bundle: Path) -> None:
    short = run("query", bundle, NUMBERS.format(5000)).stdout.splitlines()
    assert len(short) == 102
    assert short[-1] == "There are more than these 100 rows; --full shows all."
    full = run("query", bundle, NUMBERS.format(5000), "--full").stdout.splitlines()
    assert full == ["i".rjust(4), *(str(i).rjust(4) for i in range(1, 5001))]
    assert len(run("query", bundle, NUMBERS.format(100)).stdout.splitlines()) == 101


def test_a_strangers_text_cannot_drive_the_terminal(run: Run, bundle: Path) -> None:
    for extra in ([], ["--full"]):
        out = run("query", bundle, "SELECT char(27) || '[2J' || char(8238) AS x", *extra).stdout
        assert "\x1b" not in out
        assert "\u202e" not in out


def test_the_schema_is_sql_with_comments(run: Run, bundle: Path) -> None:
    out = run("query", bundle, "--schema").stdout
    assert "CREATE TABLE allocation_rows" in out
    assert "CREATE VIEW allocations" in out
    assert "-- requested bytes" in out


@pytest.mark.parametrize("form", [[], ["--json"], ["--csv"]])
def test_sql_comes_from_a_pipe_too(folder: Path, bundle: Path, form: list[str]) -> None:
    result = CliRunner().invoke(cli, ["query", str(bundle), *form], input="SELECT 6 * 7 AS x;\n")
    assert result.exit_code == 0
    assert "42" in result.stdout


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("DELETE FROM allocations", "can only read"),
        ("ATTACH 'x' AS y", "can only read"),
        ("SELEC 1", "syntax error"),
    ],
)
@pytest.mark.parametrize("form", [[], ["--json"], ["--csv"]])
def test_wrong_sql_is_one_line(
    run: Run, bundle: Path, folder: Path, sql: str, word: str, form: list[str]
) -> None:
    before = bundle.read_bytes()
    assert_one_line_error(run("query", bundle, sql, *form), word)
    assert bundle.read_bytes() == before
    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    "kind", ["missing", "folder", "text", "truncated-zip", "other-zip", "newer-bundle"]
)
def test_what_is_no_bundle_is_one_line_that_names_it(
    run: Run, broken: Callable[[str], Path], kind: str
) -> None:
    path = broken(kind)
    assert_one_line_error(run("query", path, "SELECT 1"), str(path))


def test_json_takes_one_statement(run: Run, bundle: Path) -> None:
    result = run("query", bundle, "SELECT 1; SELECT 2", "--json")
    assert result.exit_code == 1
    assert result.stderr == "Error: --json takes one statement, and there are several.\n"


class Typed:
    """Lines as if typed, and the prompts they answered; an exception is raised in its place."""

    def __init__(self, *lines: str | BaseException) -> None:
        self._lines: Iterator[str | BaseException] = iter(lines)
        self.prompts: list[str] = []

    def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        line = next(self._lines, EOFError())
        if isinstance(line, BaseException):
            raise line
        return line


def shell(*lines: str | BaseException) -> tuple[list[str], list[str]]:
    """Type lines into a shell; returns the statements that it ran, and its prompts."""
    ran: list[str] = []
    typed = Typed(*lines)
    Shell(ran.append, lambda name: f"schema of {name}", ("meta",)).run(typed)
    return ran, typed.prompts


def test_a_statement_may_take_lines_until_its_semicolon() -> None:
    ran, prompts = shell("SELECT 1,", "';'", "FROM meta;", "SELECT 2;")
    assert ran == ["SELECT 1,\n';'\nFROM meta;", "SELECT 2;"]
    assert prompts == [PROMPT, MORE, MORE, PROMPT, PROMPT]


def test_ctrl_c_drops_what_was_typed_and_quit_leaves() -> None:
    ran, prompts = shell("SELECT '", KeyboardInterrupt(), "SELECT 3;", ".quit", "SELECT 4;")
    assert ran == ["SELECT 3;"]
    assert prompts == [PROMPT, MORE, PROMPT, PROMPT]


def test_dot_commands_answer(capsys: pytest.CaptureFixture[str]) -> None:
    shell(".tables", ".schema meta", ".schema", ".other")
    out = capsys.readouterr().out
    assert out.startswith("meta\nschema of meta\nschema of None\n.tables ")


def test_an_error_does_not_end_the_shell(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(_text: str) -> None:
        raise snapreport.QueryError("no such thing")

    Shell(fail, str, ()).run(Typed("SELECT 1;", "SELECT 2;"))
    assert capsys.readouterr().err == "Error: no such thing\n" * 2


def test_no_thread_of_the_progress_bar_is_left_where_the_process_starts(
    run: Run, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = active_count()
    beside: list[int] = []
    start = BaseProcess.start

    def noted(process: BaseProcess) -> None:
        beside.append(active_count() - before)
        start(process)

    @contextmanager
    def on_a_terminal(quiet: bool) -> Iterator[Progress]:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        with progress_bar(quiet) as progress:
            assert active_count() > before
            yield progress

    monkeypatch.setattr("snapreport.commands.query.progress_bar", on_a_terminal)
    monkeypatch.setattr(BaseProcess, "start", noted)
    assert "42" in run("query", bundle, "SELECT 6 * 7").stdout
    assert beside == [0]


@pytest.mark.skipif(sys.platform == "win32", reason="a pseudoterminal is a Unix thing")
def test_the_shell_opens_on_a_terminal(bundle: Path, tmp_path: Path) -> None:
    import pty

    child, terminal = pty.fork()
    if child == 0:
        os.environ["XDG_STATE_HOME"] = str(tmp_path / "state")
        command = [sys.executable, "-m", "snapreport", "query", str(bundle), "--quiet"]
        os.execv(sys.executable, command)
    os.write(terminal, b"SELECT 6 *\n7;\n.quit\n")
    seen = b""
    try:
        while part := os.read(terminal, 4096):
            seen += part
    except OSError:  # how Linux says that the other end has gone
        pass
    assert os.waitpid(child, 0)[1] == 0
    os.close(terminal)
    assert b"42" in seen
    assert (
        tmp_path / "state" / "snapreport" / "query_history"
    ).read_text() == "SELECT 6 *\n7;\n.quit\n"

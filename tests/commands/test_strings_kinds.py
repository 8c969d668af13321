"""``snapreport strings`` on every kind of file that we write, and what it cannot read."""

from __future__ import annotations

import gzip
import re
import zlib
from pathlib import Path

import orjson
import pytest

from snapreport.ground.errors import InputError
from snapreport.names.strings import PPROF, Tally, message_strings
from snapreport.reporters.exports import EXPORTS
from tests.commands.conftest import Run
from tests.commands.test_errors import assert_one_line_error
from tests.commands.test_strings import HOME, homely
from tests.hostile import databases, zips

__all__ = ["homely"]  # the fixture

LEAK = "home directory: /home/bertha"


def made_all(run: Run, source: Path, *names: str) -> list[Path]:
    """Write whatever our commands write of a file, into the current folder."""
    for kind in EXPORTS:
        assert run("export", kind, source, "-o", f"out{EXPORTS[kind]}", *names).exit_code == 0
    if source.suffix != ".zip":
        assert run("convert", source, "-o", "out.zip", *names).exit_code == 0
    reports: list[tuple[str | Path, ...]] = [
        ("render", source, "-o", "report.html"),
        ("render", source, "-o", "report.md"),
        ("diff", source, source, "-o", "diff.html"),
        ("diff", source, source, "-o", "diff.md"),
    ]
    for command in reports:
        assert run(*command, *names).exit_code == 0, command
    printed: dict[str, tuple[str | Path, ...]] = {
        "summary.txt": ("summary", source),
        "summary.json": ("summary", source, "--json"),
        "live.json": ("live", source, "--json"),
        "profile.csv": ("profile", source, "--csv"),
        "profile.json": ("profile", source, "--json"),
        "query.csv": ("query", source, "SELECT * FROM frames", "--csv"),
    }
    for name, command in printed.items():
        Path(name).write_text(run(*command, *names).stdout, encoding="utf-8")
    Path("report.html.gz").write_bytes(gzip.compress(Path("report.html").read_bytes()))
    return sorted(Path().iterdir())


# These have no file names in them: figures alone, or names of call sites that lie elsewhere.
SILENT = {
    "diff.html", "diff.md", "live.json", "profile.csv", "profile.json", "report.md",
    "summary.json", "summary.txt",
}  # fmt: skip


def test_every_kind_that_we_write_is_read(run: Run, homely: Path, folder: Path) -> None:
    for path in made_all(run, homely, "--keep-paths"):
        listed = run("strings", path, "--json")
        assert listed.exit_code == 0, (path, listed.stderr)
        kinds = {row["kind"] for row in orjson.loads(listed.stdout)["strings"]}
        assert not [kind for kind in kinds if "unknown" in kind], path
        checked = run("strings", "--check", path)
        if path.name not in SILENT:
            assert (checked.exit_code, LEAK in checked.stdout) == (3, True), path


def test_every_kind_is_clean_by_default(run: Run, homely: Path, folder: Path) -> None:
    bundle = homely.with_suffix(".zip")
    assert run("convert", homely, "-o", bundle).exit_code == 0
    for path in made_all(run, bundle):
        result = run("strings", "--check", path)
        assert (result.exit_code, result.stdout) == (0, ""), path


def test_the_report_of_a_run_is_read(run: Run, homely: Path, folder: Path) -> None:
    other = homely.with_name("carla@example.org.pickle")
    other.write_bytes(homely.read_bytes())
    for kind in ("html", "md"):
        many = ("render", homely, other, "-o", "out", "--format", kind, "--jobs", "1", "-q")
        assert run(*many).exit_code == 0
        result = run("strings", "--check", f"out/run.{kind}")
        assert result.exit_code == 3
        assert "e-mail address: carla@example.org" in result.stdout


def test_what_was_put_into_a_picture_is_listed(run: Run, folder: Path) -> None:
    Path("saved.svg").write_text(
        '<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY x "/home/carla">]>'
        '<svg xmlns="http://www.w3.org/2000/svg" class="carla@example.org"><text>warm okapi</text>'
        "<![CDATA[/home/dora/x]]><script>/home/erna/x",
        encoding="utf-8",
    )
    result = run("strings", "--check", "saved.svg")
    assert result.exit_code == 3
    for found in ("/home/carla", "/home/dora", "/home/erna", "carla@example.org"):
        assert found in result.stdout
    assert re.search(
        r"^page text +1 +warm okapi$", run("strings", "saved.svg").stdout, re.MULTILINE
    )


def test_cells_and_unknown_fields_are_listed(run: Run, homely: Path, folder: Path) -> None:
    Path("a.csv").write_text(f'size,note\n1,"two\nlines"\n2,{HOME},more\n', encoding="utf-8")
    rows = {
        (row["kind"], row["text"])
        for row in orjson.loads(run("strings", "a.csv", "--json").stdout)["strings"]
    }
    assert rows == {
        ("column", "size"), ("column", "note"), ("note", "two\nlines"), ("note", HOME),
        ("cell", "more"),
    }  # fmt: skip
    assert run("export", "pprof", homely, "-o", "a.pb.gz").exit_code == 0
    data = gzip.decompress(Path("a.pb.gz").read_bytes())
    Path("b.pb").write_bytes(data + b"\xfa\x01\x0b/home/carla")  # field 31
    result = run("strings", "--check", "b.pb")
    assert "home directory: /home/carla" in result.stdout
    assert "in unknown field 31" in result.stdout


def test_every_cut_of_a_message_is_an_expected_error(run: Run, homely: Path, folder: Path) -> None:
    assert run("export", "pprof", homely, "-o", "a.pb.gz").exit_code == 0
    data = gzip.decompress(Path("a.pb.gz").read_bytes())
    failed = 0
    for length in range(1, len(data)):
        try:
            message_strings(data[:length], PPROF, Tally())
        except InputError:
            failed += 1
    assert failed > len(data) / 2  # not so where a field ends


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.png", b"\x89PNG\r\n\x1a\n", "bitmap image"),
        ("x.bin", b"\x7fELF\x02\x01\x01", "not a kind of file that it reads"),
        ("x.pb", b"\x0a\xff", "cut off"),
        ("x.pb", b"\x0f", "damaged"),
        ("x.pb", b"\x0a" + b"\xff" * 12, "damaged"),
        ("x.perfetto-trace", b"", "empty"),
        ("x.pb.gz", b"\x1f\x8b\x08 no", "damaged gzip"),
        ("x.html.gz", gzip.compress(b"<p>x", mtime=0)[:-9], "cut off"),
        ("x.html.gz", gzip.compress(b"<p>x", mtime=0) * 2, "several files"),
        ("x.parquet", b"PAR1 no", "damaged Parquet"),
        ("elements.db", b"SQLite format 3\0" + b"\xff" * 200, "elements.db"),
        ("x.json", b'{"a": ', "damaged JSON"),
        ("x", b"", "empty"),
    ],
)
def test_what_cannot_be_read_is_one_line(
    run: Run, folder: Path, name: str, content: bytes, words: str
) -> None:
    Path(name).write_bytes(content)
    assert_one_line_error(run("strings", name), name, words)


@pytest.mark.parametrize("kind", ["at its begin", "in a page", "by a table that is gone"])
@pytest.mark.parametrize("name", ["out.zip", "loose.db"])
def test_a_damaged_database_names_its_file_once(
    run: Run, homely: Path, folder: Path, name: str, kind: str
) -> None:
    assert run("convert", homely, "-o", "whole.zip").exit_code == 0
    members = zips.members_of(Path("whole.zip").read_bytes())
    data = members["elements.db"]
    if kind == "at its begin":  # where it is opened
        data = data[:16] + b"\xff" * (len(data) - 16)
    elif kind == "in a page":  # where it is asked
        at = databases.root_page(data, "stacks") - 1
        page = len(data) // int.from_bytes(data[28:32], "big")
        data = data[: at * page] + b"\xff" * page + data[(at + 1) * page :]
    else:
        data = databases.changed(data, "DROP TABLE stacks")
    bundle = zips.zipped(members | {"elements.db": data})
    Path(name).write_bytes(bundle if name == "out.zip" else data)
    result = run("strings", name)
    assert_one_line_error(result)
    assert result.stderr.startswith(
        (
            f"Error: {name} has a damaged elements.db (",
            f"Error: {name} has an inconsistent elements.db (",
        )
    )
    assert result.stderr.count(name) == 1


@pytest.mark.parametrize("name", ["missing.html", "missing.csv", "missing", "a-folder.html", "d"])
def test_what_is_no_file_is_one_line(run: Run, folder: Path, name: str) -> None:
    if "missing" not in name:
        Path(name).mkdir()
    assert_one_line_error(run("strings", name), name)


def test_a_small_file_that_unpacks_to_a_large_one_is_refused(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SNAPREPORT_MAX_UNPACKED", "1MiB")
    packer = zlib.compressobj(9, wbits=31)
    Path("x.html.gz").write_bytes(packer.compress(bytes(1 << 22)) + packer.flush())
    assert_one_line_error(run("strings", "x.html.gz"), "more than 1.00 MiB")

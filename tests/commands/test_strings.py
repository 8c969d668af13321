"""``snapreport strings``, and the options that decide what there is for it to list."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import orjson
import pytest

from tests.commands.conftest import Run, one_block_snapshot
from tests.hostile.pages import script

HOME = "/home/bertha/okapi/train.py"


@pytest.fixture
def homely(tmp_path: Path) -> Path:
    """A snapshot of a program in a home."""
    snapshot = one_block_snapshot()
    for event in snapshot["device_traces"][0]:
        event["frames"][1]["filename"] = HOME
    snapshot["external_annotations"] = [
        {"stage": "START", "name": "warm up", "device": 0, "time_us": 1_700_000_000_000_005},
        {"stage": "END", "name": "warm up", "device": 0, "time_us": 1_700_000_000_000_025},
    ]
    snapshot["allocator_settings"] = {"PYTORCH_CUDA_ALLOC_CONF": "backend:native"}
    path = tmp_path / "homely.pickle"
    path.write_bytes(pickle.dumps(snapshot))
    return path


def made(run: Run, source: Path, ending: str, *options: str) -> Path:
    target = source.with_name(f"made{ending}")
    command = "convert" if ending == ".zip" else "render"
    result = run(command, source, "-o", target, "--force", *options)
    assert result.exit_code == 0, result.stderr
    return target


@pytest.mark.parametrize("ending", [".zip", ".html", ".md"])
def test_a_report_lists_its_strings_by_kind(run: Run, homely: Path, ending: str) -> None:
    result = run("strings", made(run, homely, ending), "--json")
    assert result.exit_code == 0
    rows = {(row["kind"], row["text"]) for row in orjson.loads(result.stdout)["strings"]}
    texts = {text for _, text in rows}
    if ending == ".md":
        assert any("model.py" in text for text in texts)
        return
    assert {("file", "~/okapi/train.py"), ("file", "model.py")} & rows or ending == ".zip"
    assert ("function", "forward") in rows
    assert ("stage", "warm up") in rows
    assert ("setting", "backend:native") in rows


def test_lines_have_kind_count_and_text(run: Run, homely: Path) -> None:
    lines = run("strings", made(run, homely, ".zip")).stdout.splitlines()
    assert ["file", "1", "okapi/train.py"] in [line.split() for line in lines]


@pytest.mark.parametrize("ending", [".zip", ".html", ".md"])
def test_a_report_passes_the_check_unless_its_paths_are_kept(
    run: Run, homely: Path, ending: str
) -> None:
    clean = run("strings", "--check", made(run, homely, ending))
    assert (clean.exit_code, clean.stdout) == (0, "")
    kept = run("strings", "--check", made(run, homely, ending, "--keep-paths"))
    if ending == ".md" and kept.exit_code == 0:
        return  # Markdown names the call site, which is in another file
    assert kept.exit_code == 3
    assert "home directory: /home/bertha" in kept.stdout
    assert "user name: bertha" in kept.stdout


def test_a_snapshot_is_checked_as_it_is(run: Run, homely: Path) -> None:
    result = run("strings", "--check", "--json", homely)
    assert result.exit_code == 3
    found = orjson.loads(result.stdout)["leaks"]
    assert {leak["what"] for leak in found} == {"home directory", "user name"}
    assert {leak["text"] for leak in found} == {HOME}


def test_what_was_put_into_a_bundle_afterwards_is_listed(run: Run, homely: Path) -> None:
    path = made(run, homely, ".zip")
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"from carla@example.org"
        archive.writestr("notes.json", '{"by": "/home/carla/x"}')
    result = run("strings", "--check", path)
    assert result.exit_code == 3
    assert "carla@example.org" in result.stdout
    assert "home directory: /home/carla" in result.stdout


def test_a_page_with_a_script_of_others_is_looked_into(run: Run, homely: Path) -> None:
    path = made(run, homely, ".html")
    page = path.read_text(encoding="utf-8")
    path.write_text(
        page + "<script>fetch('https://example.org/')</script><!-- /home/carla/x -->",
        encoding="utf-8",
    )
    result = run("strings", "--check", path)
    assert result.exit_code == 3
    assert "URL: https://example.org/" in result.stdout
    assert "in comment" in result.stdout


def test_the_parts_that_a_page_has_packed_are_looked_into(run: Run, homely: Path) -> None:
    path = made(run, homely, ".html")
    inner = script("folded", b"<p>dora@example.org</p>")
    parts = f"<div><p title='/home/carla/x'>carla@example.org</p>{inner}</div>"
    page = path.read_text(encoding="utf-8") + script("folded", parts.encode())
    path.write_text(page, encoding="utf-8")
    result = run("strings", "--check", path)
    assert result.exit_code == 3
    assert "carla@example.org" in result.stdout
    assert "home directory: /home/carla" in result.stdout
    assert "dora" not in result.stdout  # the page would not unpack that either


def test_a_damaged_page_is_one_line(run: Run, homely: Path) -> None:
    path = made(run, homely, ".html")
    page = path.read_text(encoding="utf-8")
    path.write_text(page.replace('id="payload">', 'id="payload">!'), encoding="utf-8")
    result = run("strings", path)
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1


def test_control_characters_do_not_reach_the_terminal(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    path.write_text("a \x1b[31m b\n", encoding="utf-8")
    assert "\x1b" not in run("strings", path).stdout


def test_redaction_says_what_its_salt_is(run: Run, homely: Path) -> None:
    random = run("convert", homely, "--redact", "-o", homely.with_name("r.zip"))
    assert "random salt" in random.stderr
    told = run("convert", homely, "--redact", "--salt", "x" * 16, "-o", homely.with_name("s.zip"))
    assert "salt" not in told.stderr
    assert "okapi" not in run("strings", homely.with_name("s.zip")).stdout


def test_options_that_contradict_each_other_are_wrong_usage(run: Run, homely: Path) -> None:
    assert run("convert", homely, "--keep-paths", "--redact").exit_code == 2
    assert run("render", homely, "--salt", "x").exit_code == 2


def test_every_command_names_files_alike(run: Run, homely: Path) -> None:
    bundle = made(run, homely, ".zip")
    sql = "SELECT filename FROM frames ORDER BY 1"
    for source in (homely, bundle):
        assert "/home/" not in run("query", source, sql, "--csv").stdout
        assert "/home/" not in run("live", source, "--json").stdout
    assert HOME in run("query", homely, sql, "--csv", "--keep-paths").stdout
    for command in (["summary"], ["live"], ["live", "--by", "line"]):
        from_pickle, from_bundle = (
            run(*command, source, "--json").stdout for source in (homely, bundle)
        )
        assert from_pickle == from_bundle

"""``render`` of a run: the page, Markdown, the zip, pages of ranks, and what is said."""

from __future__ import annotations

import os
import pickle
import re
import shutil
from pathlib import Path

import pytest

import snapreport
from snapreport.api.runs import tasks
from tests.builders import MIB, frame, trace
from tests.commands.conftest import Run
from tests.ready_workers import fork_workers

SECRET = [frame("secret_sauce", "/home/ann/okapi/model.py", 9)]


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take one process where no number is given, and fork it: to start one takes long."""
    monkeypatch.setattr(tasks, "usable_cpus", lambda: 1)
    fork_workers(monkeypatch)


@pytest.fixture
def ranks(tmp_path: Path) -> Path:
    """Six ranks, of which one is heavier, one broken and one missing, and a log."""
    folder = tmp_path / "job"
    folder.mkdir()
    for rank in (0, 1, 2, 3, 4, 6):
        made = trace().alloc("a", 50 * MIB, frames=SECRET)
        if rank == 3:
            made.alloc("b", 70 * MIB, frames=SECRET)
        made.alloc("c", MIB).free("a")
        (folder / f"rank{rank}.pickle").write_bytes(pickle.dumps(made.snapshot()))
    whole = (folder / "rank4.pickle").read_bytes()
    (folder / "rank4.pickle").write_bytes(whole[: len(whole) // 2])
    (folder / "log.txt").write_text("step 1")
    return folder


def test_a_folder_is_one_page_with_those_of_the_odd_ranks(
    run: Run, ranks: Path, folder: Path
) -> None:
    result = run("render", ranks, "--title", "Run <7>")
    assert result.exit_code == 1  # rank 4 is broken
    assert result.stdout == "job.html\n"
    said = result.stderr.splitlines()
    assert said[0] == f"Skipped: {ranks}/log.txt (not named like a snapshot or bundle)"
    assert said[1].startswith("Rank 3 peaks 70.00 MiB above")
    assert f"Error: {ranks}/rank4.pickle is a pickle that is cut off" in result.stderr
    assert sorted(os.listdir(folder / "ranks")) == ["rank0.html", "rank3.html"]
    page = (folder / "job.html").read_text()
    assert "Run &lt;7&gt;" in page
    assert "rank4.pickle is a pickle that is cut off" in page
    assert str(ranks) not in page
    assert set(re.findall(r'href="(ranks/[^"#]+)"', page)) == {
        "ranks/rank0.html", "ranks/rank3.html",
    }  # fmt: skip
    assert "Run &lt;7&gt;: rank 3" in (folder / "ranks" / "rank3.html").read_text()


def test_pages_are_made_of_all_of_none_and_never_over_others(
    run: Run, ranks: Path, folder: Path
) -> None:
    (ranks / "rank4.pickle").unlink()
    (folder / "notes.md").write_text("Look at *this*.")
    result = run("render", ranks, "--pages", "all", "-o", "out/", "--notes", "notes.md")
    assert (result.exit_code, result.stdout) == (0, "out/run.html\n")
    assert len(os.listdir(folder / "out" / "ranks")) == 5
    assert "Look at <em>this</em>" in (folder / "out" / "ranks" / "rank6.html").read_text()
    again = run("render", ranks, "-o", "out/second.html")
    assert again.exit_code == 1
    assert "out/ranks has pages already; pass --force" in again.stderr
    assert run("render", ranks, "-o", "out/second.html", "--pages", "none").exit_code == 0
    assert run("render", ranks, "-o", "out/run.html", "--force").exit_code == 0


def test_a_new_folder_may_have_a_dot_in_its_name(run: Run, ranks: Path, folder: Path) -> None:
    (ranks / "rank4.pickle").unlink()
    result = run("render", ranks, "-o", "v1.5/", "--pages", "none")
    assert (result.exit_code, result.stdout) == (0, "v1.5/run.html\n")


def test_the_zip_gives_the_same_page_and_markdown(run: Run, ranks: Path, folder: Path) -> None:
    for ending in ("html", "md", "zip"):
        given = ["--pages", "none"] if ending == "html" else []
        assert run("render", ranks, "-o", f"a.{ending}", "-q", *given).stdout == f"a.{ending}\n"
    shutil.rmtree(ranks)
    for ending in ("html", "md", "zip"):
        result = run("render", "a.zip", "-o", f"b.{ending}")
        assert result.stdout == f"b.{ending}\n"
        assert (folder / f"a.{ending}").read_bytes() == (folder / f"b.{ending}").read_bytes()
    refused = run("render", "a.zip", "--pages", "all", "-o", "c.html")
    assert refused.exit_code == 1
    assert "made from their snapshots" in refused.stderr
    assert run("render", "a.zip", "--redact", "-o", "c.html").exit_code == 1
    assert run("render", "a.zip", "--layout", "tp=9", "-o", "c.md").exit_code == 1


def test_bundles_and_snapshots_give_the_same_run(run: Run, ranks: Path, folder: Path) -> None:
    run("render", ranks, "-o", "a.md")
    run("convert", ranks, "-o", "bundles")
    (folder / "bundles" / "rank4.pickle").write_bytes((ranks / "rank4.pickle").read_bytes())
    run("render", "bundles", "-o", "b.md")
    text = (folder / "a.md").read_text()
    assert "Rank 3" in text
    assert (folder / "b.md").read_text() == text


def test_a_run_as_a_table_in_another_folder_is_left_out(
    run: Run, ranks: Path, folder: Path
) -> None:
    run("render", ranks, "-o", ranks / "run.zip")
    result = run("render", ranks, "-o", "a.md")
    assert f"Skipped: {ranks}/run.zip (the zip of a run, which must be the only input)" in (
        result.stderr
    )
    both = run("render", ranks, ranks / "run.zip", "-o", "b.md")
    assert (both.exit_code, "give it alone" in both.stderr) == (1, True)


def test_redacted_no_name_is_in_any_file(run: Run, ranks: Path, folder: Path) -> None:
    (ranks / "rank4.pickle").unlink()
    for rank in (0, 1):
        home = folder / "in" / "carla"
        home.mkdir(parents=True, exist_ok=True)
        shutil.copy(ranks / f"rank{rank}.pickle", home / f"okapi_rank{rank}.pickle")
    shutil.copy(ranks / "rank3.pickle", folder / "in" / "okapi_rank2.pickle")
    result = run("render", "in", "-o", "out", "--redact-functions", "--pages", "all")
    assert result.exit_code == 0
    assert run("render", "in", "-o", "run.zip", "--redact-functions").exit_code == 0
    back = snapreport.load_run(folder / "run.zip")
    keys = {
        each.key for rank in back.run.ranks for each in rank.devices[0].holders
        if each.kind == "site"
    }  # fmt: skip
    assert len(keys) == 2  # one salt for all ranks, though none was given; and no frames
    for path in [*(folder / "out").rglob("*.html")]:
        text = path.read_text() + path.name
        assert "okapi" not in text
        assert "secret" not in text
    texts = str(back.run)
    assert "carla" not in texts
    assert "okapi" not in texts


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["-o", "run.pdf"], "has to end in .html, .md or .zip"),
        (["-o", "run.md", "--format", "html"], "but the format is html"),
        (["--name", "x"], "--name has no field"),
        (["--name", "x{rank}"], "matches --name"),
        (["--layout", "tp"], "The layout is 'tp'"),
        (["--layout", "tp=2"], "tp=2 is for 2 ranks, and there is a rank 6"),
        (["--device", "7", "-o", "out"], "has no device '7'"),
        (["-o", "a.md", "--pages", "all"], "pages of ranks"),
    ],
)
def test_what_cannot_be_is_one_line_and_leaves_nothing(
    run: Run, ranks: Path, folder: Path, given: list[str], says: str
) -> None:
    result = run("render", ranks, *given)
    assert result.exit_code == 1
    assert says in result.stderr
    assert os.listdir(folder) == []


def test_options_of_a_run_are_refused_for_a_file(run: Run, snapshot: Path) -> None:
    for given in (["--pages", "all"], ["--name", "{rank}"], ["--layout", "tp=2"]):
        result = run("render", snapshot, *given)
        assert (result.exit_code, "is for a run" in result.stderr) == (2, True)
    assert run("render", snapshot, "--format", "zip").exit_code == 2


def test_names_by_a_pattern(run: Run, ranks: Path, folder: Path) -> None:
    target = folder / "in" / "gpu-a" / "it_40"
    target.mkdir(parents=True)
    for rank in (0, 1, 3):
        shutil.copy(ranks / f"rank{rank}.pickle", target / f"p{rank}.pickle")
    shutil.copy(ranks / "rank0.pickle", target / "other.pickle")
    result = run("render", "in", "--name", "{host}/it_{step}/p{rank}.pickle", "-o", "run.zip")
    assert "in/gpu-a/it_40/other.pickle (its name does not match --name)" in result.stderr
    loaded = snapreport.load_run(folder / "run.zip")
    assert [(each.name.rank, each.name.dump, each.name.host) for each in loaded.run.ranks] == [
        (0, 40, "gpu-a"), (1, 40, "gpu-a"), (3, 40, "gpu-a"),
    ]  # fmt: skip
    assert loaded.findings.missing == (2,)


def test_a_name_that_is_not_utf_8_is_linked_byte_for_byte(
    run: Run, snapshot: Path, folder: Path
) -> None:
    for name in (b"caf\xe9.pickle", b"a#b?c%.pickle"):
        shutil.copy(snapshot, os.fsdecode(name))
    result = run("render", os.fsdecode(b"caf\xe9.pickle"), "a#b?c%.pickle", "--pages", "all")
    assert result.stdout == "run.html\n"
    page = (folder / "run.html").read_text()
    assert 'href="ranks/caf%E9.html"' in page
    assert 'href="ranks/a%23b%3Fc%25.html"' in page


def test_from_python(ranks: Path, tmp_path: Path) -> None:
    loaded = snapreport.load_run(ranks, layout="tp=7")
    assert [each.label for each in loaded.run.ranks][:2] == ["rank 0", "rank 1"]
    assert loaded.run.ranks[3].name.coordinates == (("tp", 3),)
    assert len(loaded.errors) == 1
    assert loaded.findings.missing == (5,)
    saved = loaded.save(tmp_path / "run.zip")
    back = snapreport.load_run(saved)
    assert back.findings == loaded.findings
    assert snapreport.load_run(ranks, layout="tp=7", jobs=2).findings == loaded.findings
    with pytest.raises(TypeError, match="colours"):
        snapreport.render_run(ranks, tmp_path, colours="site")
    with pytest.raises(ValueError, match="pdf"):
        snapreport.render_run(ranks, tmp_path, format="pdf")
    with pytest.raises(ValueError, match="some"):
        snapreport.render_run(ranks, tmp_path, pages="some")  # type: ignore[arg-type]

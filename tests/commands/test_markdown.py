"""``--md``: each command's answer as Markdown, also of names that attack."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

import snapreport
from tests.builders import MIB, frame, trace
from tests.commands.conftest import Run
from tests.hostile_text import NAMES, write_snapshot
from tests.unit.reporters.test_hostile_outputs import check_markdown

LIMIT = 65_536
SQL = "SELECT DISTINCT frames.name, callstack, 1.5 AS x, NULL FROM frames, stacks LIMIT 200"
ASKED = (
    ["summary", "SNAP"],
    ["summary", "SNAP", "--full"],
    ["summary", "SNAP", "--findings", "--recording"],
    ["summary", "SNAP", "--findings", "--full"],
    ["summary", "SNAP", "ZIP"],
    ["summary", "SNAP", "ZIP", "--findings"],
    ["summary", "RUN"],
    ["summary", "RUN", "--full"],
    ["summary", "RUN", "--findings"],
    ["summary", "REPORT"],
    *(
        ["live", "SNAP", "--by", by]
        for by in ("stack", "file", "line", "tree", "allocation", "role")
    ),
    ["stages", "SNAP", "--stacks", "2"],
    ["profile", "SNAP", "--by", "role"],
    ["profile", "SNAP", "--by", "context"],
    ["whatif", "SNAP"],
    ["whatif", "SNAP", "--without", "*"],
    ["whatif", "SNAP", "--allocator", "recorded"],
    ["plan", "SNAP", "--fit", "1KiB"],
    ["plan", "--batch-from", "1:SNAP", "2:SNAP"],
    ["query", "ZIP", SQL],
    ["query", "ZIP", SQL, "--full"],
    ["diff", "SNAP", "ZIP"],
    ["diff", "SNAP", "ZIP", "--full"],
    ["diff", "RUN", "RUN"],
    ["check", "SNAP", "--max-peak", "1KiB", "--base", "ZIP"],
    ["check", "RUN", "--max-peak", "1KiB"],
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A recording whose texts attack, as snapshot, bundle and report, and a run of three."""
    folder = tmp_path_factory.mktemp("hostile")
    snap = write_snapshot(folder / NAMES[1])
    ranks = folder / "a run"
    ranks.mkdir()
    for rank in range(3):
        write_snapshot(ranks / f"@everyone <b> rank{rank}.pickle")
    return {
        "SNAP": snap,
        "ZIP": snapreport.convert(snap, folder / f"{NAMES[1]}.zip"),
        "REPORT": snapreport.render(snap, folder / f"{NAMES[1]}.html"),
        "RUN": ranks,
    }


@pytest.mark.parametrize("words", ASKED, ids=" ".join)
def test_every_answer_is_markdown_that_holds(
    run: Run, hostile: dict[str, Path], words: list[str]
) -> None:
    named = [word.replace("SNAP", str(hostile["SNAP"])) for word in words if ":SNAP" in word]
    asked = [hostile.get(word, word) for word in words if ":SNAP" not in word]
    result = run(*asked, *named, "--md", "-q")
    assert result.exit_code in (0, 3), result.stderr
    assert result.stdout.startswith("#")
    assert result.stdout.splitlines()[0].strip("# ")
    check_markdown(result.stdout)


@pytest.mark.parametrize(
    "words",
    [
        ["summary", "SNAP"],
        ["live", "SNAP"],
        ["stages", "SNAP"],
        ["profile", "SNAP"],
        ["whatif", "SNAP"],
        ["plan", "SNAP", "--fit", "1GiB"],
        ["query", "SNAP", "SELECT 1"],
        ["diff", "SNAP", "SNAP"],
        ["check", "SNAP"],
    ],
    ids=lambda words: words[0],
)
def test_an_answer_has_one_form(run: Run, snapshot: Path, words: list[str]) -> None:
    asked = [snapshot if word == "SNAP" else word for word in words]
    both = run(*asked, "--json", "--md")
    assert both.exit_code == 2
    assert "--json and --md exclude one another; give one." in both.stderr
    if words[0] in ("profile", "query"):
        three = run(*asked, "--json", "--md", "--csv")
        assert "--json and --md and --csv exclude one another" in three.stderr
    if words[0] == "diff":
        file = run(*asked, "--md", "-o", "x.md")
        assert (file.exit_code, "--md writes to stdout" in file.stderr) == (2, True)


def test_an_answer_has_its_title_and_the_rows_that_text_has(run: Run, snapshot: Path) -> None:
    assert run("live", snapshot, "--by", "file", "--md").stdout == (
        "## What is live at a moment\n"
        "\n"
        "**cuda:0 at event 2, 2023-11-14 22:13:20.000020 UTC: 2.00 MiB allocated**\n"
        "\n"
        "After alloc of 1.00 MiB at 0x7f0000100000.\n"
        "\n"
        "| memory | size | bytes |\n"
        "| :-- | --: | --: |\n"
        "| allocated | 2.00 MiB | 2,097,152 |\n"
        "| requested | 2.00 MiB | 2,097,152 |\n"
        "| active | 2.00 MiB | 2,097,152 |\n"
        "| reserved | 20.00 MiB | 20,971,520 |\n"
        "| slack | 0 B | 0 |\n"
        "| inactive | 18.00 MiB | 18,874,368 |\n"
        "| fragmentation | 18.00 MiB | 18,874,368 |\n"
        "\n"
        "2.00 MiB in 2 allocations, all made in the recording. Over the whole recording, 2.00 MiB"
        " were allocated.\n"
        "\n"
        "| bytes | share | count | requested | file |\n"
        "| --: | --: | --: | --: | :-- |\n"
        "| 2.00 MiB | 100.0% | 2 | 2.00 MiB | `model.py` |\n"
    )
    rows = run("query", snapshot, "SELECT id FROM allocations; SELECT 7 AS x", "--md").stdout
    assert rows == "## Rows\n\n| id |\n| --: |\n| 0 |\n| 1 |\n\n## Rows\n\n| x |\n| --: |\n| 7 |\n"


def test_the_summary_is_the_report_that_render_writes(run: Run, samples: Path) -> None:
    for name in ("training_step.pickle", "out_of_memory.pickle.gz"):
        run("render", samples / name, "-o", f"{name}.md")
        report = Path(f"{name}.md").read_text()
        # A summary compares no settings of the allocator, which can take long.
        replays = r"<details><summary>Other settings of the allocator.*?</details>\n\n"
        assert run("summary", samples / name, "--md").stdout == re.sub(
            replays, "", report, flags=re.S
        )


def test_the_summary_of_a_run_is_the_report_that_render_writes(run: Run, folder: Path) -> None:
    (folder / "ranks").mkdir()
    for rank in range(3):
        made = trace().alloc("a", (8 + 56 * (rank == 1)) * MIB)
        Path("ranks", f"rank{rank}.pickle").write_bytes(pickle.dumps(made.snapshot()))
    run("render", "ranks", "-o", "run.md")
    assert run("summary", "ranks", "--md").stdout == Path("run.md").read_text()


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """A recording of 400 call sites whose names have thousands of letters."""
    made = trace()
    for number in range(400):
        name = f"{number}_" + "forward" * 300
        made.alloc(f"x{number}", (number + 1) * MIB, frames=[frame(name, f"{name}.py", 7)])
    path = tmp_path / "long.pickle"
    path.write_bytes(pickle.dumps(made.snapshot()))
    return path


def test_an_answer_that_is_too_long_for_a_comment_has_fewer_rows(
    run: Run, long: Path, snapshot: Path
) -> None:
    for words in (["summary", long], ["diff", snapshot, long, "--top", "300"]):
        text = run(*words, "--md").stdout
        assert len(text.encode()) < LIMIT
        assert " more" in text
        assert len(run(*words, "--md", "--full").stdout.encode()) > LIMIT


def test_rows_asked_for_are_all_there(run: Run, long: Path) -> None:
    few = run("live", long, "--by", "file", "--top", "3", "--md").stdout
    assert (few.count("| `"), "397 more with" in few) == (3, True)
    assert run("live", long, "--by", "file", "--full", "--md").stdout.count("| `") == 400


def test_check_prints_every_row_with_full(run: Run, long: Path) -> None:
    for form, rows in (([], 5), (["--md"], 10)):
        asked = ("check", long, "--max-peak", "1MiB", "--fail-on", "none", *form)
        held = re.compile(r"^.*\b\d+_forward", re.MULTILINE)
        assert len(held.findall(run(*asked).stdout)) == rows
        assert len(held.findall(run(*asked, "--full").stdout)) == 400

"""The benchmark measures what it says, and finds other programs by their paths."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dev.benchmarks.measure import peers, session, tables
from dev.benchmarks.measure.document import write_document
from dev.benchmarks.measure.processes import CommandError, Cost, TookTooLongError, run_once
from dev.benchmarks.measure.ranks import PAGE, RankCost
from dev.benchmarks.measure.ranks import SUMMARY as RUN_SUMMARY
from dev.benchmarks.measure.results import (
    CONVERT,
    FLOOR,
    HELP,
    READ,
    RENDER,
    SUMMARY,
    PageResult,
    Report,
    Result,
    growth,
)
from dev.benchmarks.measure.session import measure
from dev.benchmarks.measure.stages import STAGES
from dev.benchmarks.measure.targets import OUR_PAGE, VIEWER, targets_table
from dev.benchmarks.run import arguments_of, main, workloads_of
from tests.unit.benchmarks.fake_peers import (
    SLOW,
    SNAPVIEWER_FOLDER,
    mosaic_checkout,
    snapviewer_checkout,
)

REPOSITORY = Path(__file__).resolve().parents[3]
OPEN = "open: the other was stopped before"
SNAPVIEWER = "SnapViewer convert_snap.py"
SAMPLE = REPOSITORY / "sample_snapshots" / "two_streams.pickle"


def cost(cpu: float, peak: int = 100, size: int = 0) -> Cost:
    return Cost(cpu, 2 * cpu, peak, size)


def result(name: str, events: int, convert: float, series: str = "steps") -> Result:
    return Result(
        name,
        events,
        1000,
        series,
        costs={
            READ: [cost(0.1)],
            FLOOR: [cost(1.0), cost(1.2), cost(5.0)],
            CONVERT: [cost(convert, 150, 80)] * 3,
            RENDER: [cost(0.4, 120, 200)] * 3,
            SUMMARY: [cost(0.5)],
        },
        stages={"load": [cost(0.6)], "find": [cost(0.3), cost(0.9)]},
    )


def test_all_stages_and_commands_of_a_snapshot_are_measured(tmp_path: Path) -> None:
    (found,) = measure([("sample", "", SAMPLE)], 1, tmp_path)
    assert set(found.stages) == set(STAGES)
    assert {READ, FLOOR, CONVERT, RENDER} <= set(found.costs)
    assert found.events > 0
    for one in (*found.costs.values(), *found.stages.values()):
        assert len(one) == 1
        assert one[0].cpu >= 0
        assert one[0].peak > 1 << 20
    assert found.median(CONVERT).bytes == (tmp_path / "bundle.zip").stat().st_size
    assert found.median("load", stage=True).bytes == SAMPLE.stat().st_size
    assert found.median(CONVERT).peak > found.median(FLOOR).peak
    assert set(found.ratios()) >= {"time: convert", "memory: render", "bytes: convert"}


def test_a_command_that_fails_says_why_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="ValueError: no such luck"):
        run_once([sys.executable, "-c", "print(1); raise ValueError('no such luck')"])
    with pytest.raises(CommandError, match="wrote no out"):
        run_once([sys.executable, "-c", "0"], output=tmp_path / "out.zip")
    with pytest.raises(CommandError, match="not done after"):
        run_once([sys.executable, "-c", "import time; time.sleep(60)"], seconds=0.5)


def test_programs_may_keep_what_they_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (tmp_path / "module.py").touch()
    run_once([sys.executable, "-c", "import module"], folder=tmp_path)
    assert len(list(tmp_path.rglob("*.pyc"))) == 1


def test_what_a_stopped_command_had_taken_is_known(tmp_path: Path) -> None:
    script = tmp_path / "slow.py"
    note = f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid))"
    script.write_text(SLOW.replace("while", f"{note}\nwhile"))
    with pytest.raises(TookTooLongError, match="not done after 3 s") as caught:
        run_once([sys.executable, str(script)], seconds=3, environment={"TMPDIR": str(tmp_path)})
    assert caught.value.reason == "not done after 3 s"
    assert 0 < caught.value.cost.cpu <= caught.value.cost.wall * 1.1
    assert caught.value.cost.peak > 50 << 20
    child = Path("/proc") / (tmp_path / "child").read_text() / "cmdline"
    assert not child.exists() or not child.read_bytes()  # gone, or waiting to be fetched


def test_a_folder_counts_with_all_its_files_and_is_removed_first(tmp_path: Path) -> None:
    out = tmp_path / "out"
    program = (
        "import os, sys; os.makedirs(sys.argv[1]); open(sys.argv[1] + '/a', 'w').write('12345')"
    )
    for _ in range(2):
        command = [sys.executable, "-c", program, str(out / "deep")]
        assert run_once(command, output=out).bytes == 5


def test_time_and_memory_are_the_commands_own() -> None:
    busy = "a = bytearray(200 << 20); t = __import__('time').process_time\nwhile t() < 0.3: pass"
    taken = run_once([sys.executable, "-c", busy])
    assert taken.cpu > 0.25
    assert taken.peak > 200 << 20
    idle = run_once([sys.executable, "-c", "import time; time.sleep(0.3)"])
    assert idle.wall >= 0.3
    assert idle.peak < 100 << 20


@pytest.fixture
def peers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure peers, and in place of all that is ours a Python that writes an empty file."""
    all_tasks = session.tasks_for
    write = "import sys; [open(name, 'w').close() for name in sys.argv[1:]]"

    def instead(task: session.Task) -> session.Task:
        written = [str(task.output)] if task.output else []
        return replace(task, command=[sys.executable, "-S", "-c", write, *written])

    def tasks(path: Path, folder: Path, others: Sequence[peers.Peer]) -> list[session.Task]:
        names = {peer.name for peer in others}
        found = all_tasks(path, folder, others)
        return [task if task.name in names else instead(task) for task in found]

    monkeypatch.setattr(session, "tasks_for", tasks)
    monkeypatch.setattr(session, "events_of", lambda _: 7)
    monkeypatch.setattr(session, "run_stages", lambda *_: {})


@pytest.mark.usefixtures("peers_alone")
def test_peers_are_run_from_their_checkouts(tmp_path: Path) -> None:
    others = [
        peers.snapviewer(snapviewer_checkout(tmp_path / "viewer")),
        peers.mosaic(mosaic_checkout(tmp_path / "mosaic")),
    ]
    (found,) = measure([("sample", "", SAMPLE)], 1, tmp_path, others)
    assert found.failed == {}
    assert found.median(SNAPVIEWER).bytes > 0
    assert found.median("Mosaic peak").bytes == 0
    table = tables.peers_table([found])
    assert "sample: SnapViewer convert_snap.py" in table
    assert "sample: Mosaic peak" in table


@pytest.mark.usefixtures("peers_alone")
def test_a_peer_may_write_a_folder(tmp_path: Path) -> None:
    checkout = snapviewer_checkout(tmp_path / "viewer", SNAPVIEWER_FOLDER)
    work = tmp_path / "work"
    work.mkdir()
    (found,) = measure([("sample", "", SAMPLE)], 2, work, [peers.snapviewer(checkout)])
    assert found.failed == {}
    assert [each.bytes for each in found.costs[SNAPVIEWER]] == [1234, 1234]
    assert not (work / "snapviewer").exists()


@pytest.mark.usefixtures("peers_alone")
def test_a_slow_peer_is_stopped_and_has_a_lower_bound(tmp_path: Path) -> None:
    checkout = snapviewer_checkout(tmp_path / "viewer", SLOW)
    work = tmp_path / "work"
    work.mkdir()
    (found,) = measure([("sample", "", SAMPLE)], 2, work, [peers.snapviewer(checkout)], seconds=2)
    assert found.failed == {SNAPVIEWER: "not done after 2 s"}
    assert SNAPVIEWER not in found.costs
    assert found.at_least[SNAPVIEWER].cpu > 0
    assert len(list(work.glob("*.slow"))) == 1  # tried once, and what it left is in our folder
    for table in (tables.peers_table([found]), tables.results_table([found])):
        (row,) = (line for line in table.splitlines() if SNAPVIEWER in line)
        assert "not done after 2 s" in row
        assert row.count("more than") == 6


@pytest.mark.usefixtures("peers_alone")
def test_a_peer_that_fails_spoils_nothing_else(tmp_path: Path) -> None:
    broken = snapviewer_checkout(tmp_path / "viewer", "raise SystemExit('no memory | left')")
    (found,) = measure([("sample", "", SAMPLE)], 2, tmp_path, [peers.snapviewer(broken)])
    assert list(found.failed) == [SNAPVIEWER]
    assert len(found.costs[CONVERT]) == 2
    assert "no memory / left" in tables.peers_table([found])
    assert all(line.count("|") == 9 for line in tables.peers_table([found]).splitlines())


def test_a_wrong_path_is_told_before_anything_is_measured(tmp_path: Path) -> None:
    for option in ("--peer-snapviewer", "--peer-mosaic", "--peer-viewer"):
        with pytest.raises(SystemExit, match=r"holds no .*(convert_snap|peak|MemoryViz)"):
            main([str(SAMPLE), option, str(tmp_path), "--folder", str(tmp_path / "made")])
    assert not (tmp_path / "made").exists()


@pytest.mark.usefixtures("peers_alone")
@pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch's own script")
def test_pytorchs_own_plot_is_run(tmp_path: Path) -> None:
    (found,) = measure([("sample", "", SAMPLE)], 1, tmp_path, [peers.torch_plot()])
    assert found.failed == {}
    assert found.median("PyTorch trace_plot").bytes > SAMPLE.stat().st_size


def test_medians_and_ratios_are_of_the_same_run() -> None:
    ratios = result("a", 10, 2.4).ratios()
    assert ratios["time: convert"] == pytest.approx(2.0)
    assert ratios["time: render"] == pytest.approx(1 / 3)
    assert ratios["memory: convert"] == pytest.approx(1.5)
    assert ratios["bytes: convert"] == pytest.approx(0.08)
    assert ratios["stage: find"] == pytest.approx(0.5)


def test_growth_is_the_exponent() -> None:
    assert growth((n, 3 * n) for n in (10, 100, 1000)) == pytest.approx(1)
    assert growth((n, 0.2 * n**2) for n in (10, 30, 70)) == pytest.approx(2)
    assert growth([(10, 1.0)]) is None
    assert growth([(10, 1.0), (10, 2.0)]) is None


def verdicts(report: Report) -> dict[str, list[str]]:
    """What was measured of each target, and the verdict."""
    rows = targets_table(report).splitlines()
    return {row.split(" | ")[0].strip("| "): row.rstrip(" |").rsplit(" | ", 2)[1:] for row in rows}


def test_targets_say_what_was_met_and_missed() -> None:
    large = result("large", 1_200_000, 2.4)
    large.costs[SNAPVIEWER] = [replace(cost(60.0, 100, 4000), wall=72.0)]
    large.costs[HELP] = [cost(0.4)]
    pages = [
        PageResult("large", OUR_PAGE, 10, 900.0, 10, 30.0),
        PageResult("large", VIEWER, 10, 4500.0, 10, math.nan),
    ]
    found = verdicts(Report("m", "c", 1, [large], pages))
    assert found["convert, 1.2 M events: by the clock"] == ["2.00 x", "**not met**"]
    assert found["bundle, 1.2 M events"] == ["8.0%", "**not met**"]
    assert found["report, 1.2 M events"] == ["0 kB", "met"]
    assert found["bundle against its file: bytes"] == ["50 x", "**not met**"]
    assert found["convert against `convert_snap.py`: processor time"] == ["25 x", "met"]
    assert found["convert against `convert_snap.py`: by the clock"] == ["15 x", "**not met**"]
    assert found["frames while panning and zooming, p95"] == ["30 ms", "met"]
    assert found["first picture against PyTorch's page"] == ["5.0 x", "met"]
    assert found["`snapreport --help`: processor time"] == ["0.40 s", "**not met**"]
    assert "growth of convert with the events" not in found  # it was not measured
    assert "met" not in targets_table(Report("m", "c", 1, []))


@pytest.mark.parametrize(
    ("cpu", "verdict"),
    [(240.0, ["more than 100 x", "met"]), (24.0, ["more than 10 x", OPEN])],
)
def test_a_lower_bound_meets_a_target_or_leaves_it_open(cpu: float, verdict: list[str]) -> None:
    large = result("large", 1_200_000, 2.4)
    large.failed[SNAPVIEWER] = "not done after 600 s"
    large.at_least[SNAPVIEWER] = cost(cpu)
    rows = verdicts(Report("m", "c", 1, [large]))
    for time in ("by the clock", "processor time"):
        assert rows[f"convert against `convert_snap.py`: {time}"] == verdict
    assert "bundle against its file: bytes" not in rows


@pytest.mark.parametrize(
    ("waited", "verdict"),
    [
        (60_000.0, ["more than 60 x", "met"]),
        (2000.0, ["more than 2 x", OPEN]),
        (0.0, ["4.5 x", "met"]),  # it crashed: nothing is said of that workload
    ],
)
def test_a_page_that_never_comes_is_judged_by_what_was_waited(
    waited: float, verdict: list[str]
) -> None:
    pages = [
        PageResult("small", OUR_PAGE, 10, 900.0, 10, 20.0),
        PageResult("small", VIEWER, 10, 81_000.0 if waited else 4050.0, 10, 500.0),
        PageResult("large", OUR_PAGE, 10, 1000.0, 10, 20.0),
        PageResult("large", VIEWER, 10, math.nan, 0, math.nan, "no | luck", waited),
    ]
    rows = verdicts(Report("m", "c", 1, [result("large", 1_200_000, 2.4)], pages))
    assert rows["first picture against PyTorch's page"] == verdict
    table = tables.pages_table(pages)
    shown = f"none after {waited / 1000:.0f} s" if waited else "none: no / luck"
    assert f"| large: PyTorch's page | 10 B | {shown} | - | - |" in table


def whole_report() -> Report:
    ranks = [
        RankCost(n, verb, n * 9000, 2.0 * n, 1.0 * n, (40 << 20) + n * 2048, 100 + n)
        for n in (1, 64, 1024)
        for verb in (RUN_SUMMARY, PAGE)
    ]
    results = [result("a", 10_000, 1.0), result("b", 1_000_000, 3.0), result("c", 2_000_000, 5.0)]
    pages = [PageResult("b", OUR_PAGE, 10, 500.0, 10, 33.0)]
    return Report("m", "c", 3, results, pages, {"copy": 0.01}, ranks, 0.5, 9.0)


def test_the_document_states_slopes_and_has_a_picture(tmp_path: Path) -> None:
    write_document(whole_report(), tmp_path / "performance.md")
    text = (tmp_path / "performance.md").read_text("utf-8")
    assert "| copy | 10.0 ms |" in text
    assert "| convert | 4.00 | 0 | 0.74 | 0.00 |" in text
    assert "summary: 2.0 KiB and 1000 ms from 64 to 1,024 ranks" in text
    assert "| explorer: first picture from the bundle, 1.2 M events | at most 0.6 s" in text
    picture = ElementTree.fromstring((tmp_path / "performance.svg").read_text("utf-8"))
    drawn = {each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")}
    assert {"convert", "events", "ranks", "one page", "10 k", "1 M"} <= drawn
    assert "(performance.svg)" in text


def test_what_was_not_measured_is_not_in_the_document(tmp_path: Path) -> None:
    write_document(Report("m", "c", 1, [result("a", 10, 1.0)]), tmp_path / "performance.md")
    text = (tmp_path / "performance.md").read_text("utf-8")
    assert not any(word in text for word in ("browser", "Other programs", "ranks:", "explorer"))


def test_figures_are_kept_and_read_back(tmp_path: Path) -> None:
    page = PageResult("a", OUR_PAGE, 1, 2.0, 3, 4.0)
    slow = result("a", 10, 1.0)
    slow.failed[SNAPVIEWER], slow.at_least[SNAPVIEWER] = "not done after 9 s", cost(8.5)
    report = replace(whole_report(), results=[slow], pages=[page])
    report.save(tmp_path / "figures.json")
    assert Report.read(tmp_path / "figures.json") == report
    report.pages = [PageResult("a", VIEWER, 1, math.nan, 0, math.nan, "it crashed")]
    report.save(tmp_path / "figures.json")
    (kept,) = Report.read(tmp_path / "figures.json").pages
    assert math.isnan(kept.first_ms)
    assert math.isnan(kept.p95_ms)
    assert kept.failed == "it crashed"


def test_kept_figures_give_the_document_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, document = tmp_path / "figures.json", tmp_path / "page.md"
    Report("my machine", "c", 3, [result("a", 10, 1.0)]).save(kept)
    main(["--read", str(kept), "--document", str(document)])
    written = document.read_text("utf-8")
    assert "Machine: my machine." in written
    main(["--read", str(kept), "--document", str(document)])
    assert document.read_text("utf-8") == written
    main(["--read", str(kept)])
    assert "**a**: 10 events" in capsys.readouterr().out


def test_workloads_have_names() -> None:
    names = [each.name for each in workloads_of(arguments_of(["--workloads", "quick,steps-1.2M"]))]
    assert {"steps-20k", "deep", "steps-1.2M"} <= set(names)
    assert len(names) == len(set(names))
    assert workloads_of(arguments_of([str(SAMPLE)])) == []
    with pytest.raises(SystemExit, match="no workload 'nothing'; there are small, quick"):
        main(["--workloads", "nothing"])

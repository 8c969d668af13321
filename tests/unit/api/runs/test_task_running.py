"""Tasks in each of the engines: their order, their progress, and workers that are killed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from snapreport.api.runs import convert_many
from snapreport.api.runs.tasks import LOCAL, Engine, _Queue, _work, run_tasks
from snapreport.ground.errors import EngineError
from tests.unit.api.runs.work_to_do import Work, fail, not_done, square, wait_long


def test_results_come_in_the_order_of_the_items(engine: Engine, tmp_path: Path) -> None:
    told: list[tuple[int, str | None]] = []
    results = run_tasks(
        square,
        [Work(number, tmp_path) for number in range(5)],
        lost=not_done,
        engine=engine,
        jobs=2,
        watch=lambda place, what, _: told.append((place, what)),
    )
    assert results == ["0", "1", "4", "9", "16"]
    assert sorted(place for place, what in told if what is None) == [0, 1, 2, 3, 4]
    assert {place for place, what in told if what == "squaring"} == {0, 1, 2, 3, 4}


def test_a_killed_worker_loses_nothing(engine: Engine, tmp_path: Path) -> None:
    """One is killed once, one each time, and locally one twice; those beside them are done."""
    deaths = {1: 1, 4: 100} | ({3: 2} if engine.kind == "local" else {})
    works = [Work(number, tmp_path, deaths.get(number, 0)) for number in range(7)]
    results = run_tasks(square, works, lost=not_done, engine=engine, jobs=2, folders=[tmp_path])
    assert results[4].startswith("4: each process that worked on it was killed by the system")
    assert [*results[:4], *results[5:]] == ["0", "1", "4", "9", "25", "36"]
    if engine.kind != "dask":  # which tries by itself as well
        assert [works[k].tries for k in deaths] == [2, 3, 3][: len(deaths)]
    assert not list(tmp_path.glob("*.part"))
    assert sorted(path.name for path in tmp_path.glob("*.txt")) == [
        f"{number}.txt" for number in (0, 1, 2, 3, 5, 6)
    ]


def test_an_early_end_ends_what_is_being_done(tmp_path: Path) -> None:
    works = [Work(number, tmp_path) for number in range(3)]
    with pytest.raises(KeyboardInterrupt):
        run_tasks(
            wait_long,
            works,
            lost=not_done,
            jobs=2,
            folders=[tmp_path],
            watch=_stop_when(lambda: len(list(tmp_path.glob("alive-*"))) == 2),
        )
    assert not list(tmp_path.glob("*.part"))
    assert not list(tmp_path.glob("*.txt"))
    assert not works[2].tries
    alive = [path.read_text() for path in tmp_path.glob("alive-*")]
    time.sleep(0.1)
    assert [path.read_text() for path in tmp_path.glob("alive-*")] == alive


def test_an_early_end_ends_tasks_of_a_cluster(dask_engine: Engine, tmp_path: Path) -> None:
    """Whose workers go on, for others."""
    work = Work(0, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_tasks(
            wait_long,
            [work],
            lost=not_done,
            engine=dask_engine,
            watch=_stop_when((tmp_path / "alive-0").exists),
        )
    while list(tmp_path.glob("*.part")):  # the task itself removes it
        time.sleep(0.02)
    assert not work.target.exists()
    assert run_tasks(square, [work], lost=not_done, engine=dask_engine) == ["0"]


def _stop_when(condition: Callable[[], bool]) -> Callable[[int, str | None, float | None], None]:
    def watch(*_: object) -> None:
        if condition():
            raise KeyboardInterrupt

    return watch


def test_what_a_function_raises_ends_all(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError, match="0 is no good"):
        run_tasks(fail, [Work(0, tmp_path)], lost=not_done, engine=engine, jobs=1)


def test_each_engine_gives_the_same_bytes(engine: Engine, samples: Path, tmp_path: Path) -> None:
    sources = [samples / "two_streams.pickle", samples / "training_step.pickle"]
    named = f"{engine.kind}={engine.address}" if engine.address else engine.kind
    there = convert_many(sources, tmp_path / "there", engine=named, jobs=2)
    with ThreadPoolExecutor(1) as executor:
        here = convert_many(sources, tmp_path / "here", engine=executor)
    assert len(here.paths) == 2
    assert [path.read_bytes() for path in there.paths] == [path.read_bytes() for path in here.paths]


def test_a_task_that_is_lost_twice_is_done_alone(tmp_path: Path) -> None:
    """So that it has the memory to itself: both were killed twice, and neither beside the other."""
    works = [Work(number, tmp_path, 2) for number in range(2)]
    assert run_tasks(square, works, lost=not_done, engine=LOCAL, jobs=2) == ["0", "1"]
    (begun, ended), (other_begun, other_ended) = (_last_try(work) for work in works)
    assert ended <= other_begun or other_ended <= begun  # alone in the order in which they died


def _last_try(work: Work) -> tuple[int, int]:
    """When it began and when it ended."""
    tries = work.folder.glob(f"try-{work.number}-*")
    return max(path.stat().st_mtime_ns for path in tries), work.target.stat().st_mtime_ns


def test_a_last_try_waits_until_nothing_else_runs_or_waits() -> None:
    queue = _Queue(tasks=3, at_once=2, tries=3)
    assert list(queue.take(0)) == [0, 1]
    assert queue.again(1)
    assert list(queue.take(1)) == [2]
    assert queue.again(2)
    assert list(queue.take(1)) == [1]
    assert queue.again(1)  # the second time: it has one try left, and 0 runs
    assert list(queue.take(1)) == [2]
    assert queue.again(2)
    assert list(queue.take(1)) == []
    assert list(queue.take(0)) == [1]  # 0 is done
    assert list(queue.take(1)) == []
    assert not queue.again(1)
    assert list(queue.take(0)) == [2]
    assert not queue


def test_workers_of_another_version_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"the workers have snapreport .*, and here it is 0\.0"):
        _work(square, Work(1, tmp_path), 0, None, "mark", "0.0")


def test_a_limit_on_processes_leaves_the_work_to_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise BlockingIOError(11, os.strerror(11))

    monkeypatch.setattr("multiprocessing.context.SpawnProcess.start", refuse)
    works = [Work(number, tmp_path) for number in range(3)]
    told: list[int] = []
    results = run_tasks(
        square, works, lost=not_done, jobs=2, watch=lambda place, *_: told.append(place)
    )
    assert results == ["0", "1", "4"]
    assert sorted(told) == [0, 1, 2]


def test_no_items_start_no_workers() -> None:
    nowhere = Engine("dask", "tcp://127.0.0.1:1")
    assert run_tasks(square, [], lost=not_done, engine=nowhere) == []

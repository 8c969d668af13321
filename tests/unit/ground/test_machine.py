"""What is left of memory and processors, by the files of made-up systems."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from snapreport.api.runs import tasks
from snapreport.ground import processes
from snapreport.read import parsed

GIB = 1 << 30


def system(
    root: Path, groups: str | None = None, available: int | None = 8 * GIB, **files: str
) -> Path:
    """Make a system's files; keys are names below sys/fs/cgroup, / as __ and . as _DOT_."""
    (root / "proc/self").mkdir(parents=True)
    if available is not None:
        text = f"MemTotal: 99999999 kB\nMemFree: 5 kB\nMemAvailable: {available >> 10} kB\n"
        (root / "proc/meminfo").write_text(text + "HugePages_Total: 0\nnonsense\n")
    if groups is not None:
        (root / "proc/self/cgroup").write_text(groups)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_what_linux_says_is_available_counts(tmp_path: Path) -> None:
    assert processes.available_memory(system(tmp_path)) == 8 * GIB


def test_where_nothing_is_said_nothing_is_known(tmp_path: Path) -> None:
    assert processes.available_memory(tmp_path) is None
    odd = system(tmp_path, "no group\n9:cpu:/\n", None, memory_DOT_max="5", cpu__x="1")
    assert processes.available_memory(odd) is None


def test_a_group_leaves_its_limit_less_what_is_used_but_for_file_pages(tmp_path: Path) -> None:
    root = system(
        tmp_path,
        "0::/batch/job_7\n",
        batch__job_7__memory_DOT_max=f"{4 * GIB}\n",
        batch__job_7__memory_DOT_current=f"{3 * GIB}\n",
        batch__job_7__memory_DOT_stat=f"anon 7\nactive_file {GIB}\ninactive_file 10\nfile 3\n",
    )
    assert processes.available_memory(root) == 2 * GIB + 10


def test_the_tightest_of_the_groups_around_counts(tmp_path: Path) -> None:
    root = system(
        tmp_path,
        "0::/batch/job\n",
        batch__job__memory_DOT_max="max\n",
        batch__job__memory_DOT_current="5\n",
        batch__memory_DOT_max=f"{GIB}\n",
        batch__memory_DOT_current=f"{2 * GIB}\n",
    )
    assert processes.available_memory(root) == 0


@pytest.mark.parametrize("path", ["/", "/docker/of/the/host", "/../../elsewhere"])
def test_in_a_container_the_group_is_at_the_top(tmp_path: Path, path: str) -> None:
    root = system(
        tmp_path,
        f"4:cpu,memory:{path}\n0::{path}\n",
        memory__memory_DOT_limit_in_bytes=str(3 * GIB),
        memory__memory_DOT_usage_in_bytes=str(GIB),
        memory__memory_DOT_stat="active_file 9\ntotal_active_file 5\ntotal_inactive_file 2\n",
    )
    assert processes.available_memory(root) == 2 * GIB + 7


def test_a_limit_beyond_the_machine_is_none(tmp_path: Path) -> None:
    root = system(
        tmp_path,
        "4:memory:/\n",
        memory__memory_DOT_limit_in_bytes="9223372036854771712",
        memory__memory_DOT_usage_in_bytes="5",
    )
    assert processes.available_memory(root) == 8 * GIB


def test_reading_and_choosing_jobs_ask_the_same_function() -> None:
    users = (vars(module)["available_memory"] for module in (parsed, tasks))
    assert set(users) == {processes.available_memory}


def test_the_tightest_quota_of_processors_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: set(range(16)), raising=False)
    assert processes.usable_cpus(system(tmp_path / "none", "0::/job\n")) == 16
    new = system(
        tmp_path / "new",
        "0::/batch/job\n",
        batch__job__cpu_DOT_max="800000 100000\n",
        batch__cpu_DOT_max="350000 100000\n",
        cpu_DOT_max="max 100000\n",
    )
    assert processes.usable_cpus(new) == 3
    old = system(
        tmp_path / "old",
        "3:cpu,cpuacct:/job\n",
        cpu__job__cpu_DOT_cfs_quota_us="50000\n",
        cpu__job__cpu_DOT_cfs_period_us="100000\n",
        cpu__cpu_DOT_cfs_quota_us="-1\n",
        cpu__cpu_DOT_cfs_period_us="100000\n",
    )
    assert processes.usable_cpus(old) == 1


def test_this_machine_has_processors_and_memory() -> None:
    assert 1 <= processes.usable_cpus() <= (os.cpu_count() or 1)
    free = processes.available_memory()
    assert free is None or free > 0

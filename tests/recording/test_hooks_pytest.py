"""The pytest plugin, in projects of its own that pytest runs in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.recording import ready

PLUGIN = "snapreport.recorders.hosts.pytest_plugin"


@pytest.fixture
def torch_here() -> None:
    pytest.importorskip("torch", reason="torch is not installed: pip install torch")


def options(folder: Path, *given: str) -> list[str]:
    """Have pytest load the plugin and no other that is not pytest's."""
    return [
        "-m", "pytest", "-p", PLUGIN, "--strict-markers", "-Werror",
        f"--basetemp={folder / 'temporary'}", "-p", "no:cacheprovider", *given,
    ]  # fmt: skip


def run(
    folder: Path, tests: str, *given: str, imported: str = ready.PYTORCH, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run pytest over a file of tests, in a Python that has imported PyTorch."""
    (folder / "test_it.py").write_text(tests)
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} | environment
    return ready.run(options(folder, *given), folder, environment, imported)


def outcomes(result: subprocess.CompletedProcess[str]) -> str:
    """The last line: how many passed, failed and so on."""
    lines = result.stdout.rstrip().splitlines()
    return lines[-1].strip("= ") if lines else result.stderr


def pages(folder: Path) -> list[str]:
    return sorted(str(page.relative_to(folder)) for page in folder.rglob("report*.html"))


def test_loading_the_plugin_imports_neither_torch_nor_numpy_nor_the_package(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_it.py").write_text(
        """
import sys

def test_it():
    ours = sorted(name for name in sys.modules if name.startswith("snapreport."))
    assert ours == [
        "snapreport.ground",
        "snapreport.ground.version",
        "snapreport.recorders",
        "snapreport.recorders.hosts",
        "snapreport.recorders.hosts.pytest_plugin",
    ]
    assert not {"torch", "numpy", "click", "apsw"} & set(sys.modules)

def test_no_hook_is_around_tests_that_did_not_ask(request):
    assert not request.config.pluginmanager.has_plugin("snapreport-budget")
"""
    )
    given = {"PYTHONPATH": str(REPOSITORY), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    result = subprocess.run(  # a new Python, which has imported nothing yet
        [sys.executable, *options(tmp_path)],
        cwd=tmp_path,
        env=os.environ | given,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert outcomes(result).startswith("2 passed"), result.stdout + result.stderr
    assert not (tmp_path / "temporary" / "gpu_memory").exists()


@pytest.mark.usefixtures("torch_here")
def test_a_marked_test_over_its_budget_fails_with_who_held_it_and_a_report(
    tmp_path: Path,
) -> None:
    result = run(
        tmp_path,
        """
import pytest
import torch

@pytest.mark.gpu_memory(max_peak="8MB")
def test_large():
    kept = torch.ones(3_000_000)

@pytest.mark.gpu_memory(max_peak="12MB")
def test_just_within():
    kept = torch.ones(3_000_000)
""",
    )
    assert "1 failed, 1 passed" in outcomes(result), result.stdout + result.stderr
    assert "gpu_memory: test_large does not meet its budget." in result.stdout
    assert "test_it.py:7" in result.stdout
    assert "11.44 MiB" in result.stdout
    assert pages(tmp_path) == ["temporary/gpu_memory/test_it.py_test_large/1/report.html"]
    assert "Captured gpu_memory call" in result.stdout
    assert "traceback" not in result.stdout.lower()


@pytest.mark.usefixtures("torch_here")
def test_the_fixture_measures_a_part_of_a_test(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
import torch

def test_part(gpu_memory):
    before = torch.ones(5_000_000)
    with gpu_memory(max_peak="5MB") as measured:
        inside = torch.ones(1_000_000)
    assert measured.peak == 4_000_000
    assert measured.snapshot.device().name == "cpu:0"
    assert set(measured.files) == {"pickle"}

def test_without_a_budget_nothing_fails(gpu_memory):
    with gpu_memory() as measured:
        inside = torch.ones(1_000_000)
    assert measured.peak == 4_000_000

def test_over(gpu_memory):
    with gpu_memory(max_peak=1000):
        inside = torch.ones(1_000_000)
    assert False, "not reached"
""",
    )
    assert "1 failed, 2 passed" in outcomes(result), result.stdout + result.stderr
    assert "test_over does not meet its budget" in result.stdout
    assert "not reached" not in result.stdout.partition("short test summary")[2]


@pytest.mark.usefixtures("torch_here")
def test_the_outcome_of_a_test_stays_its_own(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
import unittest
import pytest
import torch

pytestmark = pytest.mark.gpu_memory(max_peak="1MB")

def test_fails_by_itself():
    kept = torch.ones(1_000_000)
    raise ValueError("mine")

def test_skipped():
    kept = torch.ones(1_000_000)
    pytest.skip("no")

@pytest.mark.xfail(strict=True)
def test_expected_to_be_over():
    kept = torch.ones(1_000_000)

@pytest.mark.gpu_memory(max_peak="5MB")
def test_its_own_marker_wins():
    kept = torch.ones(1_000_000)

class Old(unittest.TestCase):
    def test_of_unittest(self):
        kept = torch.ones(1_000_000)
""",
    )
    assert "2 failed, 1 passed, 1 skipped, 1 xfailed" in outcomes(result), result.stdout
    assert "ValueError: mine" in result.stdout
    assert "test_of_unittest does not meet its budget" in result.stdout
    assert [page for page in pages(tmp_path) if "by_itself" in page]


@pytest.mark.usefixtures("torch_here")
def test_the_folder_on_the_command_line_keeps_what_passes_too(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
import pytest
import torch

@pytest.mark.parametrize("width", [10, 20])
@pytest.mark.gpu_memory(max_peak="5MB")
def test_it(width):
    kept = torch.ones(width)
""",
        "--gpu-memory=kept",
    )
    assert outcomes(result).startswith("2 passed"), result.stdout + result.stderr
    assert pages(tmp_path) == [
        "kept/test_it.py_test_it_10/1/report.html",
        "kept/test_it.py_test_it_20/1/report.html",
    ]


def test_a_budget_that_is_none_fails_the_test_before_it_runs(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
import pytest

@pytest.mark.gpu_memory(max_peak='2 parsecs')
def test_no_size():
    print("it ran")

@pytest.mark.gpu_memory(most='2GiB')
def test_no_name():
    print("it ran")

@pytest.mark.gpu_memory('2GiB')
def test_without_a_name():
    print("it ran")
""",
    )
    assert outcomes(result).startswith("3 failed"), result.stdout + result.stderr
    assert "'2 parsecs' is not a size" in result.stdout
    assert "there is no 'most'; there are max_peak" in result.stdout
    assert "gpu_memory: give the budget by name, such as max_peak='2GiB'" in result.stdout
    assert "it ran" not in result.stdout


def test_without_torch_a_marked_test_fails_and_says_what_to_install(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "torch.py").write_text("raise ImportError('not here')\n")
    result = run(
        tmp_path,
        """
import pytest

@pytest.mark.gpu_memory(max_peak="2GiB")
def test_it():
    pass
""",
        imported=ready.OURS,
        PYTHONPATH=os.pathsep.join(map(str, (hidden, REPOSITORY))),
    )
    assert outcomes(result).startswith("1 failed"), result.stdout + result.stderr
    assert "gpu_memory: PyTorch cannot be imported: not here" in result.stdout


def test_the_entry_point_names_the_plugin() -> None:
    text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    assert f'[project.entry-points.pytest11]\nsnapreport = "{PLUGIN}"\n' in text


@pytest.mark.usefixtures("torch_here")
def test_a_marked_test_runs_for_a_card_that_is_not_there(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        """
import pytest
import torch

def step():
    model = torch.nn.Linear(1024, 1024, bias=False, device="cuda")
    model(torch.ones(8, 1024, device="cuda")).sum().backward()

def test_before_on_the_cpu():
    torch.ones(2, requires_grad=True).sum().backward()

@pytest.mark.gpu_memory(max_peak="17MiB", forecast=True)
def test_fits():
    step()  # 4 MiB, its gradient, 8.1 MiB of cuBLAS for each of two threads would be too much

@pytest.mark.gpu_memory(max_peak="30MiB", forecast="rtx-4090")
def test_fits_with_the_workspaces():
    assert "4090" in torch.cuda.get_device_name()
    step()

def test_the_card_is_gone():
    assert not torch.cuda.is_available()

def test_a_part(gpu_memory):
    with gpu_memory(forecast="24GB") as measured:
        step()
    # Weight, gradient, two workspaces of 8,519,680 bytes; input and result in blocks of 512 bytes.
    assert measured.peak >= 2 * 4194304 + 2 * 8519680

@pytest.mark.gpu_memory(max_peak="1GiB", forecast="no-such-card")
def test_a_wrong_card():
    step()
""",
    )
    assert outcomes(result).startswith("2 failed, 4 passed"), result.stdout + result.stderr
    assert "test_fits does not meet its budget" in result.stdout
    assert "'no-such-card' is not in the list of cards" in result.stdout

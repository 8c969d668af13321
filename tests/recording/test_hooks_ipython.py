"""The magic in a real IPython, each in a process of its own: there is one shell per process."""

from __future__ import annotations

from pathlib import Path

import snapreport
from tests.needed import needed
from tests.recording import ready

needed("IPython")
needed("torch")

BEGIN = """
import sys
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance(colors="NoColor")
shell.run_cell("%load_ext snapreport").raise_error()
"""
IMPORT = """
shell.run_cell("import torch").raise_error()
"""


def run(folder: Path, program: str) -> str:
    """Run cells, and return what they print."""
    given = ["-c", BEGIN + IMPORT + program]
    result = ready.run(given, folder, {"IPYTHONDIR": str(folder / "ipython")})
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_what_loads_the_magic_imports_no_torch(tmp_path: Path) -> None:
    given = ["-c", BEGIN + 'assert "torch" not in sys.modules\n']
    environment = {"IPYTHONDIR": str(tmp_path / "ipython")}
    result = ready.run(given, tmp_path, environment, ready.OURS)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_cell_leaves_files_shows_them_and_keeps_its_names_and_value(tmp_path: Path) -> None:
    printed = run(
        tmp_path,
        """
cell = '''%%snapreport_memory -o out
kept = torch.ones(1_000_000)
kept.shape'''
result = shell.run_cell(cell, store_history=True)
result.raise_error()
assert tuple(result.result) == (1_000_000,)
assert shell.user_ns["kept"].shape == (1_000_000,)
""",
    )
    assert {path.name for path in (tmp_path / "out" / "1").iterdir()} == {
        "report.html",
        "report.md",
        "snap.zip",
        "snapshot.pickle",
    }
    assert "Allocated memory peaked" in printed  # the summary, as text
    assert str(Path("out", "1", "report.html")) in printed
    snapshot = snapreport.load(tmp_path / "out" / "1" / "snap.zip")
    assert snapshot.device().peak.allocated == 4_000_000
    assert snapshot.history.recorder is not None
    assert snapshot.history.recorder.title == "In [1]"


def test_call_stacks_have_the_lines_of_the_cell(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
cell = '''%%snapreport_memory
small = torch.ones(10)
large = torch.ones(1_000_000)
'''
shell.run_cell(cell).raise_error()
""",
    )
    snapshot = snapreport.load(tmp_path / "cell.memory" / "1" / "snap.zip")
    top = snapshot.findings().devices[0].sites[0]
    assert top.bytes == 4_000_000
    assert top.line == 2


def test_an_exception_goes_its_way_and_the_report_is_there(tmp_path: Path) -> None:
    printed = run(
        tmp_path,
        """
cell = '''%%snapreport_memory -o out
kept = torch.ones(1_000_000)
raise ValueError("mine")'''
result = shell.run_cell(cell)
assert isinstance(result.error_in_exec, ValueError)
""",
    )
    assert "ValueError: mine" in printed
    assert "ipython.py" not in printed
    text = (tmp_path / "out" / "1" / "report.md").read_text()
    assert "Ended by: `ValueError: mine in <module> (<ipython-input-" in text


def test_a_line_is_recorded_as_it_is_written_and_into_a_variable(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
shell.run_cell("%snapreport_memory --into seen y = torch.ones(2_000_000)").raise_error()
assert shell.user_ns["seen"].device().peak.allocated == 8_000_000
assert shell.user_ns["y"].shape == (2_000_000,)
shell.run_cell('''%snapreport_memory t = {"a b": torch.ones(len('x  y'))}''').raise_error()
assert shell.user_ns["t"]["a b"].shape == (4,)
""",
    )


def test_a_cell_may_await_where_no_loop_runs(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
cell = '''%%snapreport_memory -o out
import asyncio
async def make(n):
    await asyncio.sleep(0)
    return torch.ones(n)
kept = await make(1_000_000)
(await make(10)).shape'''
result = shell.run_cell(cell)
result.raise_error()
assert tuple(result.result) == (10,)
assert shell.user_ns["kept"].shape == (1_000_000,)
""",
    )
    assert snapreport.load(tmp_path / "out" / "1" / "snap.zip").device().peak.allocated >= 4_000_000


def test_in_a_notebook_s_loop_a_magic_says_how_to_record_what_awaits(tmp_path: Path) -> None:
    printed = run(
        tmp_path,
        """
import asyncio

async def notebook(source):
    return await shell.run_cell_async(
        source, transformed_cell=shell.transform_cell(source), store_history=True
    )

async def cells():
    ran = await notebook("%%snapreport_memory -o out\\nawait asyncio.sleep(0)")
    print(type(ran.error_in_exec).__name__, ran.error_in_exec)
    result = await notebook('''import snapreport, asyncio
with snapreport.record("out"):
    kept = torch.ones(1_000_000)
    await asyncio.sleep(0)
    more = torch.ones(1_000_000)''')
    result.raise_error()

asyncio.run(cells())
""",
    )
    assert "UsageError A magic cannot await" in printed
    assert "with snapreport.record('out'):" in printed
    assert snapreport.load(tmp_path / "out" / "1" / "snap.zip").device().peak.allocated == 8_000_000


def test_what_cannot_be_recorded_is_said_in_a_line_and_nothing_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run(
        tmp_path,
        """
from IPython.core.error import UsageError
result = shell.run_cell("%%snapreport_memory -o file\\nran = 1")
assert isinstance(result.error_in_exec, UsageError), result
assert "is a file" in str(result.error_in_exec)
assert "ran" not in shell.user_ns
assert isinstance(shell.run_cell("%snapreport_memory").error_in_exec, UsageError)
""",
    )

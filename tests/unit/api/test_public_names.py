"""The names that ``import snapreport`` offers."""

from __future__ import annotations

import subprocess
import sys

import pytest

import snapreport
from snapreport.ground import errors
from snapreport.ground.errors import SnapreportError
from snapreport.ground.version import __version__

HEAVY = {"numpy", "orjson", "apsw", "jinja2", "rich", "zstandard", "markdown_it", "torch"}


def test_every_public_name_is_there() -> None:
    for name in snapreport.__all__:
        assert getattr(snapreport, name) is not None
    assert snapreport.__version__ == __version__
    assert set(snapreport.__all__) == set(dir(snapreport))


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = snapreport.no_such_name


def test_every_expected_error_is_public() -> None:
    public = {getattr(snapreport, name) for name in snapreport.__all__ if name.endswith("Error")}
    made = {each for each in vars(errors).values() if isinstance(each, type)}
    assert public == {each for each in made if issubclass(each, SnapreportError)}


def test_the_command_line_starts_without_the_heavy_libraries() -> None:
    code = "import sys, snapreport.commands; print(*{m.split('.')[0] for m in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert HEAVY & set(done.stdout.split()) == set()


@pytest.mark.parametrize("module", ["api.loading", "api.recording", "commands"])
def test_nothing_imports_torch_before_it_records(module: str) -> None:
    code = f"import sys, snapreport.{module}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"

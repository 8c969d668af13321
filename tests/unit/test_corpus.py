"""The folder of real snapshots: whoever adds a file to it has it tested, and nothing to change."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.conftest import REPOSITORY


def test_a_new_file_is_held_to_the_laws_and_to_no_figures(samples: Path, tmp_path: Path) -> None:
    shutil.copy(samples / "two_streams.pickle", tmp_path / "newcomer.pickle")
    result = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "tests/golden", "-k", "newcomer", "-v"),
            *("-n", "0", "-p", "no:cacheprovider"),
        ],
        cwd=REPOSITORY,
        env=os.environ | {"SNAPREPORT_CORPUS": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    laws = {name for name, _ in re.findall(r"::(\w+)\[(.*newcomer.*)\] PASSED", result.stdout)}
    assert {
        "test_the_closing_law_holds_or_its_breach_is_said",
        "test_a_bundle_gives_back_the_history_and_the_same_reports",
        "test_reserved_memory_is_accounted_for_to_the_byte",
        "test_what_if_peaks_are_those_of_a_curve_made_anew",
        "test_raw_forms_hold_what_the_file_holds",
    } <= laws

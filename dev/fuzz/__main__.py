"""Fuzz every target for a while; what crashes one is left in tests/crashes, for the fix.

Example: python -m dev.fuzz 60 pickles rules budget
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from dev.fuzz import CRASHES, native
from dev.fuzz.corpora import large
from dev.fuzz.native import HARNESSES, NoFuzzerError
from dev.fuzz.seeds import seeds
from dev.fuzz.targets import TARGETS

_LARGEST = 4 << 20
"""Bytes of an input of the native library."""


@click.command()
@click.argument("seconds", type=click.IntRange(min=2), default=60)
@click.argument("targets", nargs=-1, type=click.Choice([*HARNESSES, *TARGETS]))
def main(seconds: int, targets: tuple[str, ...]) -> None:
    """Share the seconds among the targets, and print how often each was tried."""
    chosen = targets or (*HARNESSES, *TARGETS)
    failed = 0
    for target in chosen:
        fuzz = _fuzz_natively if target in HARNESSES else _fuzz
        failed += fuzz(target, max(2, seconds // len(chosen)))
    sys.exit(1 if failed else 0)


def _fuzz(target: str, seconds: int) -> bool:
    """Fuzz Python with atheris."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        native.write_files(Path(folder), seeds(target))
        command = [sys.executable, "-m", "dev.fuzz.one", target, folder]
        command += [f"-max_total_time={seconds}", "-max_len=8192", "-rss_limit_mb=2048"]
        done = subprocess.run(
            [*command, *_options(target)], capture_output=True, text=True, check=False
        )
    return _told(target, done.returncode, done.stdout + done.stderr)


def _fuzz_natively(target: str, seconds: int) -> bool:
    """Fuzz the native library: half of the time small inputs, then those of up to megabytes.

    What is found is kept in ``out/``, and the next run goes on from there.
    """
    try:
        program = native.harness(target)
    except NoFuzzerError as error:
        print(f"{target:<10}is left out: {error}.")
        return False
    found = native.write_files(native.OUT / "found" / target, native.corpus(target))
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        samples = native.write_files(Path(folder), large(target))
        for longest, folders in ((8192, [found]), (_LARGEST, [found, samples])):
            status, said = native.run(
                *(program, f"-max_total_time={seconds // 2}", f"-max_len={longest}"),
                *(*_options(target), *map(str, folders)),
            )
            if _told(target, status, said):
                return True
    return False


def _options(target: str) -> list[str]:
    return ["-timeout=20", "-print_final_stats=1", f"-artifact_prefix={CRASHES}/{target}-"]


def _told(target: str, status: int, said: str) -> bool:
    """Print what came of a run, and return whether it crashed."""
    tried = re.search(r"number_of_executed_units: +(\d+)", said)
    reached = re.findall(r" cov: (\d+)", said)
    print(
        f"{target:<10}{int(tried[1]) if tried else 0:>12,} tried"
        f"{int(reached[-1]) if reached else 0:>8,} places reached"
        f"  {'CRASHED' if status else 'no crash'}",
        flush=True,
    )
    if status:
        print("\n".join(said.splitlines()[-40:]))
    return status != 0


if __name__ == "__main__":
    main()

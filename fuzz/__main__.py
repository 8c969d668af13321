"""Fuzz every target for a while; what crashes one is left in tests/crashes, for the fix.

Example: python -m fuzz 60 rules budget
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from fuzz.seeds import CRASHES, seeds
from fuzz.targets import TARGETS


@click.command()
@click.argument("seconds", type=click.IntRange(min=1), default=60)
@click.argument("targets", nargs=-1, type=click.Choice(list(TARGETS)))
def main(seconds: int, targets: tuple[str, ...]) -> None:
    """Share the seconds among the targets, and print how often each was tried."""
    chosen = targets or tuple(TARGETS)
    failed = 0
    for target in chosen:
        failed += _fuzz(target, max(1, seconds // len(chosen)))
    sys.exit(1 if failed else 0)


def _fuzz(target: str, seconds: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        for number, data in enumerate(seeds(target)):
            Path(folder, f"seed{number}").write_bytes(data)
        command = [sys.executable, "-m", "fuzz.one", target, folder]
        command += [f"-max_total_time={seconds}", "-max_len=8192", "-timeout=20"]
        command += ["-rss_limit_mb=2048", "-print_final_stats=1"]
        command += [f"-artifact_prefix={CRASHES}/{target}-"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    tried = re.search(r"number_of_executed_units: +(\d+)", said)
    reached = re.findall(r" cov: (\d+)", said)
    print(
        f"{target:<10}{int(tried[1]) if tried else 0:>12,} tried"
        f"{int(reached[-1]) if reached else 0:>8,} places reached"
        f"  {'CRASHED' if done.returncode else 'no crash'}",
        flush=True,
    )
    if done.returncode:
        print("\n".join(said.splitlines()[-40:]))
    return done.returncode != 0


if __name__ == "__main__":
    main()

"""Holds forecasts against what really happened.

python -m tests.forecast --as cpu [--only transformer,unet] [--variants]
python -m tests.forecast truth
python -m tests.forecast gpu [--only decoder,resnet]
"""

from __future__ import annotations

import argparse
import sys

from tests.forecast import as_cpu, on_gpu, truth
from tests.forecast.test_as_cpu import EQUAL, OTHERWISE
from tests.laboratory.programs import all_programs
from tests.laboratory.recording import Job


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description="Hold forecasts against what really happened.")
    parser.add_argument("what", nargs="?", choices=("truth", "gpu"), help="on real cards")
    parser.add_argument("--as", dest="chosen", choices=("cpu",), help="on the CPU, the laboratory")
    parser.add_argument("--only", help="programs by name, separated by commas")
    parser.add_argument("--variants", action="store_true", help="with every change of them, too")
    given = parser.parse_args()
    if given.what == "gpu":
        sys.exit(on_gpu.check(given.only.split(",") if given.only else None))
    if given.what == "truth":
        print(truth.report())
        return
    if not given.chosen:
        parser.error("say --as cpu, truth or gpu")
    names = given.only.split(",") if given.only else [*EQUAL, *OTHERWISE]
    known = all_programs()
    jobs = [
        Job(name, variant)
        for name in names
        for variant in ("", *(known[name].variants if given.variants else ()))
    ]
    print(as_cpu.report(jobs))


if __name__ == "__main__":
    main()

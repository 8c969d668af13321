"""Judges the diagnosis by real programs.

python -m tests.laboratory roles [--only transformer,unet] [--wrong 5] [--variants]
python -m tests.laboratory advice [--only transformer,unet]
python -m tests.laboratory plans [--only transformer,wide-model]
python -m tests.laboratory batches [--only sized-transformer,sized-unet]
python -m tests.laboratory gpu [--only transformer,unet] [--device cpu]
python -m tests.laboratory document
"""

from __future__ import annotations

import argparse
import sys

from tests.laboratory import advice, batches, document, on_gpu, plans, roles
from tests.laboratory.programs import all_programs
from tests.laboratory.recording import Job


def main() -> None:
    """Print the tables, or write all of them into docs/advice.md."""
    parser = argparse.ArgumentParser(description="Judge roles and advice by real programs.")
    parser.add_argument("what", choices=("roles", "advice", "plans", "batches", "gpu", "document"))
    parser.add_argument("--only", help="programs by name, separated by commas")
    parser.add_argument("--wrong", type=int, default=0, help="roles: lines about what is wrong")
    parser.add_argument(
        "--recorded-late", action="store_true", help="roles: by a profiler that began late, too"
    )
    parser.add_argument("--variants", action="store_true", help="roles: with every change, too")
    parser.add_argument("--device", default="cuda", help="gpu: cpu to try it without one")
    given = parser.parse_args()
    known = all_programs()
    only = given.only.split(",") if given.only else None
    programs = only or [name for name, made in known.items() if made.variants]
    if given.what == "roles":
        jobs = [
            Job(name, variant)
            for name in programs
            for variant in ("", *(known[name].variants if given.variants else ()))
        ]
        print(roles.report(jobs, given.wrong, given.recorded_late))
    elif given.what == "advice":
        print(advice.report(programs))
    elif given.what == "plans":
        print(plans.report(only or plans.PROGRAMS))
    elif given.what == "gpu":
        sys.exit(on_gpu.check(only, given.device))
    elif given.what == "batches":
        print(batches.report(only or tuple(batches.FROM)))
    else:
        document.write(programs)
        print(document.PATH)


if __name__ == "__main__":
    main()

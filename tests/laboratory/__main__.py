"""Judges the diagnosis by real programs.

python -m tests.laboratory roles [--only transformer,unet] [--wrong 5] [--variants]
python -m tests.laboratory advice [--only transformer,unet]
"""

from __future__ import annotations

import argparse

from tests.laboratory import advice, roles
from tests.laboratory.programs import all_programs
from tests.laboratory.recording import Job


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Judge roles and advice by real programs.")
    parser.add_argument("what", choices=("roles", "advice"))
    parser.add_argument("--only", help="programs by name, separated by commas")
    parser.add_argument("--wrong", type=int, default=0, help="roles: lines about what is wrong")
    parser.add_argument(
        "--recorded-late", action="store_true", help="roles: by a profiler that began late, too"
    )
    parser.add_argument("--variants", action="store_true", help="roles: with every change, too")
    given = parser.parse_args()
    programs = [name for name, made in all_programs().items() if made.variants]
    if given.only:
        programs = given.only.split(",")
    if given.what == "roles":
        known = all_programs()
        jobs = [
            Job(name, variant)
            for name in programs
            for variant in ("", *(known[name].variants if given.variants else ()))
        ]
        print(roles.report(jobs, given.wrong, given.recorded_late))
    else:
        print(advice.report(programs))


if __name__ == "__main__":
    main()

"""Judges the diagnosis by real programs.

python -m tests.laboratory roles [--only transformer,unet] [--wrong 5] [--recorded-late]
python -m tests.laboratory advice [--only transformer,unet]
"""

from __future__ import annotations

import argparse

from tests.laboratory import advice, roles
from tests.laboratory.programs import all_programs


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Judge roles and advice by real programs.")
    parser.add_argument("what", choices=("roles", "advice"))
    parser.add_argument("--only", help="programs by name, separated by commas")
    parser.add_argument("--wrong", type=int, default=0, help="roles: lines about what is wrong")
    parser.add_argument(
        "--recorded-late", action="store_true", help="roles: by a profiler that began late, too"
    )
    given = parser.parse_args()
    programs = [name for name, made in all_programs().items() if made.variants]
    if given.only:
        programs = given.only.split(",")
    if given.what == "roles":
        print(roles.report(programs, given.wrong, given.recorded_late))
    else:
        print(advice.report(programs))


if __name__ == "__main__":
    main()

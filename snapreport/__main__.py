"""The ``snapreport`` command, and ``python -m snapreport``.

What it needs is imported inside of ``main``: so Ctrl-C is no traceback in these moments either.
"""

from __future__ import annotations

import sys

_INTERRUPTED = 130
"""128 + SIGINT, as shells have it."""


def main() -> None:
    """Run the command line and exit."""
    try:
        from snapreport.commands import main as run

        run()
    except KeyboardInterrupt:  # before a command was begun: it has written nothing
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()

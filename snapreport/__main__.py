"""``python -m snapreport``: the same as the ``snapreport`` command."""

from __future__ import annotations

from snapreport.commands import main

if __name__ == "__main__":
    main()

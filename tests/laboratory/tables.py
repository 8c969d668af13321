"""Tables in Markdown, with columns of even width so that a terminal shows them, too."""

from __future__ import annotations

from collections.abc import Sequence


def markdown(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; all but the texts on the left are set to the right.

    Args:
        names: of the columns.
        rows: each as long as ``names``.
    """
    widths = [max(len(row[i]) for row in [names, *rows]) for i in range(len(names))]
    right = [bool(rows) and all(_is_figure(row[i]) for row in rows) for i in range(len(names))]
    lines = [
        " | ".join(
            cell.rjust(width) if figure else cell.ljust(width)
            for cell, width, figure in zip(row, widths, right, strict=True)
        )
        for row in [names, *rows]
    ]
    rule = "|".join(
        "-" * (width + 1) + (":" if figure else "-")
        for width, figure in zip(widths, right, strict=True)
    )
    return "\n".join([f"| {lines[0]} |", f"|{rule}|", *(f"| {line} |" for line in lines[1:])])


def _is_figure(cell: str) -> bool:
    return not cell or cell[0].isdigit() or cell[0] in "-+"

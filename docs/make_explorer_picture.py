"""Record a session of the terminal explorer as an animated picture: docs/explore.svg.

    python -m docs.make_explorer_picture

The screens are what the program shows of a sample, in its own colours; blocks are drawn as areas,
so that bars look alike in every font.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from html import escape
from pathlib import Path

from snapreport.commands.explorer.app import style_of
from snapreport.commands.explorer.chart import BLOCKS
from snapreport.commands.explorer.desk import Panes
from snapreport.commands.explorer.lines import Line
from snapreport.commands.explorer.opening import OpenedFile, Sources
from snapreport.commands.explorer.screen import Viewpoint, Work

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "sample_snapshots" / "out_of_memory.pickle.gz"
TARGET = ROOT / "docs" / "explore.svg"
COLUMNS, ROWS = 88, 24
WIDE, HIGH = 8.4, 17
THEME = "dark"
NO_BREAK = "\xa0"
"""A space that is kept: SVG collapses several ordinary ones."""

SESSION: tuple[tuple[tuple[str, ...], float], ...] = (
    ((), 3.0),
    (("right",), 3.5),
    (("2",), 2.0),
    (("left",), 0.4),
    (("left",), 0.4),
    (("left",), 0.8),
    (("+",), 1.2),
    (("+",), 1.5),
    (("p",), 1.0),
    (("enter",), 2.5),
    (("/", *"atten"), 1.5),
    (("enter",), 1.0),
    (("left", "f"), 2.0),
    (("q", "escape"), 1.0),
    (("u",), 2.0),
    (("7",), 1.0),
    (("right", "right", "right"), 2.0),
    (("2", "o"), 2.5),
)
"""Keys, and for how many seconds the screen after them is shown."""


def screens() -> list[tuple[list[Line], float]]:
    """Play the session, and return each screen."""
    from snapreport import load

    opened = OpenedFile(SAMPLE, SAMPLE, load(SAMPLE), Sources({}))

    def run(work: Work) -> None:
        work()()

    panes = Panes([Viewpoint(opened)], run, lambda: None)
    panes.draw(COLUMNS, ROWS)
    found = []
    for keys, seconds in SESSION:
        for key in keys:
            panes.press(key)
            panes.draw(COLUMNS, ROWS)
        found.append((panes.draw(COLUMNS, ROWS), seconds))
    return found


def colours(role: str, mark: str) -> tuple[str, str, bool]:
    """Return the text colour, the background, and whether letters are bold."""
    style = style_of(f"{role}|{mark}" if mark else role, THEME)
    ink, ground = style.color, style.bgcolor
    assert ink is not None, role
    assert ground is not None, role
    return ink.get_truecolor().hex, ground.get_truecolor().hex, bool(style.bold)


def row(line: Line) -> str:
    """Return a line's areas and letters, at y = 0."""
    ground = colours("", "")[1]
    areas: list[str] = []
    letters: list[str] = []
    at = 0
    for text, role in line.runs:
        ink, behind, bold = colours(role, line.mark)
        if behind != ground:
            areas.append(area(at, len(text), 0, HIGH, behind))
        plain = "".join(" " if letter in BLOCKS else letter for letter in text)
        blocks = [
            (k, BLOCKS.index(letter)) for k, letter in enumerate(text) if letter in BLOCKS[1:]
        ]
        if blocks:
            path = "".join(
                f"M{(at + k[0]) * WIDE:.1f} {HIGH}v{-HIGH * part / 8:.1f}"
                f"h{len(k) * WIDE:.1f}V{HIGH}z"
                for k, part in joined(blocks)
            )
            areas.append(f'<path fill="{ink}" d="{path}"/>')
        begin = len(plain) - len(plain.lstrip())
        shown = plain.strip()
        if shown:
            weight = ' font-weight="700"' if bold else ""
            letters.append(
                f'<text x="{(at + begin) * WIDE:.1f}" y="13" fill="{ink}"{weight}'
                f' textLength="{len(shown) * WIDE:.1f}">'
                f"{escape(shown).replace(' ', NO_BREAK)}</text>"
            )
        at += len(text)
    return "".join((*areas, *letters))


def joined(blocks: list[tuple[int, int]]) -> list[tuple[list[int], int]]:
    """Join neighbours with the same height."""
    found: list[tuple[list[int], int]] = []
    for column, part in blocks:
        if found and found[-1][1] == part and found[-1][0][-1] == column - 1:
            found[-1][0].append(column)
        else:
            found.append(([column], part))
    return found


def area(column: int, columns: int, top: float, height: float, fill: str) -> str:
    return (
        f'<rect x="{column * WIDE:.1f}" y="{top:g}" width="{columns * WIDE:.1f}"'
        f' height="{height:g}" fill="{fill}"/>'
    )


def picture(frames: Iterable[tuple[list[Line], float]]) -> str:
    """Return the session as one SVG; a row that several screens share is in it once."""
    frames = list(frames)
    known: dict[str, str] = {}
    total = sum(seconds for _, seconds in frames)
    shown, begun = [], 0.0
    for lines, seconds in frames:
        uses = []
        for y, line in enumerate(lines):
            drawn = row(line)
            if drawn:
                name = known.setdefault(drawn, f"r{len(known)}")
                uses.append(f'<use href="#{name}" y="{y * HIGH}"/>')
        first, last = begun / total, (begun + seconds) / total
        times = f"0;{first:.4f};{last:.4f}" if first else f"0;{last:.4f}"
        values = "hidden;visible;hidden" if first else "visible;hidden"
        shown.append(
            f'<g visibility="hidden">{"".join(uses)}<animate attributeName="visibility"'
            f' dur="{total:g}s" repeatCount="indefinite" calcMode="discrete"'
            f' keyTimes="{times}" values="{values}"/></g>'
        )
        begun += seconds
    rows = "".join(f'<g id="{name}">{drawn}</g>' for drawn, name in known.items())
    width, height = COLUMNS * WIDE, ROWS * HIGH
    ground = colours("", "")[1]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 -8 {width + 16:g} {height + 16:g}"'
        f' width="{width + 16:g}" height="{height + 16:g}" role="img" font-size="14"'
        ' font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace">'
        "<title>A session of snapreport explore: overview, timeline, call stacks, search,"
        " the allocator's map</title>"
        f'<rect x="-8" y="-8" width="100%" height="100%" rx="6" fill="{ground}"/>'
        f"<defs>{rows}</defs><g>{''.join(shown)}</g></svg>\n"
    )


def main() -> None:
    text = picture(screens())
    TARGET.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{TARGET}: {len(text.encode()):,} bytes, {len(SESSION)} screens\n")


if __name__ == "__main__":
    main()

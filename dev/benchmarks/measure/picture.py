"""Draws curves on logarithmic axes as an SVG, which reads on a dark page as well."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 400, 290
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 92, 34, 38
_COLOURS = ("#1f6feb", "#8250df", "#1a7f37", "#6e7781", "#bc4c00", "#a40e26")
_GREY = "#d0d7de"


@dataclass(frozen=True)
class Panel:
    """One picture.

    Attributes:
        title: what it shows.
        x: what is along the axis.
        curves: points, by name; both figures of each are above 0.
        unit: writes a value on the axis.
    """

    title: str
    x: str
    curves: dict[str, Sequence[tuple[float, float]]]
    unit: Callable[[float], str]


def draw(panels: Iterable[Panel]) -> str:
    """Return an SVG with the panels, two in a row; panels without curves are left out."""
    shown = [each for each in panels if any(each.curves.values())]
    names = dict.fromkeys(name for each in shown for name in each.curves)
    colour = dict(zip(names, _COLOURS * len(names), strict=False))
    rows = -(-len(shown) // 2)
    box = f"0 0 {2 * _WIDTH} {rows * _HEIGHT}"
    font = 'font-family="system-ui, sans-serif" font-size="11" fill="#1f2328"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" {font}>',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for k, panel in enumerate(shown):
        parts.append(f'<g transform="translate({k % 2 * _WIDTH} {k // 2 * _HEIGHT})">')
        parts += [*_panel(panel, colour), "</g>"]
    return "\n".join([*parts, "</svg>\n"])


def _panel(panel: Panel, colour: dict[str, str]) -> list[str]:
    points = [point for curve in panel.curves.values() for point in curve]
    (left, right), (low, high) = (_decades([point[axis] for point in points]) for axis in (0, 1))
    wide, tall = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def at(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - left) / (right - left)
        up = (math.log10(y) - low) / (high - low)
        return round(_LEFT + across * wide, 1), round(_TOP + (1 - up) * tall, 1)

    parts = [
        _text(_LEFT, 18, panel.title, 'font-weight="600" font-size="13"'),
        _text(_LEFT + wide / 2, _HEIGHT - 6, panel.x, 'text-anchor="middle"'),
    ]
    for decade in range(left, right + 1):
        x, y = at(10.0**decade, 10.0**low)
        parts.append(f'<path d="M{x} {_TOP}V{y}" stroke="{_GREY}"/>')
        parts.append(_text(x, y + 14, _short(10.0**decade), 'text-anchor="middle"'))
    for decade in range(low, high + 1):
        x, y = at(10.0**left, 10.0**decade)
        parts.append(f'<path d="M{x} {y}h{wide}" stroke="{_GREY}"/>')
        parts.append(_text(x - 5, y + 4, panel.unit(10.0**decade), 'text-anchor="end"'))
    labels = []
    for name, curve in panel.curves.items():
        if curve:
            places = [at(*point) for point in sorted(curve)]
            path = "L".join(f"{x} {y}" for x, y in places)
            parts.append(
                f'<path d="M{path}" fill="none" stroke="{colour[name]}" stroke-width="2"/>'
            )
            parts += [
                f'<circle cx="{x}" cy="{y}" r="2.5" fill="{colour[name]}"/>' for x, y in places
            ]
            labels.append((places[-1][1], places[-1][0], name))
    free = -math.inf
    last = max((x for _, x, _ in labels), default=0)
    for y, x, name in sorted(labels):
        if x < last:  # beside it are the others
            parts.append(_text(x, y - 8, name, f'text-anchor="middle" fill="{colour[name]}"'))
            continue
        free = max(y + 4, free + 13)  # names of curves that end close together move down
        parts.append(_text(x + 7, free, name, f'fill="{colour[name]}"'))
    return parts


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _short(value: float) -> str:
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g} {name}"
    return f"{value:g}"


def _text(x: float, y: float, text: str, style: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" {style}>{escape(text)}</text>'

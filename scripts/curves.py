"""Draws figures against the size of the vault, both axes logarithmic, as an SVG picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

Curve = Sequence[tuple[float, float]]
"""(notes, value) by growing notes; all values are greater than 0."""

_WIDTH, _HEIGHT, _LEFT, _TOP = 760, 300, 70, 40
_KEY = 250  # room for the names on the right
_COLOURS = ("#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad", "#d68910", "#555555", "#00838f", "#ad1457")


def picture(panels: Mapping[str, Mapping[str, Curve]]) -> str:
    """One panel below the other: title to name to curve. Panels without a curve are left out."""
    drawn = [(title, {name: curve for name, curve in curves.items() if curve}) for title, curves in panels.items()]
    drawn = [(title, curves) for title, curves in drawn if curves]
    tall = len(drawn) * (_HEIGHT + _TOP) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH + _KEY} {tall}"'
        ' font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for at, (title, curves) in enumerate(drawn):
        parts += _panel(title, curves, at * (_HEIGHT + _TOP) + _TOP)
    return "\n".join([*parts, "</svg>", ""])


def _panel(title: str, curves: Mapping[str, Curve], top: int) -> list[str]:
    sizes = [size for curve in curves.values() for size, _ in curve]
    values = [value for curve in curves.values() for _, value in curve]
    across, up = _decades(sizes), _decades(values)
    right, bottom = _WIDTH - 20, top + _HEIGHT - 40

    def x(size: float) -> float:
        return _LEFT + (math.log10(size) - across[0]) / (across[-1] - across[0]) * (right - _LEFT)

    def y(value: float) -> float:
        return bottom - (math.log10(value) - up[0]) / (up[-1] - up[0]) * (bottom - top)

    parts = [f'<text x="{_LEFT}" y="{top - 12}" font-size="14">{escape(title)}</text>']
    for decade in across:
        at = x(10**decade)
        parts.append(f'<line x1="{at:.1f}" y1="{top}" x2="{at:.1f}" y2="{bottom}" stroke="#ddd"/>')
        parts.append(f'<text x="{at:.1f}" y="{bottom + 16}" text-anchor="middle">{10**decade:,}</text>')
    for decade in up:
        at = y(10.0**decade)
        parts.append(f'<line x1="{_LEFT}" y1="{at:.1f}" x2="{right}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{10.0**decade:,g}</text>')
    parts.append(f'<text x="{right}" y="{bottom + 32}" text-anchor="end">notes</text>')
    for at, (name, curve) in enumerate(curves.items()):
        colour = _COLOURS[at % len(_COLOURS)]
        points = " ".join(f"{x(size):.1f},{y(value):.1f}" for size, value in curve)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x(size):.1f}" cy="{y(value):.1f}" r="3" fill="{colour}"/>' for size, value in curve]
        parts.append(f'<text x="{_WIDTH}" y="{top + 14 + 16 * at}" fill="{colour}">{escape(name)}</text>')
    return parts


def _decades(values: Sequence[float]) -> range:
    """Powers of ten around the values, at least two of them."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return range(low, max(high, low + 1) + 1)

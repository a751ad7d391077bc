"""Draws lines against the number of fingerprints, both scales logarithmic, as an SVG.

By hand, since it is a few pictures: no library to install. A light ground of its own makes them
readable on dark pages too; every line is labelled at its end, in its colour.
"""

import math
from html import escape

WIDTH, HEIGHT = 880, 520
LEFT, RIGHT, TOP, BOTTOM = 84, 196, 56, 58
LABEL_HEIGHT = 17

COLOURS = {
    "nearprint": "#c2410c",
    "mih-rs": "#0369a1",
    "gaoya": "#15803d",
    "faiss MultiHash": "#86198f",
    "faiss Flat": "#a16207",
    "USearch": "#be123c",
    "brute force": "#475569",
    "simulated": "#0369a1",
    "measured": "#c2410c",
}
INK, GRID, FINE, GROUND = "#1f2937", "#d1d5db", "#eef0f3", "#ffffff"


def nanoseconds(value):
    for unit, size in ("s", 1e9), ("ms", 1e6), ("us", 1e3):
        if value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g} ns"


def bytes_(value):
    return f"{value:g} B"


def count(value):
    for unit, size in (" G", 1e9), (" M", 1e6):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:,.0f}"


def text(x, y, words, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{escape(words)}</text>'


def line(x1, y1, x2, y2, colour):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


class Scale:
    """A logarithmic axis onto pixels."""

    def __init__(self, values, begin, end, room=0.0):
        self.low = math.log10(min(values)) - room
        self.high = math.log10(max(values)) + room
        if self.high - self.low < 1e-9:
            self.low, self.high = self.low - 0.5, self.high + 0.5
        self.begin, self.end = begin, end

    def at(self, value):
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    def ticks(self):
        """The values 1, 2 .. 9 times a power of ten that lie on it."""
        for power in range(math.floor(self.low), math.ceil(self.high) + 1):
            for digit in range(1, 10):
                if self.low <= math.log10(digit) + power <= self.high:
                    yield digit, digit * 10.0**power


def apart(places):
    """Moves labels until none covers another, each as little as may be; keeps their order."""
    order = sorted(range(len(places)), key=places.__getitem__)
    groups = []
    for i in order:
        groups.append(([i], places[i]))
        while len(groups) > 1:
            (above, a), (below, b) = groups[-2:]
            needed = (len(above) + len(below)) / 2 * LABEL_HEIGHT
            if b - a >= needed:
                break
            members = above + below
            middle = sum(places[i] for i in members) / len(members)
            groups[-2:] = [(members, middle)]
    moved = list(places)
    for members, middle in groups:
        for n, i in enumerate(members):
            moved[i] = middle + (n - (len(members) - 1) / 2) * LABEL_HEIGHT
    return moved


def axes(across, up, counts, unit):
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    decades = [digit for digit, _ in up.ticks() if digit == 1]
    for digit, value in up.ticks():
        y = up.at(value)
        yield line(LEFT, y, right, y, GRID if digit == 1 else FINE)
        # Few decades leave room to name more.
        if digit == 1 or (digit in (2, 5) and len(decades) < 4):
            yield text(LEFT - 10, y + 4, unit(value), 'text-anchor="end"')
    for value in counts:
        x = across.at(value)
        yield line(x, TOP, x, bottom, GRID)
        yield text(x, bottom + 22, count(value), 'text-anchor="middle"')
    middle = (LEFT + right) / 2
    yield text(middle, HEIGHT - 14, "stored fingerprints", 'text-anchor="middle"')


def drawn(series, across, up):
    for name, kind, points in series:
        colour = COLOURS.get(name, INK)
        thick = 3.2 if name == "nearprint" else 1.8
        dashes = ' stroke-dasharray="6 5"' if kind else ""
        places = [(across.at(n), up.at(value)) for n, value in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        style = f'fill="none" stroke="{colour}" stroke-width="{thick}"{dashes}'
        yield f'<polyline points="{path}" {style} stroke-linejoin="round"/>'
        for x, y in places:
            fill = GROUND if kind else colour
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{thick + 1.2}" fill="{fill}" stroke="{colour}" stroke-width="1.6"/>'


def labels(series, across, up):
    ends = {}
    for name, kind, points in series:
        n, value = points[-1]
        ends.setdefault(n, []).append((name, kind, up.at(value)))
    for n, those in ends.items():
        x = across.at(n)
        for (name, kind, y), moved in zip(those, apart([y for _, _, y in those])):
            colour = COLOURS.get(name, INK)
            weight = ' font-weight="bold"' if name == "nearprint" else ""
            if abs(moved - y) > 2:
                yield line(x + 7, y, x + 19, moved, colour)
            words = f"{name}, {kind}" if kind else name
            # On a ground of its own where lines pass below.
            halo = f'stroke="{GROUND}" stroke-width="4" paint-order="stroke"'
            yield text(x + 22, moved + 4.5, words, f'fill="{colour}" {halo}{weight}')


def plot(title, series, unit):
    counts = sorted({n for _, _, points in series for n, _ in points})
    values = [value for _, _, points in series for _, value in points]
    across = Scale(counts, LEFT + 16, WIDTH - RIGHT)
    up = Scale(values, HEIGHT - BOTTOM, TOP, room=0.12)
    named = escape(title)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"'
            f' height="{HEIGHT}" role="img" aria-label="{named}" font-family="Helvetica, Arial,'
            f' sans-serif" font-size="13" fill="{INK}">',
            f"<title>{named}</title>",
            f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8" fill="{GROUND}"'
            f' stroke="{GRID}"/>',
            text(LEFT, 32, title, 'font-size="16" font-weight="bold"'),
            *axes(across, up, counts, unit),
            *drawn(series, across, up),
            *labels(series, across, up),
            "</svg>\n",
        ]
    )

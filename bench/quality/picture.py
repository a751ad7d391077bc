"""Draws precision against recall, a point for each distance, as an SVG.

By hand, as one picture needs no library. Every curve is labelled at its end, every point by its
distance; what has no distance is a square.
"""

from html import escape

WIDTH, HEIGHT = 760, 460
LEFT, RIGHT, TOP, BOTTOM = 70, 150, 50, 56
COLOURS = ["#0369a1", "#c2410c"]
MARKS = ["#047857", "#6b21a8"]
INK, GRID, GROUND = "#1f2937", "#d1d5db", "#ffffff"
RECALL = 0.4, 1.0
PRECISION = 0.7, 1.005


def text(x, y, words, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{escape(words)}</text>'


def x_of(recall):
    low, high = RECALL
    return LEFT + (max(recall, low) - low) / (high - low) * (WIDTH - LEFT - RIGHT)


def y_of(precision):
    low, high = PRECISION
    return HEIGHT - BOTTOM - (max(precision, low) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)


def draw(curves, marks, distances):
    """The picture of named curves, each a list of (recall, precision) by distance, and of single points."""
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{GROUND}"/>',
        text(LEFT, 28, "Precision and recall by distance, labelled real revisions",
             f'fill="{INK}" font-size="16" font-weight="bold"'),
    ]
    for step in range(4, 11):
        x = x_of(step / 10)
        out.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" stroke="{GRID}"/>')
        out.append(text(x, HEIGHT - BOTTOM + 18, f"{step / 10:.1f}", f'fill="{INK}" text-anchor="middle"'))
    for step in range(14, 21):
        y = y_of(step / 20)
        out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="{GRID}"/>')
        out.append(text(LEFT - 8, y + 4, f"{step / 20:.2f}", f'fill="{INK}" text-anchor="end"'))
    out.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "recall: near-duplicates found",
                    f'fill="{INK}" text-anchor="middle"'))
    out.append(text(-(TOP + HEIGHT - BOTTOM) / 2, 18, "precision: hits that are true",
                    f'fill="{INK}" text-anchor="middle" transform="rotate(-90)"'))
    for place, ((name, points), colour) in enumerate(zip(curves.items(), COLOURS)):
        spots = [(x_of(recall), y_of(precision)) for recall, precision in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for (x, y), distance in zip(spots, distances):
            out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>')
            above = -9 if place else 18
            out.append(text(x, y + above, str(distance), f'fill="{colour}" text-anchor="middle" font-size="11"'))
        x, y = spots[-1]
        out.append(text(x + 37, y + 4, name, f'fill="{colour}" font-weight="bold"'))
    for place, ((name, (recall, precision)), colour) in enumerate(zip(marks.items(), MARKS)):
        x, y, label = x_of(recall), y_of(precision), TOP + 31 + 18 * place
        out.append(f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="{colour}"/>')
        line = f'<polyline points="{x:.1f},{y:.1f} {x:.1f},{label} 620,{label}" fill="none" stroke="{colour}"/>'
        out.append(line)
        out.append(text(624, label + 4, name, f'fill="{colour}" font-weight="bold"'))
    out.append("</svg>")
    return "\n".join(out) + "\n"

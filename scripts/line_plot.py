"""Lines over two axes as an SVG file, for the scripts beside this one: no package is needed."""

import math
import pathlib

WIDTH, HEIGHT, LEFT, RIGHT, BOTTOM = 640, 360, 70, 170, 40
COLOURS = ["#1f5fa8", "#c2571a", "#3a8a3a", "#7a4a9e", "#a83232", "#555"]


def draw(path, lines, x_label, y_label, logarithmic=True):
    """Writes `lines`, a list of (name, [(x, y), …]), to the file `path`. Axes are logarithmic, or begin at 0."""
    scale = (lambda value: math.log10(max(value, 1))) if logarithmic else (lambda value: value)
    points = [point for _, line in lines for point in line]
    xs, ys = [scale(x) for x, _ in points], [scale(y) for _, y in points]
    low_x, low_y = (math.floor(min(xs)), math.floor(min(ys))) if logarithmic else (0, 0)
    high_x, high_y = (math.ceil(max(xs)), math.ceil(max(ys))) if logarithmic else (max(xs), max(1.0, max(ys)))
    x = lambda value: LEFT + (scale(value) - low_x) / (high_x - low_x) * (WIDTH - LEFT - RIGHT)
    y = lambda value: HEIGHT - BOTTOM - (scale(value) - low_y) / (high_y - low_y) * (HEIGHT - BOTTOM - 20)
    ticks = lambda low, high: [10**power for power in range(low, high + 1)] if logarithmic else [high * i / 4 for i in range(5)]
    named = lambda value: f"10^{round(math.log10(value))}" if logarithmic else f"{value:g}"
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
             '<rect width="100%" height="100%" fill="white"/>']
    for value in ticks(low_x, high_x):
        parts.append(f'<line x1="{x(value):.1f}" x2="{x(value):.1f}" y1="20" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>'
                     f'<text x="{x(value):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{named(value)}</text>')
    for value in ticks(low_y, high_y):
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>'
                     f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{named(value)}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{x_label}</text>'
                 f'<text x="14" y="{HEIGHT / 2}" transform="rotate(-90 14 {HEIGHT / 2})" text-anchor="middle">{y_label}</text>')
    taken = []
    for (name, line), colour in zip(lines, COLOURS):
        line = sorted(line)
        places = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in line)
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{places}"/>')
        at = y(line[-1][1]) + 4
        # Names that would stand on one another are moved down.
        while any(abs(at - other) < 13 for other in taken):
            at += 13
        taken.append(at)
        parts.append(f'<text x="{x(line[-1][0]) + 8:.1f}" y="{at:.1f}" fill="{colour}">{name}</text>')
    pathlib.Path(path).write_text("\n".join([*parts, "</svg>", ""]))

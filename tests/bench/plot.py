# SPDX-License-Identifier: MIT
"""The benchmark's plot as an SVG file: the time per kernel over the kernels per iteration."""
import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 420, 64, 120, 48, 52
VARIANTS = {"eager": ("without", "#6e6e6e"), "graph": ("by hand", "#d97700"),
            "library": ("with library", "#1f6fd6")}
STEPS = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100]


def marker(variant, x, y, color):
    """A shape for each variant, so that colours are not all that tells them apart."""
    if variant == "eager":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}"/>'
    if variant == "graph":
        return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="{color}"/>'
    return (f'<path d="M{x:.1f} {y - 5.5:.1f} l5.5 9.5 h-11 z" fill="{color}"/>')


def text(x, y, content, anchor="middle", **attributes):
    more = "".join(f' {k.replace("_", "-")}="{v}"' for k, v in attributes.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{content}</text>'


def spread_labels(wanted, gap=15):
    """Moves labels down until none covers another; {name: y}."""
    result, last = {}, -math.inf
    for name, y in sorted(wanted.items(), key=lambda item: item[1]):
        last = result[name] = max(y, last + gap)
    return result


def svg(points, title):
    """`points`: {variant: {N: microseconds per kernel}}, at least one N."""
    numbers = sorted({n for line in points.values() for n in line})
    values = [v for line in points.values() for v in line.values()]
    low = max((s for s in STEPS if s <= min(values)), default=STEPS[0])
    high = min((s for s in STEPS if s >= max(values)), default=STEPS[-1])
    if low == high:
        high *= 2
    span = math.log(numbers[-1] / numbers[0]) or 1

    def x(n):
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(n / numbers[0]) / span

    def y(v):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * math.log(v / low) / math.log(high / low)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
           'font-family="sans-serif" font-size="13" fill="#222">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
           text(LEFT, 26, title, "start", font_size=15, font_weight="bold")]
    for step in STEPS:
        if low <= step <= high:
            out += [f'<path d="M{LEFT} {y(step):.1f} H{WIDTH - RIGHT}" stroke="#ddd"/>',
                    text(LEFT - 8, y(step) + 4, f"{step:g}", "end")]
    for n in numbers:
        out.append(text(x(n), HEIGHT - BOTTOM + 20, n))
    out += [text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, "kernels per iteration"),
            text(0, 0, "microseconds per kernel",
                 transform=f"translate(18 {(TOP + HEIGHT - BOTTOM) / 2:.1f}) rotate(-90)")]
    ends = spread_labels({v: y(line[max(line)]) for v, line in points.items() if line})
    for variant, line in points.items():
        if not line:
            continue
        name, color = VARIANTS[variant]
        path = " ".join(f"{x(n):.1f},{y(line[n]):.1f}" for n in sorted(line))
        out.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2.5"/>')
        out += [marker(variant, x(n), y(line[n]), color) for n in sorted(line)]
        out.append(text(x(max(line)) + 12, ends[variant] + 4, name, "start", fill=color,
                        font_weight="bold"))
    return "\n".join([*out, "</svg>", ""])

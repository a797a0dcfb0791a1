"""Draws the kernels' logo: four ranks joined by one ring. Writes logo-svg.svg and two PNGs.

usage: make_logo.py FOLDER
"""

from __future__ import annotations

import math
import struct
import sys
import zlib
from pathlib import Path

BACKGROUND = (23, 43, 77)
RING = (120, 170, 255)
RANKS = ((255, 196, 61), (94, 214, 148), (255, 122, 89), (191, 143, 255))
CENTRE, RING_RADIUS, RING_WIDTH, RANK_RADIUS, CORNER = 50.0, 26.0, 6.0, 12.0, 18.0
SAMPLES = 4  # Per pixel and axis.

Color = tuple[int, int, int]


def places() -> list[tuple[float, float]]:
    """The middles of the ranks, on a 100 by 100 canvas."""
    angles = (math.pi * (0.25 + 0.5 * i) for i in range(4))
    return [
        (CENTRE + RING_RADIUS * math.cos(a), CENTRE - RING_RADIUS * math.sin(a)) for a in angles
    ]


def color_at(x: float, y: float) -> Color | None:
    """The colour of a point of the canvas; None outside the rounded square."""
    dx, dy = max(CORNER - x, x - 100 + CORNER, 0.0), max(CORNER - y, y - 100 + CORNER, 0.0)
    if math.hypot(dx, dy) > CORNER:
        return None
    for color, (px, py) in zip(RANKS, places(), strict=True):
        if math.hypot(x - px, y - py) <= RANK_RADIUS:
            return color
    if abs(math.hypot(x - CENTRE, y - CENTRE) - RING_RADIUS) <= RING_WIDTH / 2:
        return RING
    return BACKGROUND


def pixel(column: int, row: int, size: int) -> bytes:
    """One RGBA pixel, averaged over its samples."""
    steps = [(i + 0.5) / SAMPLES for i in range(SAMPLES)]
    colors = [
        color_at((column + dx) * 100 / size, (row + dy) * 100 / size)
        for dy in steps
        for dx in steps
    ]
    seen = [c for c in colors if c is not None]
    if not seen:
        return bytes(4)
    mean = [round(sum(c[i] for c in seen) / len(seen)) for i in range(3)]
    return bytes([*mean, round(255 * len(seen) / len(colors))])


def png(size: int) -> bytes:
    """The logo as a PNG file."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    rows = b"".join(
        b"\0" + b"".join(pixel(column, row, size) for column in range(size)) for row in range(size)
    )
    header = struct.pack(">IIBBBBB", size, size, 8, 6, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows, 9))
        + chunk(b"IEND", b"")
    )


def svg() -> str:
    """The logo as an SVG file."""

    def rgb(color: Color) -> str:
        return "#{:02x}{:02x}{:02x}".format(*color)

    circles = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RANK_RADIUS}" fill="{rgb(color)}"/>\n'
        for color, (x, y) in zip(RANKS, places(), strict=True)
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100">\n'
        f'<rect width="100" height="100" rx="{CORNER}" fill="{rgb(BACKGROUND)}"/>\n'
        f'<circle cx="{CENTRE}" cy="{CENTRE}" r="{RING_RADIUS}" fill="none" '
        f'stroke="{rgb(RING)}" stroke-width="{RING_WIDTH}"/>\n{circles}</svg>\n'
    )


def main() -> int:
    """Writes the three files."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    (folder / "logo-svg.svg").write_text(svg())
    for size in (32, 64):
        (folder / f"logo-{size}x{size}.png").write_bytes(png(size))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Contrast of colors, for the tests of pages and charts."""

from collections.abc import Sequence


def contrast(*colors: Sequence[float]) -> float:
    """Return the contrast of two colors (red, green, blue), from 0 to 255 each, as WCAG defines."""
    lights = []
    for color in colors:
        shares = [value / 255 for value in color[:3]]
        linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in shares]
        lights.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05)
    return max(lights) / min(lights)

"""Fonts for labels in any script: matplotlib's own font, then installed fallback fonts."""

import logging
from collections.abc import Iterable

logger = logging.getLogger(__name__)

MISSING = "\u25a1"
"""Shown for a character that no installed font has."""
OWN_FONT = "DejaVu Sans"
"""The font that comes with matplotlib."""
FALLBACK_FONTS = (
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Noto Sans",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "Microsoft YaHei",
    "Malgun Gothic",
    "Hiragino Sans",
    "PingFang SC",
    "Arial Unicode MS",
    "Unifont",
)
"""Fonts that are used, if installed, for characters that `OWN_FONT` lacks."""


class Fonts:
    """The font families that draw the given labels.

    A character that no installed font has is logged once and shown as `MISSING`.
    """

    families: list[str]
    """Names of the families, the preferred one first."""

    def __init__(self, labels: Iterable[str]) -> None:
        needed = {character for label in labels for character in label if character.isprintable()}
        self.families = [OWN_FONT]
        missing = needed - _characters(OWN_FONT)
        for family in FALLBACK_FONTS if missing else ():
            if found := missing & _characters(family):
                self.families.append(family)
                missing -= found
        self._missing = missing
        if missing:
            logger.warning(
                "no installed font has %s; shown as %s (a Noto Sans CJK font would have most)",
                " ".join(f"U+{ord(character):04X}" for character in sorted(missing)),
                MISSING,
            )

    def clean(self, label: str) -> str:
        """Return a label with `MISSING` for every character that cannot be drawn."""
        return "".join(
            MISSING if character in self._missing or not character.isprintable() else character
            for character in label
        )


def _characters(family: str) -> set[str]:
    """Return the characters of a font; none if it is not installed."""
    from matplotlib import font_manager  # matplotlib is loaded on first use, as in plots

    if family not in font_manager.get_font_names():
        return set()
    path = font_manager.findfont(family, fallback_to_default=False)
    return {chr(code) for code in font_manager.get_font(path).get_charmap()}

"""Fonts for labels in any script: matplotlib's setting, then installed fallback fonts."""

import functools
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

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
"""Fonts that are used, if installed, for characters that the fonts before them lack."""
_NAMED = 8
"""Characters that the warning names."""

_has_warned = False
"""Whether this process has warned of missing characters."""


class Fonts:
    """The font families that draw the given labels.

    The first is matplotlib's setting `font.family`, which a file `matplotlibrc` can change.
    Families that have other characters follow. A character that no installed font has is shown as
    `MISSING`; the first time, one warning says so.
    """

    families: list[str]
    """Names of the families, the preferred one first."""

    def __init__(self, labels: Iterable[str]) -> None:
        needed = {character for label in labels for character in label if character.isprintable()}
        self.families, missing = _choose(needed)
        if missing and _add_new_fonts():
            self.families, missing = _choose(needed)
        self._missing = missing
        if missing:
            _warn(missing)

    def clean(self, label: str) -> str:
        """Return a label with `MISSING` for every character that cannot be drawn."""
        return "".join(
            MISSING if character in self._missing or not character.isprintable() else character
            for character in label
        )


def _choose(needed: set[str]) -> tuple[list[str], set[str]]:
    """Return the families that draw the characters, and the characters that none has."""
    families: list[str] = []
    missing = needed
    for family in _candidates():
        if families and not missing:
            break
        found = _characters(family)
        if found and (not families or missing & found):
            families.append(family)
            missing = missing - found
    return families, missing


def _candidates() -> Iterator[str]:
    """Yield families in the order of preference; some are not installed."""
    import matplotlib  # loaded on first use, as in plots
    from matplotlib import font_manager

    settings = matplotlib.rcParams
    lists: dict[str, list[str]] = {
        "serif": settings["font.serif"],
        "sans-serif": settings["font.sans-serif"],
        "monospace": settings["font.monospace"],
    }
    for family in settings["font.family"]:
        yield from lists.get(family, [family])
    yield OWN_FONT
    yield from FALLBACK_FONTS
    yield from sorted(
        name for name in font_manager.get_font_names() if name.startswith("Noto Sans")
    )


def _warn(missing: set[str]) -> None:
    """Log once in a process that characters cannot be drawn."""
    global _has_warned
    if _has_warned:
        return
    _has_warned = True
    named = [f"{character} (U+{ord(character):04X})" for character in sorted(missing)]
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    logger.warning(
        "no installed font has %s%s; pictures show %s. Install one, for example with apt install "
        "fonts-noto-core fonts-noto-cjk, or set font.family in the file matplotlibrc",
        " ".join(named[:_NAMED]),
        more,
        MISSING,
    )


@functools.cache
def _characters(family: str) -> frozenset[str]:
    """Return the characters of a font; none if it is not installed."""
    from matplotlib import font_manager

    if family not in font_manager.get_font_names():
        return frozenset()
    path = font_manager.findfont(family, fallback_to_default=False)
    return frozenset(chr(code) for code in font_manager.get_font(path).get_charmap())


@functools.cache
def _add_new_fonts() -> bool:
    """Add fonts that were installed after matplotlib made its list; return whether there were any.

    matplotlib keeps the list between processes.
    """
    from matplotlib import font_manager

    known = {Path(entry.fname) for entry in font_manager.fontManager.ttflist}
    num_known = len(known)
    for path in sorted(set(map(Path, font_manager.findSystemFonts())) - known):
        try:
            font_manager.fontManager.addfont(path)
        except (OSError, RuntimeError):  # not a font that matplotlib reads
            continue
        num_known += 1
    _characters.cache_clear()
    return num_known > len(known)

"""Where the sentences of a text end."""

import re

_STOPS = ".!?\u2026\u061f\u06d4\u0964\u1362"
"""what ends a sentence where a space follows: . ! ? and their like in other scripts"""
_CLOSING = "\"'\u00bb\u2019\u201c\u201d)]"
"""may stand between stop and space"""
_CONTEXT = 20
"""characters that are looked at before a space"""
_ABBREVIATIONS = frozenset(
    (
        *("bzw", "ca", "dr", "etc", "evtl", "fr", "ggf", "hr", "inc", "jr", "mr", "mrs", "ms"),
        *("mt", "nr", "no", "prof", "sr", "st", "usw", "vgl", "vs"),
    )
)

# Chinese and Japanese stops need no space behind them. Nothing here is tried twice at one place,
# so that a million stops take no longer than other characters do.
_GAP = re.compile(r"[\u3002\uff01\uff1f]+[\u300d\u300f\uff09\u201d]*\s*|(?P<spaces>\s+)")
_LAST_WORD = re.compile(r"\w*\.\Z")


def split_sentences(text: str) -> list[str]:
    """Cut a text at the ends of its sentences; the spaces between them go.

    Where it is not sure that a sentence ends it goes on: after a single letter (J. Bach), one or
    two digits (am 3. Mai) or a known abbreviation, and before a small letter.
    """
    sentences = []
    start = 0
    for gap in _GAP.finditer(text):
        is_inside = start < gap.start() and gap.end() < len(text)
        before = text[max(start, gap.start() - _CONTEXT) : gap.start()]
        if is_inside and (gap["spaces"] is None or _is_end(before, text[gap.end()])):
            sentences.append(text[start : gap.end()].rstrip())
            start = gap.end()
    return [*sentences, text[start:]]


def _is_end(before: str, following: str) -> bool:
    before = before.rstrip(_CLOSING)
    if not before.endswith(tuple(_STOPS)) or following.islower():
        return False
    found = _LAST_WORD.search(before)
    if found is None:
        return True
    word = found[0].removesuffix(".")
    is_short_number = word.isdigit() and len(word) < 3
    is_initial = len(word) == 1 and word.isalpha()
    return not (is_short_number or is_initial or word.lower() in _ABBREVIATIONS)

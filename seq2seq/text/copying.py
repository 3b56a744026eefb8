"""Lessons in copying: in some training pairs, symbols stand where the text has no span.

Spans of all kinds have the same symbols, so a model that learns where symbols go also copies tags,
emoji and codes of kinds that its training text never had.
"""

import re
import zlib

from seq2seq.text.rules import MAX_SPANS, SYMBOLS

_SHARE = 10
"""Percentage of the pairs that get symbols."""
_WAYS = ("{1} {0}", "{0} {1}", "{1} {0}{2}", "{1}")
"""A symbol before, after, around, and, only for a word, in place of a text."""
_WORD = re.compile(r"(?<!\S)[^\W\d_]+(?![\w-])")
_STEM = 4
"""Number of letters from which a word is taken for the same word of the other language."""
_FEWEST = 3
"""Fewest letters of such a word."""


def with_lesson(source: str, target: str, start: int = 0) -> tuple[str, str]:
    """Return a training pair, to some of which one or two symbols are added on both sides.

    They stand at the whole sentence, at a word that both sides share, such as a name, or else at
    words in about the same place. The text of the pair alone decides, so a pair is the same in
    every epoch and process.

    Args:
        source: Text as the model reads it.
        target: Its translation.
        start: Length of the tags that stay at the start of the source.
    """
    number, percent = divmod(zlib.crc32(f"{source}\n{target}".encode()), 100)
    used = sum(map(source.count, SYMBOLS))
    if percent >= _SHARE or used > MAX_SPANS - 2:
        return source, target
    words = [word.span() for word in _WORD.finditer(source, start)]
    others = [word.span() for word in _WORD.finditer(target)]
    number, is_sentence = divmod(number, 4)
    ways: tuple[str, ...] = _WAYS[:3]
    if is_sentence == 0 or not (words and others):
        places = [((start, len(source)), (0, len(target)))]
    elif shared := _shared(source, target, start):
        places, ways = shared, _WAYS
    else:
        places = [(word, others[i * len(others) // len(words)]) for i, word in enumerate(words)]
    number, which = divmod(number, len(ways))
    place = places[number % len(places)]
    new = SYMBOLS[used : used + 2]
    source, target = (
        text[:start] + ways[which].format(text[start:end], *new) + text[end:]
        for text, (start, end) in zip((source, target), place, strict=True)
    )
    # The symbols of a source are in order.
    order = dict(zip((ord(each) for each in source if each in SYMBOLS), SYMBOLS, strict=False))
    return source.translate(order), target.translate(order)


def _shared(source: str, target: str, start: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the places of the words that each side has once, by their first letters."""
    sides = []
    for text, begin in ((source, start), (target, 0)):
        found: dict[str, list[tuple[int, int]]] = {}
        for word in _WORD.finditer(text, begin):
            if len(word[0]) >= _FEWEST:
                found.setdefault(word[0][:_STEM].lower(), []).append(word.span())
        sides.append({stem: places[0] for stem, places in found.items() if len(places) == 1})
    words, others = sides
    return [(words[stem], others[stem]) for stem in words if stem in others]

"""Write the pattern of emoji, seq2seq/text/emoji.txt, from Unicode's list in the package `emoji`:

pip install emoji
python tests/emoji_pattern.py > seq2seq/text/emoji.txt
"""

from collections.abc import Iterable
from itertools import groupby

import emoji

_SKIN = "\U0001f3fb-\U0001f3ff"


def emoji_pattern() -> str:
    """Return a regular expression of Python and JavaScript for one or more emoji."""
    qualified = [emoji.STATUS[name] for name in ("component", "fully_qualified")]
    found = [each for each, data in emoji.EMOJI_DATA.items() if data["status"] in qualified]
    single = _class(each for each in found if len(each) == 1)
    signs = _class(each[0] for each in found if len(each) == 2 and each[1] == "\ufe0f")
    people = _class(
        each[0] for each in found if len(each) == 2 and "\U0001f3fb" <= each[1] < "\U0001f400"
    )
    element = f"(?:[{people}][{_SKIN}]|[{single}]|[{signs}]\ufe0f)"
    return (
        (
            "(?:[#*0-9]\ufe0f\u20e3|[\U0001f1e6-\U0001f1ff]{2}"
            "|\U0001f3f4[\U000e0061-\U000e007a]{2,6}\U000e007f"
            f"|{element}(?:\u200d{element})*)+"
        )
        .encode("unicode_escape")
        .decode()
    )


def _class(characters: Iterable[str]) -> str:
    """Return the content of a class of characters, with ranges."""
    codes = sorted(set(map(ord, characters)))
    runs = (
        [code for _, code in run]
        for _, run in groupby(enumerate(codes), lambda each: each[1] - each[0])
    )
    return "".join(
        chr(run[0]) if len(run) == 1 else f"{chr(run[0])}-{chr(run[-1])}" for run in runs
    )


if __name__ == "__main__":
    print(emoji_pattern())
